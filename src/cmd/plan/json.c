/* The plan as JSON. Members are only added, never renamed; an unknown value is null. */
#include <jansson.h>

#include "cmd/plan/view.h"
#include "plan/budget.h"
#include "plan/capability.h"
#include "plan/allocations.h"

static json_t *number_or_null(uint64_t number)
{
        return number ? json_integer((json_int_t)number) : json_null();
}

static json_t *percent(unsigned int permille)
{
        return json_real(permille / 10.0);
}

static json_t *share_json(const struct resource *resource, const struct unit *unit, unsigned int k)
{
        const char *refusal = plan_refusal(resource, k);
        struct share share = share_of(resource, unit, k);
        json_t *json = json_object();

        json_object_set_new(json, "replicas", json_integer(k));
        if (refusal) {
                json_object_set_new(json, "refusedBy", json_string(refusal));
                return json;
        }
        json_object_set_new(json, "memoryMiB", number_or_null(share.memory_mib));
        json_object_set_new(json, "threadsPercent", percent(share.threads_permille));
        json_object_set_new(json, "sms", number_or_null(share.sms));
        return json;
}

static void set_mps(json_t *json, const struct plan *plan, const struct resource *resource, const struct unit *unit)
{
        bool has_reserve = resource->provisioning != PROVISIONING_UNIFORM;

        json_object_set_new(json, "reserveMiB", json_integer(has_reserve ? (json_int_t)budget_reserve_mib(unit) : 0));
        json_object_set_new(json, "tier", json_string(share_promise(plan, resource, unit)));
        json_object_set_new(
                json, "maxClients", json_integer(capability_clients(unit, plan->inventory->driver_version)));
}

static json_t *unit_json(const struct plan_view *view, const struct resource *resource, const struct unit *unit)
{
        unsigned int counts[PLAN_VIEW_COUNTS_MAX];
        size_t n_counts = plan_counts_of(view, unit, counts);
        json_t *shares = json_array();
        json_t *json = json_object();

        json_object_set_new(json, "uuid", json_string(unit->uuid));
        json_object_set_new(json, "index", json_string(unit->index));
        json_object_set_new(json, "gpu", json_string(unit->gpu->name));
        json_object_set_new(
                json, "migProfile", unit->mig && unit->mig->profile ? json_string(unit->mig->profile) : json_null());
        json_object_set_new(json, "memoryMiB", number_or_null(unit->memory >> 20));
        json_object_set_new(json, "sms", number_or_null(sm_count(unit)));
        json_object_set_new(json, "shared", json_boolean(unit->shared != NULL));
        json_object_set_new(json, "replicas", json_integer(unit->replicas));
        if (unit->shared && resource->strategy == SHARING_MPS)
                set_mps(json, view->plan, resource, unit);
        for (size_t i = 0; unit->shared && i < n_counts; i++)
                json_array_append_new(shares, share_json(resource, unit, counts[i]));
        json_object_set_new(json, "shares", shares);
        return json;
}

static json_t *resource_json(const struct plan_view *view, const struct resource *resource)
{
        json_t *units = json_array();
        json_t *json = json_object();

        json_object_set_new(json, "name", json_string(resource->name));
        json_object_set_new(json, "sharing", json_string(sharing_strategy_name(resource->strategy)));
        if (resource->strategy == SHARING_MPS) {
                json_object_set_new(json, "provisioning", json_string(provisioning_name(resource->provisioning)));
                json_object_set_new(json, "daemonScope", json_string(daemon_scope_name(resource->daemon_scope)));
        }
        json_object_set_new(json, "placement", json_string(placement_name(resource->placement)));
        json_object_set_new(json, "failRequestsGreaterThanOne", json_boolean(resource->fail_requests_greater_than_one));
        json_object_set_new(json, "maxPerRequest", number_or_null(resource->max_per_request));
        json_object_set_new(json, "devices", json_integer((json_int_t)resource->n_devices));
        json_object_set_new(json, "reserved", json_integer((json_int_t)allocations_n_reserved(resource)));
        json_object_set_new(json, "advertised", json_integer((json_int_t)plan_advertised(resource)));
        for (size_t i = 0; i < resource->n_units; i++)
                json_array_append_new(units, unit_json(view, resource, &resource->units[i]));
        json_object_set_new(json, "units", units);
        return json;
}

static json_t *daemon_json(const struct mps_daemon_wanted *daemon)
{
        json_t *units = json_array();
        json_t *json = json_object();

        json_object_set_new(json, "name", json_string(daemon->name));
        json_object_set_new(json, "resource", json_string(daemon->resource));
        json_object_set_new(json, "mostThreadsPercent", percent(daemon->threads_permille));
        for (size_t i = 0; i < daemon->n_units; i++) {
                json_t *unit = json_object();

                json_object_set_new(unit, "uuid", json_string(daemon->units[i].uuid));
                json_object_set_new(unit, "mostMemoryMiB", number_or_null(daemon->units[i].limit_mib));
                json_array_append_new(units, unit);
        }
        json_object_set_new(json, "units", units);
        return json;
}

static json_t *dra_json(const struct plan_view *view)
{
        json_t *notes = json_array();

        for (size_t i = 0; i < view->dra->n_notes; i++)
                json_array_append_new(notes, json_string(view->dra->notes[i]));
        return json_pack("{s: s, s: o, s: o}", "driver", view->plan->config->dra.driver_name, "notes", notes,
                "resourceSlices", plan_dra_slices(view));
}

char *plan_json_print(const struct plan_view *view)
{
        const struct inventory *inventory = view->plan->inventory;
        json_t *resources = json_array();
        json_t *daemons = json_array();
        json_t *warnings = json_array();
        json_t *json = json_object();
        char *text;

        json_object_set_new(json, "simulated", json_boolean(view->simulated != NULL));
        json_object_set_new(json, "config", json_string(view->plan->config->path));
        json_object_set_new(json, "driverVersion", json_string(inventory->driver_version));
        json_object_set_new(json, "gpus", json_integer((json_int_t)inventory->n_gpus));
        for (size_t i = 0; i < view->plan->n_resources; i++)
                json_array_append_new(resources, resource_json(view, &view->plan->resources[i]));
        json_object_set_new(json, "resources", resources);
        for (size_t i = 0; i < view->daemons.n_daemons; i++)
                json_array_append_new(daemons, daemon_json(&view->daemons.daemons[i]));
        json_object_set_new(json, "mpsDaemons", daemons);
        json_object_set_new(json, "dra", view->dra ? dra_json(view) : json_null());
        for (size_t i = 0; i < view->n_warnings; i++)
                json_array_append_new(warnings, json_string(view->warnings[i]));
        json_object_set_new(json, "warnings", warnings);
        text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        json_decref(json);
        return text;
}
