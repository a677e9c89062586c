// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet's requests to prepare and unprepare claims. What decodes has names that are safe in paths, and is answered.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "node/dra/messages.h"
#include "node/dra/service.h"
#include "node/dra/claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct dra_claim *claims;
        ProtobufCMessage **answers[2];
        struct error err;
        size_t count;

        if (dra_messages_claims(&claims, &count, &arena, data, size, &err) == 0) {
                answers[0] = ARENA_ARRAY(&arena, ProtobufCMessage *, count);
                answers[1] = ARENA_ARRAY(&arena, ProtobufCMessage *, count);
                assert(count <= DRA_SERVICE_CLAIMS_MAX);
                for (size_t i = 0; i < count; i++) {
                        assert(strlen(claims[i].uid) <= DRA_NAME_MAX && !strpbrk(claims[i].uid, "./"));
                        assert(!strchr(claims[i].namespace, '/') && !strchr(claims[i].name, '/'));
                        answers[0][i] = dra_messages_prepared(&arena, &claims[i], claims[i].name, true);
                        answers[1][i] = dra_messages_unprepared(&arena, claims[i].uid, claims[i].name);
                }
                rpc_message_unref(dra_messages_join_prepared(answers[0], count));
                rpc_message_unref(dra_messages_join_unprepared(answers[1], count));
        }
        arena_done(&arena);
        return 0;
}
