/*
 * kubelet's requests to prepare and unprepare claims. What decodes has names that are safe in paths, and is answered.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "node/dra/messages.h"
#include "node/dra/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct arena arena = ARENA_INIT;
        const struct dra_service_claim *claims;
        struct dra_messages_answer *answers;
        struct error err;
        size_t count;

        if (dra_messages_claims(&claims, &count, &arena, data, size, &err) == 0) {
                answers = ARENA_ARRAY(&arena, struct dra_messages_answer, count);
                assert(count <= DRA_SERVICE_CLAIMS_MAX);
                for (size_t i = 0; i < count; i++) {
                        assert(strlen(claims[i].uid) <= DRA_NAME_MAX && !strpbrk(claims[i].uid, "./"));
                        assert(!strchr(claims[i].namespace, '/') && !strchr(claims[i].name, '/'));
                        answers[i].uid = claims[i].uid;
                        answers[i].error = claims[i].name;
                }
                rpc_message_unref(dra_messages_prepared(answers, count, true));
                rpc_message_unref(dra_messages_unprepared(answers, count));
        }
        arena_done(&arena);
        return 0;
}
