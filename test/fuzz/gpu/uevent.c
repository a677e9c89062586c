// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as one of the kernel's device events.
 *
 *         tools/fuzz 60 fuzz-gpu-uevent
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/driver_change.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        /* Of just this size, and never NULL. */
        char *copy = malloc(size + !size);

        if (size)
                memcpy(copy, data, size);
        if (uevent_is_about_gpus(copy, size) && (size > UEVENT_MAX || copy[size - 1] != '\0'))
                abort();
        free(copy);
        return 0;
}
