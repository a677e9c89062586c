// SPDX-License-Identifier: Apache-2.0
#include "cmd/nvidia/process_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/text.h"
#include "base/proc.h"
#include "base/io/worker.h"

#define ARGUMENT_MAX ((size_t)PATH_MAX) /* a longer one is not the name of a program */
#define ARGUMENT_DEADLINE_MS UINT64_C(1000)

struct search {
        const char *root;
        const char *name;
        struct worker_alone worker;
        struct arena arena; /* of one process */
        struct arena own;
        struct map left_out; /* owners */
        const char *pod; /* our own pod; NULL: a cgroup namespace hides it, and so the pods of our other containers */
};

/* ---- in a process that may hang ---- */

/*
 * A worker's: the message is a PID, the answer its first argument: none of a kernel thread, or of one that has ended.
 */
static void serve_argument(const void *message, size_t size UNUSED, struct strbuf *answer, const void *data)
{
        _free_ char *path = xasprintf("%s/proc/%d/cmdline", (const char *)data, (int)*(const pid_t *)message);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = 1;

        while (fd >= 0 && got > 0 && answer->size < ARGUMENT_MAX && !memchr(answer->data, '\0', answer->size)) {
                strbuf_reserve(answer, ARGUMENT_MAX);
                got = read(fd, answer->data + answer->size, ARGUMENT_MAX - answer->size);
                if (got > 0)
                        answer->size += (size_t)got;
                else if (got < 0 && errno == EINTR)
                        got = 1;
        }
        strbuf_putc(answer, '\0');
}

/* ---- the search ---- */

/* Describes the owner of a process: its pod, or without a pod its user. */
static const char *process_find_owner_of(struct search *search, pid_t pid, const char *pod)
{
        const char *path = arena_printf(&search->arena, "%s/proc/%d", search->root, (int)pid);
        struct stat status = {.st_uid = 0};

        if (pod || stat(path, &status) < 0)
                return pod ? pod : "";
        return arena_printf(&search->arena, "user %d", (int)status.st_uid);
}

/* "" as well of one that lets its reader hang: it is left out, with all others of its owner. */
static const char *read_argument(struct search *search, pid_t pid, const char *pod)
{
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        const char *owner = process_find_owner_of(search, pid, pod);
        struct error err;

        if (map_find(&search->left_out, owner))
                return "";
        if (worker_alone_ask(&search->worker, &pid, sizeof(pid), ARGUMENT_DEADLINE_MS, &answer, &err) == 0)
                return arena_strdup(&search->arena, answer.data);
        if (err.kind == ERROR_TIMEOUT) {
                log_warn("processes are left out of the search, since one lets its reader hang", LOG_INT("pid", pid),
                        LOG_STR("owner", owner));
                map_add(&search->left_out, arena_strdup(&search->own, owner), search);
        }
        return "";
}

/* NULL: not in a pod, or a cgroup namespace hides it. */
static const char *read_pod(struct search *search, const char *entry, struct arena *arena)
{
        const char *path = arena_printf(&search->arena, "%s/proc/%s/cgroup", search->root, entry);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;

        return file_read(path, CGROUP_FILE_MAX, &text, &ignored) == 0 ? cgroup_parse(text.data, arena).pod_uid : NULL;
}

/* 0: another program; otherwise the highest is the best match. */
static unsigned int process_find_score(struct search *search, pid_t pid, const char *entry)
{
        const char *pod = read_pod(search, entry, &search->arena);
        const char *argument = read_argument(search, pid, pod);

        if (!*argument || strcmp(file_base_name(argument), file_base_name(search->name)) != 0)
                return 0;
        return 1U + (strcmp(argument, search->name) == 0 ? 1U : 0U) + (text_is_same(pod, search->pod) ? 2U : 0U);
}

static int process_find_search(struct search *search, pid_t *ret, struct error *err)
{
        _free_ char *path = xasprintf("%s/proc", search->root);
        DIR *processes = opendir(path);
        unsigned int best = 0;
        const struct dirent *entry;

        if (!processes)
                return error_errno(err, errno, "open '%s'", path);
        search->pod = read_pod(search, "self", &search->own);
        while ((entry = readdir(processes))) { /* the kernel lists them by PID */
                uint64_t pid;
                unsigned int score;

                if (!text_to_uint(entry->d_name, INT_MAX, &pid) || (pid_t)pid == getpid())
                        continue;
                score = process_find_score(search, (pid_t)pid, entry->d_name);
                if (score > best || (score && score == best && (pid_t)pid < *ret)) {
                        best = score;
                        *ret = (pid_t)pid;
                }
                arena_done(&search->arena);
        }
        closedir(processes);
        return best ? 0 : PROCESS_FIND_NONE;
}

int process_find(pid_t *ret, const char *root, const char *name, struct error *err)
{
        struct search search = {
                .root = root, .name = name, .arena = ARENA_INIT, .own = ARENA_INIT, .left_out = MAP_INIT};
        int rc;

        worker_alone_begin(&search.worker, "process-find", serve_argument, root);
        rc = process_find_search(&search, ret, err);
        worker_alone_end(&search.worker);
        map_done(&search.left_out);
        arena_done(&search.arena);
        arena_done(&search.own);
        return rc;
}
