#include "node/config/folder.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "config/config.h"
#include "node/config/choice.h"

#define EMPTY "/dev/null"

static bool is_file(const char *folder, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);
        struct stat status;

        return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static int read_names(
        struct config_names *ret, DIR *entries, const char *folder, struct arena *arena, struct error *err)
{
        const char **names = ARENA_ARRAY(arena, const char *, CONFIG_FOLDER_MAX);
        const struct dirent *entry;
        size_t count = 0;

        while ((entry = readdir(entries))) {
                if (!config_name_counts(entry->d_name) || !is_file(folder, entry->d_name))
                        continue;
                if (count == CONFIG_FOLDER_MAX)
                        return error_set(err, ERROR_INVALID,
                                "'%s' has more than %zu files; it is to hold configurations only", folder,
                                CONFIG_FOLDER_MAX);
                names[count++] = arena_strdup(arena, entry->d_name);
        }
        qsort(names, count, sizeof(*names), text_compare);
        *ret = (struct config_names){names, count};
        return 0;
}

int config_folder_list(struct config_names *ret, const char *folder, struct arena *arena, struct error *err)
{
        DIR *entries = opendir(folder);
        int rc;

        if (!entries)
                return error_errno(err, errno, "open '%s'", folder);
        rc = read_names(ret, entries, folder, arena, err);
        closedir(entries);
        return rc;
}

int config_folder_read(const char *folder, const char *name, struct strbuf *content, struct error *err)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);

        return file_read(path, CONFIG_FILE_LIMIT, content, err);
}

/* ---- the destination ---- */

int config_place_read(const char *place, struct strbuf *content, struct error *err)
{
        struct stat status;

        if (stat(place, &status) < 0)
                return errno == ENOENT || errno == ENOTDIR ? CONFIG_PLACE_NOTHING
                                                           : error_errno(err, errno, "inspect '%s'", place);
        if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) /* /dev/null is the empty configuration */
                return error_set(err, ERROR_INVALID, "'%s' is not a regular file", place);
        return file_read(place, CONFIG_FILE_LIMIT, content, err);
}

/* Replaces what |place| is now, except a folder. */
static int turn_link(const char *place, const char *target, struct error *err)
{
        _free_ char *temporary = xasprintf("%s.%d.new", place, (int)getpid());
        int saved;

        unlink(temporary); /* left by a process that ended in between */
        if (symlink(target, temporary) < 0)
                return error_errno(err, errno, "make a link beside '%s'", place);
        if (rename(temporary, place) < 0) {
                saved = errno;
                unlink(temporary);
                return error_errno(err, saved, "replace '%s'", place);
        }
        return 0;
}

static bool leads_to(const char *place, const char *target)
{
        char now[PATH_MAX];
        ssize_t length = readlink(place, now, sizeof(now) - 1);

        return length > 0 && (size_t)length == strlen(target) && memcmp(now, target, (size_t)length) == 0;
}

static int folder_follow(const char *place, const char *target, struct error *err)
{
        return leads_to(place, target) ? 0 : turn_link(place, target, err);
}

/* A copy that cannot be removed does no harm. */
static void remove_copies(const char *folder, const char *but)
{
        DIR *entries = opendir(folder);
        const struct dirent *entry;

        if (!entries)
                return;
        while ((entry = readdir(entries)))
                if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                        (!but || strcmp(entry->d_name, but) != 0))
                        unlinkat(dirfd(entries), entry->d_name, 0);
        closedir(entries);
        if (!but)
                rmdir(folder);
}

int config_place_put(const char *place, const char *name, const struct strbuf *content, struct error *err)
{
        _free_ char *parent = file_folder(place);
        _free_ char *folder = xasprintf("%s/.%s.d", parent, file_base_name(place));
        _free_ char *copy = NULL;
        _free_ char *target = NULL;

        if (!name) {
                if (folder_follow(place, EMPTY, err) < 0)
                        return -1;
                remove_copies(folder, NULL);
                return 0;
        }
        copy = xasprintf("%s/%s", folder, name);
        target = xasprintf(".%s.d/%s", file_base_name(place), name);
        if (mkdir(folder, 0755) < 0 && errno != EEXIST)
                return error_errno(err, errno, "make the folder '%s'", folder);
        if (file_write(copy, content->data, content->size, err) < 0 || folder_follow(place, target, err) < 0)
                return -1;
        remove_copies(folder, name);
        return 0;
}
