// SPDX-License-Identifier: Apache-2.0
#include "node/dra/status.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/kube/object.h"

#define HTTP_NOT_FOUND 404U
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

static const char *ready_message(struct arena *arena, const struct dra_result *result)
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

/*
 * In tier default the daemon's own limits apply, which are equal for all its clients: a claim's own limits are not
 * enforced.
 */
static bool is_enforced(const struct dra_result *result)
{
        return result->tier && strcmp(result->tier, mps_tier_name(MPS_TIER_DEFAULT)) != 0;
}

static json_t *conditions_of(struct arena *arena, const struct dra_result *result, const char *time)
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

static json_t *data_of(const struct dra_result *result)
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

static json_t *status_device_of(const struct dra_result *result, const char *driver, const char *time)
{
        struct arena arena = ARENA_INIT;
        json_t *device = json_pack("{s:s, s:s, s:s, s:s*, s:o, s:o}", "driver", driver, "pool", result->pool, "device",
                result->device, "shareID", result->share_id, "conditions", conditions_of(&arena, result, time), "data",
                data_of(result));

        arena_done(&arena);
        return device;
}

/* With admin access a claim may have the same device twice, but the API allows each only once. */
static bool is_shown_before(const struct dra_result *results, size_t i)
{
        const char *share = results[i].share_id ? results[i].share_id : "";

        for (size_t before = 0; before < i; before++)
                if (strcmp(results[before].device, results[i].device) == 0 &&
                        strcmp(results[before].share_id ? results[before].share_id : "", share) == 0)
                        return true;
        return false;
}

json_t *dra_status_apply(const struct dra_claim *claim, enum dra_api api, const char *driver, const char *time)
{
        _free_ char *version = xasprintf("resource.k8s.io/%s", dra_api_name(api));
        json_t *devices = time ? json_array() : NULL;

        for (size_t i = 0; time && i < claim->n_results; i++)
                if (!is_shown_before(claim->results, i))
                        json_array_append_new(devices, status_device_of(&claim->results[i], driver, time));
        return json_pack("{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:o*}}", "apiVersion", version, "kind", "ResourceClaim",
                "metadata", "name", claim->name, "namespace", claim->namespace, "uid", claim->uid, "status", "devices",
                devices);
}

/* ---- sending ---- */

struct sending {
        struct list link;
        struct dra_status_sender *sender;
        struct kube_call *call;
        char *uid;
};

static void sending_free(struct sending *sending)
{
        list_remove(&sending->link);
        kube_call_cancel(sending->call);
        free(sending->uid);
        free(sending);
}

static void on_status_sent(const struct kube_answer *answer, void *data)
{
        struct sending *sending = data;
        struct dra_status_sender *sender = sending->sender;

        sending->call = NULL;
        sending_free(sending);
        if (!answer->error) {
                sender->is_failing = false;
        } else if (answer->status == HTTP_NOT_FOUND) {
                log_debug("the DRA claim is gone, so its status is not written", LOG_ERR(answer->error));
        } else if (sender->is_failing) {
                log_debug("the status of another DRA claim could not be written", LOG_ERR(answer->error));
        } else {
                sender->is_failing = true;
                log_warn("the status of a DRA claim could not be written; its devices are not affected",
                        LOG_ERR(answer->error));
        }
}

static struct sending *find_sending(const struct dra_status_sender *sender, const char *uid)
{
        LIST_FOR_EACH(link, &sender->sendings) {
                struct sending *sending = container_of(link, struct sending, link);

                if (strcmp(sending->uid, uid) == 0)
                        return sending;
        }
        return NULL;
}

void dra_status_send(struct dra_status_sender *sender, const struct dra_claim *claim, bool is_prepared)
{
        const struct dra_node *node = sender->node;
        struct sending *sending = find_sending(sender, claim->uid);
        _free_ char *now = object_time((int64_t)time(NULL) * 1000000);
        _free_ char *object = NULL;
        _free_ char *path = NULL;
        enum dra_api api;
        json_t *body;

        if (node->is_closing)
                return;
        api = dra_publisher_api(node->publisher);
        object = dra_node_claim_path(node, claim);
        path = xasprintf("%s/status", object);
        body = dra_status_apply(claim, api, node->driver, is_prepared ? now : NULL);
        if (sending)
                sending_free(sending);
        sending = xcalloc(1, sizeof(*sending));
        sending->sender = sender;
        sending->uid = xstrdup(claim->uid);
        list_append(&sender->sendings, &sending->link);
        sending->call = kube_client_send(node->options.client, &(struct kube_request){.method = KUBE_APPLY,
                                                                       .path = path,
                                                                       .body = body,
                                                                       .field_manager = node->driver,
                                                                       .force = true,
                                                                       .done = on_status_sent,
                                                                       .data = sending});
        json_decref(body);
}

void dra_status_sender_init(struct dra_status_sender *sender, const struct dra_node *node)
{
        *sender = (struct dra_status_sender){.node = node};
        list_init(&sender->sendings);
}

void dra_status_sender_cancel(struct dra_status_sender *sender)
{
        while (!list_is_empty(&sender->sendings))
                sending_free(container_of(sender->sendings.next, struct sending, link));
}
