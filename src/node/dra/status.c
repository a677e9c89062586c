#include "node/dra/status.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "config/config.h"
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

/*
 * In tier default the daemon's own limits apply, which are equal for all its clients: a claim's own limits are not
 * enforced.
 */
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

static json_t *status_device_of(const struct dra_prepared_result *result, const struct dra_status_options *options)
{
        struct arena arena = ARENA_INIT;
        json_t *device = json_pack("{s:s, s:s, s:s, s:s*, s:o, s:o}", "driver", options->driver, "pool", result->pool,
                "device", result->device, "shareID", result->share_id, "conditions",
                conditions_of(&arena, result, options->time), "data", data_of(result));

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
                        json_array_append_new(devices, status_device_of(&claim->results[i], options));
        json_object_set_new(json_object_get(object, "status"), "devices", devices);
        return object;
}

/* ---- sending ---- */

struct dra_status_sender {
        const struct dra_node *node;
        struct list sendings;
        bool is_failing; /* the log says so */
};

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

/* Takes the reference to |body|. */
static void status_send_status(
        struct dra_status_sender *sender, const char *namespace, const char *name, const char *uid, json_t *body)
{
        const struct dra_node *node = sender->node;
        _free_ char *group = xasprintf(DRA_API_GROUP "/%s", dra_api_name(dra_publisher_api(node->publisher)));
        _free_ char *collection = object_collection(group, namespace, "resourceclaims");
        _free_ char *object = object_path(collection, name);
        _free_ char *path = xasprintf("%s/status", object);
        struct sending *sending = find_sending(sender, uid);

        if (sending)
                sending_free(sending);
        sending = xcalloc(1, sizeof(*sending));
        sending->sender = sender;
        sending->uid = xstrdup(uid);
        list_append(&sender->sendings, &sending->link);
        sending->call = kube_client_send(node->client, &(struct kube_request){.method = KUBE_APPLY,
                                                               .path = path,
                                                               .body = body,
                                                               .field_manager = node->driver,
                                                               .force = true,
                                                               .done = on_status_sent,
                                                               .data = sending});
        json_decref(body);
}

void dra_status_send_prepared(struct dra_status_sender *sender, const struct dra_prepared_claim *claim)
{
        _free_ char *now = object_time((int64_t)time(NULL) * 1000000);
        const struct dra_node *node = sender->node;

        if (!node->is_closing)
                status_send_status(sender, claim->namespace, claim->name, claim->uid,
                        dra_status_prepared(
                                claim, &(struct dra_status_options){.api = dra_publisher_api(node->publisher),
                                               .driver = node->driver,
                                               .time = now}));
}

void dra_status_send_removed(struct dra_status_sender *sender, const struct dra_service_claim *claim)
{
        const struct dra_node *node = sender->node;

        if (!node->is_closing)
                status_send_status(sender, claim->namespace, claim->name, claim->uid,
                        dra_status_removed(
                                claim->uid, claim->name, claim->namespace, dra_publisher_api(node->publisher)));
}

struct dra_status_sender *dra_status_sender_new(const struct dra_node *node)
{
        struct dra_status_sender *sender = xcalloc(1, sizeof(*sender));

        sender->node = node;
        list_init(&sender->sendings);
        return sender;
}

void dra_status_sender_cancel(struct dra_status_sender *sender)
{
        while (!list_is_empty(&sender->sendings))
                sending_free(container_of(sender->sendings.next, struct sending, link));
}

struct dra_status_sender *dra_status_sender_free(struct dra_status_sender *sender)
{
        if (!sender)
                return NULL;
        dra_status_sender_cancel(sender);
        free(sender);
        return NULL;
}
