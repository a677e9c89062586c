/*
 * The program of the hooks, on the host: which hooks it knows. A runtime creates no container if the program ends with
 * "No help topic for '…'", as one of an older NVIDIA container toolkit does. The program is not run: the name of each of
 * its subcommands is in its bytes (it is one file, in Go).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "node/cdi/roots.h"

#define HOOK_PROGRAM_LIMIT ((size_t)256 * 1024 * 1024)

/*
 * The program with this path on the host as this process sees it: below the driver's root, with links resolved, and
 * where it is a script, the program with ".real" behind its name, as the toolkit's container installs both. NULL: it is
 * not in sight.
 */
const char *hook_program_find(const struct roots *roots, struct arena *arena, const char *host_path);

/* Whether the file has each of |names|; false if it cannot be read, or is larger than HOOK_PROGRAM_LIMIT. */
bool hook_program_read(const char *path, const char *const *names, size_t n_names, bool *ret_has);
