#include "mps/wire/message.h"

#include "mps/wire/fields.h"

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

static const struct json_field allocation_request_fields[] = {
        JSON_TEXT("id", struct mps_allocation_request, id, message_allocation, .is_needed = true),
        JSON_TEXT("daemon", struct mps_allocation_request, daemon, message_path, .is_needed = true),
        JSON_TEXT("unit", struct mps_allocation_request, unit, message_uuid, .is_needed = true),
        JSON_UINT("threadsPermille", struct mps_allocation_request, threads_permille, 1, 1000),
        JSON_UINT("limitMib", struct mps_allocation_request, limit_mib, 0, UINT32_MAX),
        JSON_UINT("sms", struct mps_allocation_request, sms, 0, UINT16_MAX),
};
static const struct json_shape allocation_request_shape =
        JSON_SHAPE(struct mps_allocation_request, allocation_request_fields);

static const struct json_field request_fields[] = {
        JSON_WORD("do", struct mps_request, kind, request_word, ARRAY_SIZE(request_words), .is_needed = true),
        JSON_UINT("id", struct mps_request, id, 0, INT64_MAX),
};
static const struct json_shape request_shape = JSON_SHAPE(struct mps_request, request_fields);

static const struct json_field apply_fields[] = {
        JSON_UINT("generation", struct mps_request, generation, 0, INT64_MAX),
        JSON_ITEMS("daemons", struct mps_request, wanted.daemons, wanted.n_daemons, message_daemon, 0,
                MESSAGE_DAEMONS_MAX, .is_needed = true),
        JSON_BOOL("endsClients", struct mps_request, wanted.ends_clients),
        JSON_ITEMS("grants", struct mps_request, allocations, n_allocations, allocation_request_shape, 0, MPS_HOLD_MAX,
                .has = offsetof(struct mps_request, has_allocations)),
        JSON_ITEMS("holders", struct mps_request, holders, n_holders, message_holder, 0, MPS_HOLD_MAX),
};
static const struct json_field allocation_fields[] = {
        JSON_MEMBER("grant", struct mps_request, allocation, allocation_request_shape, .is_needed = true),
};
static const struct json_field release_fields[] = {
        JSON_TEXT("grant", struct mps_request, allocation.id, message_allocation, .is_needed = true),
};
static const struct json_field terminate_fields[] = {
        JSON_TEXT("daemon", struct mps_request, daemon, message_path, .is_needed = true),
        JSON_INT("client", struct mps_request, client, 1, INT32_MAX),
        JSON_TEXT("container", struct mps_request, container_id, message_any),
};
static const struct json_field ping_fields[] = {
        JSON_BOOL("look", struct mps_request, is_look),
};

/* The further fields of a request, by its kind. */
static const struct json_shape request_shapes[] = {
        [MPS_REQUEST_APPLY] = JSON_SHAPE(struct mps_request, apply_fields),
        [MPS_REQUEST_ALLOCATION] = JSON_SHAPE(struct mps_request, allocation_fields),
        [MPS_REQUEST_RELEASE] = JSON_SHAPE(struct mps_request, release_fields),
        [MPS_REQUEST_TERMINATE] = JSON_SHAPE(struct mps_request, terminate_fields),
        [MPS_REQUEST_PING] = JSON_SHAPE(struct mps_request, ping_fields),
};

char *mps_request_write(const struct mps_request *request)
{
        json_t *object = json_object();

        json_fields_put(object, &request_shape, request);
        json_fields_put(object, &request_shapes[request->kind], request);
        return json_fields_print(object, JSON_COMPACT);
}

int mps_request_read(struct mps_request *ret, struct arena *arena, const char *line, size_t length, struct error *err)
{
        struct json_in in = {.arena = arena, .err = err};
        struct mps_request request = {.kind = MPS_REQUEST_WATCH};
        json_t *object = json_fields_load(&in, line, length);

        json_fields_take(&in, object, &request_shape, &request);
        json_fields_take(&in, object, &request_shapes[request.kind], &request);
        json_decref(object);
        if (in.is_bad)
                return error_prefix(err, "request");
        *ret = request;
        return 0;
}

/* ---- answers ---- */

/* These fields become a mount and a variable of a container. */
static const struct json_field granted_fields[] = {
        JSON_WORD("tier", struct mps_allocation, tier, message_tier, MESSAGE_TIERS),
        JSON_TEXT("pipe", struct mps_allocation, pipe, message_path),
        JSON_TEXT("partition", struct mps_allocation, partition, message_any),
        JSON_UINT("sms", struct mps_allocation, sms, 0, UINT16_MAX),
};
static const struct json_shape granted_shape = JSON_SHAPE(struct mps_allocation, granted_fields);

static const struct json_field answer_fields[] = {
        JSON_UINT("id", struct mps_answer, id, 0, INT64_MAX),
        JSON_BOOL("ok", struct mps_answer, ok),
};
static const struct json_shape answer_shape = JSON_SHAPE(struct mps_answer, answer_fields);

static const struct json_field success_fields[] = {
        JSON_MEMBER("granted", struct mps_answer, allocation, granted_shape,
                .has = offsetof(struct mps_answer, has_allocation)),
};
static const struct json_shape success_shape = JSON_SHAPE(struct mps_answer, success_fields);

struct failure {
        enum error_kind kind;
        const char *text;
};

static const struct json_field failure_fields[] = {
        JSON_WORD("kind", struct failure, kind, error_word, ERROR_INTERNAL + 1),
        JSON_TEXT("error", struct failure, text, message_any, .is_needed = true),
};
static const struct json_shape failure_shape = JSON_SHAPE(struct failure, failure_fields);

char *mps_answer_write(const struct mps_answer *answer)
{
        const struct failure failure = {answer->error.kind, answer->error.text};
        json_t *object = json_object();

        if (answer->is_status) {
                json_t *status = json_object();

                message_put_status(status, answer->status);
                json_object_set_new(object, "status", status);
                return json_fields_print(object, JSON_COMPACT);
        }
        json_fields_put(object, &answer_shape, answer);
        if (answer->ok)
                json_fields_put(object, &success_shape, answer);
        else
                json_fields_put(object, &failure_shape, &failure);
        return json_fields_print(object, JSON_COMPACT);
}

/* The status has an arena of its own, since it stays when the line is done with. */
static void message_take_status(struct json_in *in, const json_t *object, struct mps_answer *answer)
{
        struct mps_status *status = mps_status_new();
        struct json_in own = {.arena = &status->arena, .err = in->err};

        json_fields_take(&own, object, &message_status, status);
        if (own.is_bad) {
                error_raise_prefix(in->err, "status");
                in->is_bad = true;
                mps_status_free(status);
                return;
        }
        answer->is_status = true;
        answer->status = status;
}

static void take_failure(struct json_in *in, const json_t *object, struct mps_answer *answer)
{
        struct failure failure = {0};

        json_fields_take(in, object, &failure_shape, &failure);
        if (failure.kind == ERROR_NONE)
                json_fields_bad(in, "kind: missing");
        if (!in->is_bad)
                error_raise(&answer->error, failure.kind, "%s", failure.text);
}

static void message_take_answer(struct json_in *in, const json_t *object, struct mps_answer *answer)
{
        const json_t *status = json_object_get(object, "status");

        if (json_is_object(status)) {
                message_take_status(in, status, answer);
                return;
        }
        if (!json_object_get(object, "id") || !json_object_get(object, "ok"))
                json_fields_bad(in, "neither a status nor an answer");
        json_fields_take(in, object, &answer_shape, answer);
        if (answer->ok)
                json_fields_take(in, object, &success_shape, answer);
        else
                take_failure(in, object, answer);
}

int mps_answer_read(struct mps_answer *ret, struct arena *arena, const char *line, size_t length, struct error *err)
{
        struct json_in in = {.arena = arena, .err = err};
        struct mps_answer answer = {.id = 0};
        json_t *object = json_fields_load(&in, line, length);

        message_take_answer(&in, object, &answer);
        json_decref(object);
        if (in.is_bad)
                return error_prefix(err, "answer");
        *ret = answer;
        return 0;
}
