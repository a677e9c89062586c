#include "mps/identity.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"

#define STAT_MAX ((size_t)4096)
#define ENVIRON_MAX ((size_t)1024 * 1024)

static bool read_proc(pid_t pid, const char *name, size_t limit, struct strbuf *content)
{
        char path[128];
        struct error err;

        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        return pid > 0 && file_read(path, limit, content, &err) == 0;
}

/* State and start of a process: fields 3 and 22 of stat, counted from the end of the name, which may hold anything. */
static bool read_stat(pid_t pid, char *ret_state, unsigned long long *ret_start)
{
        struct strbuf content = STRBUF_INIT;
        const char *end;
        bool is_good = false;

        if (read_proc(pid, "stat", STAT_MAX, &content)) {
                end = strrchr(content.data, ')');
                is_good = end &&
                          sscanf(end + 1,
                                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                                  ret_state, ret_start) == 2;
        }
        strbuf_done(&content);
        return is_good;
}

uint64_t identity_start_time(pid_t pid)
{
        unsigned long long start;
        char state;

        if (!read_stat(pid, &state, &start) || state == 'Z' || state == 'X')
                return 0;
        return start;
}

bool identity_is_alive(pid_t pid, uint64_t start_time)
{
        return start_time && identity_start_time(pid) == start_time;
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

bool identity_has_variable(pid_t pid, const char *variable, const char *value)
{
        struct strbuf content = STRBUF_INIT;
        size_t length = strlen(variable);
        bool is_same = false;

        if (read_proc(pid, "environ", ENVIRON_MAX, &content))
                for (const char *at = content.data; at < content.data + content.size; at += strlen(at) + 1)
                        if (strncmp(at, variable, length) == 0 && at[length] == '=') {
                                is_same = strcmp(at + length + 1, value) == 0;
                                break;
                        }
        strbuf_done(&content);
        return is_same;
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

/* ---- what a daemon leaves ---- */

static pid_t group_of(pid_t pid)
{
        struct strbuf content = STRBUF_INIT;
        const char *end;
        int group = 0;

        if (read_proc(pid, "stat", STAT_MAX, &content)) {
                end = strrchr(content.data, ')');
                if (!end || sscanf(end + 1, " %*c %*d %d", &group) != 1)
                        group = 0;
        }
        strbuf_done(&content);
        return group;
}

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
                return 0; /* a process with that number leads no group that its predecessor led */
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
