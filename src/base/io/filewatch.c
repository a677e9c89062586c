// SPDX-License-Identifier: Apache-2.0
/*
 * Each poll follows the path again, link by link: it first sets the kernel's watches and then reads the content, so
 * that no change between the two is missed. The kernel's watches follow inodes. After an event all of them are made
 * again, since a folder that was removed and created again may have the inode number of the old one.
 *
 * It uses inotify itself, because uv_fs_event_t asks for every write to every file of a folder: the folder may be /dev,
 * where the config manager's "empty" configuration leads, or may contain a log.
 */
#include "base/io/filewatch.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/loop.h"

#define QUIET_MS UINT64_C(200)
#define PATIENCE_MS UINT64_C(1000)
#define MAX_ENTRIES 8U /* the file and the links before it; what lies beyond is left to the timer */

/* A folder reports entries that come and go, the file its bytes and its permissions. */
#define FOLDER_EVENTS (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define FILE_EVENTS (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB)
#define ANY_NAME (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_Q_OVERFLOW)

/* A name on the way to the file that may come to mean something else: a link, or the file itself. */
struct entry {
        char *folder; /* without links in it */
        char *name;
        dev_t device; /* of the folder; 0: there is none */
        ino_t inode;
        int watch; /* -1: none */
};

/* One inotify instance. Replaced as a whole, with all its watches. */
struct inotify {
        uv_poll_t poll;
        int fd;
};

struct filewatch {
        uv_timer_t poll;
        uv_timer_t quiet; /* runs after an event, until nothing has happened for a while */
        uint64_t first_event_ms;
        char *path;
        size_t limit;
        struct inotify *inotify; /* NULL: the system has none left, and the timer has to do */
        struct entry entries[MAX_ENTRIES];
        size_t n_entries;
        int file; /* the watch on the file that the path leads to; -1: none */
        struct file_mark mark;
        struct strbuf content; /* last known; or why it could not be read */
        void (*changed)(void *data);
        void *data;
        struct closing closing;
};

/* ---- the way to the file ---- */

static void forget_entries(struct entry *entries, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                free(entries[i].folder);
                free(entries[i].name);
        }
}

static void filewatch_add_entry(struct entry *entry, const char *folder, const char *name)
{
        struct stat status;

        *entry = (struct entry){.folder = xstrdup(folder), .name = xstrdup(name), .watch = -1};
        if (stat(folder, &status) == 0) {
                entry->device = status.st_dev;
                entry->inode = status.st_ino;
        }
}

/* Takes the first component, an owned copy; NULL: there is none left. */
static char *filewatch_take_component(const char **path)
{
        const char *begin = *path + strspn(*path, "/");
        size_t length = strcspn(begin, "/");

        *path = begin + length;
        return length ? xasprintf("%.*s", (int)length, begin) : NULL;
}

static const char *root_of(const char *path)
{
        return *path == '/' ? "/" : ".";
}

/*
 * As the kernel follows a path: component by component, and where one is a link, its target takes its place. What is
 * found are the links, and at the end the file, or the first component that is not there.
 */
static size_t find_entries(const char *path, struct entry *entries)
{
        char *rest = xstrdup(path);
        char *folder = xstrdup(root_of(path));
        const char *at = rest;
        size_t count = 0;
        char *name;

        while (count < MAX_ENTRIES && (name = filewatch_take_component(&at))) {
                char *full = xasprintf("%s%s%s", folder, strcmp(folder, "/") == 0 ? "" : "/", name);
                char target[PATH_MAX];
                ssize_t length = readlink(full, target, sizeof(target) - 1);
                bool is_end = !at[strspn(at, "/")] || (length < 0 && errno == ENOENT);

                if (length > 0 || is_end)
                        filewatch_add_entry(&entries[count++], folder, name);
                free(name);
                if (length > 0) {
                        char *longer;

                        target[length] = '\0';
                        longer = xasprintf("%s/%s", target, at);
                        free(rest);
                        at = rest = longer;
                        if (*rest == '/') {
                                free(folder);
                                folder = xstrdup("/");
                        }
                        free(full);
                } else {
                        free(folder);
                        folder = full;
                }
                if (length <= 0 && is_end)
                        break;
        }
        free(folder);
        free(rest);
        return count;
}

static bool entries_are_same(const struct filewatch *watch, const struct entry *entries, size_t count)
{
        if (watch->n_entries != count)
                return false;
        for (size_t i = 0; i < count; i++) {
                const struct entry *known = &watch->entries[i];

                if (strcmp(known->folder, entries[i].folder) != 0 || strcmp(known->name, entries[i].name) != 0 ||
                        known->device != entries[i].device || known->inode != entries[i].inode)
                        return false;
        }
        return true;
}

/* ---- listening ---- */

static void inotify_free(uv_handle_t *handle)
{
        free(container_of(handle, struct inotify, poll));
}

static void inotify_close(struct filewatch *watch)
{
        struct inotify *inotify = TAKE_PTR(watch->inotify);

        if (!inotify)
                return;
        uv_close((uv_handle_t *)&inotify->poll, inotify_free);
        close(inotify->fd);
}

static void on_filewatch_readable(uv_poll_t *poll, int status, int events);

static void inotify_open(struct filewatch *watch)
{
        int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

        if (fd < 0)
                return;
        watch->inotify = xcalloc(1, sizeof(*watch->inotify));
        watch->inotify->fd = fd;
        watch->inotify->poll.data = watch;
        if (uv_poll_init(watch->poll.loop, &watch->inotify->poll, fd) < 0) {
                free(TAKE_PTR(watch->inotify));
                close(fd);
                return;
        }
        uv_poll_start(&watch->inotify->poll, UV_READABLE, on_filewatch_readable);
}

static int filewatch_watch_file(const struct filewatch *watch)
{
        struct stat status;

        /* A device is not watched: any process writes to /dev/null. */
        if (stat(watch->path, &status) < 0 || !S_ISREG(status.st_mode))
                return -1;
        return inotify_add_watch(watch->inotify->fd, watch->path, FILE_EVENTS);
}

static void filewatch_follow(struct filewatch *watch, bool must_rewatch)
{
        struct entry entries[MAX_ENTRIES];
        size_t count = find_entries(watch->path, entries);

        if (!must_rewatch && entries_are_same(watch, entries, count)) {
                forget_entries(entries, count);
                return;
        }
        inotify_close(watch);
        forget_entries(watch->entries, watch->n_entries);
        memcpy(watch->entries, entries, count * sizeof(*entries));
        watch->n_entries = count;
        inotify_open(watch);
        if (!watch->inotify)
                return;
        for (size_t i = 0; i < count; i++)
                watch->entries[i].watch =
                        inotify_add_watch(watch->inotify->fd, watch->entries[i].folder, FOLDER_EVENTS);
        watch->file = filewatch_watch_file(watch);
}

/* ---- the content ---- */

/* False when the file does not exist. Pipes and the like do not count as files: opening one could wait for ever. */
static bool read_mark(const struct filewatch *watch, struct file_mark *ret)
{
        struct stat status;

        if (stat(watch->path, &status) < 0 || S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
                return false;
        *ret = file_mark_of(&status);
        return true;
}

/* True when the content is there and is another one. */
static bool filewatch_read(struct filewatch *watch)
{
        struct strbuf content = STRBUF_INIT;
        struct file_mark mark;
        struct error err;
        bool is_same;

        if (!read_mark(watch, &mark) || file_mark_is_same(&mark, &watch->mark))
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
        watch->mark = mark;
        return !is_same;
}

static void filewatch_poll(struct filewatch *watch, bool must_rewatch)
{
        filewatch_follow(watch, must_rewatch);
        if (filewatch_read(watch))
                watch->changed(watch->data);
}

static void on_quiet(uv_timer_t *timer)
{
        filewatch_poll(timer->data, true);
}

static void on_filewatch_poll(uv_timer_t *timer)
{
        filewatch_poll(timer->data, false);
}

static void filewatch_note_event(struct filewatch *watch)
{
        uint64_t now = uv_now(watch->poll.loop);

        if (!uv_is_active((uv_handle_t *)&watch->quiet))
                watch->first_event_ms = now;
        if (now - watch->first_event_ms < PATIENCE_MS)
                uv_timer_start(&watch->quiet, on_quiet, QUIET_MS, 0);
}

static bool filewatch_event_matters(const struct filewatch *watch, const struct inotify_event *event)
{
        if ((event->mask & ANY_NAME) || event->wd == watch->file)
                return true;
        for (size_t i = 0; i < watch->n_entries; i++)
                if (watch->entries[i].watch == event->wd && event->len > 0 &&
                        strcmp(watch->entries[i].name, event->name) == 0)
                        return true;
        return false;
}

static void on_filewatch_readable(uv_poll_t *poll, int status UNUSED, int events UNUSED)
{
        const struct inotify *inotify = container_of(poll, struct inotify, poll);
        struct filewatch *watch = poll->data;
        union {
                struct inotify_event event; /* for its alignment */
                char bytes[4096];
        } buffer;
        ssize_t size;

        while ((size = read(inotify->fd, &buffer, sizeof(buffer))) > 0)
                for (const char *at = buffer.bytes; at < buffer.bytes + size;) {
                        const struct inotify_event *event = (const struct inotify_event *)(const void *)at;

                        if (filewatch_event_matters(watch, event))
                                filewatch_note_event(watch);
                        at += sizeof(*event) + event->len;
                }
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
        watch->file = -1;
        watch->path = xstrdup(options->path);
        watch->limit = options->limit;
        watch->content = (struct strbuf)STRBUF_INIT;
        watch->changed = options->changed;
        watch->data = options->data;
        filewatch_accept(watch);
        uv_timer_start(&watch->poll, on_filewatch_poll, poll_ms, poll_ms);
        *ret = watch;
        return 0;
}

/*
 * The watches stay, so a change from now on is seen. New watches would close an inotify instance, for which the kernel
 * takes up to 20 ms: the start of the agent waited for that.
 */
void filewatch_accept(struct filewatch *watch)
{
        filewatch_follow(watch, false);
        filewatch_read(watch);
}

static void filewatch_free(void *data)
{
        struct filewatch *watch = data;

        strbuf_done(&watch->content);
        free(watch->path);
        free(watch);
}

struct filewatch *filewatch_close(struct filewatch *watch)
{
        if (!watch)
                return NULL;
        inotify_close(watch);
        forget_entries(watch->entries, watch->n_entries);
        closing_close(&watch->closing, &watch->poll);
        closing_close(&watch->closing, &watch->quiet);
        closing_end(&watch->closing, filewatch_free, watch);
        return NULL;
}
