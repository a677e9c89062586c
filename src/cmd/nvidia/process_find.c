#include "cmd/nvidia/process_find.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"
#include "io/cgroup.h"

#define ARGUMENT_MAX ((size_t)PATH_MAX) /* a longer one is not the name of a program */

struct search {
        const char *root;
        const char *name;
        struct arena arena; /* of one process */
        const char *pod; /* our own pod; NULL: a cgroup namespace hides it, and so the pods of our other containers */
};

/* "" if there is none: a kernel thread, a zombie, or a process that has ended. */
static const char *read_argument(struct search *search, pid_t pid)
{
        const char *path = arena_printf(&search->arena, "%s/proc/%d/cmdline", search->root, (int)pid);
        char *text = ARENA_ARRAY(&search->arena, char, ARGUMENT_MAX + 1);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        size_t size = 0;

        while (fd >= 0 && size < ARGUMENT_MAX && !memchr(text, '\0', size)) {
                ssize_t got = read(fd, text + size, ARGUMENT_MAX - size);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        break;
                size += (size_t)got;
        }
        return text;
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
static unsigned int process_find_judge(struct search *search, pid_t pid, const char *entry)
{
        const char *argument = read_argument(search, pid);
        bool is_ours;

        if (!*argument || strcmp(file_base_name(argument), file_base_name(search->name)) != 0)
                return 0;
        is_ours = text_is_same(read_pod(search, entry, &search->arena), search->pod);
        return 1U + (strcmp(argument, search->name) == 0 ? 1U : 0U) + (is_ours ? 2U : 0U);
}

int process_find(pid_t *ret, const char *root, const char *name, struct error *err)
{
        struct search search = {.root = root, .name = name, .arena = ARENA_INIT};
        _cleanup_(arena_done) struct arena own = ARENA_INIT;
        _free_ char *path = xasprintf("%s/proc", root);
        DIR *processes = opendir(path);
        unsigned int best = 0;
        const struct dirent *entry;

        if (!processes)
                return error_errno(err, errno, "open '%s'", path);
        search.pod = read_pod(&search, "self", &own);
        while ((entry = readdir(processes))) { /* the kernel lists them by PID */
                uint64_t pid;
                unsigned int score;

                if (!text_to_uint(entry->d_name, INT_MAX, &pid) || (pid_t)pid == getpid())
                        continue;
                score = process_find_judge(&search, (pid_t)pid, entry->d_name);
                if (score > best || (score && score == best && (pid_t)pid < *ret)) {
                        best = score;
                        *ret = (pid_t)pid;
                }
                arena_done(&search.arena);
        }
        closedir(processes);
        arena_done(&search.arena);
        return best ? 0 : PROCESS_FIND_NONE;
}
