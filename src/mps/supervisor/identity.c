#include "mps/supervisor/identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/proc.h"
#include "mps/supervisor/process.h"

#define STAT_MAX ((size_t)4096)
#define CAPABILITY_SYS_ADMIN 21

static bool try_proc(pid_t pid, const char *name, size_t limit, struct strbuf *content, struct error *err)
{
        char path[128];

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        return pid > 0 && file_read(path, limit, content, err) == 0;
}

static bool read_proc(pid_t pid, const char *name, size_t limit, struct strbuf *content)
{
        struct error err;

        return try_proc(pid, name, limit, content, &err);
}

/* False: the process does not exist. */
static bool read_stat(pid_t pid, struct process_stat *ret)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;

        return read_proc(pid, "stat", STAT_MAX, &content) && process_parse_stat(content.data, ret);
}

uint64_t identity_start_time(pid_t pid)
{
        struct process_stat stat;

        if (!read_stat(pid, &stat) || stat.state == 'Z' || stat.state == 'X')
                return 0;
        return stat.start_time;
}

bool identity_is_alive(pid_t pid, uint64_t start_time)
{
        return start_time && identity_start_time(pid) == start_time;
}

bool identity_has_ended(pid_t pid, uint64_t start_time)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        struct error err = {0};

        if (!try_proc(pid, "stat", STAT_MAX, &content, &err) && err.kind == ERROR_EXHAUSTED)
                return false;
        return !identity_is_alive(pid, start_time);
}

pid_t identity_of_lock(const char *pipe_directory)
{
        _free_ char *path = xasprintf("%s/control_lock", pipe_directory);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};

        if (fd < 0 || fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type == F_UNLCK || lock.l_pid <= 0)
                return 0;
        return lock.l_pid;
}

char *identity_variable(pid_t pid, const char *variable)
{
        _cleanup_(strbuf_done) struct strbuf content = STRBUF_INIT;
        const char *value = NULL;

        if (read_proc(pid, "environ", PROCESS_ENVIRONMENT_MAX, &content))
                value = process_variable(&content, variable);
        return xstrdup(value ? value : "");
}

bool identity_has_variable(pid_t pid, const char *variable, const char *value)
{
        _free_ char *its = identity_variable(pid, variable);

        return strcmp(its, value) == 0;
}

void identity_children(pid_t pid, void (*found)(pid_t child, void *data), void *data)
{
        struct strbuf content = STRBUF_INIT;
        char name[64];

        snprintf(name, sizeof(name), "task/%d/children", (int)pid);
        if (read_proc(pid, name, STAT_MAX, &content)) {
                char *at = content.data;
                char *end;

                for (long child = strtol(at, &end, 10); end != at; child = strtol(at, &end, 10)) {
                        found((pid_t)child, data);
                        at = end;
                }
        }
        strbuf_done(&content);
}

/* ---- who runs a process ---- */

pid_t identity_parent(pid_t pid)
{
        struct process_stat stat;

        return read_stat(pid, &stat) ? stat.parent : 0;
}

static pid_t group_of(pid_t pid)
{
        struct process_stat stat;

        return read_stat(pid, &stat) ? stat.group : 0;
}

static bool has_same_cgroups(pid_t a, pid_t b)
{
        struct strbuf of_a = STRBUF_INIT;
        struct strbuf of_b = STRBUF_INIT;
        const bool is_same = read_proc(a, "cgroup", CGROUP_FILE_MAX, &of_a) &&
                             read_proc(b, "cgroup", CGROUP_FILE_MAX, &of_b) && strcmp(of_a.data, of_b.data) == 0;

        strbuf_done(&of_a);
        strbuf_done(&of_b);
        return is_same;
}

int identity_open_server(pid_t pid, pid_t daemon, uint64_t start_time)
{
        _close_ int pidfd = -1;
        struct process_stat stat;

        if (pid <= 1 || daemon <= 1 || pid == daemon || pid == getpid())
                return -1;
        pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0)
                return -1;
        if (!read_stat(pid, &stat) || (stat.parent != daemon && stat.group != daemon) ||
                !has_same_cgroups(pid, daemon) || identity_start_time(pid) < start_time ||
                !identity_is_alive(daemon, start_time))
                return -1;
        return TAKE_FD(pidfd);
}

void identity_kill(int pidfd)
{
        if (pidfd >= 0)
                syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/*
 * Its program has the name of |program|, which the kernel knows. About the file itself the kernel asks the file system,
 * which may be one that a tenant or a network serves: that is for those of this name.
 */
static bool identity_is_called(pid_t pid, const char *program)
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
        return identity_is_called(pid, program) && file_is_at_both(program, path);
}

/* True if the process has CAP_SYS_ADMIN, and not only in a user namespace of its own. */
static bool may_do_everything(pid_t pid)
{
        struct strbuf content = STRBUF_INIT;
        struct stat ours;
        struct stat its;
        unsigned long long capabilities = 0;
        const char *at;
        char path[64];

        if (read_proc(pid, "status", STAT_MAX, &content) && (at = strstr(content.data, "\nCapEff:\t")))
                capabilities = strtoull(at + strlen("\nCapEff:\t"), NULL, 16);
        strbuf_done(&content);
        snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        return capabilities >> CAPABILITY_SYS_ADMIN & 1 && stat("/proc/self/ns/user", &ours) == 0 &&
               stat(path, &its) == 0 && ours.st_ino == its.st_ino;
}

enum identity_daemon identity_check_daemon(pid_t pid, const char *program, uint64_t *ret_start_time, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct process its;
        struct process ours;
        bool is_privileged;
        bool is_ours;

        if (process_read(&ours, &arena, "", getpid(), err) < 0 || process_read(&its, &arena, "", pid, err) < 0)
                return IDENTITY_GONE;
        is_ours = its.uid == geteuid() && its.pid_namespace && its.pid_namespace == ours.pid_namespace &&
                  (!its.pod_uid || text_is_same(its.pod_uid, ours.pod_uid)) && has_executable(pid, program);
        is_privileged = may_do_everything(pid);
        if (!identity_is_alive(pid, its.start_time)) {
                error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
                return IDENTITY_GONE;
        }
        *ret_start_time = its.start_time;
        if (is_ours)
                return IDENTITY_DAEMON;
        error_set(err, ERROR_DENIED,
                "process %d (user %d, %s%s) holds the lock of its pipe directory and is no control daemon of this node",
                (int)pid, (int)its.uid, its.pod_uid ? "pod " : "of no pod", its.pod_uid ? its.pod_uid : "");
        return is_privileged ? IDENTITY_PRIVILEGED : IDENTITY_STRANGER;
}

/* ---- all daemons of a root ---- */

/* True if the process sees the same folder at |root|, and not another one of that name in another mount namespace. */
static bool identity_has_root(pid_t pid, const char *root)
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
static char *name_of_pipe(const char *root, const char *pipe)
{
        const size_t before = strlen(root) + 1;
        const size_t length = strlen(pipe);

        if (!text_starts_with(pipe, root) || length <= before + strlen("/pipe") || pipe[before - 1] != '/' ||
                strcmp(pipe + length - strlen("/pipe"), "/pipe") != 0)
                return NULL;
        return xasprintf("%.*s", (int)(length - before - strlen("/pipe")), pipe + before);
}

void identity_find_daemons(const char *root, const char *program,
        void (*found)(const struct identity_found *found, void *data), void *data)
{
        DIR *processes = opendir("/proc");
        const struct dirent *entry;
        struct error err;

        while (processes && (entry = readdir(processes))) {
                struct identity_found daemon = {.pid = (pid_t)strtol(entry->d_name, NULL, 10)};
                _free_ char *pipe = NULL;
                _free_ char *name = NULL;
                _free_ char *units = NULL;

                /* Only a daemon's environment is read, since a tenant could let the reader wait. */
                if (daemon.pid <= 0 || !identity_is_called(daemon.pid, program) ||
                        identity_check_daemon(daemon.pid, program, &daemon.start_time, &err) != IDENTITY_DAEMON ||
                        !is_started_as_daemon(daemon.pid))
                        continue;
                pipe = identity_variable(daemon.pid, "CUDA_MPS_PIPE_DIRECTORY");
                name = name_of_pipe(root, pipe);
                units = identity_variable(daemon.pid, "CUDA_VISIBLE_DEVICES");
                daemon.name = name;
                daemon.units = units;
                if (name && identity_has_root(daemon.pid, root) && identity_is_alive(daemon.pid, daemon.start_time))
                        found(&daemon, data);
        }
        if (processes)
                closedir(processes);
}

/* ---- servers that a daemon left ---- */

static bool end_orphan(pid_t pid, pid_t group, uint64_t start_time, const char *pipe_directory)
{
        _close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

        return pidfd >= 0 && pid != getpid() && group_of(pid) == group && identity_start_time(pid) >= start_time &&
               identity_has_variable(pid, "CUDA_MPS_PIPE_DIRECTORY", pipe_directory) &&
               syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
}

unsigned int identity_end_orphans(pid_t daemon, uint64_t start_time, const char *pipe_directory)
{
        const struct dirent *entry;
        unsigned int count = 0;
        DIR *processes;

        if (daemon <= 1 || !start_time || identity_start_time(daemon))
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
