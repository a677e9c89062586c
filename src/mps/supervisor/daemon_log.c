#include "mps/supervisor/daemon_log.h"

#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/log.h"

#define PAUSE_MS UINT64_C(50)
#define FLOOD_MS UINT64_C(60000) /* a log that must be cut twice within this time is being flooded */

struct daemon_log {
        const struct mps_folder *folder;
        uv_fs_event_t event;
        uv_timer_t pause;
        off_t start;         /* the file's size when the process started */
        uint64_t trimmed_at; /* when the log was last cut, by the loop's clock; 0: never */
        void (*flooded)(void *data);
        void *data;
        struct closing closing;
        struct closing *owner;
};

static void log_begin(struct daemon_log *log);

/* Watching begins before the check: a write in between is then another event. */
static void on_log_pause_over(uv_timer_t *pause)
{
        struct daemon_log *log = container_of(pause, struct daemon_log, pause);
        const uint64_t now = MAX(uv_now(pause->loop), UINT64_C(1));

        log_begin(log);
        if (!mps_folder_trim_log(log->folder))
                return;
        if (log->trimmed_at && now - log->trimmed_at < FLOOD_MS)
                log->flooded(log->data);
        log->trimmed_at = now;
}

/* During a flood of lines, only one event counts per pause: watching stops until the pause is over. */
static void on_log_event(uv_fs_event_t *event, const char *name UNUSED, int events UNUSED, int status UNUSED)
{
        struct daemon_log *log = container_of(event, struct daemon_log, event);

        uv_fs_event_stop(event);
        uv_timer_start(&log->pause, on_log_pause_over, PAUSE_MS, 0);
}

static void log_begin(struct daemon_log *log)
{
        const int rc = uv_fs_event_start(&log->event, on_log_event, log->folder->control_log, 0);

        if (rc < 0)
                log_warn("cannot watch the log of an MPS control daemon: it may grow without bound",
                        LOG_STR("path", log->folder->control_log), LOG_STR("error", uv_strerror(rc)));
}

struct daemon_log *daemon_log_new(
        uv_loop_t *loop, const struct mps_folder *folder, void (*flooded)(void *data), void *data)
{
        struct daemon_log *log = xcalloc(1, sizeof(*log));

        uv_fs_event_init(loop, &log->event);
        uv_timer_init(loop, &log->pause);
        log->folder = folder;
        log->flooded = flooded;
        log->data = data;
        return log;
}

void daemon_log_follow(struct daemon_log *log)
{
        log->start = mps_folder_log_size(log->folder);
        uv_timer_stop(&log->pause);
        uv_fs_event_stop(&log->event);
        if (access(log->folder->control_log, F_OK) == 0) /* an adopted process may write elsewhere */
                log_begin(log);
}

char *daemon_log_last_words(const struct daemon_log *log)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *line;

        mps_folder_read_log(log->folder, log->start, &text);
        while (text.size && text.data[text.size - 1] == '\n')
                text.data[--text.size] = '\0';
        line = strrchr(text.data, '\n');
        return xstrdup(line ? line + 1 : text.data);
}

static void on_log_closed(void *data)
{
        struct daemon_log *log = data;
        struct closing *owner = log->owner;

        free(log);
        closing_release(owner);
}

void daemon_log_close(struct daemon_log *log, struct closing *closing)
{
        log->owner = closing_hold(closing);
        closing_close(&log->closing, &log->event);
        closing_close(&log->closing, &log->pause);
        closing_end(&log->closing, on_log_closed, log);
}
