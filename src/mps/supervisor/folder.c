// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"

#define LOG_LIMIT ((off_t)8 * 1024 * 1024)
#define LOG_KEPT ((off_t)1024 * 1024)
#define LOG_TAIL 4096 /* bytes at the end in which the last words are looked for */
#define LOG_PAUSE_MS UINT64_C(50)
#define LOG_FLOOD_MS UINT64_C(60000) /* a log that must be cut twice within this time is being flooded */
#define SELINUX "/sys/fs/selinux/enforce"
#define SELINUX_CONTEXT "system_u:object_r:container_file_t:s0"

void mps_folder_init(struct mps_folder *folder, const char *root, const char *name)
{
        *folder = (struct mps_folder){
                .path = xasprintf("%s/%s", root, name),
                .pipe = xasprintf("%s/%s/pipe", root, name),
                .log = xasprintf("%s/%s/log", root, name),
                .shm = xasprintf("%s/%s/shm", root, name),
                .control_log = xasprintf("%s/%s/log/control.log", root, name),
                .started = xasprintf("%s/%s/.started", root, name),
                .pin = -1,
        };
}

void mps_folder_done(struct mps_folder *folder)
{
        if (folder->pin >= 0)
                close(folder->pin);
        free(folder->path);
        free(folder->pipe);
        free(folder->log);
        free(folder->shm);
        free(folder->control_log);
        free(folder->started);
}

/* An existing folder keeps its mode, unless other users could not traverse it. */
static int make_one(const char *path, struct error *err)
{
        struct stat status;

        if (mkdir(path, 0755) < 0 && errno != EEXIST)
                return error_errno(err, errno, "make the folder '%s'", path);
        if (stat(path, &status) < 0)
                return error_errno(err, errno, "inspect the folder '%s'", path);
        if (!S_ISDIR(status.st_mode))
                return error_set(err, ERROR_INVALID, "'%s' is no folder", path);
        if ((status.st_mode & 0555) != 0555 && chmod(path, 0755) < 0)
                return error_errno(err, errno, "let everybody through the folder '%s'", path);
        return 0;
}

/* |path| and every folder above it up to |root|: 0755. |root| itself has to exist. */
static int make_path(const char *root, const char *path, struct error *err)
{
        _free_ char *part = xstrdup(path);

        for (char *at = part + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
                *at = '\0';
                if (make_one(part, err) < 0)
                        return -1;
        }
        return make_one(path, err);
}

/*
 * Like chcon -t container_file_t. If the policy has no such type or the file system has no labels, this fails, and the
 * daemon works without it.
 */
void mps_folder_label(const char *path)
{
        if (access(SELINUX, F_OK) < 0 || access(path, F_OK) < 0)
                return;
        if (setxattr(path, "security.selinux", SELINUX_CONTEXT, sizeof(SELINUX_CONTEXT), 0) < 0)
                log_warn("SELinux is on, and the MPS folder cannot be labelled for containers", LOG_STR("path", path),
                        LOG_STR("context", SELINUX_CONTEXT), LOG_STR("error", strerror(errno)));
}

/* Keeps a descriptor of the present pipe directory. */
static int pin(struct mps_folder *folder, struct error *err)
{
        const int fd = open(folder->pipe, O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct stat status;

        if (fd < 0 || fstat(fd, &status) < 0) {
                const int saved = errno;

                if (fd >= 0)
                        close(fd);
                return error_errno(err, saved, "inspect the folder '%s'", folder->pipe);
        }
        if (folder->pin >= 0)
                close(folder->pin);
        folder->pin = fd;
        folder->device = status.st_dev;
        folder->inode = status.st_ino;
        return 0;
}

int mps_folder_make(struct mps_folder *folder, const char *root, struct error *err)
{
        if (make_one(root, err) < 0 || make_path(root, folder->pipe, err) < 0 || make_path(root, folder->log, err) < 0)
                return -1;
        if (folder->pin < 0 || !mps_folder_is_same(folder)) {
                mps_folder_label(folder->pipe);
                mps_folder_label(folder->log);
        }
        return pin(folder, err);
}

/* ---- what is in the pipe directory ---- */

static const struct {
        const char *name;
        mode_t type;
} doors[MPS_DOORS] = {{"control", S_IFSOCK}, {"control_privileged", S_IFSOCK}, {"control_lock", S_IFREG}};

/*
 * |*ret| is all zeros if no file of that type and of our user exists. False: that cannot be found out, for example for
 * want of memory.
 */
static bool check_door(const struct mps_folder *folder, size_t position, struct mps_door *ret)
{
        struct stat status;

        *ret = (struct mps_door){0};
        if (fstatat(folder->pin, doors[position].name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT;
        if ((status.st_mode & S_IFMT) == doors[position].type && status.st_uid == geteuid())
                *ret = (struct mps_door){status.st_dev, status.st_ino};
        return true;
}

/*
 * False: another process listens, or none. True if it cannot be found out, for example when very many clients connect
 * now.
 */
static bool is_listener(const struct mps_folder *folder, const char *name, pid_t daemon)
{
        _close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); /* NVIDIA's kind */
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct ucred peer;
        socklen_t size = sizeof(peer);

        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", folder->pin, name);
        if (fd < 0)
                return true;
        if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
                return errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS;
        return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid == daemon;
}

void mps_folder_note_doors(struct mps_folder *folder, pid_t daemon)
{
        static const struct mps_door nobodys = {
                .inode = (ino_t)-1}; /* differs from every file, and from a missing one */

        for (size_t i = 0; i < MPS_DOORS; i++) {
                if (!check_door(folder, i, &folder->doors[i]) || !folder->doors[i].inode ||
                        (doors[i].type == S_IFSOCK && !is_listener(folder, doors[i].name, daemon)))
                        folder->doors[i] = nobodys;
        }
}

const char *mps_folder_changed_door(const struct mps_folder *folder)
{
        for (size_t i = 0; i < MPS_DOORS; i++) {
                struct mps_door door;

                if (!check_door(folder, i, &door))
                        continue;
                if (door.device != folder->doors[i].device || door.inode != folder->doors[i].inode)
                        return doors[i].name;
        }
        return NULL;
}

static bool is_out_of_the_way(int directory, const char *name)
{
        char aside[64];

        if (unlinkat(directory, name, 0) == 0 || errno == ENOENT || unlinkat(directory, name, AT_REMOVEDIR) == 0)
                return true;
        snprintf(aside, sizeof(aside), ".aside-%llu", (unsigned long long)uv_hrtime());
        return renameat(directory, name, directory, aside) == 0;
}

int mps_folder_clear(const struct mps_folder *folder, struct error *err)
{
        static const char *const names[] = {
                "control", "control_privileged", "control_lock", "nvidia-cuda-mps-control.pid", "log"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!is_out_of_the_way(folder->pin, names[i]))
                        return error_errno(err, errno,
                                "remove '%s/%s', which stands where its control daemon makes a file", folder->pipe,
                                names[i]);
        return 0;
}

bool mps_folder_is_same(const struct mps_folder *folder)
{
        return file_is_still(folder->pipe, folder->device, folder->inode);
}

void mps_folder_set_started(const struct mps_folder *folder, bool started)
{
        if (!started) {
                unlink(folder->started);
                return;
        }
        _close_ int fd = open(folder->started, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

        if (fd < 0)
                log_warn("cannot create the file that signals that an MPS control daemon is ready",
                        LOG_STR("path", folder->started), LOG_STR("error", strerror(errno)));
}

/* ---- control.log ---- */

static off_t log_size(const struct mps_log *log)
{
        struct stat status;

        return stat(log->folder->control_log, &status) == 0 ? status.st_size : 0;
}

/*
 * The daemon keeps writing to the same file, so the file is copied, then truncated. A line written in between is lost.
 * True: it was too long.
 */
static bool log_trim(const struct mps_log *log)
{
        _free_ char *old = xasprintf("%s.1", log->folder->control_log);
        _close_ int from = -1;
        _close_ int to = -1;
        const off_t size = log_size(log);
        off_t at = size - LOG_KEPT;

        if (size <= LOG_LIMIT)
                return false;
        from = open(log->folder->control_log, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        to = open(old, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        if (from < 0)
                return false;
        while (to >= 0 && at < size && sendfile(to, from, &at, (size_t)(size - at)) > 0)
                ;
        if (ftruncate(from, 0) < 0)
                log_warn("cannot cut the log of an MPS control daemon", LOG_STR("path", log->folder->control_log),
                        LOG_STR("error", strerror(errno)));
        return true;
}

static void log_begin(struct mps_log *log);

/* Watching begins before the check: a write in between is then another event. */
static void on_log_pause_over(uv_timer_t *pause)
{
        struct mps_log *log = container_of(pause, struct mps_log, pause);
        const uint64_t now = MAX(uv_now(pause->loop), UINT64_C(1));

        log_begin(log);
        if (!log_trim(log))
                return;
        if (log->trimmed_at && now - log->trimmed_at < LOG_FLOOD_MS)
                log->flooded(log->data);
        log->trimmed_at = now;
}

/* During a flood of lines, only one event counts per pause: watching stops until the pause is over. */
static void on_log_event(uv_fs_event_t *event, const char *name UNUSED, int events UNUSED, int status UNUSED)
{
        struct mps_log *log = container_of(event, struct mps_log, event);

        uv_fs_event_stop(event);
        uv_timer_start(&log->pause, on_log_pause_over, LOG_PAUSE_MS, 0);
}

static void log_begin(struct mps_log *log)
{
        const int rc = uv_fs_event_start(&log->event, on_log_event, log->folder->control_log, 0);

        if (rc < 0)
                log_warn("cannot watch the log of an MPS control daemon: it may grow without bound",
                        LOG_STR("path", log->folder->control_log), LOG_STR("error", uv_strerror(rc)));
}

void mps_log_init(
        struct mps_log *log, uv_loop_t *loop, const struct mps_folder *folder, void (*flooded)(void *data), void *data)
{
        *log = (struct mps_log){.folder = folder, .flooded = flooded, .data = data};
        uv_fs_event_init(loop, &log->event);
        uv_timer_init(loop, &log->pause);
}

void mps_log_follow(struct mps_log *log)
{
        log->start = log_size(log);
        uv_timer_stop(&log->pause);
        uv_fs_event_stop(&log->event);
        if (access(log->folder->control_log, F_OK) == 0) /* an adopted process may write elsewhere */
                log_begin(log);
}

char *mps_log_last_words(const struct mps_log *log)
{
        _close_ int fd = open(log->folder->control_log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        char text[LOG_TAIL + 1] = "";
        const char *line;
        ssize_t got = fd < 0 ? 0 : pread(fd, text, LOG_TAIL, MAX(log->start, log_size(log) - LOG_TAIL));

        while (got > 0 && text[got - 1] == '\n')
                got--;
        text[MAX(got, 0)] = '\0';
        line = strrchr(text, '\n');
        return xstrdup(line ? line + 1 : text);
}

int mps_log_open(const struct mps_log *log, struct error *err)
{
        int fd = open(log->folder->control_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);

        if (fd < 0)
                return error_errno(err, errno, "open '%s'", log->folder->control_log);
        return fd;
}

void mps_log_close(struct mps_log *log, struct closing *closing)
{
        closing_close(closing, &log->event);
        closing_close(closing, &log->pause);
}
