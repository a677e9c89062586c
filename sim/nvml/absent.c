// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/absent.h"

#include "sim/nvml/calls.h"
#include "sim/nvml/library.h"

/*
 * One signature fits all of them: in C's calling convention the caller cleans up the arguments. Faults and delays apply
 * here, too.
 */
#define ABSENT(name)                                                                                                   \
        EXPORTED nvmlReturn_t name(void);                                                                              \
        nvmlReturn_t name(void)                                                                                        \
        {                                                                                                              \
                _cleanup_(call_end) struct call call = call_any(__func__);                                             \
                return call.result ? call.result : NVML_ERROR_NOT_SUPPORTED;                                           \
        }

NVML_ABSENT(ABSENT)
