// SPDX-License-Identifier: Apache-2.0
#include "sim/nvml/names.h"

#include <string.h>

#include "sim/nvml/absent.h"
#include "base/macro.h"
#include "base/text.h"
#include "sim/nvml/calls.h"

#define NAME_OF_CALL(name, arguments) #name,
#define NAME(name) #name,

static const char *const names[] = {NVML_CALLS(NAME_OF_CALL) NVML_ABSENT(NAME)};

bool name_is_call(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (strcmp(names[i], name) == 0)
                        return true;
        }
        return false;
}

const char *name_nearest(const char *name)
{
        return text_nearest(name, names, ARRAY_SIZE(names));
}
