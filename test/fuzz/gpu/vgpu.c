// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as the PCI configuration space of a device.
 *
 *         tools/fuzz 60 fuzz-gpu-vgpu
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/vgpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned char *copy = malloc(size + !size); /* of just this size */
        struct vgpu vgpu;

        if (size)
                memcpy(copy, data, size);
        vgpu_parse(&vgpu, copy, size);
        if (strlen(vgpu.host_driver_version) >= VGPU_TEXT_SIZE || strlen(vgpu.host_driver_branch) >= VGPU_TEXT_SIZE)
                abort();
        if (vgpu.state != VGPU_PRESENT && *vgpu.host_driver_version)
                abort();
        free(copy);
        return 0;
}
