/*
 * Reads what the kernel itself knows about a process, such as which container it runs in. Nothing here waits for the
 * process, except where that is said. Reads <root>/proc/<pid>; |root| is "" or a folder that a test provides.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#define PROCESS_ENVIRONMENT_MAX ((size_t)1024 * 1024) /* a longer environment is cut here */

struct process {
        pid_t pid;
        uint64_t start_time;    /* ticks since boot: identifies the process together with the PID */
        uid_t uid;              /* effective; (uid_t)-1 unknown */
        uint64_t pid_namespace; /* inode; 0 unknown */
        const char *pod_uid;    /* this and the next two as in base/proc.h */
        const char *container_id;
        const char *cgroup;
};

/*
 * Strings live in |arena|. ERROR_NOT_FOUND: the process does not exist (any more), or another process got the PID
 * meanwhile. Any other error says nothing of it, as without descriptors. What is not its start and cannot be read is
 * unknown.
 */
int process_read(struct process *ret, struct arena *arena, const char *root, pid_t pid, struct error *err) MUST_USE;

/* The start time alone, of one file instead of four; 0: the process does not exist, or cannot be read. */
uint64_t process_start_time(const char *root, pid_t pid);

/*
 * The environment with which its program started, cut at PROCESS_ENVIRONMENT_MAX; empty if it cannot be read. It lies
 * in memory of the process, whose owner can let a reader wait for ever: only for a worker (base/io/worker.h).
 */
void process_read_environment(struct strbuf *ret, const char *root, pid_t pid, uint64_t start_time);

/* The value of a variable in it, or NULL. The first of several counts, as with getenv(). */
static inline const char *process_variable(const struct strbuf *environment, const char *name)
{
        const size_t length = strlen(name);

        for (const char *at = environment->data; at < environment->data + environment->size; at += strlen(at) + 1)
                if (strncmp(at, name, length) == 0 && at[length] == '=')
                        return at + length + 1;
        return NULL;
}

/*
 * Parses the text of a stat file (proc(5)); false if it is malformed. The process name in it may contain any character,
 * also ')' and blanks.
 */
struct process_stat {
        char state; /* 'Z': a zombie; 'X': gone */
        pid_t parent;
        pid_t group;
        uint64_t start_time; /* ticks since boot */
};
bool process_parse_stat(const char *text, struct process_stat *ret);
