// SPDX-License-Identifier: Apache-2.0
/*
 * Converts DRA's gRPC messages to structs and back. Private to node/dra/service and node/dra/health_stream. It knows no
 * calls and no clock.
 *
 * Requests are checked here. A UID becomes part of file names and of CDI device names, so it may only have letters,
 * digits and '-'; namespaces and names follow the API server's rules. A request that breaks these rules, or has a UID
 * twice, cannot be kubelet's, and is refused.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "node/dra/claim.h"
#include "node/dra/health_stream.h"
#include "net/rpc/message.h"

/*
 * The claims of a Prepare or Unprepare request, in |arena|. Fails with ERROR_INVALID, or ERROR_EXHAUSTED beyond a cap.
 */
int dra_messages_claims(struct dra_claim **ret_claims, size_t *ret_count, struct arena *arena, const uint8_t *bytes,
        size_t size, struct error *err) MUST_USE;

/*
 * The answer for one claim, in |arena|: |error|, or if that is NULL, the results of |claim|. |has_share_ids|: true for
 * v1, false for v1beta1.
 */
ProtobufCMessage *dra_messages_prepared(
        struct arena *arena, const struct dra_claim *claim, const char *error, bool has_share_ids);
ProtobufCMessage *dra_messages_unprepared(struct arena *arena, const char *uid, const char *error);

/* The answers to one request as a message. */
struct rpc_message *dra_messages_join_prepared(ProtobufCMessage **answers, size_t count);
struct rpc_message *dra_messages_join_unprepared(ProtobufCMessage **answers, size_t count);

struct rpc_message *dra_messages_health(const struct dra_health_device *devices, size_t count);
