#include "cmd/mps/echo.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"

#define PERIOD_MS UINT64_C(1000)
#define READ_MAX ((size_t)32 * 1024) /* lines of one log per period; more come in the next one */

struct followed {
        struct list in_echo;
        char *name;
        char *path;
        off_t offset;
};

struct mps_echo {
        uv_timer_t timer;
        char *root;
        struct list logs;
};

static void echo_forget(struct followed *log)
{
        list_remove(&log->in_echo);
        free(log->name);
        free(log->path);
        free(log);
}

static void echo_report_lines(const struct followed *log, char *text)
{
        char *rest = text;
        char *line;

        while ((line = strsep(&rest, "\n")))
                if (*line)
                        log_debug("control.log", LOG_STR("daemon", log->name), LOG_STR("line", line));
}

/* A log that became shorter is a new one. A partial line at the end waits for its rest. */
static void echo_report_news(struct followed *log)
{
        char text[READ_MAX + 1];
        int fd = open(log->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat status;
        const char *end;
        ssize_t size;

        if (fd < 0)
                return;
        if (fstat(fd, &status) == 0 && status.st_size < log->offset)
                log->offset = 0;
        size = pread(fd, text, READ_MAX, log->offset);
        close(fd);
        if (size <= 0)
                return;
        end = memrchr(text, '\n', (size_t)size);
        if (!end && (size_t)size < READ_MAX)
                return;
        if (end)
                size = end - text + 1;
        log->offset += size;
        text[size] = '\0';
        echo_report_lines(log, text);
}

static void on_echo_timer(uv_timer_t *timer)
{
        struct mps_echo *echo = container_of(timer, struct mps_echo, timer);

        LIST_FOR_EACH(in_echo, &echo->logs)
                echo_report_news(container_of(in_echo, struct followed, in_echo));
}

static bool is_followed(const struct mps_echo *echo, const char *name)
{
        LIST_FOR_EACH(in_echo, &echo->logs) {
                struct followed *log = container_of(in_echo, struct followed, in_echo);

                if (strcmp(log->name, name) == 0)
                        return true;
        }
        return false;
}

static void echo_follow(struct mps_echo *echo, const char *name)
{
        struct followed *log = xcalloc(1, sizeof(*log));
        struct stat status;

        log->name = xstrdup(name);
        log->path = xasprintf("%s/%s/log/control.log", echo->root, name);
        log->offset = stat(log->path, &status) == 0 ? status.st_size : 0;
        list_append(&echo->logs, &log->in_echo);
}

static void forget_others(struct mps_echo *echo, const struct mps_status *status)
{
        struct list *next;

        for (struct list *at = echo->logs.next; at != &echo->logs; at = next) {
                struct followed *log = container_of(at, struct followed, in_echo);

                next = at->next;
                if (mps_status_find(status, log->name))
                        continue;
                echo_report_news(log); /* its last lines */
                echo_forget(log);
        }
}

void mps_echo_follow(struct mps_echo *echo, const struct mps_status *status)
{
        forget_others(echo, status);
        for (size_t i = 0; i < status->n_daemons; i++)
                if (!is_followed(echo, status->daemons[i].name))
                        echo_follow(echo, status->daemons[i].name);
}

struct mps_echo *mps_echo_new(uv_loop_t *loop, const char *root)
{
        struct mps_echo *echo = xcalloc(1, sizeof(*echo));

        echo->root = xstrdup(root);
        list_init(&echo->logs);
        uv_timer_init(loop, &echo->timer);
        uv_timer_start(&echo->timer, on_echo_timer, PERIOD_MS, PERIOD_MS);
        return echo;
}

static void on_echo_closed(uv_handle_t *handle)
{
        struct mps_echo *echo = container_of(handle, struct mps_echo, timer);

        free(echo->root);
        free(echo);
}

struct mps_echo *mps_echo_free(struct mps_echo *echo)
{
        if (!echo)
                return NULL;
        while (!list_is_empty(&echo->logs)) {
                struct followed *log = container_of(echo->logs.next, struct followed, in_echo);

                echo_report_news(log);
                echo_forget(log);
        }
        uv_close((uv_handle_t *)&echo->timer, on_echo_closed);
        return NULL;
}
