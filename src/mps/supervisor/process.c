// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/proc.h"

#define STAT_MAX ((size_t)4096)
#define CAPABILITY_SYS_ADMIN 21

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
static bool process_parse_stat(const char *text, struct process_stat *ret)
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
        int problem = read_start(folder, "stat", STAT_MAX, &text);

        if (problem && problem != ENOENT && problem != ESRCH)
                return error_errno(err, problem, "read '/proc/%d/stat'", (int)process->pid);
        if (!process_parse_stat(text.data, &stat))
                return error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)process->pid);
        process->start_time = stat.start_time;
        return 0;
}

/* False: the process does not exist, or |err| says why it cannot be read. */
static bool read_stat(const char *root, pid_t pid, struct process_stat *ret, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/proc/%d/stat", root, (int)pid);

        return pid > 0 && file_read(path, STAT_MAX, &text, err) == 0 && process_parse_stat(text.data, ret);
}

uint64_t process_start_time(const char *root, pid_t pid)
{
        struct process_stat stat;
        struct error err;

        return read_stat(root, pid, &stat, &err) && stat.state != 'Z' && stat.state != 'X' ? stat.start_time : 0;
}

/*
 * The second number of "Uid:" (the effective one). The owner of the folder does not count: a process can make it root
 * by being not dumpable.
 */
static uid_t read_uid(int folder)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *at;
        uid_t uid;

        read_start(folder, "status", 8192, &text);
        at = strstr(text.data, "\nUid:\t"); /* the kernel escapes line breaks of the name in the first line */
        return at && sscanf(at, "\nUid:\t%*u\t%u", &uid) == 1 ? uid : (uid_t)-1; /* NOLINT(cert-err34-c) */
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

/* ---- processes of this node ---- */

static bool read_proc(pid_t pid, const char *name, size_t limit, struct strbuf *content)
{
        _free_ char *path = xasprintf("/proc/%d/%s", (int)pid, name);
        struct error err;

        return pid > 0 && file_read(path, limit, content, &err) == 0;
}

bool process_is_alive(pid_t pid, uint64_t start_time)
{
        return start_time && process_start_time("", pid) == start_time;
}

bool process_has_ended(pid_t pid, uint64_t start_time)
{
        struct error err = {0};
        struct process_stat stat;

        if (!read_stat("", pid, &stat, &err) && err.kind == ERROR_EXHAUSTED)
                return false;
        return !process_is_alive(pid, start_time);
}

pid_t process_of_lock(const char *pipe_directory)
{
        _free_ char *path = xasprintf("%s/control_lock", pipe_directory);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

        if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0)
                return 0;
        return lock.l_pid;
}

char *process_variable(pid_t pid, const char *variable)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        const char *value = NULL;

        if (read_proc(pid, "environ", PROCESS_ENVIRONMENT_MAX, &content))
                value = process_find_variable(&content, variable);
        return xstrdup(value ? value : "");
}

bool process_has_variable(pid_t pid, const char *variable, const char *value)
{
        _free_ char *its = process_variable(pid, variable);

        return strcmp(its, value) == 0;
}

void process_children(pid_t pid, void (*found)(pid_t child, void *data), void *data)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        _free_ char *name = xasprintf("task/%d/children", (int)pid);
        const char *at;
        char *end;

        if (!read_proc(pid, name, STAT_MAX, &content))
                return;
        at = content.data;
        for (long child = strtol(at, &end, 10); end != at; child = strtol(at, &end, 10)) {
                found((pid_t)child, data);
                at = end;
        }
}

/* ---- who runs a process ---- */

pid_t process_parent(pid_t pid)
{
        struct process_stat stat;
        struct error err;

        return read_stat("", pid, &stat, &err) ? stat.parent : 0;
}

static pid_t group_of(pid_t pid)
{
        struct process_stat stat;
        struct error err;

        return read_stat("", pid, &stat, &err) ? stat.group : 0;
}

static bool has_same_cgroups(pid_t a, pid_t b)
{
        _cleanup_(strbuf_done) struct strbuf of_a = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf of_b = STRBUF_INIT;

        return read_proc(a, "cgroup", CGROUP_FILE_MAX, &of_a) && read_proc(b, "cgroup", CGROUP_FILE_MAX, &of_b) &&
               strcmp(of_a.data, of_b.data) == 0;
}

int process_open_server(pid_t pid, pid_t daemon, uint64_t start_time)
{
        _close_ int pidfd = -1;
        struct process_stat stat;
        struct error err;

        if (pid <= 1 || daemon <= 1 || pid == daemon || pid == getpid())
                return -1;
        pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0)
                return -1;
        if (!read_stat("", pid, &stat, &err) || (stat.parent != daemon && stat.group != daemon) ||
                !has_same_cgroups(pid, daemon) || process_start_time("", pid) < start_time ||
                !process_is_alive(daemon, start_time))
                return -1;
        return TAKE_FD(pidfd);
}

void process_kill(int pidfd)
{
        if (pidfd >= 0)
                syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/*
 * Its program has the name of |program|, which the kernel knows. About the file itself the kernel asks the file system,
 * which may be one that a tenant or a network serves: that is for those of this name.
 */
static bool process_is_called(pid_t pid, const char *program)
{
        _free_ char *real = realpath(program, NULL);
        char path[64];
        char name[PATH_MAX];
        ssize_t length;

        snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
        length = readlink(path, name, sizeof(name) - 1);
        if (!real || length <= 0)
                return false;
        name[length] = '\0';
        return strcmp(file_base_name(name), file_base_name(real)) == 0;
}

static bool has_executable(pid_t pid, const char *program)
{
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
        return process_is_called(pid, program) && file_is_at_both(program, path);
}

/* True if the process has CAP_SYS_ADMIN, and not only in a user namespace of its own. */
static bool may_do_everything(pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct stat ours;
        struct stat its;
        unsigned long long capabilities = 0;
        const char *at;
        char path[64];

        if (read_proc(pid, "status", STAT_MAX, &content) && (at = strstr(content.data, "\nCapEff:\t")))
                capabilities = strtoull(at + strlen("\nCapEff:\t"), NULL, 16);
        snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        return capabilities >> CAPABILITY_SYS_ADMIN & 1 && stat("/proc/self/ns/user", &ours) == 0 &&
               stat(path, &its) == 0 && ours.st_ino == its.st_ino;
}

enum process_daemon process_check_daemon(pid_t pid, const char *program, uint64_t *ret_start_time, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct process its;
        struct process ours;
        bool is_privileged;
        bool is_ours;

        if (process_read(&ours, &arena, "", getpid(), err) < 0 || process_read(&its, &arena, "", pid, err) < 0)
                return PROCESS_GONE;
        is_ours = its.uid == geteuid() && its.pid_namespace && its.pid_namespace == ours.pid_namespace &&
                  (!its.pod_uid || text_is_same(its.pod_uid, ours.pod_uid)) && has_executable(pid, program);
        is_privileged = may_do_everything(pid);
        if (!process_is_alive(pid, its.start_time)) {
                error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
                return PROCESS_GONE;
        }
        *ret_start_time = its.start_time;
        if (is_ours)
                return PROCESS_DAEMON;
        error_set(err, ERROR_DENIED,
                "process %d (user %d, %s%s) holds the lock of its pipe directory and is no control daemon of this node",
                (int)pid, (int)its.uid, its.pod_uid ? "pod " : "of no pod", its.pod_uid ? its.pod_uid : "");
        return is_privileged ? PROCESS_PRIVILEGED : PROCESS_STRANGER;
}

/* ---- all daemons of a root ---- */

/* True if the process sees the same folder at |root|, and not another one of that name in another mount namespace. */
static bool process_has_root(pid_t pid, const char *root)
{
        _free_ char *path = xasprintf("/proc/%d/root%s", (int)pid, root);

        return file_is_at_both(path, root);
}

/* True if the first argument of the process is -f, which makes the program a daemon. */
static bool is_started_as_daemon(pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        const char *first;

        if (!read_proc(pid, "cmdline", STAT_MAX, &content))
                return false;
        first = content.data + strlen(content.data) + 1;
        return first < content.data + content.size && strcmp(first, "-f") == 0;
}

/* NULL: |pipe| is not <root>/<name>/pipe. */
static const char *name_of_pipe(struct arena *arena, const char *root, const char *pipe)
{
        const size_t before = strlen(root) + 1;
        const size_t length = strlen(pipe);

        if (!text_starts_with(pipe, root) || length <= before + strlen("/pipe") || pipe[before - 1] != '/' ||
                strcmp(pipe + length - strlen("/pipe"), "/pipe") != 0)
                return NULL;
        return arena_strndup(arena, pipe + before, length - before - strlen("/pipe"));
}

/* Only a daemon's environment is read, since a tenant could let the reader wait. */
static bool process_is_daemon_of(
        struct process_found *ret, struct arena *arena, const char *root, const char *program, pid_t pid)
{
        _free_ char *pipe = NULL;
        _free_ char *units = NULL;
        struct error err;

        ret->pid = pid;
        if (pid <= 0 || !process_is_called(pid, program) ||
                process_check_daemon(pid, program, &ret->start_time, &err) != PROCESS_DAEMON ||
                !is_started_as_daemon(pid))
                return false;
        pipe = process_variable(pid, "CUDA_MPS_PIPE_DIRECTORY");
        units = process_variable(pid, "CUDA_VISIBLE_DEVICES");
        ret->name = name_of_pipe(arena, root, pipe);
        ret->units = arena_strdup(arena, units);
        return ret->name && process_has_root(pid, root) && process_is_alive(pid, ret->start_time);
}

size_t process_find_daemons(
        const char *root, const char *program, struct arena *arena, const struct process_found **ret)
{
        DIR *processes = opendir("/proc");
        struct process_found *all = NULL;
        const struct dirent *entry;
        size_t count = 0;

        while (processes && (entry = readdir(processes))) {
                struct process_found found;
                struct process_found *longer;

                if (!process_is_daemon_of(&found, arena, root, program, (pid_t)strtol(entry->d_name, NULL, 10)))
                        continue;
                longer = ARENA_ARRAY(arena, struct process_found, count + 1);
                if (count)
                        memcpy(longer, all, count * sizeof(*all));
                all = longer;
                all[count++] = found;
        }
        if (processes)
                closedir(processes);
        *ret = all;
        return count;
}

/* ---- servers that a daemon left ---- */

static bool end_orphan(pid_t pid, pid_t group, uint64_t start_time, const char *pipe_directory)
{
        _close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

        return pidfd >= 0 && pid != getpid() && group_of(pid) == group && process_start_time("", pid) >= start_time &&
               process_has_variable(pid, "CUDA_MPS_PIPE_DIRECTORY", pipe_directory) &&
               syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
}

unsigned int process_end_orphans(pid_t daemon, uint64_t start_time, const char *pipe_directory)
{
        const struct dirent *entry;
        unsigned int count = 0;
        DIR *processes;

        if (daemon <= 1 || !start_time || process_start_time("", daemon))
                return 0; /* the PID was reused: the new process does not lead the old group */
        processes = opendir("/proc");
        while (processes && (entry = readdir(processes))) {
                const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

                if (pid > 0 && group_of(pid) == daemon)
                        count += end_orphan(pid, daemon, start_time, pipe_directory);
        }
        if (processes)
                closedir(processes);
        return count;
}
