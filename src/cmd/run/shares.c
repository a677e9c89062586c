// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/shares.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/data/json_fields.h"
#include "plan/share.h"

#define UNITS_LIMIT ((size_t)1024 * 1024)
#define SHARE_LIMIT ((size_t)4096)
#define SUFFIX ".json"

/* ---- JSON ---- */

static bool is_line(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return false;
        return true;
}

static bool shares_is_daemon(const char *text)
{
        return is_line(text) && text[0] != '/' && text[0] != '.' && !strstr(text, "/.");
}

static const struct json_text any = {.is = is_line, .most = 256, .must = "one line of at most", .is_repaired = true};
static const struct json_text path = {
        .is = shares_is_daemon, .most = 256, .must = "a path below the MPS root of at most"};

static const struct json_field unit_fields[] = {
        JSON_TEXT("uuid", struct run_unit, uuid, any, .is_needed = true),
        JSON_TEXT("index", struct run_unit, index, any, .is_needed = true),
        JSON_TEXT("name", struct run_unit, name, any, .is_needed = true),
        JSON_TEXT("daemon", struct run_unit, daemon, path, .is_needed = true),
        JSON_TEXT("problem", struct run_unit, problem, any),
        JSON_UINT("memoryBytes", struct run_unit, memory_bytes, 0, INT64_MAX),
        JSON_UINT("memoryMib", struct run_unit, memory_mib, 0, UINT32_MAX),
        JSON_UINT("mostMib", struct run_unit, most_mib, 0, UINT32_MAX),
        JSON_UINT("mostPermille", struct run_unit, most_permille, 1, 1000),
};
static const struct json_shape unit_shape = JSON_SHAPE(struct run_unit, unit_fields);

static const struct json_field units_fields[] = {
        JSON_ITEMS("units", struct run_units, units, n_units, unit_shape, 0, RUN_UNITS_MAX),
};
static const struct json_shape units_shape = JSON_SHAPE(struct run_units, units_fields);

static const struct json_field share_fields[] = {
        JSON_TEXT("unit", struct run_share, unit, any, .is_needed = true),
        JSON_UINT("threadsPermille", struct run_share, threads_permille, 1, 1000),
        JSON_UINT("memoryMib", struct run_share, memory_mib, 0, UINT32_MAX),
        JSON_INT("pid", struct run_share, pid, 1, INT32_MAX),
        JSON_TEXT("program", struct run_share, program, any),
};
static const struct json_shape share_shape = JSON_SHAPE(struct run_share, share_fields);

static int shares_take(
        const char *text, size_t size, struct arena *arena, const struct json_shape *shape, void *to, struct error *err)
{
        struct json_in in = {.arena = arena, .err = err};
        json_t *root = json_fields_load(&in, text, size);

        json_fields_take(&in, root, shape, to);
        json_decref(root);
        return in.is_bad ? -1 : 0;
}

static char *shares_print(const struct json_shape *shape, const void *from)
{
        json_t *object = json_object();

        json_fields_put(object, shape, from);
        return json_fields_print(object, JSON_COMPACT);
}

/* ---- pure ---- */

uint64_t run_memory_mib(const struct run_unit *unit, const struct run_share *request)
{
        return request->memory_mib ? request->memory_mib : unit->memory_mib * request->threads_permille / 1000;
}

void run_sum(const struct run_unit *unit, const struct run_share *held, size_t n_held, unsigned int *ret_permille,
        uint64_t *ret_mib)
{
        *ret_permille = 0;
        *ret_mib = 0;
        for (size_t i = 0; i < n_held; i++)
                if (strcmp(held[i].unit, unit->uuid) == 0) {
                        *ret_permille += held[i].threads_permille;
                        *ret_mib += held[i].memory_mib;
                }
}

/* Whether |unit| could hold |request| without any other share. */
static bool shares_can_hold(const struct run_unit *unit, const struct run_share *request)
{
        uint64_t wanted = run_memory_mib(unit, request);

        if (request->threads_permille > unit->most_permille || (unit->most_mib && wanted > unit->most_mib))
                return false;
        return !unit->memory_mib || (wanted >= SHARE_LEAST_MIB && wanted <= unit->memory_mib);
}

/* Computes what is left of |unit|; false: too little for |request|. */
static bool shares_has_room(const struct run_unit *unit, const struct run_share *held, size_t n_held,
        const struct run_share *request, unsigned int *ret_permille, uint64_t *ret_mib)
{
        unsigned int permille;
        uint64_t mib;

        run_sum(unit, held, n_held, &permille, &mib);
        *ret_permille = permille < 1000 ? 1000 - permille : 0;
        *ret_mib = mib < unit->memory_mib ? unit->memory_mib - mib : 0;
        return shares_can_hold(unit, request) && request->threads_permille <= *ret_permille &&
               (!unit->memory_mib || run_memory_mib(unit, request) <= *ret_mib);
}

static bool is_asked_for(const struct run_unit *unit, const struct run_share *request)
{
        return !request->unit || strcmp(request->unit, unit->uuid) == 0 || strcmp(request->unit, unit->index) == 0;
}

/* Says that |request| is more memory than |unit| has at all, or less than a CUDA program needs. */
static void shares_print_size(struct strbuf *text, const struct run_unit *unit, const struct run_share *request)
{
        const uint64_t wanted = run_memory_mib(unit, request);

        if (unit->memory_mib && wanted > unit->memory_mib)
                strbuf_printf(
                        text, ", %" PRIu64 " MiB in all, and %" PRIu64 " are asked for", unit->memory_mib, wanted);
        else if (unit->memory_mib && wanted < SHARE_LEAST_MIB)
                strbuf_printf(text,
                        ", and the share would have %" PRIu64 " MiB, but a CUDA program needs %" PRIu64
                        ": --memory %" PRIu64 "Mi gives it these",
                        wanted, SHARE_LEAST_MIB, SHARE_LEAST_MIB);
}

const struct run_unit *run_choose(const struct run_units *units, const struct run_share *held, size_t n_held,
        const struct run_share *request, struct error *err)
{
        struct strbuf left = STRBUF_INIT;
        const struct run_unit *best = NULL;
        unsigned int least = 0;
        bool is_there = false;
        bool is_possible = false;

        for (size_t i = 0; i < units->n_units; i++) {
                const struct run_unit *unit = &units->units[i];
                unsigned int permille;
                uint64_t mib;

                if (!is_asked_for(unit, request))
                        continue;
                is_there = true;
                is_possible = is_possible || shares_can_hold(unit, request);
                if (!unit->is_ready) {
                        strbuf_printf(&left, "; the MPS daemon of GPU %s is not ready", unit->index);
                        if (unit->problem)
                                strbuf_printf(&left, " (%s)", unit->problem);
                        shares_print_size(&left, unit, request);
                        continue;
                }
                if (shares_has_room(unit, held, n_held, request, &permille, &mib)) {
                        if (!best || permille < least) {
                                best = unit;
                                least = permille;
                        }
                        continue;
                }
                strbuf_printf(&left, "; GPU %s has %u.%u %% and %" PRIu64 " MiB left", unit->index, permille / 10,
                        permille % 10, mib);
                if (unit->most_permille < 1000)
                        strbuf_printf(&left, ", one program at most %u.%u %%", unit->most_permille / 10,
                                unit->most_permille % 10);
                if (unit->most_mib && unit->most_mib < unit->memory_mib)
                        strbuf_printf(&left, ", one program at most %" PRIu64 " MiB", unit->most_mib);
                shares_print_size(&left, unit, request);
        }
        if (!is_there && request->unit)
                error_raise(err, ERROR_NOT_FOUND,
                        "GPU '%.64s' is not shared here; 'warpshare run --show' lists those that are", request->unit);
        else if (!is_there)
                error_raise(err, ERROR_NOT_FOUND, "no GPU is shared here");
        else if (!is_possible)
                error_raise(err, ERROR_INVALID, "no GPU can ever have such a share%s", left.data);
        else if (!best)
                error_raise(err, ERROR_EXHAUSTED, "no room%s", left.data);
        strbuf_done(&left);
        return best;
}

/* ---- files ---- */

int run_units_read(struct run_units *ret, struct arena *arena, const char *root, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *name = arena_printf(arena, "%s/" RUN_UNITS_NAME, root);

        if (access(name, F_OK) < 0 && errno == ENOENT)
                return error_set(err, ERROR_UNAVAILABLE,
                        "no GPU is shared by '%s': start 'warpshare mps --standalone' as root, or name its folder by "
                        "--mps-directory",
                        root);
        if (file_read(name, UNITS_LIMIT, &text, err) < 0)
                return -1;
        if (shares_take(text.data, text.size, arena, &units_shape, ret, err) < 0)
                return error_prefix(err, "%s", name);
        for (size_t i = 0; i < ret->n_units; i++)
                ret->units[i].is_ready =
                        access(arena_printf(arena, "%s/%s/.started", root, ret->units[i].daemon), F_OK) == 0;
        return 0;
}

int run_units_write(const struct run_units *units, const char *root, struct error *err)
{
        _free_ char *shares = xasprintf("%s/" RUN_SHARES_NAME, root);
        _free_ char *name = xasprintf("%s/" RUN_UNITS_NAME, root);
        _free_ char *text = shares_print(&units_shape, units);

        if (mkdir(shares, 0755) < 0 && errno != EEXIST)
                return error_errno(err, errno, "make '%s'", shares);
        if (chmod(shares, 01777) < 0)
                return error_errno(err, errno, "open '%s' to all users", shares);
        return file_write(name, text, strlen(text), err);
}

int run_shares_lock(struct lock *lock, const char *root, struct error *err)
{
        _free_ char *shares = xasprintf("%s/" RUN_SHARES_NAME, root);
        int rc = lock_take_within(lock, shares, RUN_LOCK_MS, err);

        if (rc == LOCK_BUSY)
                return error_set(err, ERROR_TIMEOUT, "somebody has held the lock of '%s' for %u s; 'fuser %s' says who",
                        shares, RUN_LOCK_MS / 1000, shares);
        return rc;
}

/* 1: the file is a share that is held; 0: it is none, and means nothing. */
static int read_share(struct run_share *ret, struct arena *arena, int folder, const char *name)
{
        _close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        char text[SHARE_LIMIT];
        struct error ignored;
        struct stat is;
        ssize_t size;

        if (fd < 0 || fstat(fd, &is) < 0 || !S_ISREG(is.st_mode))
                return 0;
        if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
                unlinkat(folder, name, 0); /* the program that had it has ended */
                return 0;
        }
        size = pread(fd, text, sizeof(text), 0);
        if (size <= 0 || shares_take(text, (size_t)size, arena, &share_shape, ret, &ignored) < 0)
                return 0;
        ret->uid = is.st_uid;
        return 1;
}

int run_shares_read(
        const struct run_share **ret, size_t *ret_n, struct arena *arena, const char *root, struct error *err)
{
        _free_ char *shares = xasprintf("%s/" RUN_SHARES_NAME, root);
        DIR *folder = opendir(shares);
        struct run_share *held = NULL;
        struct dirent *entry;
        size_t seen = 0;
        size_t count = 0;

        if (!folder)
                return error_errno(err, errno, "list '%s'", shares);
        while ((entry = readdir(folder)) && seen < RUN_SHARES_MAX)
                seen += entry->d_name[0] != '.';
        if (entry) {
                closedir(folder);
                return error_set(err, ERROR_EXHAUSTED, "'%s' has more than %zu files; remove what is no share", shares,
                        RUN_SHARES_MAX);
        }
        held = ARENA_ARRAY(arena, struct run_share, seen + 1);
        rewinddir(folder);
        while ((entry = readdir(folder)) && count < seen)
                if (entry->d_name[0] != '.')
                        count += (size_t)read_share(&held[count], arena, dirfd(folder), entry->d_name);
        closedir(folder);
        *ret = held;
        *ret_n = count;
        return 0;
}

int run_shares_hold(int *ret_fd, const char *root, const struct run_share *share, struct error *err)
{
        _free_ char *text = shares_print(&share_shape, share);
        _free_ char *name = NULL;
        uint64_t random;
        int fd;

        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
                return error_errno(err, errno, "get a random number");
        name = xasprintf("%s/" RUN_SHARES_NAME "/%016" PRIx64 SUFFIX, root, random);
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0644); /* not O_CLOEXEC: the program is to have it */
        if (fd < 0)
                return error_errno(err, errno, "make '%s'", name);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
                error_raise_errno(err, errno, "hold '%s'", name);
                unlink(name);
                close(fd);
                return -1;
        }
        *ret_fd = fd;
        return 0;
}
