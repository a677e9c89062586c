/*
 * The order matters: first check that no container has the tmpfs, then remove the old files. A container that starts in
 * between, or while files are being removed, creates new files, which stay.
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
#include "base/sweep.h"
#include "mps/supervisor/shm_mount.h"

#define FIRST_PID_NAMESPACE 0xEFFFFFFCU /* include/linux/proc_ns.h: PROC_PID_INIT_INO */
#define MAPS_MAX ((size_t)16 * 1024 * 1024)
#define USED_MAX ((size_t)4096) /* files that daemon and servers use; if there are more, nothing is removed */

struct mps_shm_left {
        dev_t device;
        struct timespec changed_before;
        ino_t *used;
        size_t n_used;
        bool is_known; /* |used| is complete */
        struct sweep *sweep;
};

/* ---- files that daemon and servers use ---- */

static void add_used(struct mps_shm_left *left, dev_t device, ino_t inode)
{
        if (device != left->device)
                return;
        if (left->n_used == USED_MAX)
                left->is_known = false;
        else
                left->used[left->n_used++] = inode;
}

/* A line of maps: "address permissions offset major:minor inode path". */
static void add_mapped(struct mps_shm_left *left, char *maps)
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

static void add_open(struct mps_shm_left *left, pid_t pid)
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

static void add_process(struct mps_shm_left *left, pid_t pid)
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
static void add_processes(struct mps_shm_left *left, pid_t daemon)
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

static bool is_used(const struct mps_shm_left *left, ino_t inode)
{
        for (size_t i = 0; i < left->n_used; i++)
                if (left->used[i] == inode)
                        return true;
        return false;
}

/* ---- removing ---- */

static bool is_before(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static bool stays(const struct stat *status, void *data)
{
        const struct mps_shm_left *left = data;

        return !is_before(&status->st_ctim, &left->changed_before) || is_used(left, status->st_ino);
}

static bool sees_all_processes(void)
{
        struct stat status;

        return stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == FIRST_PID_NAMESPACE;
}

/* False: somebody uses the tmpfs, or it is not known which files are used. */
static bool find_used(struct mps_shm_left *left, int folder, pid_t daemon)
{
        struct stat status;

        if (fstat(folder, &status) < 0 || mps_shm_find_user(status.st_dev, daemon))
                return false;
        left->device = status.st_dev;
        if (daemon)
                add_processes(left, daemon);
        return left->is_known;
}

struct mps_shm_left *mps_shm_left_new(const struct mps_shm_left_options *options)
{
        _close_ int folder = -1;
        struct mps_shm_left *left;

        if (!sees_all_processes())
                return NULL;
        folder = open(options->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0)
                return NULL;
        left = xcalloc(1, sizeof(*left));
        left->is_known = true;
        left->used = xcalloc(USED_MAX, sizeof(*left->used));
        clock_gettime(CLOCK_REALTIME_COARSE, &left->changed_before); /* the clock by which the kernel dates files */
        left->changed_before.tv_sec -= (time_t)options->age_s;
        if (!find_used(left, folder, options->daemon)) {
                mps_shm_left_free(left);
                return NULL;
        }
        left->sweep = sweep_new(TAKE_FD(folder),
                &(struct sweep_options){
                        .keeps = stays, .keeps_data = left, .close = options->close, .close_data = options->data});
        return left;
}

bool mps_shm_left_run(struct mps_shm_left *left, unsigned int ms)
{
        return sweep_run(left->sweep, ms);
}

size_t mps_shm_left_free(struct mps_shm_left *left)
{
        size_t removed;

        if (!left)
                return 0;
        removed = left->sweep ? sweep_removed(left->sweep) : 0;
        sweep_free(left->sweep);
        free(left->used);
        free(left);
        return removed;
}
