// SPDX-License-Identifier: Apache-2.0
/*
 * Reads config.toml of NVIDIA's container toolkit as far as it says by which of its ways a container asks for GPUs. Of
 * TOML (1.0) it knows what can stand at the top level on one line; nothing else of the file is read. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define TOOLKIT_ENVVAR "accept-nvidia-visible-devices-envvar-when-unprivileged"
#define TOOLKIT_MOUNTS "accept-nvidia-visible-devices-as-volume-mounts"

struct toolkit_config {
        bool takes_envvar; /* TOOLKIT_ENVVAR: of every container; else of those alone that have CAP_SYS_ADMIN */
        bool says_envvar;  /* it is there; else the toolkit's default counts, which is true */
        bool takes_mounts; /* TOOLKIT_MOUNTS; the default is false */
};

/*
 * ERROR_INVALID: a line before the first table is not TOML, continues in the next line, sets one of the two keys to
 * something else than true or false, or sets it again. Then it is not known which value counts.
 */
int toolkit_config_read(struct toolkit_config *ret, const char *text, struct error *err) MUST_USE;
