/*
 * The order matters: first check that no container has the tmpfs, then remove the old files. A container that starts in
 * between creates new files, which stay.
 */
#include "mps/supervisor/shm_left.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "mps/supervisor/shared_memory.h"
#include "mps/supervisor/shm_mount.h"

#define FIRST_PID_NAMESPACE 0xEFFFFFFCU /* include/linux/proc_ns.h: PROC_PID_INIT_INO */
#define MAPS_MAX ((size_t)16 * 1024 * 1024)
#define USED_MAX ((size_t)4096) /* files that daemon and servers use; if there are more, nothing is removed */
#define ASIDE ".left-%llu"      /* a folder that was too deep, by its inode */

struct left {
        int folder; /* the tmpfs */
        dev_t device;
        struct timespec changed_before;
        ino_t *used;
        size_t n_used;
        bool is_known; /* |used| is complete */
        size_t entries;
        size_t removed;
};

/* ---- files that daemon and servers use ---- */

static void add_used(struct left *left, dev_t device, ino_t inode)
{
        if (device != left->device)
                return;
        if (left->n_used == USED_MAX)
                left->is_known = false;
        else
                left->used[left->n_used++] = inode;
}

/* A line of maps: "address permissions offset major:minor inode path". */
static void add_mapped(struct left *left, char *maps)
{
        char *rest = NULL;

        for (const char *line = strtok_r(maps, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
                unsigned int major_number;
                unsigned int minor_number;
                unsigned long long inode;

                if (sscanf(line, "%*s %*s %*s %x:%x %llu", &major_number, &minor_number, &inode) ==
                        3) /* NOLINT(cert-err34-c) */
                        add_used(left, makedev(major_number, minor_number), (ino_t)inode);
        }
}

static void add_open(struct left *left, pid_t pid)
{
        _free_ char *path = xasprintf("/proc/%d/fd", (int)pid);
        DIR *folder = opendir(path);
        const struct dirent *entry;

        if (!folder) {
                left->is_known = false;
                return;
        }
        while ((entry = readdir(folder))) {
                struct stat status;

                if (isdigit((unsigned char)entry->d_name[0]) && fstatat(dirfd(folder), entry->d_name, &status, 0) == 0)
                        add_used(left, status.st_dev, status.st_ino);
        }
        closedir(folder);
}

static void add_process(struct left *left, pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf maps = STRBUF_INIT;
        _free_ char *path = xasprintf("/proc/%d/maps", (int)pid);
        struct error err;

        if (file_read(path, MAPS_MAX, &maps, &err) < 0)
                left->is_known = false;
        else
                add_mapped(left, maps.data);
        add_open(left, pid);
}

/* Daemon and servers share one mount namespace, and no other process is in it. */
static void add_processes(struct left *left, pid_t daemon)
{
        const ino_t mounts = mps_shm_mounts_of(daemon);
        DIR *processes = opendir("/proc");
        const struct dirent *entry;

        left->is_known = mounts && processes;
        while (left->is_known && (entry = readdir(processes))) {
                const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

                if (pid > 0 && mps_shm_mounts_of(pid) == mounts)
                        add_process(left, pid);
        }
        if (processes)
                closedir(processes);
}

static bool is_used(const struct left *left, ino_t inode)
{
        for (size_t i = 0; i < left->n_used; i++)
                if (left->used[i] == inode)
                        return true;
        return false;
}

/* ---- removing ---- */

static void remove_in(struct left *left, int fd, unsigned int depth);

static bool is_before(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* A folder that is too deep is moved to the top, so that the next run removes its content. */
static void remove_folder(struct left *left, int above, const char *name, ino_t inode, unsigned int depth)
{
        char aside[32];
        int below;

        if (depth == MPS_SHM_DEPTH_MAX) {
                snprintf(aside, sizeof(aside), ASIDE, (unsigned long long)inode);
                renameat(above, name, left->folder, aside);
                return;
        }
        below = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0)
                return;
        remove_in(left, below, depth + 1);
        left->removed += unlinkat(above, name, AT_REMOVEDIR) == 0;
}

/* Takes |fd|. */
static void remove_in(struct left *left, int fd, unsigned int depth)
{
        DIR *folder = fdopendir(fd);
        const struct dirent *entry;

        if (!folder) {
                close(fd);
                return;
        }
        while (left->entries < MPS_SHM_ENTRIES_MAX && (entry = readdir(folder))) {
                struct stat status;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                left->entries++;
                if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
                        status.st_dev != left->device || !is_before(&status.st_ctim, &left->changed_before) ||
                        is_used(left, status.st_ino))
                        continue;
                if (S_ISDIR(status.st_mode))
                        remove_folder(left, dirfd(folder), entry->d_name, status.st_ino, depth);
                else
                        left->removed += unlinkat(dirfd(folder), entry->d_name, 0) == 0;
        }
        closedir(folder);
}

static bool sees_all_processes(void)
{
        struct stat status;

        return stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == FIRST_PID_NAMESPACE;
}

size_t mps_shm_remove_left(const char *path, pid_t daemon, unsigned int age_s)
{
        struct left left = {.is_known = true};
        struct stat status;

        clock_gettime(CLOCK_REALTIME_COARSE, &left.changed_before); /* the clock by which the kernel dates files */
        left.changed_before.tv_sec -= (time_t)age_s;
        if (!sees_all_processes())
                return 0;
        left.folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (left.folder < 0)
                return 0;
        left.used = xcalloc(USED_MAX, sizeof(*left.used));
        if (fstat(left.folder, &status) == 0 && !mps_shm_find_user(status.st_dev, daemon)) {
                left.device = status.st_dev;
                if (daemon)
                        add_processes(&left, daemon);
                if (left.is_known)
                        remove_in(&left, fcntl(left.folder, F_DUPFD_CLOEXEC, 0), 0);
        }
        close(left.folder);
        free(left.used);
        return left.removed;
}
