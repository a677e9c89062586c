#include "agent/restart.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define FIRST_WAIT_S INT64_C(60)
#define LONGEST_WAIT_S INT64_C(3600)
#define ARGUMENTS_LIMIT ((size_t)256 * 1024)

struct restart restart_read(const char *mark)
{
        struct restart last = {0};
        int end = 0;

        if (!mark || sscanf(mark, "%u@%" SCNd64 "%n", &last.count, &last.at_s, &end) != 2 || mark[end])
                return (struct restart){0};
        return last;
}

static int64_t wait_after(const struct restart *last)
{
        int64_t wait = FIRST_WAIT_S;

        for (unsigned int i = 1; i < last->count && wait < LONGEST_WAIT_S; i++)
                wait *= 2;
        return MIN(wait, LONGEST_WAIT_S);
}

/* Whether the last restart was not long ago. If it was, or if the mark is of another boot, counting starts again. */
static bool is_in_a_row(const struct restart *last, int64_t now_s)
{
        return last->count > 0 && now_s >= last->at_s && now_s - last->at_s < 2 * LONGEST_WAIT_S;
}

int64_t restart_wait(const struct restart *last, int64_t now_s)
{
        return is_in_a_row(last, now_s) ? MAX(last->at_s + wait_after(last) - now_s, INT64_C(0)) : 0;
}

char *restart_mark(const struct restart *last, int64_t now_s)
{
        unsigned int count = is_in_a_row(last, now_s) ? MIN(last->count, 1000U) : 0;

        return xasprintf("%u@%" PRId64, count + 1, now_s);
}

int64_t restart_clock(void)
{
        struct timespec now;

        clock_gettime(CLOCK_BOOTTIME, &now);
        return now.tv_sec;
}

/* The arguments of the process as the kernel has them: the command itself got only those after its name. */
static char **split_arguments(struct strbuf *text)
{
        size_t count = 0;
        char **arguments;

        for (size_t at = 0; at < text->size; at += strlen(text->data + at) + 1)
                count++;
        arguments = xcalloc(count + 1, sizeof(*arguments));
        count = 0;
        for (size_t at = 0; at < text->size; at += strlen(text->data + at) + 1)
                arguments[count++] = text->data + at;
        return arguments;
}

/*
 * A new environment instead of setenv(): the driver's library may read the environment on another thread at the same
 * time.
 */
static char **make_environment(char *mark)
{
        size_t count = 0;
        size_t kept = 0;
        char **environment;

        while (environ[count])
                count++;
        environment = xcalloc(count + 2, sizeof(*environment));
        for (size_t i = 0; i < count; i++)
                if (strncmp(environ[i], RESTART_VARIABLE "=", strlen(RESTART_VARIABLE "=")) != 0)
                        environment[kept++] = environ[i];
        environment[kept] = mark;
        return environment;
}

int restart_now(const struct restart *last, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *mark = restart_mark(last, restart_clock());
        _free_ char *entry = xasprintf(RESTART_VARIABLE "=%s", mark);
        _free_ char **environment = make_environment(entry);
        _free_ char **arguments = NULL;

        if (file_read("/proc/self/cmdline", ARGUMENTS_LIMIT, &text, err) < 0)
                return -1;
        arguments = split_arguments(&text);
        /*
         * Our own descriptors are close-on-exec. The driver's library may have opened others, and an open device would
         * keep the old kernel module loaded.
         */
        file_close_from(STDERR_FILENO + 1, true);
        execve("/proc/self/exe", arguments, environment);
        return error_errno(err, errno, "start /proc/self/exe anew");
}
