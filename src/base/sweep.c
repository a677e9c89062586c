// SPDX-License-Identifier: Apache-2.0
/*
 * Folders are walked depth first, without recursion, so that a slice can end at any entry. Those that were moved to the
 * top are counted, not listed: their names follow from their numbers. They come first, as soon as no other folder is
 * open, so |keeps| is not asked again about a folder whose times the move has changed.
 */
#include "base/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"

#define ASIDE ".left-%016" PRIx64 "-%u"

struct level {
        DIR *folder;
        char name[NAME_MAX + 1]; /* in the level above */
};

struct sweep {
        struct level levels[SWEEP_LEVELS];
        unsigned int depth; /* levels that are open */
        dev_t device;
        sweep_keeps_fn *keeps;
        void *data;
        uint64_t tag; /* in the names of folders at the top */
        unsigned int n_aside;
        unsigned int n_entered; /* of |n_aside| */
        size_t removed;
        bool met_mount; /* something is mounted there, and was not touched */
};

static struct level *innermost(struct sweep *sweep)
{
        return &sweep->levels[sweep->depth - 1];
}

static void remove_name(struct sweep *sweep, int above, const char *name, int flags)
{
        sweep->removed += unlinkat(above, name, flags) == 0;
}

/* ---- folders ---- */

/* |expected| NULL: any of the same file system. */
static void sweep_enter(struct sweep *sweep, const char *name, const struct stat *expected)
{
        const int above = dirfd(innermost(sweep)->folder);
        _close_ int fd = file_open_below(above, name, O_RDONLY | O_DIRECTORY);
        struct level *level = &sweep->levels[sweep->depth];
        struct stat status;

        sweep->met_mount = sweep->met_mount || (fd < 0 && errno == EXDEV);
        if (fd < 0 || fstat(fd, &status) < 0 || (expected && status.st_ino != expected->st_ino))
                return;
        level->folder = fdopendir(fd);
        if (!level->folder)
                return;
        TAKE_FD(fd);
        snprintf(level->name, sizeof(level->name), "%s", name);
        sweep->depth++;
}

static void leave(struct sweep *sweep)
{
        struct level *level = innermost(sweep);

        closedir(level->folder);
        sweep->depth--;
        if (sweep->depth > 0)
                remove_name(sweep, dirfd(innermost(sweep)->folder), level->name, AT_REMOVEDIR);
}

static void move_to_the_top(struct sweep *sweep, int above, const char *name)
{
        char aside[NAME_MAX + 1];

        snprintf(aside, sizeof(aside), ASIDE, sweep->tag, sweep->n_aside);
        if (renameat2(above, name, dirfd(sweep->levels[0].folder), aside, RENAME_NOREPLACE) == 0)
                sweep->n_aside++;
}

static void enter_next_aside(struct sweep *sweep)
{
        char aside[NAME_MAX + 1];

        snprintf(aside, sizeof(aside), ASIDE, sweep->tag, sweep->n_entered++);
        sweep_enter(sweep, aside, NULL);
}

static void remove_folder(struct sweep *sweep, const char *name, const struct stat *status)
{
        const int above = dirfd(innermost(sweep)->folder);

        if (unlinkat(above, name, AT_REMOVEDIR) == 0)
                sweep->removed++;
        else if (sweep->depth == SWEEP_LEVELS)
                move_to_the_top(sweep, above, name);
        else
                sweep_enter(sweep, name, status);
}

static void remove_entry(struct sweep *sweep, const char *name)
{
        const int above = dirfd(innermost(sweep)->folder);
        struct stat status;

        if (fstatat(above, name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0)
                return;
        if (status.st_dev != sweep->device)
                sweep->met_mount = true;
        if (status.st_dev != sweep->device || (sweep->keeps && sweep->keeps(&status, sweep->data)))
                return;
        if (S_ISDIR(status.st_mode))
                remove_folder(sweep, name, &status);
        else
                remove_name(sweep, above, name, 0);
}

/* A folder that was moved, and that is emptied by its number. */
static bool is_aside(const struct sweep *sweep, const char *name)
{
        char tag[NAME_MAX + 1];

        return sscanf(name, ".left-%16[0-9a-f]-", tag) == 1 && strtoull(tag, NULL, 16) == sweep->tag;
}

/* False: nothing is left to do. */
static bool step(struct sweep *sweep)
{
        const struct dirent *entry;

        if (sweep->depth == 1 && sweep->n_entered < sweep->n_aside) {
                enter_next_aside(sweep);
                return true;
        }
        entry = readdir(innermost(sweep)->folder);
        if (!entry && sweep->depth == 1)
                return false;
        if (!entry)
                leave(sweep);
        else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && !is_aside(sweep, entry->d_name))
                remove_entry(sweep, entry->d_name);
        return true;
}

/* ---- the whole ---- */

bool sweep_run(struct sweep *sweep, unsigned int ms)
{
        const uint64_t until = clock_now_ms() + ms;
        bool has_more;

        do
                has_more = sweep->depth > 0 && step(sweep);
        while (has_more && clock_now_ms() < until);
        return !has_more;
}

struct sweep *sweep_new(int folder, sweep_keeps_fn *keeps, void *data)
{
        struct sweep *sweep = xcalloc(1, sizeof(*sweep));
        struct stat status;

        sweep->keeps = keeps;
        sweep->data = data;
        if (getrandom(&sweep->tag, sizeof(sweep->tag), GRND_NONBLOCK) < 0)
                sweep->tag = (uint64_t)getpid() << 32 | clock_now_ms();
        if (fstat(folder, &status) == 0 && (sweep->levels[0].folder = fdopendir(folder))) {
                sweep->device = status.st_dev;
                sweep->depth = 1;
        } else {
                close(folder);
        }
        return sweep;
}

size_t sweep_removed(const struct sweep *sweep)
{
        return sweep->removed;
}

struct sweep *sweep_free(struct sweep *sweep)
{
        if (!sweep)
                return NULL;
        while (sweep->depth > 0)
                closedir(sweep->levels[--sweep->depth].folder);
        free(sweep);
        return NULL;
}

static int raise_mount(struct error *err, const char *path)
{
        return error_set(err, ERROR_INVALID,
                "something is mounted in '%s': unmount it, and run this again; the rest of it is removed", path);
}

int sweep_content(int above, const char *name, const char *path, unsigned int ms, struct error *err)
{
        const int fd = file_open_below(above, name, O_RDONLY | O_DIRECTORY);
        struct sweep *sweep;
        bool met_mount;
        bool is_over;

        if (fd < 0)
                return errno == EXDEV ? raise_mount(err, path) : error_errno(err, errno, "open '%s'", path);
        sweep = sweep_new(fd, NULL, NULL);
        is_over = sweep_run(sweep, ms);
        met_mount = sweep->met_mount;
        sweep_free(sweep);
        if (!is_over)
                return error_set(err, ERROR_TIMEOUT, "'%s' is not empty after %u s; run this again", path, ms / 1000);
        return met_mount ? raise_mount(err, path) : 0;
}

int sweep_folder(int above, const char *name, const char *path, unsigned int ms, struct error *err)
{
        if (sweep_content(above, name, path, ms, err) < 0)
                return -1;
        if (unlinkat(above, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
                return error_errno(err, errno, "remove '%s'", path);
        return 0;
}
