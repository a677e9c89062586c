// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as the pod that declares the share of a container. What is read is within its bounds, a fault
 * is text that an event takes, and the share keeps to its ceilings.
 *
 *         tools/fuzz 60 fuzz-plan-declared
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/declared.h"

#define MAX_THREADS 40U
#define MAX_MEMORY_MIB UINT64_C(4096)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_fault(const char *fault)
{
        if (strlen(fault) > 600)
                abort();
        for (size_t length; *fault; fault += length) {
                length = text_utf8_length(fault);
                if (length == 0)
                        abort();
        }
}

static void check_share(const struct declared *said)
{
        const struct sharing_section section = {.strategy = SHARING_MPS,
                .provisioning = PROVISIONING_DECLARED,
                .has_memory_reserve = true,
                .max_threads = MAX_THREADS,
                .max_memory_mib = MAX_MEMORY_MIB};
        const struct shared_resource entry = {.section = &section};
        const struct unit unit = {.uuid = "GPU-a", .shared = &entry, .memory = UINT64_C(24) << 30, .replicas = 10};
        const struct resource resource = {.strategy = SHARING_MPS, .provisioning = PROVISIONING_DECLARED};
        const struct mps_part part = {.resource = &resource, .unit = &unit, .replicas = 3};

        for (size_t ordinal = 0; ordinal < 2; ordinal++) {
                struct share share = declared_share(said, &part, ordinal);

                if (share.threads_permille == 0 || share.threads_permille > MAX_THREADS * 10 ||
                        share.memory_mib > MAX_MEMORY_MIB)
                        abort();
        }
        if (declared_omits(said, 1) & ~(unsigned int)(MPS_LIMITS_NO_THREADS | MPS_LIMITS_NO_MEMORY))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *pod = json_loadb((const char *)data, size, 0, NULL);
        struct arena arena = ARENA_INIT;
        struct declared said;

        if (!pod)
                return 0;
        said = declared_read(&arena, pod, "main");
        json_decref(pod);
        if (!said.is_known || said.threads_permille > 1000 || said.memory_mib > CONFIG_MAX_RESERVE_MIB)
                abort();
        if (said.fault)
                check_fault(said.fault);
        check_share(&said);
        arena_done(&arena);
        return 0;
}
