// SPDX-License-Identifier: Apache-2.0
/*
 * The record of prepared claims: what can be read of a file, whoever wrote it, can be written again and is the same
 * then.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "node/dra/prepared_record.h"

static char path[96];
static char broken[112];

static void remove_files(void)
{
        unlink(path);
        unlink(broken);
        *strrchr(path, '/') = '\0';
        rmdir(path);
}

static void make_folder(void)
{
        char folder[] = "/dev/shm/ws-fuzz-XXXXXX";

        if (!mkdtemp(folder))
                abort();
        snprintf(path, sizeof(path), "%s/prepared.json", folder);
        snprintf(broken, sizeof(broken), "%s.broken", path);
        atexit(remove_files);
}

/* Another process, which reads what is there. */
static struct dra_record *read_again(int *ret)
{
        struct dra_record *record = dra_record_new(path, "boot");
        struct error err;

        *ret = dra_record_refresh(record, &err);
        return record;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct dra_record *record;
        struct dra_record *again;
        struct error err;
        size_t count;
        int result;

        if (!*path)
                make_folder();
        if (file_write(path, data, size, &err) < 0)
                abort();
        record = read_again(&result);
        count = dra_record_count(record);
        if (result == 0 && count > 0) {
                if (dra_record_put(record, dra_record_at(record, count - 1), &err) < 0)
                        abort();
                again = read_again(&result);
                if (result != 0 || dra_record_count(again) != count ||
                        strcmp(dra_record_at(again, 0)->uid, dra_record_at(record, 0)->uid) != 0)
                        abort();
                dra_record_free(again);
                if (dra_record_remove(record, dra_record_at(record, 0)->uid, &err) < 0 ||
                        dra_record_count(record) != count - 1)
                        abort();
        }
        dra_record_free(record);
        return 0;
}
