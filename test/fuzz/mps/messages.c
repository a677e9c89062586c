// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any line, as a request, as an answer, and as what is on record. What is understood survives being
 * written and read again.
 *
 *         tools/fuzz 60 fuzz-mps-messages
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mps/wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int rc)
{
        if (rc < 0)
                abort();
}

static void try_request(struct arena *arena, const char *line, size_t length)
{
        struct mps_request request;
        struct mps_request again;
        struct error err;

        if (mps_request_read(&request, arena, line, length, &err) == 0) {
                _free_ char *text = mps_request_write(&request);
                _free_ char *same = NULL;

                check(mps_request_read(&again, arena, text, strlen(text), &err));
                same = mps_request_write(&again);
                if (strcmp(text, same) != 0)
                        abort();
        }
}

static void try_answer(struct arena *arena, const char *line, size_t length)
{
        struct mps_answer answer;
        struct mps_answer again;
        struct error err;

        if (mps_answer_read(&answer, arena, line, length, &err) == 0) {
                _free_ char *text = mps_answer_write(&answer);

                check(mps_answer_read(&again, arena, text, strlen(text), &err));
                if (answer.is_status) {
                        free(mps_status_metrics(answer.status));
                        free(mps_status_print(answer.status));
                        mps_status_free(answer.status);
                        mps_status_free(again.status);
                }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct arena arena = ARENA_INIT;

        try_request(&arena, (const char *)data, size);
        try_answer(&arena, (const char *)data, size);
        arena_done(&arena);
        return 0;
}
