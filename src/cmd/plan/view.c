// SPDX-License-Identifier: Apache-2.0
#include "cmd/plan/view.h"

#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "node/dra/slices.h"
#include "plan/allocations.h"
#include "plan/share.h"
#include "plan/capability.h"

static int view_read_count(struct plan_count *ret, const char *word, struct error *err)
{
        uint64_t number;

        if (strcmp(word, "half") == 0) {
                *ret = (struct plan_count){.kind = COUNT_HALF};
                return 0;
        }
        if (strcmp(word, "all") == 0) {
                *ret = (struct plan_count){.kind = COUNT_ALL};
                return 0;
        }
        if (!text_to_uint(word, CONFIG_MAX_REPLICAS, &number) || number == 0)
                return error_set(err, ERROR_INVALID,
                        "replicas: '%.40s' is neither a number from 1 to %u, nor half, nor all", word,
                        CONFIG_MAX_REPLICAS);
        *ret = (struct plan_count){.kind = COUNT_NUMBER, .number = (unsigned int)number};
        return 0;
}

int plan_counts_read(struct plan_view *view, const char *text, struct error *err)
{
        _free_ char *copy = xstrdup(text);
        char *rest = copy;
        const char *word;

        view->n_counts = 0;
        while ((word = strsep(&rest, ","))) {
                if (view->n_counts == PLAN_VIEW_COUNTS_MAX)
                        return error_set(err, ERROR_INVALID, "replicas: more than %u counts", PLAN_VIEW_COUNTS_MAX);
                if (view_read_count(&view->counts[view->n_counts++], word, err) < 0)
                        return -1;
        }
        return 0;
}

/* Inserts into the sorted list |counts|, unless it is there. */
static size_t insert(unsigned int *counts, size_t n_counts, unsigned int k)
{
        size_t at = n_counts;

        while (at > 0 && counts[at - 1] > k)
                at--;
        if (at > 0 && counts[at - 1] == k)
                return n_counts;
        memmove(&counts[at + 1], &counts[at], (n_counts - at) * sizeof(*counts));
        counts[at] = k;
        return n_counts + 1;
}

size_t plan_counts_of(const struct plan_view *view, const struct unit *unit, unsigned int *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < view->n_counts; i++) {
                const struct plan_count *count = &view->counts[i];
                unsigned int k = count->kind == COUNT_ALL    ? unit->replicas
                                 : count->kind == COUNT_HALF ? unit->replicas / 2
                                                             : count->number;

                if (k >= 1 && k <= unit->replicas)
                        n = insert(ret, n, k);
        }
        return n;
}

const char *plan_refusal(const struct resource *resource, unsigned int k)
{
        if (k > 1 && resource->fail_requests_greater_than_one)
                return "failRequestsGreaterThanOne";
        if (resource->max_per_request && k > resource->max_per_request)
                return "maxPerRequest";
        return NULL;
}

size_t plan_advertised(const struct resource *resource)
{
        return allocations_capacity(resource, resource->max_per_request);
}

/* ---- as JSON: members are only added, never renamed; an unknown value is null ---- */

#define UNKNOWN_NODE "node" /* where the node has no name yet */

static json_t *json_number_or_null(uint64_t number)
{
        return number ? json_integer((json_int_t)number) : json_null();
}

static json_t *json_percent(unsigned int permille)
{
        return json_real(permille / 10.0);
}

static json_t *share_json(const struct resource *resource, const struct unit *unit, unsigned int k)
{
        const char *refusal = plan_refusal(resource, k);
        struct share share = share_of(resource, unit, k);

        if (refusal)
                return json_pack("{s:i, s:s}", "replicas", (int)k, "refusedBy", refusal);
        return json_pack("{s:i, s:o, s:o, s:o}", "replicas", (int)k, "memoryMiB", json_number_or_null(share.memory_mib),
                "threadsPercent", json_percent(share.threads_permille), "sms", json_number_or_null(share.sms));
}

static json_t *unit_json(const struct plan_view *view, const struct resource *resource, const struct unit *unit)
{
        const struct plan *plan = view->plan;
        const bool has_reserve = resource->provisioning != PROVISIONING_UNIFORM;
        unsigned int counts[PLAN_VIEW_COUNTS_MAX];
        size_t n_counts = plan_counts_of(view, unit, counts);
        json_t *shares = json_array();
        json_t *json = json_pack("{s:s, s:s, s:s, s:s?, s:o, s:o, s:b, s:i}", "uuid", unit->uuid, "index", unit->index,
                "gpu", unit->gpu->name, "migProfile", unit->mig ? unit->mig->profile : NULL, "memoryMiB",
                json_number_or_null(unit->memory >> 20), "sms", json_number_or_null(sm_count(unit)), "shared",
                unit->shared != NULL, "replicas", (int)unit->replicas);

        if (unit->shared && resource->strategy == SHARING_MPS)
                json_object_update_new(json, json_pack("{s:I, s:s, s:i}", "reserveMiB",
                                                     has_reserve ? (json_int_t)share_reserve_mib(unit) : (json_int_t)0,
                                                     "tier", share_promise(plan, resource, unit), "maxClients",
                                                     (int)capability_clients(unit, plan->inventory->driver_version)));
        for (size_t i = 0; unit->shared && !unit_is_divided(unit) && i < n_counts; i++)
                json_array_append_new(shares, share_json(resource, unit, counts[i]));
        json_object_set_new(json, "shares", shares);
        return json;
}

static json_t *resource_json(const struct plan_view *view, const struct resource *resource)
{
        json_t *units = json_array();
        json_t *json =
                json_pack("{s:s, s:s}", "name", resource->name, "sharing", sharing_strategy_name(resource->strategy));

        for (size_t i = 0; i < resource->n_units; i++)
                json_array_append_new(units, unit_json(view, resource, &resource->units[i]));
        if (resource->strategy == SHARING_MPS)
                json_object_update_new(
                        json, json_pack("{s:s, s:s}", "provisioning", provisioning_name(resource->provisioning),
                                      "daemonScope", daemon_scope_name(resource->daemon_scope)));
        json_object_update_new(
                json, json_pack("{s:s, s:b, s:o, s:I, s:I, s:I, s:o}", "placement", placement_name(resource->placement),
                              "failRequestsGreaterThanOne", resource->fail_requests_greater_than_one, "maxPerRequest",
                              json_number_or_null(resource->max_per_request), "devices",
                              (json_int_t)resource->n_devices, "reserved", (json_int_t)allocations_n_reserved(resource),
                              "advertised", (json_int_t)plan_advertised(resource), "units", units));
        return json;
}

static json_t *daemon_json(const struct mps_daemon_wanted *daemon)
{
        json_t *units = json_array();

        for (size_t i = 0; i < daemon->n_units; i++)
                json_array_append_new(units, json_pack("{s:s, s:o}", "uuid", daemon->units[i].uuid, "mostMemoryMiB",
                                                     json_number_or_null(daemon->units[i].limit_mib)));
        return json_pack("{s:s, s:s, s:o, s:o}", "name", daemon->name, "resource", daemon->resource,
                "mostThreadsPercent", json_percent(daemon->threads_permille), "units", units);
}

/* The ResourceSlices as the agent would write them to the API server. */
static json_t *dra_slices(const struct plan_view *view)
{
        const struct config *config = view->plan->config;
        const char *node = *config->node.name ? config->node.name : UNKNOWN_NODE;
        _free_ char *pool = dra_pool_name(config->dra.driver_name, node);
        const struct dra_slices_options options = {.driver = config->dra.driver_name,
                .node = node,
                .pool = pool,
                .api = DRA_API_V1,
                .counters_apart = true,
                .has_taints = true};
        json_t *slices = dra_slices_build(view->dra, &options);
        json_t *objects = json_array();
        json_t *slice;
        size_t i;

        json_array_foreach(slices, i, slice)
        {
                json_array_append_new(
                        objects, json_pack("{s: s, s: s, s: {s: O}, s: O}", "apiVersion", "resource.k8s.io/v1", "kind",
                                         "ResourceSlice", "metadata", "name", json_object_get(slice, "name"), "spec",
                                         json_object_get(slice, "spec")));
        }
        json_decref(slices);
        return objects;
}

static json_t *dra_json(const struct plan_view *view)
{
        json_t *notes = json_array();

        for (size_t i = 0; i < view->dra->n_notes; i++)
                json_array_append_new(notes, json_string(view->dra->notes[i]));
        return json_pack("{s: s, s: o, s: o}", "driver", view->plan->config->dra.driver_name, "notes", notes,
                "resourceSlices", dra_slices(view));
}

char *plan_json_print(const struct plan_view *view)
{
        const struct inventory *inventory = view->plan->inventory;
        json_t *resources = json_array();
        json_t *daemons = json_array();
        json_t *warnings = json_array();
        json_t *json;
        char *text;

        for (size_t i = 0; i < view->plan->n_resources; i++)
                json_array_append_new(resources, resource_json(view, &view->plan->resources[i]));
        for (size_t i = 0; i < view->daemons.n_daemons; i++)
                json_array_append_new(daemons, daemon_json(&view->daemons.daemons[i]));
        for (size_t i = 0; i < view->n_warnings; i++)
                json_array_append_new(warnings, json_string(view->warnings[i]));
        json = json_pack("{s:b, s:o?, s:s, s:I, s:o, s:o, s:o, s:o}", "simulated", view->simulated != NULL, "config",
                json_string(view->plan->config->path), "driverVersion", inventory->driver_version, "gpus",
                (json_int_t)inventory->n_gpus, "resources", resources, "mpsDaemons", daemons, "dra",
                view->dra ? dra_json(view) : json_null(), "warnings", warnings);
        text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        json_decref(json);
        return text;
}
