#include "mps/wire/message.h"

#include <string.h>

#include "mps/wire/message_parts.h"

static const char *const request_words[] = {
        [MPS_REQUEST_WATCH] = "watch",
        [MPS_REQUEST_APPLY] = "apply",
        [MPS_REQUEST_ALLOCATION] = "grant",
        [MPS_REQUEST_RELEASE] = "release",
        [MPS_REQUEST_TERMINATE] = "terminate",
        [MPS_REQUEST_PING] = "ping",
};

static const char *request_word(unsigned int position)
{
        return request_words[position];
}

static const char *error_word(unsigned int position)
{
        return error_kind_name((enum error_kind)position);
}

/* ---- requests ---- */

static json_t *of_allocation_request(const struct mps_allocation_request *allocation)
{
        json_t *object = json_object();

        message_put_text(object, "id", allocation->id);
        message_put_text(object, "daemon", allocation->daemon);
        message_put_text(object, "unit", allocation->unit);
        message_put_uint(object, "threadsPermille", allocation->threads_permille);
        message_put_uint(object, "limitMib", allocation->limit_mib);
        message_put_uint(object, "sms", allocation->sms);
        return object;
}

static void to_allocation_request(
        struct message_in *in, const json_t *object, struct mps_allocation_request *allocation)
{
        *allocation = (struct mps_allocation_request){
                .id = message_need_text(in, object, "id", MESSAGE_ALLOCATION),
                .daemon = message_need_text(in, object, "daemon", MESSAGE_PATH),
                .unit = message_need_text(in, object, "unit", MESSAGE_UUID),
                .threads_permille = (unsigned int)message_uint(in, object, "threadsPermille", 1, 1000),
                .limit_mib = message_uint(in, object, "limitMib", 0, UINT32_MAX),
                .sms = (unsigned int)message_uint(in, object, "sms", 0, UINT16_MAX),
        };
}

static json_t *of_allocations(const struct mps_request *request)
{
        json_t *array = json_array();

        for (size_t i = 0; i < request->n_allocations; i++)
                json_array_append_new(array, of_allocation_request(&request->allocations[i]));
        return array;
}

static void to_allocations(struct message_in *in, const json_t *object, struct mps_request *request)
{
        const json_t *array = message_array(in, object, "grants", MPS_HOLD_MAX, &request->n_allocations);
        struct mps_allocation_request *allocations =
                ARENA_ARRAY(in->arena, struct mps_allocation_request, request->n_allocations);

        request->has_allocations = array != NULL;
        for (size_t i = 0; i < request->n_allocations && !in->is_bad; i++) {
                to_allocation_request(in, json_array_get(array, i), &allocations[i]);
                message_bad_item(in, "grants", i);
        }
        request->allocations = allocations;
}

char *mps_request_write(const struct mps_request *request)
{
        json_t *object = json_object();

        message_put_text(object, "do", request_words[request->kind]);
        message_put_uint(object, "id", request->id);
        switch (request->kind) {
        case MPS_REQUEST_WATCH:
        case MPS_REQUEST_PING:
                break;
        case MPS_REQUEST_APPLY:
                message_put_uint(object, "generation", request->generation);
                json_object_set_new(object, "daemons", message_of_wanted(&request->wanted));
                if (request->has_allocations)
                        json_object_set_new(object, "grants", of_allocations(request));
                break;
        case MPS_REQUEST_ALLOCATION:
                json_object_set_new(object, "grant", of_allocation_request(&request->allocation));
                break;
        case MPS_REQUEST_RELEASE:
                message_put_text(object, "grant", request->allocation.id);
                break;
        case MPS_REQUEST_TERMINATE:
                message_put_text(object, "daemon", request->daemon);
                message_put_uint(object, "client", (uint64_t)MAX(request->client, 0));
                message_put_text(object, "container", request->container_id);
                break;
        }
        return message_print(object, JSON_COMPACT);
}

static void to_request(struct message_in *in, const json_t *object, struct mps_request *request)
{
        if (!json_object_get(object, "do"))
                message_bad(in, "do: missing");
        request->kind = (enum mps_request_kind)message_word(in, object, "do", request_word, ARRAY_SIZE(request_words));
        request->id = message_uint(in, object, "id", 0, INT64_MAX);
        switch (request->kind) {
        case MPS_REQUEST_WATCH:
        case MPS_REQUEST_PING:
                break;
        case MPS_REQUEST_APPLY:
                request->generation = message_uint(in, object, "generation", 0, INT64_MAX);
                message_to_wanted(in, object, &request->wanted);
                to_allocations(in, object, request);
                break;
        case MPS_REQUEST_ALLOCATION:
                to_allocation_request(in, message_object(in, object, "grant"), &request->allocation);
                if (in->is_bad)
                        error_raise_prefix(in->err, "grant");
                break;
        case MPS_REQUEST_RELEASE:
                request->allocation.id = message_need_text(in, object, "grant", MESSAGE_ALLOCATION);
                break;
        case MPS_REQUEST_TERMINATE:
                request->daemon = message_need_text(in, object, "daemon", MESSAGE_PATH);
                request->client = (pid_t)message_uint(in, object, "client", 1, INT32_MAX);
                request->container_id = message_text(in, object, "container", MESSAGE_ANY);
                break;
        }
}

int mps_request_read(struct mps_request *ret, struct arena *arena, const char *line, size_t length, struct error *err)
{
        struct message_in in = {.arena = arena, .err = err};
        struct mps_request request = {.kind = MPS_REQUEST_WATCH};
        json_t *object = message_load(&in, line, length);

        if (object)
                to_request(&in, object, &request);
        json_decref(object);
        if (in.is_bad)
                return error_prefix(err, "request");
        *ret = request;
        return 0;
}

/* ---- answers ---- */

static json_t *of_allocation(const struct mps_allocation *allocation)
{
        json_t *object = json_object();

        message_put_text(object, "tier", mps_tier_name(allocation->tier));
        message_put_text(object, "pipe", allocation->pipe);
        message_put_text(object, "partition", allocation->partition);
        message_put_uint(object, "sms", allocation->sms);
        return object;
}

/* Its values become a mount and a variable of a container. */
static void to_allocation(struct message_in *in, const json_t *object, struct mps_allocation *allocation)
{
        *allocation = (struct mps_allocation){
                .tier = (enum mps_tier)message_word(in, object, "tier", message_tier, MESSAGE_TIERS),
                .pipe = message_text(in, object, "pipe", MESSAGE_PATH),
                .partition = message_text(in, object, "partition", MESSAGE_ANY),
                .sms = (unsigned int)message_uint(in, object, "sms", 0, UINT16_MAX),
        };
        if (in->is_bad)
                error_raise_prefix(in->err, "granted");
}

char *mps_answer_write(const struct mps_answer *answer)
{
        json_t *object = json_object();

        if (answer->is_status) {
                json_object_set_new(object, "status", message_of_status(answer->status));
                return message_print(object, JSON_COMPACT);
        }
        message_put_uint(object, "id", answer->id);
        json_object_set_new(object, "ok", json_boolean(answer->ok));
        if (!answer->ok) {
                message_put_text(object, "kind", error_kind_name(answer->error.kind));
                message_put_text(object, "error", answer->error.text);
        } else if (answer->has_allocation) {
                json_object_set_new(object, "granted", of_allocation(&answer->allocation));
        }
        return message_print(object, JSON_COMPACT);
}

/* The status has an arena of its own, since it outlives the line. */
static void to_status(struct message_in *in, const json_t *object, struct mps_answer *answer)
{
        struct mps_status *status = mps_status_new();
        struct message_in own = {.arena = &status->arena, .err = in->err};

        message_to_status(&own, object, status);
        if (own.is_bad) {
                error_raise_prefix(in->err, "status");
                in->is_bad = true;
                mps_status_free(status);
                return;
        }
        answer->is_status = true;
        answer->status = status;
}

static void to_error(struct message_in *in, const json_t *object, struct error *error)
{
        const char *text = message_need_text(in, object, "error", MESSAGE_ANY);
        enum error_kind kind = (enum error_kind)message_word(in, object, "kind", error_word, ERROR_INTERNAL + 1);

        if (kind == ERROR_NONE)
                message_bad(in, "kind: missing");
        error_raise(error, kind, "%s", text);
}

static void to_answer(struct message_in *in, const json_t *object, struct mps_answer *answer)
{
        const json_t *status = message_object(in, object, "status");
        const json_t *granted = message_object(in, object, "granted");

        if (status) {
                to_status(in, status, answer);
                return;
        }
        if (!json_object_get(object, "id") || !json_object_get(object, "ok"))
                message_bad(in, "neither a status nor an answer");
        answer->id = message_uint(in, object, "id", 0, INT64_MAX);
        answer->ok = message_bool(in, object, "ok");
        answer->has_allocation = answer->ok && granted;
        if (!answer->ok)
                to_error(in, object, &answer->error);
        else if (granted)
                to_allocation(in, granted, &answer->allocation);
}

int mps_answer_read(struct mps_answer *ret, struct arena *arena, const char *line, size_t length, struct error *err)
{
        struct message_in in = {.arena = arena, .err = err};
        struct mps_answer answer = {.id = 0};
        json_t *object = message_load(&in, line, length);

        if (object)
                to_answer(&in, object, &answer);
        json_decref(object);
        if (in.is_bad)
                return error_prefix(err, "answer");
        *ret = answer;
        return 0;
}
