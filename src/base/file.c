// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

static int file_read_all(int fd, const char *path, size_t limit, struct strbuf *content, struct error *err)
{
        size_t total = 0;

        for (;;) {
                ssize_t got;

                strbuf_reserve(content, 4096);
                got = read(fd, content->data + content->size, content->capacity - content->size - 1);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return error_errno(err, errno, "read '%s'", path);
                if (got == 0)
                        return 0;
                total += (size_t)got;
                content->size += (size_t)got;
                content->data[content->size] = '\0';
                if (total > limit)
                        return error_set(err, ERROR_INVALID, "'%s' is larger than the limit of %zu bytes", path, limit);
        }
}

int file_read(const char *path, size_t limit, struct strbuf *content, struct error *err)
{
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "open '%s'", path);
        return file_read_all(fd, path, limit, content, err);
}

/* If the mode cannot be changed, as on a read-only mount, the file is read nevertheless. */
int file_read_private(const char *path, size_t limit, struct strbuf *content, struct error *err)
{
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        struct stat status;

        if (fd < 0)
                return error_errno(err, errno, "open '%s'", path);
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0777) != 0600)
                (void)!fchmod(fd, 0600);
        return file_read_all(fd, path, limit, content, err);
}

static int write_all(int fd, const char *bytes, size_t size)
{
        while (size) {
                ssize_t put = write(fd, bytes, size);

                if (put < 0 && errno == EINTR)
                        continue;
                if (put < 0)
                        return -1;
                bytes += put;
                size -= (size_t)put;
        }
        return 0;
}

/*
 * The name begins with a dot, because programs that read all files of a folder, such as node-feature-discovery, skip
 * those. A long name is cut, so that with the added characters it is still a legal name.
 */
static char *temporary_beside(const char *path)
{
        const char *slash = strrchr(path, '/');
        size_t folder = slash ? (size_t)(slash + 1 - path) : 0;

        return xasprintf("%.*s.%.200s.XXXXXX", (int)folder, path, path + folder);
}

static int replace(const char *path, const void *content, size_t size, mode_t mode, bool is_durable, struct error *err)
{
        _free_ char *temporary = temporary_beside(path);
        _close_ int fd = mkostemp(temporary, O_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "create a file beside '%s'",
                        path); /* without the random name: the text is the same each time */
        if (write_all(fd, content, size) < 0 || fchmod(fd, mode) < 0 || (is_durable && fsync(fd) < 0) ||
                rename(temporary, path) < 0) {
                int saved = errno;

                unlink(temporary);
                return error_errno(err, saved, "write '%s'", path);
        }
        return 0;
}

int file_write(const char *path, const void *content, size_t size, struct error *err)
{
        return replace(path, content, size, 0644, false, err);
}

int file_write_private(const char *path, const void *content, size_t size, struct error *err)
{
        return replace(path, content, size, 0600, false, err);
}

char *file_folder(const char *path)
{
        const char *slash = strrchr(path, '/');

        if (!slash)
                return xstrdup(".");
        return slash == path ? xstrdup("/") : xasprintf("%.*s", (int)(slash - path), path);
}

const char *file_base_name(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

int file_write_durable(const char *path, const void *content, size_t size, struct error *err)
{
        _free_ char *folder = file_folder(path);
        _close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return error_errno(err, errno, "open '%s'", folder);
        if (replace(path, content, size, 0600, true, err) < 0)
                return -1;
        if (fsync(fd) < 0)
                return error_errno(err, errno, "write '%s'", folder);
        return 0;
}

bool file_is_at_both(const char *a, const char *b)
{
        struct stat first;
        struct stat second;

        return stat(a, &first) == 0 && stat(b, &second) == 0 && first.st_dev == second.st_dev &&
               first.st_ino == second.st_ino;
}

bool file_is_still(const char *path, dev_t device, ino_t inode)
{
        struct stat status;

        if (stat(path, &status) < 0)
                return errno != ENOENT && errno != ENOTDIR;
        return status.st_dev == device && status.st_ino == inode;
}

struct file_mark file_mark_of(const struct stat *status)
{
        return (struct file_mark){status->st_dev, status->st_ino, status->st_size, status->st_mtim, status->st_ctim};
}

struct file_mark file_mark_at(const char *path)
{
        struct stat status;

        return lstat(path, &status) == 0 ? file_mark_of(&status) : (struct file_mark){0};
}

bool file_mark_is_same(const struct file_mark *a, const struct file_mark *b)
{
        return a->device == b->device && a->inode == b->inode && a->size == b->size &&
               a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
               a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

bool file_is_removed_folder(const char *path)
{
        struct stat status;

        return stat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_nlink == 0;
}

static void close_each_from(int first, bool at_exec)
{
        DIR *folder = opendir("/proc/self/fd");
        const struct dirent *entry;

        while (folder && (entry = readdir(folder))) {
                const int fd = (int)strtol(entry->d_name, NULL, 10); /* 0 for "." and ".." */

                if (fd < first || fd == dirfd(folder))
                        continue;
                if (at_exec)
                        fcntl(fd, F_SETFD, FD_CLOEXEC);
                else
                        close(fd);
        }
        if (folder)
                closedir(folder);
}

/* ---- below a folder in which others write ---- */

#define FDINFO_MAX ((size_t)64 * 1024)

/* The kernel's number of the mount that |fd| is in; -1: it does not say. */
static int mount_of(int fd)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("/proc/self/fdinfo/%d", fd);
        const char *line;
        struct error err;
        int mount;

        if (file_read(path, FDINFO_MAX, &text, &err) < 0)
                return -1;
        line = strstr(text.data, "mnt_id:");
        return line && sscanf(line, "mnt_id: %d", &mount) == 1 ? mount : -1;
}

/*
 * Replaces openat2() before Linux 5.6 and under seccomp filters that do not know it. A name without a slash has no link
 * on its way.
 */
static int open_below_and_look(int above, const char *name, int flags)
{
        _close_ int fd = openat(above, name, flags | O_NOFOLLOW | O_CLOEXEC);
        int mount;

        if (fd < 0)
                return -1;
        mount = mount_of(fd);
        if (mount >= 0 && mount == mount_of(above))
                return TAKE_FD(fd);
        errno = EXDEV;
        return -1;
}

int file_open_below(int above, const char *name, int flags)
{
        const struct open_how how = {
                .flags = (unsigned int)(flags | O_NOFOLLOW | O_CLOEXEC),
                .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
        };
        const long fd = syscall(SYS_openat2, above, name, &how, sizeof(how));

        return fd >= 0 || (errno != ENOSYS && errno != EPERM) ? (int)fd : open_below_and_look(above, name, flags);
}

void file_close_from(int first, bool at_exec)
{
        if (close_range((unsigned int)first, ~0U, at_exec ? CLOSE_RANGE_CLOEXEC : 0) < 0)
                close_each_from(first, at_exec);
}

/* Like mkdir() with mode 0755, independent of the umask. A setgid bit that the parent folder hands on stays. */
static int make_one_folder(const char *path)
{
        _close_ int fd = -1;
        struct stat status;

        if (mkdir(path, 0755) < 0)
                return -1;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &status) < 0)
                return -1;
        return (status.st_mode & 0755) == 0755 ? 0 : fchmod(fd, status.st_mode | 0755);
}

int file_make_folder(const char *path, struct error *err)
{
        _free_ char *part = xstrdup(path);
        struct stat status;

        for (char *slash = part; *slash; slash++) {
                if (slash == part || *slash != '/')
                        continue;
                *slash = '\0';
                (void)!make_one_folder(part);
                *slash = '/';
        }
        if (make_one_folder(path) < 0 && errno != EEXIST)
                return error_errno(err, errno, "create folder '%s'", path);
        if (stat(path, &status) < 0)
                return error_errno(err, errno, "create folder '%s'", path);
        if (!S_ISDIR(status.st_mode))
                return error_errno(err, ENOTDIR, "create folder '%s'", path);
        return 0;
}
