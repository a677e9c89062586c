#include "dra/sockets.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "io/reach.h"

#define FIRST_END "-reg.sock" /* "<driver>[-<instance>]-reg.sock" */
#define SECOND_BEGIN "dra"    /* "dra[-<instance>].sock" */
#define SECOND_END ".sock"

/* ---- names ---- */

char *dra_sockets_directory(const char *plugins, const char *driver)
{
        return xasprintf("%s/%s", plugins, driver);
}

void dra_sockets_init(struct dra_sockets *ret, const char *registry, const char *plugins, const char *driver,
        const char *instance)
{
        const char *dash = instance ? "-" : "";

        ret->driver = xstrdup(driver);
        ret->registry = xstrdup(registry);
        ret->directory = dra_sockets_directory(plugins, driver);
        ret->first = xasprintf("%s/%s%s%s" FIRST_END, registry, driver, dash, instance ? instance : "");
        ret->second = xasprintf("%s/" SECOND_BEGIN "%s%s" SECOND_END, ret->directory, dash, instance ? instance : "");
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

/* The first file of the instance that has the second file |name|. */
static char *first_of(const struct dra_sockets *sockets, const char *name)
{
        const char *instance = name + strlen(SECOND_BEGIN);

        return xasprintf("%s/%s%.*s" FIRST_END, sockets->registry, sockets->driver,
                (int)(strlen(instance) - strlen(SECOND_END)), instance);
}

/* ---- what others have ---- */

/* False: nothing is left. The |path| is for the caller to free. */
static bool next_of_ours(DIR *opened, const char *directory, const char *begin, const char *end, const char *own,
        char **ret_path, struct stat *ret_status)
{
        const struct dirent *entry;

        while ((entry = readdir(opened))) {
                _free_ char *path = NULL;

                if (!is_name_of_ours(entry->d_name, begin, end))
                        continue;
                path = xasprintf("%s/%s", directory, entry->d_name);
                if (strcmp(path, own) == 0 || lstat(path, ret_status) < 0)
                        continue;
                *ret_path = TAKE_PTR(path);
                return true;
        }
        return false;
}

static const char *name_of(const char *path)
{
        return strrchr(path, '/') + 1;
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec > b->tv_nsec);
}

/* NULL: none. */
static char *find_successor(const struct dra_sockets *sockets)
{
        DIR *opened = opendir(sockets->directory);
        char *found = NULL;
        struct stat own;
        struct stat status;

        if (!opened)
                return NULL;
        while (!found && lstat(sockets->second, &own) == 0 &&
                next_of_ours(opened, sockets->directory, SECOND_BEGIN, SECOND_END, sockets->second, &found, &status)) {
                if (!S_ISSOCK(status.st_mode) || !is_newer(&status.st_mtim, &own.st_mtim) || reach_socket(found) != 0)
                        free(TAKE_PTR(found));
        }
        closedir(opened);
        return found;
}

bool dra_sockets_hand_over(const struct dra_sockets *sockets)
{
        _free_ char *successor = sockets->has_instance ? find_successor(sockets) : NULL;
        _free_ char *link = NULL;

        if (!successor)
                return false;
        link = xasprintf("%s.link", sockets->second);
        unlink(link);
        if (symlink(name_of(successor), link) < 0 || rename(link, sockets->second) < 0) {
                log_warn("cannot hand kubelet over to the next instance", LOG_STR("link", sockets->second),
                        LOG_STR("error", strerror(errno)));
                return false;
        }
        return true;
}

/* ---- what others have left ---- */

static bool is_older(const struct stat *status, int seconds)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return status->st_mtim.tv_sec + seconds <= now.tv_sec;
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
        const char *instance = name_of(path) + strlen(sockets->driver);
        _free_ char *second = xasprintf("%s/" SECOND_BEGIN "%.*s" SECOND_END, sockets->directory,
                (int)(strlen(instance) - strlen(FIRST_END)), instance);
        struct stat status;

        return lstat(second, &status) == 0 && S_ISLNK(status.st_mode);
}

static void tidy_first(const struct dra_sockets *sockets)
{
        DIR *opened = opendir(sockets->registry);
        struct stat status;
        char *path;

        if (!opened)
                return;
        while (next_of_ours(opened, sockets->registry, sockets->driver, FIRST_END, sockets->first, &path, &status)) {
                if (!has_handed_over(sockets, path))
                        remove_if_stale(path, &status);
                free(path);
        }
        closedir(opened);
}

static void tidy_second(const struct dra_sockets *sockets)
{
        DIR *opened = opendir(sockets->directory);
        struct stat status;
        char *path;

        if (!opened)
                return;
        while (next_of_ours(opened, sockets->directory, SECOND_BEGIN, SECOND_END, sockets->second, &path, &status)) {
                if (S_ISLNK(status.st_mode) && is_older(&status, DRA_SOCKETS_HANDED_OVER_S)) {
                        _free_ char *first = first_of(sockets, name_of(path));

                        remove_left(first); /* before the link: kubelet ends with the instance that it has by this */
                        remove_left(path);
                } else {
                        remove_if_stale(path, &status);
                }
                free(path);
        }
        closedir(opened);
}

void dra_sockets_tidy(const struct dra_sockets *sockets)
{
        tidy_first(sockets);
        tidy_second(sockets);
}
