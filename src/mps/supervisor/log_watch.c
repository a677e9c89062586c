#include "mps/supervisor/log_watch.h"

#include "base/alloc.h"
#include "base/log.h"

#define PAUSE_MS UINT64_C(50)

struct mps_log_watch {
        uv_fs_event_t event;
        uv_timer_t pause;
        char *path;
        void (*changed)(void *data);
        void (*closed)(void *data);
        void *data;
        unsigned int open;
};

static void log_watch_begin(struct mps_log_watch *watch);

static void on_pause_over(uv_timer_t *pause)
{
        struct mps_log_watch *watch = container_of(pause, struct mps_log_watch, pause);

        log_watch_begin(watch); /* before |changed|: a write in between is then another event */
        watch->changed(watch->data);
}

/* During a flood of lines, only one event counts per pause: watching stops until the pause is over. */
static void on_log_watch_event(uv_fs_event_t *event, const char *name UNUSED, int events UNUSED, int status UNUSED)
{
        struct mps_log_watch *watch = container_of(event, struct mps_log_watch, event);

        uv_fs_event_stop(event);
        uv_timer_start(&watch->pause, on_pause_over, PAUSE_MS, 0);
}

static void log_watch_begin(struct mps_log_watch *watch)
{
        const int rc = uv_fs_event_start(&watch->event, on_log_watch_event, watch->path, 0);

        if (rc < 0)
                log_warn("cannot watch the log of an MPS control daemon: it may grow without bound",
                        LOG_STR("path", watch->path), LOG_STR("error", uv_strerror(rc)));
}

struct mps_log_watch *mps_log_watch_new(uv_loop_t *loop, void (*changed)(void *data), void *data)
{
        struct mps_log_watch *watch = xcalloc(1, sizeof(*watch));

        uv_fs_event_init(loop, &watch->event);
        uv_timer_init(loop, &watch->pause);
        watch->open = 2;
        watch->changed = changed;
        watch->data = data;
        return watch;
}

void mps_log_watch_follow(struct mps_log_watch *watch, const char *path)
{
        free(watch->path);
        watch->path = xstrdup(path);
        uv_timer_stop(&watch->pause);
        uv_fs_event_stop(&watch->event);
        log_watch_begin(watch);
}

static void on_log_watch_closed(uv_handle_t *handle)
{
        struct mps_log_watch *watch = handle->type == UV_TIMER
                                              ? container_of((uv_timer_t *)handle, struct mps_log_watch, pause)
                                              : container_of((uv_fs_event_t *)handle, struct mps_log_watch, event);

        if (--watch->open)
                return;
        watch->closed(watch->data);
        free(watch->path);
        free(watch);
}

void mps_log_watch_close(struct mps_log_watch *watch, void (*closed)(void *data), void *data)
{
        watch->closed = closed;
        watch->data = data;
        uv_close((uv_handle_t *)&watch->event, on_log_watch_closed);
        uv_close((uv_handle_t *)&watch->pause, on_log_watch_closed);
}
