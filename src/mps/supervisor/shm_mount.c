// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/shm_mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/proc.h"
#include "base/strbuf.h"
#include "base/io/worker.h"

#define FALLBACK_KIB UINT64_C(65536)
#define FILES 65536U /* each takes about 1 KiB of kernel memory; servers and clients create a few each */
#define PROC_FILE_MAX ((size_t)4 * 1024 * 1024)
#define USER_DEADLINE_MS UINT64_C(30000) /* tenants can have very many mounts */

/* ---- what is mounted ---- */

enum there { NOTHING, A_FOLDER, OUR_TMPFS, SOMETHING_ELSE };

static int open_it(int folder)
{
        return openat(folder, MPS_SHM_NAME, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_tmpfs(int folder)
{
        _close_ int fd = open_it(folder);
        struct statfs system;

        return fd >= 0 && fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

/* Finds out what |folder| has at that name. A link is something else, wherever it leads. -1 with errno. */
static int shm_mount_poll(int folder, enum there *ret, dev_t *ret_device)
{
        struct stat above;
        struct stat status;

        if (fstatat(folder, MPS_SHM_NAME, &status, AT_SYMLINK_NOFOLLOW) < 0) {
                *ret = NOTHING;
                return errno == ENOENT ? 0 : -1;
        }
        if (fstat(folder, &above) < 0)
                return -1;
        *ret_device = status.st_dev;
        if (!S_ISDIR(status.st_mode))
                *ret = SOMETHING_ELSE;
        else if (status.st_dev == above.st_dev)
                *ret = A_FOLDER;
        else
                *ret = is_tmpfs(folder) ? OUR_TMPFS : SOMETHING_ELSE;
        return 0;
}

bool mps_shm_is_mounted(int folder)
{
        enum there there;
        dev_t device;

        return shm_mount_poll(folder, &there, &device) == 0 && there == OUR_TMPFS;
}

/* ---- mounting ---- */

uint64_t mps_shm_size_kib(const char *meminfo)
{
        const char *total = strstr(meminfo, "MemTotal:");
        uint64_t kib = 0;

        if (total && sscanf(total, "MemTotal: %" SCNu64 " kB", &kib) == 1 && kib / 2 > 0)
                return kib / 2;
        return FALLBACK_KIB;
}

uint64_t mps_shm_machine_kib(void)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read("/proc/meminfo", PROC_FILE_MAX, &text, &err) < 0)
                return FALLBACK_KIB;
        return mps_shm_size_kib(text.data);
}

#define MOUNT_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RELATIME)

static int set_size(const char *at, const char *options, const char *folder, struct error *err)
{
        if (mount(NULL, at, NULL, MS_REMOUNT | MOUNT_FLAGS, options) == 0)
                return 0;
        /* The tmpfs holds more than that, or this process may not change it: the size stays. */
        return errno == EINVAL || errno == EPERM
                       ? 0
                       : error_errno(err, errno, "set the size of '%s/" MPS_SHM_NAME "'", folder);
}

static int mount_at(const char *at, const char *options, const char *folder, struct error *err)
{
        if (mount("shm", at, "tmpfs", MOUNT_FLAGS, options) == 0)
                return 0;
        if (errno == EPERM)
                return error_set(err, ERROR_DENIED,
                        "mount a tmpfs at '%s/" MPS_SHM_NAME "': not permitted; the container has to be privileged "
                        "(CAP_SYS_ADMIN), and its mount of the MPS root has to be Bidirectional, so that others see "
                        "the tmpfs",
                        folder);
        return error_errno(err, errno, "mount a tmpfs at '%s/" MPS_SHM_NAME "'", folder);
}

/* Mounts by a descriptor, so that the tmpfs is at the folder that was checked. */
static int mount_or_set_size(int above, enum there there, uint64_t kib, const char *folder, struct error *err)
{
        _free_ char *options = xasprintf("size=%" PRIu64 "k,nr_inodes=%u", kib, FILES);
        _close_ int fd = open_it(above);
        _free_ char *at = xasprintf("/proc/self/fd/%d", fd);

        if (fd < 0)
                return error_errno(err, errno, "open '%s/" MPS_SHM_NAME "'", folder);
        return there == OUR_TMPFS ? set_size(at, options, folder, err) : mount_at(at, options, folder, err);
}

int mps_shm_mount(const char *folder, uint64_t kib, bool *ret_mounted, struct error *err)
{
        _close_ int above = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        enum there there;
        dev_t device;

        if (above < 0 || shm_mount_poll(above, &there, &device) < 0)
                return error_errno(err, errno, "inspect '%s/" MPS_SHM_NAME "'", folder);
        if (there == SOMETHING_ELSE)
                return error_set(err, ERROR_INVALID,
                        "'%s/" MPS_SHM_NAME "' is neither a folder nor a tmpfs; unmount or remove it", folder);
        if (there == NOTHING && mkdirat(above, MPS_SHM_NAME, 0755) < 0)
                return error_errno(err, errno, "make '%s/" MPS_SHM_NAME "'", folder);
        if (mount_or_set_size(above, there, kib, folder, err) < 0) {
                if (there == NOTHING)
                        unlinkat(above, MPS_SHM_NAME, AT_REMOVEDIR);
                return -1;
        }
        *ret_mounted = there != OUR_TMPFS;
        return 0;
}

/* ---- propagation and users ---- */

bool mps_shm_is_seen_by_others(const char *mountinfo, const char *root, bool is_in_first_namespace)
{
        struct mountinfo_line mount;
        size_t longest = 0;
        bool is_seen = is_in_first_namespace;

        while (mountinfo_next(&mountinfo, &mount)) {
                const size_t length = mountinfo_is_at(&mount, "/") ? 0 : mount.length;

                if (strncmp(root, mount.point, length) != 0 || (root[length] && root[length] != '/') ||
                        length < longest)
                        continue;
                longest = length; /* of two at one place the last one lies on top */
                is_seen = mount.is_shared || (root[length] && is_in_first_namespace);
        }
        return is_seen;
}

bool mps_shm_mounts_are_seen(const char *path)
{
        _cleanup_(strbuf_done) struct strbuf mountinfo = STRBUF_INIT;
        char root[PATH_MAX];
        struct error err;

        if (!realpath(path, root) || file_read("/proc/self/mountinfo", PROC_FILE_MAX, &mountinfo, &err) < 0)
                return false;
        if (mps_shm_is_seen_by_others(mountinfo.data, root, mps_shm_mounts_of(1) == mps_shm_mounts_of(getpid())))
                return true;
        log_info("all MPS daemons use one shared memory of the node: mounts made here are not visible to other "
                 "containers",
                LOG_STR("root", path));
        return false;
}

/*
 * Mounts |source| at |point|, and lets no link in it be followed. A kernel before 5.10 does not know how, and the mount
 * stays without. What else the source's mount refuses, the new one does.
 */
static int mount_without_links(const char *source, const char *point, struct error *err)
{
        struct statvfs refuses;
        unsigned long flags;

        if (mount(source, point, NULL, MS_BIND, NULL) < 0 || statvfs(point, &refuses) < 0)
                return error_errno(err, errno, "mount '%s' at '%s'", source, point);
        flags = refuses.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC); /* the values are those of mount() */
        if (mount(NULL, point, NULL, MS_REMOUNT | MS_BIND | MS_NOSYMFOLLOW | flags, NULL) < 0 && errno != EINVAL &&
                errno != EPERM)
                return error_errno(err, errno, "let no link in '%s' be followed", point);
        return 0;
}

int mps_shm_enter(const char *path, const char *pipe, struct error *err)
{
        if (unshare(CLONE_NEWNS) < 0)
                return error_errno(err, errno, "make a mount namespace, in which '%s' is to be /dev/shm", path);
        /* Later mounts of the host still arrive, for example files of a driver; mounts made here stay here. */
        if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
                return error_errno(err, errno, "keep the mounts of a daemon to itself");
        if (mount_without_links(path, "/dev/shm", err) < 0)
                return -1;
        return mount_without_links(pipe, pipe, err);
}

bool mps_shm_is_of(pid_t pid, const char *path)
{
        _free_ char *theirs = xasprintf("/proc/%d/root/dev/shm", (int)pid);

        return file_is_at_both(theirs, path);
}

ino_t mps_shm_mounts_of(pid_t pid)
{
        _free_ char *path = xasprintf("/proc/%d/ns/mnt", (int)pid);
        struct stat status;

        return stat(path, &status) == 0 ? status.st_ino : 0;
}

/* Mount namespaces that need not be looked at, or have been. */
struct namespaces {
        ino_t *all;
        size_t count;
        size_t capacity;
};

/* False: it was added before. */
static bool add_namespace(struct namespaces *seen, ino_t mounts)
{
        for (size_t i = 0; i < seen->count; i++)
                if (seen->all[i] == mounts)
                        return false;
        if (seen->count == seen->capacity) {
                seen->capacity = seen->capacity ? seen->capacity * 2 : 64;
                seen->all = xrealloc(seen->all, seen->capacity * sizeof(*seen->all));
        }
        seen->all[seen->count++] = mounts;
        return true;
}

static bool is_its_shm(const char *line, dev_t device)
{
        struct mountinfo_line mount;

        return mountinfo_next(&line, &mount) && mount.device == device && mountinfo_is_at(&mount, "/dev/shm");
}

/*
 * Mounts that cannot be read count as a use, except those of a process that has ended meanwhile. The list is read line
 * by line, because a tenant can fill its mount namespace.
 */
static bool has_in_its_mounts(pid_t pid, dev_t device)
{
        _free_ char *path = xasprintf("/proc/%d/mountinfo", (int)pid);
        FILE *file = fopen(path, "re");
        char *line = NULL;
        size_t capacity = 0;
        bool has_it = false;
        bool is_hidden = !file && (errno == EACCES || errno == EPERM);
        bool has_failed = !file;

        while (file && !has_it && getline(&line, &capacity, file) > 0)
                has_it = is_its_shm(line, device);
        has_failed = has_failed || ferror(file);
        free(line);
        if (file)
                fclose(file);
        return has_it || is_hidden || (has_failed && mps_shm_mounts_of(pid));
}

pid_t mps_shm_find_user(dev_t device, pid_t except)
{
        struct namespaces seen = {0};
        DIR *processes = opendir("/proc");
        const struct dirent *entry;
        pid_t user = 0;

        if (!processes)
                return 0;
        add_namespace(&seen, mps_shm_mounts_of(getpid()));
        if (except)
                add_namespace(&seen, mps_shm_mounts_of(except));
        while (!user && (entry = readdir(processes))) {
                const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
                const ino_t mounts = pid > 0 ? mps_shm_mounts_of(pid) : 0;

                if (pid > 0 && (!mounts || add_namespace(&seen, mounts)) && has_in_its_mounts(pid, device))
                        user = pid;
        }
        closedir(processes);
        free(seen.all);
        return user;
}

/* ---- unmounting ---- */

static void serve_user(const void *message, size_t size UNUSED, struct strbuf *answer, const void *data UNUSED)
{
        const pid_t user = mps_shm_find_user(*(const dev_t *)message, 0);

        strbuf_append(answer, &user, sizeof(user));
}

/* False: the search took too long, or its process could not be started. */
static bool find_user_in_time(dev_t device, pid_t *ret)
{
        _cleanup_(strbuf_done) struct strbuf answer = STRBUF_INIT;
        struct worker_alone alone;
        struct error err;
        bool is_known;

        worker_alone_begin(&alone, "mps-shm-users", serve_user, NULL);
        is_known = worker_alone_ask(&alone, &device, sizeof(device), USER_DEADLINE_MS, &answer, &err) == 0 &&
                   answer.size == sizeof(*ret);
        worker_alone_end(&alone);
        if (is_known)
                memcpy(ret, answer.data, sizeof(*ret));
        return is_known;
}

int mps_shm_unmount(int folder, const char *path, pid_t *ret_user, struct error *err)
{
        _free_ char *at = xasprintf("/proc/self/fd/%d/" MPS_SHM_NAME, folder);
        enum there there;
        dev_t device = 0;

        *ret_user = 0;
        if (shm_mount_poll(folder, &there, &device) < 0)
                return error_errno(err, errno, "inspect '%s/" MPS_SHM_NAME "'", path);
        if (there == NOTHING || there == SOMETHING_ELSE)
                return 0;
        if (there == OUR_TMPFS) {
                if (!find_user_in_time(device, ret_user) || *ret_user)
                        return 1;
                if (umount2(at, UMOUNT_NOFOLLOW) < 0) {
                        if (errno == EBUSY)
                                return 1;
                        return error_errno(err, errno, "unmount '%s/" MPS_SHM_NAME "'", path);
                }
        }
        if (unlinkat(folder, MPS_SHM_NAME, AT_REMOVEDIR) < 0 && errno != ENOENT)
                return error_errno(err, errno, "remove '%s/" MPS_SHM_NAME "'", path);
        return 0;
}
