#include "mps/supervisor/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/proc.h"

/* ---- /proc ---- */

/* Opens <root>/proc/<pid> itself: while it is open, reads below it are of that process or fail. */
static int open_process(const char *root, pid_t pid, struct error *err)
{
        _free_ char *path = xasprintf("%s/proc/%d", root, (int)pid);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 && errno == ENOENT)
                return error_set(err, ERROR_NOT_FOUND, "there is no process %d", (int)pid);
        if (fd < 0)
                return error_errno(err, errno, "open '%s'", path);
        return fd;
}

/* At most |limit| bytes of the file, or as many as can be read; 0, or errno. */
static int read_start(int folder, const char *name, size_t limit, struct strbuf *content)
{
        _close_ int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

        if (fd < 0)
                return errno;
        while (content->size < limit) {
                ssize_t got;

                strbuf_reserve(content, 4096);
                got = read(fd, content->data + content->size, 4096);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return got < 0 ? errno : 0;
                content->size += (size_t)got;
                content->data[content->size] = '\0';
        }
        return 0;
}

/* Fields 3, 4, 5 and 22, counted from the end of the name. */
bool process_parse_stat(const char *text, struct process_stat *ret)
{
        const char *end = strrchr(text, ')');

        return end &&
               sscanf(end + 1, " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                       &ret->state, &ret->parent, &ret->group, &ret->start_time) == 4;
}

/* Files of a process that has ended are not there, or cannot be read with ESRCH. Any other problem is ours. */
static int read_start_time(struct process *process, int folder, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct process_stat stat;
        int problem = read_start(folder, "stat", 4096, &text);

        if (problem && problem != ENOENT && problem != ESRCH)
                return error_errno(err, problem, "read '/proc/%d/stat'", (int)process->pid);
        if (!process_parse_stat(text.data, &stat))
                return error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)process->pid);
        process->start_time = stat.start_time;
        return 0;
}

uint64_t process_start_time(const char *root, pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/proc/%d/stat", root, (int)pid);
        struct process_stat stat;

        read_start(AT_FDCWD, path, 4096, &text);
        return process_parse_stat(text.data, &stat) ? stat.start_time : 0;
}

/*
 * The second number of "Uid:" (the effective one). The owner of the folder does not count: a process can make it root
 * by being not dumpable.
 */
static uid_t read_uid(int folder)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        char number[16] = "";
        const char *at;
        uint64_t value;

        read_start(folder, "status", 8192, &text);
        at = strstr(text.data, "\nUid:\t"); /* the kernel escapes line breaks of the name in the first line */
        at = at ? strchr(at + strlen("\nUid:\t"), '\t') : NULL;
        if (!at || strcspn(at + 1, "\t\n") >= sizeof(number))
                return (uid_t)-1;
        memcpy(number, at + 1, strcspn(at + 1, "\t\n"));
        return text_to_uint(number, UINT32_MAX, &value) ? (uid_t)value : (uid_t)-1;
}

static uint64_t process_read_namespace(int folder)
{
        struct stat status;

        return fstatat(folder, "ns/pid", &status, 0) == 0 ? (uint64_t)status.st_ino : 0;
}

int process_read(struct process *ret, struct arena *arena, const char *root, pid_t pid, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf cgroup = STRBUF_INIT;
        struct process process = {.pid = pid};
        struct cgroup_owner owner;
        _close_ int folder = open_process(root, pid, err);

        if (folder < 0)
                return -1;
        process.uid = read_uid(folder);
        process.pid_namespace = process_read_namespace(folder);
        read_start(folder, "cgroup", CGROUP_FILE_MAX, &cgroup);
        owner = cgroup_parse(cgroup.data, arena);
        process.pod_uid = owner.pod_uid;
        process.container_id = owner.container_id;
        process.cgroup = owner.folder;
        if (read_start_time(&process, folder, err) < 0) /* last: fails if the process ended meanwhile */
                return -1;
        *ret = process;
        return 0;
}

void process_read_environment(struct strbuf *ret, const char *root, pid_t pid, uint64_t start_time)
{
        struct process process = {.pid = pid};
        struct error err;
        _close_ int folder = open_process(root, pid, &err);

        if (folder < 0)
                return;
        read_start(folder, "environ", PROCESS_ENVIRONMENT_MAX, ret);
        if (read_start_time(&process, folder, &err) < 0 || process.start_time != start_time)
                strbuf_clear(ret);
}
