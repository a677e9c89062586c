// SPDX-License-Identifier: Apache-2.0
/*
 * inotify by uv_fs_event_t, plus a timer. The kernel's watch follows the inode, so a directory that was removed and
 * made again needs a new one: each poll compares the identity of what is watched with what is at the path now.
 */
#include "base/io/dirwatch.h"
#include "base/file.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/io/loop.h"

#define MISSING_POLL_MS UINT64_C(1000)
/*
 * After a change the directory itself may be removed next (rm -r). The kernel reports that only when no process has it
 * open any more, and this process may have it open. So a timer checks soon.
 */
#define CHANGED_POLL_MS UINT64_C(250)

struct dirwatch {
        uv_fs_event_t *event; /* NULL while the directory is missing; a handle of its own, as it is replaced */
        uv_timer_t poll;
        struct deferred report; /* one change makes several events */
        char *directory;
        uint64_t poll_ms;
        struct file_mark watched;
        void (*changed)(void *data);
        void *data;
        struct closing closing;
};

static void free_event(uv_handle_t *handle)
{
        free(handle);
}

static void forget_event(struct dirwatch *watch)
{
        if (!watch->event)
                return;
        uv_close((uv_handle_t *)watch->event, free_event);
        watch->event = NULL;
}

static void on_dirwatch_event(uv_fs_event_t *event, const char *name, int events, int status);
static void on_dirwatch_poll(uv_timer_t *timer);

/* Makes the kernel's watch follow what is at the path now. */
static void dirwatch_follow(struct dirwatch *watch)
{
        struct file_mark now = file_mark_at(watch->directory);

        /* A directory's change time moves with its entries: so only device and inode show whether it is the same. */
        if (watch->event && now.device == watch->watched.device && now.inode == watch->watched.inode)
                return;
        forget_event(watch);
        if (!file_mark_exists(&now))
                return;
        watch->event = xcalloc(1, sizeof(*watch->event));
        uv_fs_event_init(watch->poll.loop, watch->event);
        watch->event->data = watch;
        watch->watched = now;
        /* Out of inotify watches: the timer still finds changes, only later. */
        if (uv_fs_event_start(watch->event, on_dirwatch_event, watch->directory, 0) < 0)
                forget_event(watch);
}

static void on_dirwatch_event(uv_fs_event_t *event, const char *name, int events, int status UNUSED)
{
        struct dirwatch *watch = event->data;
        const char *slash = strrchr(watch->directory, '/');

        /*
         * An event of the directory itself has the directory's name: it was removed or moved. The next directory there
         * may have the same inode, so they can be distinguished only now.
         */
        if ((events & UV_RENAME) && name && strcmp(name, slash ? slash + 1 : watch->directory) == 0) {
                forget_event(watch);
                dirwatch_follow(watch);
        }
        if (uv_timer_get_due_in(&watch->poll) > CHANGED_POLL_MS)
                uv_timer_start(&watch->poll, on_dirwatch_poll, CHANGED_POLL_MS, 0);
        deferred_schedule(&watch->report);
}

static void on_dirwatch_poll(uv_timer_t *timer)
{
        struct dirwatch *watch = timer->data;

        dirwatch_follow(watch);
        uv_timer_start(
                timer, on_dirwatch_poll, watch->event ? watch->poll_ms : MIN(watch->poll_ms, MISSING_POLL_MS), 0);
        watch->changed(watch->data);
}

static void dirwatch_free(void *data)
{
        struct dirwatch *watch = data;

        free(watch->directory);
        free(watch);
}

int dirwatch_new(struct dirwatch **ret, uv_loop_t *loop, const char *directory, uint64_t poll_ms,
        void (*changed)(void *data), void *data, struct error *err)
{
        struct dirwatch *watch = xcalloc(1, sizeof(*watch));
        int rc;

        watch->directory = xstrdup(directory);
        watch->poll_ms = poll_ms;
        watch->changed = changed;
        watch->data = data;
        rc = uv_timer_init(loop, &watch->poll);
        if (rc < 0) {
                free(watch->directory);
                free(watch);
                return error_errno(err, -rc, "watch '%s'", directory);
        }
        watch->poll.data = watch;
        deferred_init(&watch->report, loop, changed, data);
        dirwatch_follow(watch);
        uv_timer_start(&watch->poll, on_dirwatch_poll, watch->event ? poll_ms : MIN(poll_ms, MISSING_POLL_MS), 0);
        *ret = watch;
        return 0;
}

struct dirwatch *dirwatch_close(struct dirwatch *watch)
{
        if (!watch)
                return NULL;
        forget_event(watch);
        closing_close(&watch->closing, &watch->poll);
        deferred_close(&watch->report, &watch->closing);
        closing_end(&watch->closing, dirwatch_free, watch);
        return NULL;
}
