// SPDX-License-Identifier: Apache-2.0
/*
 * Empties a folder in which others may write, and may be at work: a tenant's.
 *
 * Its time is bounded by the caller, in slices, and by nothing else, such as a depth of folders. A slice is longer by
 * one file's end: a fifth of a second for 1 GiB of memory. Few descriptors are open. A folder below SWEEP_LEVELS others
 * is moved to the top under a name of its own, and is emptied from there; what stays in it is found there afterwards.
 *
 * No link is followed, and nothing is touched that is mounted there, even if folders are moved meanwhile: each folder
 * is opened by its name in the one above, which is open (file_open_below()), and has to be the one that was looked at.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"

#define SWEEP_LEVELS 16U

struct sweep;

/*
 * Must it stay? Each file and folder is looked at once, before anything in it is touched. A folder in which something
 * stays is kept, too.
 */
typedef bool sweep_keeps_fn(const struct stat *status, void *data);

/* Takes |folder|, a descriptor. |keeps| NULL: nothing has to stay. */
struct sweep *sweep_new(int folder, sweep_keeps_fn *keeps, void *data);

/* Goes on for |ms|, 0: one step. True: there is nothing more to do. */
bool sweep_run(struct sweep *sweep, unsigned int ms) MUST_USE;

/* How many files and folders are gone. */
size_t sweep_removed(const struct sweep *sweep);

/* Accepts NULL, returns NULL. */
struct sweep *sweep_free(struct sweep *sweep);

/*
 * For commands. Removes the folder |name| of the open folder |above| with all that is in it; messages call it |path|.
 * ERROR_TIMEOUT: after |ms| it is not empty; call it again. ERROR_INVALID: it is not a folder, or something is mounted
 * in it. ERROR_NOT_FOUND: it does not exist.
 */
int sweep_folder(int above, const char *name, const char *path, unsigned int ms, struct error *err) MUST_USE;

/* The same, but the folder itself stays, empty. */
int sweep_content(int above, const char *name, const char *path, unsigned int ms, struct error *err) MUST_USE;
