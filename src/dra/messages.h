/*
 * DRA's gRPC messages to structs and back. Private to dra/service and dra/health_stream. It knows no calls and no clock.
 *
 * What a request may be is decided here: a UID becomes part of file names and of CDI device names, so only letters, digits and '-' are
 * let in; namespaces and names are what the API server takes. A request that breaks this, or names a UID twice, is not kubelet's.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "dra/health_stream.h"
#include "dra/service.h"
#include "rpc/message.h"

/* The claims of a Prepare or Unprepare request, in |arena|. Fails with ERROR_INVALID, or ERROR_EXHAUSTED beyond a cap. */
int dra_messages_claims(const struct dra_service_claim **ret_claims, size_t *ret_count, struct arena *arena,
        const uint8_t *bytes, size_t size, struct error *err) MUST_USE;

/* The answer for one claim; |error| is NULL where it succeeded. */
struct dra_messages_answer {
        const char *uid;
        const char *error;
        const struct dra_service_device *devices;
        size_t n_devices;
};

/* |has_share_ids|: v1 has them, v1beta1 has not. */
struct rpc_message *dra_messages_prepared(const struct dra_messages_answer *answers, size_t count, bool has_share_ids);
struct rpc_message *dra_messages_unprepared(const struct dra_messages_answer *answers, size_t count);

struct rpc_message *dra_messages_health(const struct dra_health_device *devices, size_t count);
