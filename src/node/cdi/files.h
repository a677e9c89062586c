// SPDX-License-Identifier: Apache-2.0
/*
 * The files that this process has written to the folder of CDI specifications. Containers cannot start or restart while
 * one of them is missing, and other programs write and remove files there. So their content is remembered, and a file
 * that was changed or removed is written again.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"

struct cdi_files;

struct cdi_files *cdi_files_new(void);
struct cdi_files *cdi_files_free(struct cdi_files *files); /* accepts NULL, returns NULL */

/*
 * Makes the file have |content|, by a rename, and remembers it; its folder is created if it is missing. A file that has
 * the content already is not written, because runtimes watch the folder, and read all files again after each change.
 * |files| NULL: nothing is remembered.
 */
int cdi_files_write(
        struct cdi_files *files, const char *path, const struct strbuf *content, struct error *err) MUST_USE;

/* Removes the file, and forgets it; succeeds if there is none. |files| may be NULL. */
int cdi_files_remove(struct cdi_files *files, const char *path, struct error *err) MUST_USE;

/* The content that was written to |path| last; valid until the next call. NULL: none. |files| may be NULL. */
const struct strbuf *cdi_files_find(const struct cdi_files *files, const char *path);

/* Forgets all: another process writes them from now on. */
void cdi_files_forget(struct cdi_files *files);

/*
 * Writes again what is missing or was changed, and logs each. Returns how many these were, or -1 if one of them cannot
 * be written; the others are written nevertheless. A file that has not changed since costs one lstat().
 */
int cdi_files_repair(struct cdi_files *files, struct error *err) MUST_USE;
