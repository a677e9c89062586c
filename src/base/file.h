/*
 * Whole files: read with a cap, write so that a reader sees the old or the new content and nothing between.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/strbuf.h"

/* Appends the content of |path| to |content|. More than |limit| bytes is an error that names the size limit. */
int file_read(const char *path, size_t limit, struct strbuf *content, struct error *err) MUST_USE;

/* The folder of |path|, for the caller to free: "." and "/" where there is no more of it. */
char *file_folder(const char *path);

/* What comes after the last slash; points into |path|. */
const char *file_base_name(const char *path);

/* Makes |path| a folder, and every folder that it is in: what is missing of them, with mode 0755. */
int file_make_folder(const char *path, struct error *err) MUST_USE;

/* Writes to a temporary file beside |path|, hidden by a dot, and renames it. The mode of a new file is 0644. */
int file_write(const char *path, const void *content, size_t size, struct error *err) MUST_USE;
/* The same for what nobody else has to read: 0600, also where the file before had another mode. */
int file_write_private(const char *path, const void *content, size_t size, struct error *err) MUST_USE;
/* As file_write_private(), and on the disk when it returns: file and folder are synced. */
int file_write_durable(const char *path, const void *content, size_t size, struct error *err) MUST_USE;
/*
 * Reads it as file_read(), and takes from others the right to read what an older release left to them, where that can be done. A link in
 * the place of the file is an error.
 */
int file_read_private(const char *path, size_t limit, struct strbuf *content, struct error *err) MUST_USE;
