// SPDX-License-Identifier: Apache-2.0
#include "mps/wire/message.h"

#include <string.h>

#include "plan/allocations.h"

/* ---- texts ---- */

static bool is_letter_or_digit(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool fields_is_any(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return false;
        return true;
}

static bool fields_is_uuid(const char *text)
{
        if (!is_letter_or_digit(*text))
                return false;
        for (; *text; text++)
                if (!is_letter_or_digit(*text) && *text != '-' && *text != '/')
                        return false;
        return true;
}

static bool is_path(const char *text)
{
        for (;;) {
                size_t length = strcspn(text, "/");

                if (length == 0 || (length <= 2 && strspn(text, ".") == length))
                        return false;
                for (size_t i = 0; i < length; i++)
                        if (!is_letter_or_digit(text[i]) && !strchr(".-_", text[i]))
                                return false;
                if (!text[length])
                        return true;
                text += length + 1;
        }
}

const struct json_text message_any = {fields_is_any, 1024, "text without control characters, of at most ", true};
const struct json_text message_path = {
        is_path, 255, "a relative path of letters, digits, '.', '-' and '_', of at most ", false};
const struct json_text message_uuid = {fields_is_uuid, 127, "a UUID: letters, digits, '-' and '/', of at most ", false};
const struct json_text message_allocation = {allocations_is_id, 64, "1 to 64 of a-z, 0-9 and '_', of at most ", false};

/* ---- wanted daemons ---- */

const char *message_tier(unsigned int position)
{
        return mps_tier_name((enum mps_tier)position);
}

static const char *provisioning_word(unsigned int position)
{
        return provisioning_name((enum provisioning)position);
}

static const struct json_field unit_fields[] = {
        JSON_TEXT("uuid", struct mps_unit, uuid, message_uuid, .is_needed = true),
        JSON_TEXT("gpuUuid", struct mps_unit, gpu_uuid, message_uuid, .is_needed = true),
        JSON_TEXT("index", struct mps_unit, index, message_any, .is_needed = true),
        JSON_TEXT("name", struct mps_unit, name, message_any, .is_needed = true),
        JSON_BOOL("isMig", struct mps_unit, is_mig),
        JSON_UINT("memoryBytes", struct mps_unit, memory, 0, INT64_MAX),
        JSON_UINT("replicas", struct mps_unit, replicas, 0, CONFIG_MAX_REPLICAS),
        JSON_UINT("sms", struct mps_unit, sms, 0, UINT16_MAX),
        JSON_UINT("chunkSms", struct mps_unit, chunk_sms, 0, UINT16_MAX),
        JSON_KNOWN("chunksNeeded", struct mps_unit, chunks_needed, 0, UINT16_MAX),
        JSON_UINT("limitMib", struct mps_unit, limit_mib, 0, UINT32_MAX),
        JSON_UINT("replicaMib", struct mps_unit, replica_mib, 0, UINT32_MAX),
        JSON_UINT("clients", struct mps_unit, clients, 0, UINT16_MAX),
};
static const struct json_shape unit_shape = JSON_SHAPE(struct mps_unit, unit_fields);

static const struct json_field wanted_fields[] = {
        JSON_TEXT("name", struct mps_daemon_wanted, name, message_path, .is_needed = true),
        JSON_TEXT("resource", struct mps_daemon_wanted, resource, message_any, .is_needed = true),
        JSON_WORD("provisioning", struct mps_daemon_wanted, provisioning, provisioning_word, PROVISIONING_LAST + 1),
        JSON_WORD("tierLimit", struct mps_daemon_wanted, tier_limit, message_tier, MESSAGE_TIERS),
        JSON_UINT("threadsPermille", struct mps_daemon_wanted, threads_permille, 1, 1000),
        JSON_ITEMS("units", struct mps_daemon_wanted, units, n_units, unit_shape, 1, MESSAGE_UNITS_MAX),
        JSON_TEXTS(
                "away", struct mps_daemon_wanted, away, n_away, message_uuid, 0, MESSAGE_UNITS_MAX, .leaves_out = true),
};
const struct json_shape message_daemon = JSON_SHAPE(struct mps_daemon_wanted, wanted_fields);

/* ---- the status ---- */

static const char *fields_state_word(unsigned int position)
{
        return mps_state_name((enum mps_state)position);
}

#define NO_UID ((uid_t)-1)

static const struct json_field client_fields[] = {
        JSON_INT("pid", struct mps_client, pid, 0, INT32_MAX),
        JSON_INT("server", struct mps_client, server, 0, INT32_MAX),
        JSON_KNOWN("uid", struct mps_client, uid, NO_UID, UINT32_MAX),
        JSON_TEXT("unit", struct mps_client, unit, message_any),
        JSON_TEXT("podUid", struct mps_client, pod_uid, message_any),
        JSON_TEXT("containerId", struct mps_client, container_id, message_any),
        JSON_TEXT("namespace", struct mps_client, name_space, message_any),
        JSON_TEXT("grant", struct mps_client, allocation, message_any),
        JSON_UINT("askedPermille", struct mps_client, asked_permille, 0, 1000,
                .has = offsetof(struct mps_client, has_environment)),
        JSON_KNOWN("memoryBytes", struct mps_client, memory, UINT64_MAX, INT64_MAX),
        JSON_UINT("threadsPermille", struct mps_client, threads_permille, 0, 1000),
        JSON_UINT("limitMib", struct mps_client, limit_mib, 0, INT64_MAX),
};
static const struct json_shape client_shape = JSON_SHAPE(struct mps_client, client_fields);

static const struct json_field server_fields[] = {
        JSON_INT("pid", struct mps_server, pid, 0, INT32_MAX),
        JSON_KNOWN("uid", struct mps_server, uid, NO_UID, UINT32_MAX),
        JSON_TEXT("status", struct mps_server, status, message_any),
};
static const struct json_shape server_shape = JSON_SHAPE(struct mps_server, server_fields);

static const struct json_field limit_fields[] = {
        JSON_TEXT("grant", struct mps_container_limit, allocation, message_allocation, .is_needed = true),
        JSON_TEXT("unit", struct mps_container_limit, unit, message_uuid, .is_needed = true),
        JSON_TEXT("cgroup", struct mps_container_limit, cgroup, message_any, .is_needed = true),
        JSON_UINT("limitMib", struct mps_container_limit, limit_mib, 0, UINT32_MAX),
        JSON_BOOL("inForce", struct mps_container_limit, is_in_force),
        JSON_TEXT("problem", struct mps_container_limit, problem, message_any),
};
static const struct json_shape limit_shape = JSON_SHAPE(struct mps_container_limit, limit_fields);

static const struct json_field owner_fields[] = {
        JSON_KNOWN("uid", struct mps_shm_owner, uid, NO_UID, UINT32_MAX),
        JSON_UINT("bytes", struct mps_shm_owner, bytes, 0, INT64_MAX),
        JSON_UINT("files", struct mps_shm_owner, files, 0, INT64_MAX),
};
static const struct json_shape owner_shape = JSON_SHAPE(struct mps_shm_owner, owner_fields);

static const struct json_field shm_fields[] = {
        JSON_UINT("sizeBytes", struct mps_shm, size, 0, INT64_MAX),
        JSON_UINT("usedBytes", struct mps_shm, used, 0, INT64_MAX),
        JSON_UINT("filesMax", struct mps_shm, files_max, 0, INT64_MAX),
        JSON_UINT("files", struct mps_shm, files, 0, INT64_MAX),
        JSON_BOOL("full", struct mps_shm, is_full),
        JSON_ROW("owners", ARRAY, struct mps_shm, owners, .count = offsetof(struct mps_shm, n_owners),
                .shape = &owner_shape, .most = MPS_SHM_OWNERS),
        JSON_UINT("namelessBytes", struct mps_shm, nameless, 0, INT64_MAX),
};
static const struct json_shape shm_shape = JSON_SHAPE(struct mps_shm, shm_fields);

static const struct json_field holder_fields[] = {
        JSON_TEXT("unit", struct mps_holder, unit, message_uuid, .is_needed = true),
        JSON_TEXT("pod", struct mps_holder, pod, message_any),
        JSON_TEXT("claim", struct mps_holder, claim, message_any),
};
static const struct json_shape holder_shape = JSON_SHAPE(struct mps_holder, holder_fields);

static const struct json_field daemon_fields[] = {
        JSON_TEXT("name", struct mps_daemon_status, name, message_path, .is_needed = true),
        JSON_TEXT("resource", struct mps_daemon_status, resource, message_any, .is_needed = true),
        JSON_TEXTS("units", struct mps_daemon_status, units, n_units, message_uuid, 0, MESSAGE_UNITS_MAX),
        JSON_WORD("state", struct mps_daemon_status, state, fields_state_word, MPS_FAULT + 1),
        JSON_TEXT("reason", struct mps_daemon_status, reason, message_any),
        JSON_TEXT("notice", struct mps_daemon_status, notice, message_any),
        JSON_INT("since", struct mps_daemon_status, since, 0, INT64_MAX),
        JSON_INT("pid", struct mps_daemon_status, pid, 0, INT32_MAX),
        JSON_BOOL("adopted", struct mps_daemon_status, adopted),
        JSON_UINT("restarts", struct mps_daemon_status, restarts, 0, UINT32_MAX),
        JSON_UINT("repairs", struct mps_daemon_status, repairs, 0, UINT32_MAX),
        JSON_KNOWN("settings", struct mps_daemon_status, settings, 0, INT64_MAX),
        JSON_UINT("can", struct mps_daemon_status, can, 0, UINT32_MAX),
        JSON_TEXTS("unlimitedUnits", struct mps_daemon_status, unlimited, n_unlimited, message_uuid, 0,
                MESSAGE_UNITS_MAX, .leaves_out = true),
        JSON_WORD("tier", struct mps_daemon_status, tier, message_tier, MESSAGE_TIERS),
        JSON_UINT("threadsPermille", struct mps_daemon_status, threads_permille, 0, 1000),
        JSON_UINT("limitMib", struct mps_daemon_status, limit_mib, 0, INT64_MAX),
        JSON_UINT("maxClients", struct mps_daemon_status, max_clients, 0, UINT32_MAX),
        JSON_MEMBER("sharedMemory", struct mps_daemon_status, shm, shm_shape,
                .has = offsetof(struct mps_daemon_status, has_own_shm)),
        JSON_ITEMS("servers", struct mps_daemon_status, servers, n_servers, server_shape, 0, MESSAGE_SERVERS_MAX),
        JSON_ITEMS("clients", struct mps_daemon_status, clients, n_clients, client_shape, 0, MESSAGE_CLIENTS_MAX),
        JSON_ITEMS("containerLimits", struct mps_daemon_status, limits, n_limits, limit_shape, 0, MESSAGE_CLIENTS_MAX),
};
static const struct json_shape daemon_shape = JSON_SHAPE(struct mps_daemon_status, daemon_fields);

static const struct json_field status_fields[] = {
        JSON_UINT("generation", struct mps_status, generation, 0, INT64_MAX),
        JSON_ITEMS("daemons", struct mps_status, daemons, n_daemons, daemon_shape, 0, MESSAGE_DAEMONS_MAX),
        JSON_ITEMS("holders", struct mps_status, holders, n_holders, holder_shape, 0, MPS_HOLD_MAX, .leaves_out = true),
        JSON_MEMBER("sharedMemory", struct mps_status, shm, shm_shape),
};
static const struct json_shape status_shape = JSON_SHAPE(struct mps_status, status_fields);

/* A node whose daemons have no common tmpfs has no field sharedMemory. */
static void message_put_status(json_t *object, const struct mps_status *status)
{
        json_fields_put(object, &status_shape, status);
        if (!status->shm.size)
                json_object_del(object, "sharedMemory");
}

/* For people, the tier is written as what it promises; between processes, as a name that older releases know. */
char *mps_status_print(const struct mps_status *status)
{
        json_t *object = json_object();
        json_t *daemon;
        size_t i;

        message_put_status(object, status);
        json_array_foreach(json_object_get(object, "daemons"), i, daemon)
                json_object_set_new(daemon, "tier", json_string(mps_daemon_promise(&status->daemons[i], NULL)));
        return json_fields_print(object, JSON_INDENT(2));
}

/* ---- requests ---- */

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
        JSON_ITEMS("holders", struct mps_request, holders, n_holders, holder_shape, 0, MPS_HOLD_MAX),
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

        json_fields_take(&own, object, &status_shape, status);
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
