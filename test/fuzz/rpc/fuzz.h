// SPDX-License-Identifier: Apache-2.0
/*
 * What the targets share: an input is cut into reads whose size it chooses itself, so that the fuzzer finds the splits
 * that matter too. The last byte says how many bytes a read brings, 0: all. A recording is thus a seed as it is:
 *
 *         fuzz-rpc-session-server corpus/ test/fixtures/kubelet-1.36/
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "net/rpc/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Takes the last byte off. */
static inline size_t fuzz_step(const uint8_t *bytes, size_t *size)
{
        if (*size == 0)
                return SIZE_MAX;
        --*size;
        return bytes[*size] ? bytes[*size] : SIZE_MAX;
}

/* Delivers, hears all that the session says, lets deadlines pass, and frees it. */
static inline void fuzz_session(struct rpc_session *session, const uint8_t *bytes, size_t size)
{
        size_t step = fuzz_step(bytes, &size);
        int64_t now_ms = 0;
        struct error err;
        const uint8_t *out;
        int r = 0;

        for (size_t at = 0; at < size && r == 0; now_ms += 10) {
                size_t part = MIN(step, size - at);
                uint8_t *copy = malloc(part); /* of its own size: reading beyond or keeping it is seen */

                memcpy(copy, bytes + at, part);
                r = rpc_session_receive(session, copy, part, now_ms, &err);
                free(copy);
                at += part;
                if (rpc_session_next_deadline(session) <= now_ms)
                        rpc_session_expire(session, now_ms);
                while (rpc_session_pending(session, &out) > 0)
                        ;
                if (rpc_session_is_finished(session))
                        break;
        }
        rpc_session_free(session);
}
