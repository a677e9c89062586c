/* The id of a boot: a record that has another one was written before the node was started last. */
#pragma once

#include "base/error.h"
#include "base/macro.h"

#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

/* Reads the id, "6f1c3d3e-…", from the first line of the file |path|; for the caller to free. */
int boot_id_read(char **ret, const char *path, struct error *err) MUST_USE;
