/*
 * Each look follows the links anew: first the watches, then the content, so that nothing can happen between the two unseen.
 * The kernel's watches follow inodes; after an event all of them are set again, since a folder that was removed and made again
 * may have the number of the old one.
 */
#include "io/filewatch.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define QUIET_MS UINT64_C(200)
#define PATIENCE_MS UINT64_C(1000)
#define MAX_FOLDERS 8U /* of the file and the links before it; what lies beyond is left to the timer */

/* What tells a file from what it was without reading it. */
struct stamp {
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec modified;
        struct timespec changed;
};

struct folder {
        char *path;
        dev_t device;
        ino_t inode;
        uv_fs_event_t *event; /* NULL: there is no such folder, or no watch left in the system */
};

struct filewatch {
        uv_timer_t poll;
        uv_timer_t quiet; /* runs after an event, until nothing has happened for a while */
        uint64_t first_event_ms;
        char *path;
        size_t limit;
        struct folder folders[MAX_FOLDERS];
        size_t n_folders;
        struct stamp stamp;
        struct strbuf content; /* last known; or why it could not be read */
        void (*changed)(void *data);
        void *data;
        unsigned int open_handles;
};

/* ---- the folders ---- */

static void free_event(uv_handle_t *handle)
{
        free(handle);
}

static void forget_folder(struct folder *folder)
{
        if (folder->event)
                uv_close((uv_handle_t *)folder->event, free_event);
        free(folder->path);
        *folder = (struct folder){0};
}

static void forget_folders(struct filewatch *watch)
{
        while (watch->n_folders)
                forget_folder(&watch->folders[--watch->n_folders]);
}

/* Where the link |path|, which is in |folder|, leads; NULL: it is none. */
static char *next_path(const char *path, const char *folder)
{
        char target[PATH_MAX];
        ssize_t length = readlink(path, target, sizeof(target) - 1);

        if (length <= 0)
                return NULL;
        target[length] = '\0';
        return target[0] == '/' ? xstrdup(target) : xasprintf("%s/%s", folder, target);
}

/* The folders that matter now, without their watches. */
static size_t find_folders(const struct filewatch *watch, struct folder *folders)
{
        char *path = xstrdup(watch->path);
        size_t count = 0;

        while (path && count < MAX_FOLDERS) {
                struct folder *folder = &folders[count++];
                struct stat status;
                char *next;

                *folder = (struct folder){.path = file_folder(path)};
                if (stat(folder->path, &status) == 0) {
                        folder->device = status.st_dev;
                        folder->inode = status.st_ino;
                }
                next = next_path(path, folder->path);
                free(path);
                path = next;
        }
        free(path);
        return count;
}

static bool folders_are_same(const struct filewatch *watch, const struct folder *folders, size_t count)
{
        if (watch->n_folders != count)
                return false;
        for (size_t i = 0; i < count; i++) {
                const struct folder *known = &watch->folders[i];

                if (strcmp(known->path, folders[i].path) != 0 || known->device != folders[i].device ||
                        known->inode != folders[i].inode)
                        return false;
        }
        return true;
}

static void on_event(uv_fs_event_t *event, const char *name, int events, int status);

static void follow(struct filewatch *watch, bool anew)
{
        struct folder folders[MAX_FOLDERS];
        size_t count = find_folders(watch, folders);

        if (!anew && folders_are_same(watch, folders, count)) {
                while (count)
                        free(folders[--count].path);
                return;
        }
        forget_folders(watch);
        for (; watch->n_folders < count; watch->n_folders++) {
                struct folder *folder = &watch->folders[watch->n_folders];

                *folder = folders[watch->n_folders];
                folder->event = xcalloc(1, sizeof(*folder->event));
                uv_fs_event_init(watch->poll.loop, folder->event);
                folder->event->data = watch;
                if (uv_fs_event_start(folder->event, on_event, folder->path, 0) < 0)
                        uv_close((uv_handle_t *)TAKE_PTR(folder->event), free_event);
        }
}

/* ---- the content ---- */

static bool stamp_is_same(const struct stamp *a, const struct stamp *b)
{
        return a->device == b->device && a->inode == b->inode && a->size == b->size &&
               a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
               a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

/* False when there is no such file. Pipes and the like do not count as files: opening one could wait for ever. */
static bool read_stamp(const struct filewatch *watch, struct stamp *ret)
{
        struct stat status;

        if (stat(watch->path, &status) < 0 || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
                return false;
        *ret = (struct stamp){
                .device = status.st_dev,
                .inode = status.st_ino,
                .size = status.st_size,
                .modified = status.st_mtim,
                .changed = status.st_ctim,
        };
        return true;
}

/* True when the content is there and is another one. */
static bool learn(struct filewatch *watch)
{
        struct strbuf content = STRBUF_INIT;
        struct stamp stamp;
        struct error err;
        bool is_same;

        if (!read_stamp(watch, &stamp) || stamp_is_same(&stamp, &watch->stamp))
                return false;
        if (file_read(watch->path, watch->limit, &content, &err) < 0) {
                strbuf_clear(&content);
                if (err.kind == ERROR_NOT_FOUND) {
                        strbuf_done(&content);
                        return false;
                }
                strbuf_puts(&content, err.text);
        }
        is_same = content.size == watch->content.size && memcmp(content.data, watch->content.data, content.size) == 0;
        strbuf_done(&watch->content);
        watch->content = content;
        watch->stamp = stamp;
        return !is_same;
}

static void look(struct filewatch *watch, bool anew)
{
        follow(watch, anew);
        if (learn(watch))
                watch->changed(watch->data);
}

static void on_quiet(uv_timer_t *timer)
{
        look(timer->data, true);
}

static void on_poll(uv_timer_t *timer)
{
        look(timer->data, false);
}

static void on_event(uv_fs_event_t *event, const char *name UNUSED, int events UNUSED, int status UNUSED)
{
        struct filewatch *watch = event->data;
        uint64_t now = uv_now(event->loop);

        if (!uv_is_active((uv_handle_t *)&watch->quiet))
                watch->first_event_ms = now;
        if (now - watch->first_event_ms < PATIENCE_MS)
                uv_timer_start(&watch->quiet, on_quiet, QUIET_MS, 0);
}

/* ---- life ---- */

int filewatch_new(struct filewatch **ret, uv_loop_t *loop, const struct filewatch_options *options, struct error *err)
{
        uint64_t poll_ms = options->poll_ms ? options->poll_ms : FILEWATCH_POLL_MS;
        struct filewatch *watch;
        int rc;

        if (!*options->path)
                return error_set(err, ERROR_INVALID, "watch a file: it has no name");
        watch = xcalloc(1, sizeof(*watch));
        rc = uv_timer_init(loop, &watch->poll);
        if (rc == 0)
                rc = uv_timer_init(loop, &watch->quiet);
        if (rc < 0) {
                free(watch);
                return error_errno(err, -rc, "watch '%s'", options->path);
        }
        watch->poll.data = watch;
        watch->quiet.data = watch;
        watch->open_handles = 2;
        watch->path = xstrdup(options->path);
        watch->limit = options->limit;
        watch->content = (struct strbuf)STRBUF_INIT;
        watch->changed = options->changed;
        watch->data = options->data;
        filewatch_accept(watch);
        uv_timer_start(&watch->poll, on_poll, poll_ms, poll_ms);
        *ret = watch;
        return 0;
}

void filewatch_accept(struct filewatch *watch)
{
        follow(watch, true);
        learn(watch);
}

static void on_closed(uv_handle_t *handle)
{
        struct filewatch *watch = handle->data;

        if (--watch->open_handles)
                return;
        strbuf_done(&watch->content);
        free(watch->path);
        free(watch);
}

struct filewatch *filewatch_close(struct filewatch *watch)
{
        if (!watch)
                return NULL;
        forget_folders(watch);
        uv_close((uv_handle_t *)&watch->poll, on_closed);
        uv_close((uv_handle_t *)&watch->quiet, on_closed);
        return NULL;
}
