#include "node/dra/status.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "config/config.h"

#define MIB ((uint64_t)1024 * 1024)

/* A copy of |text| with at most |most| bytes, cut between two characters: texts of the record are UTF-8. */
static json_t *bounded(const char *text, size_t most)
{
        size_t size = strlen(text);

        if (size > most) {
                size = most;
                while (size > 0 && ((unsigned char)text[size] & 0xc0) == 0x80)
                        size--;
        }
        return json_stringn(text, size);
}

static json_t *condition(const char *type, bool is_true, const char *reason, const char *message, const char *time)
{
        return json_pack("{s:s, s:s, s:s, s:o, s:s}", "type", type, "status", is_true ? "True" : "False", "reason",
                reason, "message", bounded(message, DRA_STATUS_MESSAGE_MAX), "lastTransitionTime", time);
}

static const char *ready_message(struct arena *arena, const struct dra_prepared_result *result)
{
        if (result->daemon)
                return arena_printf(arena, "%ju MiB and %u %% of the threads of %s, tier %s",
                        (uintmax_t)(result->memory_bytes / MIB), result->thread_percentage, result->unit,
                        result->tier ? result->tier : "none");
        if (result->is_admin)
                return arena_printf(arena, "%s, by admin access beside its users", result->unit);
        if (result->share_id)
                return arena_printf(arena, "%s, in turn with other claims, without limits", result->unit);
        return arena_printf(arena, "%s, alone", result->unit);
}

/* In tier default the daemon's own limits apply, which are equal for all its clients: they are no claim's limits. */
static bool is_enforced(const struct dra_prepared_result *result)
{
        return result->tier && strcmp(result->tier, mps_tier_name(MPS_TIER_DEFAULT)) != 0;
}

static json_t *conditions_of(struct arena *arena, const struct dra_prepared_result *result, const char *time)
{
        json_t *conditions = json_array();
        bool enforced = is_enforced(result);

        json_array_append_new(conditions, condition("Ready", true, "Prepared", ready_message(arena, result), time));
        if (!result->daemon)
                return conditions;
        json_array_append_new(conditions,
                condition("LimitsEnforced", enforced, enforced ? "Enforced" : "NotEnforced",
                        enforced ? arena_printf(arena, "the limits of this share are enforced by tier %s", result->tier)
                                 : "MPS cannot enforce the limits of this share here",
                        time));
        return conditions;
}

static json_t *data_of(const struct dra_prepared_result *result)
{
        json_t *data = json_pack("{s:o}", "uuid", bounded(result->unit, DRA_STATUS_DATA_MAX / 16));

        if (result->memory_bytes)
                json_object_set_new(data, "memoryMiB", json_integer((json_int_t)(result->memory_bytes / MIB)));
        if (result->thread_percentage)
                json_object_set_new(data, "threadPercentage", json_integer((json_int_t)result->thread_percentage));
        if (result->tier)
                json_object_set_new(data, "tier", bounded(result->tier, DRA_STATUS_DATA_MAX / 16));
        if (result->daemon)
                json_object_set_new(data, "mpsDaemon", bounded(result->daemon, DRA_STATUS_DATA_MAX / 16));
        return data;
}

static json_t *device_of(const struct dra_prepared_result *result, const struct dra_status_options *options)
{
        struct arena arena = ARENA_INIT;
        json_t *device = json_pack("{s:s, s:s, s:s, s:s*, s:o, s:o}", "driver", options->driver, "pool",
                result->pool ? result->pool : options->pool, "device", result->device, "shareID", result->share_id,
                "conditions", conditions_of(&arena, result, options->time), "data", data_of(result));

        arena_done(&arena);
        return device;
}

/* With admin access a claim may have the same device twice, but the API allows each only once. */
static bool is_shown_before(const struct dra_prepared_result *results, size_t i)
{
        const char *share = results[i].share_id ? results[i].share_id : "";

        for (size_t before = 0; before < i; before++)
                if (strcmp(results[before].device, results[i].device) == 0 &&
                        strcmp(results[before].share_id ? results[before].share_id : "", share) == 0)
                        return true;
        return false;
}

json_t *dra_status_removed(const char *uid, const char *name, const char *namespace, enum dra_api api)
{
        _free_ char *version = xasprintf("resource.k8s.io/%s", dra_api_name(api));

        return json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{}}", "apiVersion", version, "kind", "ResourceClaim",
                "metadata", "name", name, "namespace", namespace, "uid", uid, "status");
}

json_t *dra_status_prepared(const struct dra_prepared_claim *claim, const struct dra_status_options *options)
{
        json_t *object = dra_status_removed(claim->uid, claim->name, claim->namespace, options->api);
        json_t *devices = json_array();

        assert(claim->state == DRA_PREPARED_DONE);
        for (size_t i = 0; i < claim->n_results; i++)
                if (!is_shown_before(claim->results, i))
                        json_array_append_new(devices, device_of(&claim->results[i], options));
        json_object_set_new(json_object_get(object, "status"), "devices", devices);
        return object;
}
