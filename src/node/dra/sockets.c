#include "node/dra/sockets.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/io/unix_socket.h"

#define FIRST_END "-reg.sock" /* "<driver>[-<instance>]-reg.sock" */
#define SECOND_BEGIN "dra"    /* "dra[-<instance>].sock" */
#define SECOND_END ".sock"

/* ---- names ---- */

char *dra_sockets_directory(const char *plugins, const char *driver)
{
        return xasprintf("%s/%s", plugins, driver);
}

/* "-<instance>", for the caller to free. */
static char *tag_of(const char *instance)
{
        uint64_t sum = HASH_INIT;

        if (!instance)
                return xstrdup("");
        if (strlen(instance) <= DRA_SOCKETS_TAG_MAX)
                return xasprintf("-%s", instance);
        hash_add(&sum, instance, strlen(instance));
        return xasprintf("-%08" PRIx32, (uint32_t)(sum ^ sum >> 32));
}

void dra_sockets_init(
        struct dra_sockets *ret, const char *registry, const char *plugins, const char *driver, const char *instance)
{
        _free_ char *tag = tag_of(instance);

        ret->driver = xstrdup(driver);
        ret->registry = xstrdup(registry);
        ret->directory = dra_sockets_directory(plugins, driver);
        ret->first = xasprintf("%s/%s%s" FIRST_END, registry, driver, tag);
        ret->second = xasprintf("%s/" SECOND_BEGIN "%s" SECOND_END, ret->directory, tag);
        ret->has_instance = instance;
}

void dra_sockets_done(struct dra_sockets *sockets)
{
        free(sockets->driver);
        free(sockets->registry);
        free(sockets->directory);
        free(sockets->first);
        free(sockets->second);
}

/* "<begin>[-<instance>]<end>". */
static bool is_name_of_ours(const char *name, const char *begin, const char *end)
{
        size_t length = strlen(name);
        size_t n_begin = strlen(begin);
        size_t n_end = strlen(end);

        return length >= n_begin + n_end && strncmp(name, begin, n_begin) == 0 &&
               strcmp(name + length - n_end, end) == 0 && (length == n_begin + n_end || name[n_begin] == '-');
}

bool dra_sockets_is_first(const char *driver, const char *name)
{
        return is_name_of_ours(name, driver, FIRST_END);
}

bool dra_sockets_is_second(const char *driver UNUSED, const char *name)
{
        return is_name_of_ours(name, SECOND_BEGIN, SECOND_END);
}

/* The first file of the instance whose second file has the name |second|. */
static char *sockets_first_of(const struct dra_sockets *sockets, const char *second)
{
        const char *instance = second + strlen(SECOND_BEGIN);

        return xasprintf("%s/%s%.*s" FIRST_END, sockets->registry, sockets->driver,
                (int)(strlen(instance) - strlen(SECOND_END)), instance);
}

/* The second file of the instance whose first file has the name |first|. */
static char *second_of(const struct dra_sockets *sockets, const char *first)
{
        const char *instance = first + strlen(sockets->driver);

        return xasprintf("%s/" SECOND_BEGIN "%.*s" SECOND_END, sockets->directory,
                (int)(strlen(instance) - strlen(FIRST_END)), instance);
}

/* ---- what others have ---- */

/* The first or the second files of all instances. */
struct files {
        const char *directory;
        const char *begin;
        const char *end;
        const char *own;
};

static struct files first_files(const struct dra_sockets *sockets)
{
        return (struct files){sockets->registry, sockets->driver, FIRST_END, sockets->first};
}

static struct files second_files(const struct dra_sockets *sockets)
{
        return (struct files){sockets->directory, SECOND_BEGIN, SECOND_END, sockets->second};
}

/* The next one of another instance: its path, for the caller to free. NULL: there is none. Accepts NULL. */
static char *next_other(DIR *opened, const struct files *files, struct stat *ret_status)
{
        const struct dirent *entry;

        while (opened && (entry = readdir(opened))) {
                _free_ char *path = NULL;

                if (!is_name_of_ours(entry->d_name, files->begin, files->end))
                        continue;
                path = xasprintf("%s/%s", files->directory, entry->d_name);
                if (strcmp(path, files->own) != 0 && lstat(path, ret_status) == 0)
                        return TAKE_PTR(path);
        }
        return NULL;
}

static void close_directory(DIR **opened)
{
        if (*opened)
                closedir(*opened);
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* NULL: none. */
static char *find_successor(const struct dra_sockets *sockets)
{
        struct files files = second_files(sockets);
        _cleanup_(close_directory) DIR *opened = opendir(files.directory);
        struct stat own;
        struct stat status;
        char *found;

        if (lstat(sockets->second, &own) < 0)
                return NULL;
        while ((found = next_other(opened, &files, &status))) {
                if (S_ISSOCK(status.st_mode) && is_newer(&status.st_mtim, &own.st_mtim) && reach_socket(found) == 0)
                        return found;
                free(found);
        }
        return NULL;
}

bool dra_sockets_hand_over(const struct dra_sockets *sockets)
{
        _free_ char *successor = sockets->has_instance ? find_successor(sockets) : NULL;
        _free_ char *link = NULL;

        if (!successor)
                return false;
        link = xasprintf("%s.link", sockets->second);
        unlink(link);
        if (symlink(file_base_name(successor), link) < 0 || rename(link, sockets->second) < 0) {
                log_warn("cannot hand kubelet over to the next instance", LOG_STR("link", sockets->second),
                        LOG_STR("error", strerror(errno)));
                return false;
        }
        return true;
}

/* ---- what others have left ---- */

static bool is_older(const struct stat *status, int seconds)
{
        return status->st_mtim.tv_sec + seconds <= clock_unix_us() / 1000000;
}

static void remove_left(const char *path)
{
        if (unlink(path) == 0)
                log_info("removed the socket of an instance that is gone", LOG_STR("socket", path));
}

static void remove_if_stale(const char *path, const struct stat *status)
{
        if (S_ISSOCK(status->st_mode) && is_older(status, DRA_SOCKETS_STALE_S) && reach_socket(path) == ECONNREFUSED)
                remove_left(path);
}

/* The first file at |path| is of an instance that has handed over. */
static bool has_handed_over(const struct dra_sockets *sockets, const char *path)
{
        _free_ char *second = second_of(sockets, file_base_name(path));
        struct stat status;

        return lstat(second, &status) == 0 && S_ISLNK(status.st_mode);
}

static void tidy_first(const struct dra_sockets *sockets)
{
        struct files files = first_files(sockets);
        _cleanup_(close_directory) DIR *opened = opendir(files.directory);
        struct stat status;
        char *path;

        while ((path = next_other(opened, &files, &status))) {
                if (!has_handed_over(sockets, path))
                        remove_if_stale(path, &status);
                free(path);
        }
}

static void tidy_second(const struct dra_sockets *sockets)
{
        struct files files = second_files(sockets);
        _cleanup_(close_directory) DIR *opened = opendir(files.directory);
        struct stat status;
        char *path;

        while ((path = next_other(opened, &files, &status))) {
                if (S_ISLNK(status.st_mode) && is_older(&status, DRA_SOCKETS_HANDED_OVER_S)) {
                        _free_ char *first = sockets_first_of(sockets, file_base_name(path));

                        remove_left(first); /* before the link: kubelet ends with the instance that it has by this */
                        remove_left(path);
                } else {
                        remove_if_stale(path, &status);
                }
                free(path);
        }
}

void dra_sockets_tidy(const struct dra_sockets *sockets)
{
        tidy_first(sockets);
        tidy_second(sockets);
}
