// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any text as a cgroup file, in which a tenant names the folders below its own.
 *
 *         tools/fuzz 60 fuzz-io-cgroup
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"

static void need(int holds)
{
        if (!holds)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct arena arena = ARENA_INIT;
        char *text = malloc(size + 1);
        struct cgroup_owner owner;

        memcpy(text, data, size);
        text[size] = '\0';
        owner = cgroup_parse(text, &arena);
        need(!owner.pod_uid || strspn(owner.pod_uid, "0123456789abcdef-") == strlen(owner.pod_uid));
        need(!owner.container_id || (owner.pod_uid && strlen(owner.container_id) == 64));
        need(!owner.folder || (owner.container_id && strstr(owner.folder, owner.container_id)));
        need(!owner.folder || !strstr(owner.folder, "/../"));
        arena_done(&arena);
        free(text);
        return 0;
}
