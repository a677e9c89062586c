// SPDX-License-Identifier: Apache-2.0
/*
 * The record of a change of MIG geometry: what can be read of a file, whoever wrote it, can be written again and is the
 * same then.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mig/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_record record;
        struct mig_record again;
        struct error err;

        if (mig_record_parse(&record, (const char *)data, size, &arena, &err) < 0)
                return 0;
        _free_ char *text = mig_record_print(&record);

        if (mig_record_parse(&again, text, strlen(text), &arena, &err) < 0)
                abort();
        _free_ char *second = mig_record_print(&again);

        if (strcmp(text, second) != 0 || again.n_gpus != record.n_gpus)
                abort();
        return 0;
}
