// SPDX-License-Identifier: Apache-2.0
#include "node/dra/messages.h"

#include <string.h>

#include <dra.pb-c.h>

#include "base/text.h"
#include "node/dra/service.h"
#include "net/kube/object.h"
#include "net/rpc/message.h"

#define REQUEST_MEMORY ((size_t)256 * 1024) /* twice what DRA_SERVICE_CLAIMS_MAX claims with the longest names need */

static int messages_check_claim(const Dra__Claim *claim, struct error *err)
{
        if (!dra_name_is_uid(claim->uid))
                return error_set(err, ERROR_INVALID, "claim UID '%.80s': must be 1 to %zu letters, digits and '-'",
                        claim->uid, DRA_NAME_MAX);
        if (!dra_name_is_label(claim->namespace_, strlen(claim->namespace_)))
                return error_set(err, ERROR_INVALID, "claim %s: namespace '%.80s' is no name of a namespace",
                        claim->uid, claim->namespace_);
        if (!object_is_name(claim->name))
                return error_set(
                        err, ERROR_INVALID, "claim %s: name '%.80s' is no name of a claim", claim->uid, claim->name);
        return 0;
}

int dra_messages_claims(struct dra_claim **ret_claims, size_t *ret_count, struct arena *arena, const uint8_t *bytes,
        size_t size, struct error *err)
{
        const Dra__ClaimsRequest *request = (const Dra__ClaimsRequest *)(const void *)protobuf_unpack(
                &dra__claims_request__descriptor, arena, REQUEST_MEMORY, bytes, size, err);
        struct dra_claim *claims;

        if (!request)
                return -1;
        if (request->n_claims > DRA_SERVICE_CLAIMS_MAX)
                return error_set(err, ERROR_EXHAUSTED, "%zu claims in one request, at most %zu", request->n_claims,
                        DRA_SERVICE_CLAIMS_MAX);
        claims = ARENA_ARRAY(arena, struct dra_claim, request->n_claims);
        for (size_t i = 0; i < request->n_claims; i++) {
                const Dra__Claim *claim = request->claims[i];

                if (messages_check_claim(claim, err) < 0)
                        return -1;
                for (size_t k = 0; k < i; k++)
                        if (strcmp(claims[k].uid, claim->uid) == 0)
                                return error_set(err, ERROR_INVALID, "claim %s: twice in one request", claim->uid);
                claims[i] = (struct dra_claim){.namespace = claim->namespace_, .uid = claim->uid, .name = claim->name};
        }
        *ret_claims = claims;
        *ret_count = request->n_claims;
        return 0;
}

static char *clean_copy(struct arena *arena, const char *text)
{
        char *copy = arena_strdup(arena, text ? text : "");

        text_clean(copy);
        return copy;
}

static Dra__Device *messages_make_device(struct arena *arena, const struct dra_result *result, bool has_share_ids)
{
        Dra__Device *made = ARENA_NEW(arena, Dra__Device);

        dra__device__init(made);
        made->n_request_names = 1;
        made->request_names = ARENA_ARRAY(arena, char *, 1);
        made->request_names[0] = clean_copy(arena, result->request);
        made->pool_name = clean_copy(arena, result->pool);
        made->device_name = clean_copy(arena, result->device);
        made->cdi_device_ids = ARENA_ARRAY(arena, char *, 2);
        if (result->unit_cdi_id)
                made->cdi_device_ids[made->n_cdi_device_ids++] = clean_copy(arena, result->unit_cdi_id);
        made->cdi_device_ids[made->n_cdi_device_ids++] = clean_copy(arena, result->cdi_id);
        if (has_share_ids)
                made->share_id = clean_copy(arena, result->share_id);
        return made;
}

ProtobufCMessage *dra_messages_prepared(
        struct arena *arena, const struct dra_claim *claim, const char *error, bool has_share_ids)
{
        Dra__PrepareEntry *entry = ARENA_NEW(arena, Dra__PrepareEntry);
        Dra__PrepareResult *result = ARENA_NEW(arena, Dra__PrepareResult);

        dra__prepare_entry__init(entry);
        dra__prepare_result__init(result);
        entry->key = clean_copy(arena, claim->uid);
        entry->value = result;
        result->error = clean_copy(arena, error);
        result->devices = ARENA_ARRAY(arena, Dra__Device *, claim->n_results);
        for (; !error && result->n_devices < claim->n_results; result->n_devices++)
                result->devices[result->n_devices] =
                        messages_make_device(arena, &claim->results[result->n_devices], has_share_ids);
        return &entry->base;
}

ProtobufCMessage *dra_messages_unprepared(struct arena *arena, const char *uid, const char *error)
{
        Dra__UnprepareEntry *entry = ARENA_NEW(arena, Dra__UnprepareEntry);
        Dra__UnprepareResult *result = ARENA_NEW(arena, Dra__UnprepareResult);

        dra__unprepare_entry__init(entry);
        dra__unprepare_result__init(result);
        entry->key = clean_copy(arena, uid);
        entry->value = result;
        result->error = clean_copy(arena, error);
        return &entry->base;
}

struct rpc_message *dra_messages_join_prepared(ProtobufCMessage **answers, size_t count)
{
        Dra__PrepareResponse response = DRA__PREPARE_RESPONSE__INIT;

        response.n_claims = count;
        response.claims = (Dra__PrepareEntry **)(void *)answers;
        return protobuf_pack(&response.base);
}

struct rpc_message *dra_messages_join_unprepared(ProtobufCMessage **answers, size_t count)
{
        Dra__UnprepareResponse response = DRA__UNPREPARE_RESPONSE__INIT;

        response.n_claims = count;
        response.claims = (Dra__UnprepareEntry **)(void *)answers;
        return protobuf_pack(&response.base);
}

/* Cuts the message where kubelet would, but not inside a character. */
static char *cut_message(struct arena *arena, const char *text)
{
        char *message = clean_copy(arena, text);
        size_t keep = DRA_HEALTH_MESSAGE_MAX - 3;

        if (strlen(message) <= DRA_HEALTH_MESSAGE_MAX)
                return message;
        while (((unsigned char)message[keep] & 0xc0) == 0x80)
                keep--;
        memcpy(message + keep, "...", 4);
        return message;
}

struct rpc_message *dra_messages_health(const struct dra_health_device *devices, size_t count)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        Dra__WatchResponse response = DRA__WATCH_RESPONSE__INIT;

        response.n_devices = count;
        response.devices = ARENA_ARRAY(&arena, Dra__DeviceHealth *, count);
        for (size_t i = 0; i < count; i++) {
                Dra__DeviceHealth *health = response.devices[i] = ARENA_NEW(&arena, Dra__DeviceHealth);

                dra__device_health__init(health);
                health->device = ARENA_NEW(&arena, Dra__DeviceIdentifier);
                dra__device_identifier__init(health->device);
                health->device->pool_name = clean_copy(&arena, devices[i].pool_name);
                health->device->device_name = clean_copy(&arena, devices[i].device_name);
                health->health = (Dra__HealthStatus)devices[i].status;
                health->last_updated_time = devices[i].updated_unix_s;
                health->message = cut_message(&arena, devices[i].message);
        }
        return protobuf_pack(&response.base);
}
