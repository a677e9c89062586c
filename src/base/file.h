// SPDX-License-Identifier: Apache-2.0
/* Whole files: read with a limit, written so that a reader sees either the old or the new content. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/strbuf.h"

/* Appends the content of |path| to |content|. More than |limit| bytes is an error that names the size limit. */
int file_read(const char *path, size_t limit, struct strbuf *content, struct error *err) MUST_USE;

/* The folder of |path|, for the caller to free: "/run" for "/run/x", "." for "x", "/" for "/x". */
char *file_folder(const char *path);

/* The part after the last slash; points into |path|. */
const char *file_base_name(const char *path);

/* Both paths lead to the same file or folder: device and inode are equal. */
bool file_is_at_both(const char *a, const char *b);

/* |path| leads to this file or folder; also where that cannot be found out now, for want of memory for example. */
bool file_is_still(const char *path, dev_t device, ino_t inode);

/*
 * Two marks of a file differ if it was replaced or changed; nothing of it is read. The inode alone does not show that:
 * file systems give the number of a file just removed to the next one. All zeros: the file does not exist.
 */
struct file_mark {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec modified;
        struct timespec changed;
};

struct file_mark file_mark_of(const struct stat *status);
/* The mark of |path| itself, also where that is a link; that of no file where it cannot be seen. */
struct file_mark file_mark_at(const char *path);
static inline bool file_mark_exists(const struct file_mark *mark)
{
        return mark->inode != 0;
}
bool file_mark_is_same(const struct file_mark *a, const struct file_mark *b);

/*
 * |path| leads to a folder that was removed, as a mount does whose source was removed on the host: nothing can be made
 * in it. For an instant that is so of each folder that is being removed.
 */
bool file_is_removed_folder(const char *path);

/*
 * Opens the entry |name| of the open folder |above|, close-on-exec, where others may write in that folder and be at
 * work: no link is followed, and nothing is opened that is mounted there (EXDEV), be it of the same file system. |name|
 * contains no slash. Returns -1 with errno.
 */
int file_open_below(int above, const char *name, int flags) MUST_USE;

/*
 * Closes all descriptors from |first| on; |at_exec|: when another program is executed, not now. Also on a kernel that
 * has no close_range(), or not for that (before 5.11).
 */
void file_close_from(int first, bool at_exec);

/* Creates the folder |path| and its parents as far as they are missing, with mode 0755, independent of the umask. */
int file_make_folder(const char *path, struct error *err) MUST_USE;

/* Writes to a temporary file beside |path|, hidden by a dot, and renames it. The mode of a new file is 0644. */
int file_write(const char *path, const void *content, size_t size, struct error *err) MUST_USE;
/* The same for a file that only its owner may read: the mode is 0600, even if the old file had another one. */
int file_write_private(const char *path, const void *content, size_t size, struct error *err) MUST_USE;
/* As file_write_private(); syncs file and folder, so that the content is on the disk on return. */
int file_write_durable(const char *path, const void *content, size_t size, struct error *err) MUST_USE;
/*
 * Reads a file as file_read() does, and sets its mode to 0600 if possible: an older release wrote such files with mode
 * 0644. If |path| is a symbolic link, that is an error.
 */
int file_read_private(const char *path, size_t limit, struct strbuf *content, struct error *err) MUST_USE;
