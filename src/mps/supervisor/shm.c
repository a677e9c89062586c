// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/shm.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sweep.h"
#include "mps/supervisor/shm_mount.h"

#define OWNERS_MAX ((size_t)1024) /* files of more users are counted as nameless */
#define BLOCK UINT64_C(512)
#define POLLS_BETWEEN_COUNTS 30U
#define POLLS_BETWEEN_REMOVALS 30U /* a minute with the default interval */
#define REMOVAL_DEADLINE_MS UINT64_C(20000)
#define FIRST_PID_NAMESPACE 0xEFFFFFFCU /* include/linux/proc_ns.h: PROC_PID_INIT_INO */
#define MAPS_MAX ((size_t)16 * 1024 * 1024)
#define USED_MAX ((size_t)4096) /* files that daemon and servers use; if there are more, nothing is removed */

/* ---- how full a tmpfs is ---- */

/* Opens the tmpfs; |*ret| is -1, without an error, if there is none. */
static int open_tmpfs(const char *path, int *ret, struct error *err)
{
        _close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat above;
        struct stat status;
        struct statfs system;

        *ret = -1;
        if (fd < 0)
                return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                               ? 0
                               : error_errno(err, errno, "open '%s'", path);
        if (fstatat(fd, "..", &above, 0) < 0 || fstat(fd, &status) < 0 || fstatfs(fd, &system) < 0)
                return error_errno(err, errno, "inspect '%s'", path);
        if (system.f_type == TMPFS_MAGIC && status.st_dev != above.st_dev)
                *ret = TAKE_FD(fd);
        return 0;
}

int mps_shm_poll(struct mps_shm *ret, const char *path, struct error *err)
{
        struct statfs system;
        _close_ int fd = -1;

        if (open_tmpfs(path, &fd, err) < 0)
                return -1;
        *ret = (struct mps_shm){0};
        if (fd < 0)
                return 0;
        if (fstatfs(fd, &system) < 0)
                return error_errno(err, errno, "inspect '%s'", path);
        ret->size = (uint64_t)system.f_blocks * (uint64_t)system.f_bsize;
        ret->used = (uint64_t)(system.f_blocks - system.f_bfree) * (uint64_t)system.f_bsize;
        ret->files_max = system.f_files;
        ret->files = system.f_files - system.f_ffree;
        return 0;
}

/* ---- owners ---- */

struct count {
        struct mps_shm_owner *owners;
        size_t n_owners;
        size_t entries;
        uint64_t bytes;
        dev_t device;
};

static void shm_add(struct count *count, const struct stat *status)
{
        const uint64_t names = S_ISDIR(status->st_mode) ? 1 : MAX((uint64_t)status->st_nlink, UINT64_C(1));
        const uint64_t bytes = (uint64_t)status->st_blocks * BLOCK / names;
        size_t position = 0;

        count->bytes += bytes;
        while (position < count->n_owners && count->owners[position].uid != status->st_uid)
                position++;
        if (position == OWNERS_MAX)
                return;
        if (position == count->n_owners)
                count->owners[count->n_owners++] = (struct mps_shm_owner){.uid = status->st_uid};
        count->owners[position].bytes += bytes;
        count->owners[position].files++;
}

/* Takes |fd|. Folders that cannot be opened are not counted; the process runs as root, so that is rare. */
static void walk(struct count *count, int fd, unsigned int depth)
{
        DIR *folder = fdopendir(fd);
        const struct dirent *entry;

        if (!folder) {
                close(fd);
                return;
        }
        while (count->entries < MPS_SHM_ENTRIES_MAX && (entry = readdir(folder))) {
                struct stat status;
                int below;

                if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                        continue;
                count->entries++;
                if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) < 0 ||
                        status.st_dev != count->device)
                        continue;
                shm_add(count, &status);
                if (!S_ISDIR(status.st_mode) || depth + 1 == MPS_SHM_DEPTH_MAX)
                        continue;
                below = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (below >= 0)
                        walk(count, below, depth + 1);
        }
        closedir(folder);
}

/* Sorts by the part that each uses of the total, bytes or files, whichever is larger: the largest first. */
static int shm_compare_owners(const void *a, const void *b, void *data)
{
        const struct mps_shm_owner *owners[] = {a, b};
        const struct mps_shm *shm = data;
        unsigned int weights[2];

        for (size_t i = 0; i < 2; i++)
                weights[i] = mps_shm_permille(&(const struct mps_shm){.size = shm->size,
                        .used = owners[i]->bytes,
                        .files_max = shm->files_max,
                        .files = owners[i]->files});
        return weights[0] < weights[1] ? 1 : -(weights[0] > weights[1]);
}

static void keep_largest(struct mps_shm *shm, struct count *count)
{
        qsort_r(count->owners, count->n_owners, sizeof(*count->owners), shm_compare_owners, shm);
        shm->n_owners = MIN(count->n_owners, (size_t)MPS_SHM_OWNERS);
        memcpy(shm->owners, count->owners, shm->n_owners * sizeof(*shm->owners));
}

int mps_shm_count(struct mps_shm *shm, const char *path, struct error *err)
{
        struct count count = {0};
        struct stat status;
        _close_ int fd = -1;

        if (open_tmpfs(path, &fd, err) < 0)
                return -1;
        if (fd < 0)
                return 0;
        if (fstat(fd, &status) < 0)
                return error_errno(err, errno, "inspect '%s'", path);
        count.device = status.st_dev;
        count.owners = xcalloc(OWNERS_MAX, sizeof(*count.owners));
        walk(&count, TAKE_FD(fd), 0);
        keep_largest(shm, &count);
        shm->nameless = count.entries < MPS_SHM_ENTRIES_MAX && shm->used > count.bytes ? shm->used - count.bytes : 0;
        free(count.owners);
        return 0;
}

static void log_change(const struct mps_shm *shm, bool was_full, const char *daemon)
{
        _free_ char *text = mps_shm_text(shm);

        if (shm->is_full && !was_full)
                log_warn("the shared memory of MPS is almost full: new clients and servers fail when it is",
                        LOG_STR("daemon", daemon ? daemon : "all of the node"), LOG_STR("what", text));
        else if (was_full && !shm->is_full)
                log_info("the shared memory of MPS has room again",
                        LOG_STR("daemon", daemon ? daemon : "all of the node"), LOG_STR("what", text));
}

bool mps_shm_watch_poll(struct mps_shm_watch *watch, const char *path, const char *daemon)
{
        const struct mps_shm before = watch->shm;
        struct mps_shm shm;
        struct error err;

        if (mps_shm_poll(&shm, path, &err) < 0)
                return false; /* doctor reports why */
        watch->polls++;
        mps_shm_mark_full(&shm, &before);
        if (shm.is_full && (!before.is_full || watch->polls - watch->counted >= POLLS_BETWEEN_COUNTS)) {
                watch->counted = watch->polls;
                if (mps_shm_count(&shm, path, &err) < 0)
                        log_debug("the owners of files in the shared memory are unknown", LOG_ERR(&err));
        }
        log_change(&shm, before.is_full, daemon);
        watch->shm = shm;
        return !mps_shm_is_same(&shm, &before);
}

/* ---- what ended containers left ---- */

struct left {
        dev_t device;
        struct timespec changed_before;
        ino_t *used;
        size_t n_used;
        bool is_known; /* |used| is complete */
};

/* ---- files that daemon and servers use ---- */

static void shm_add_used(struct left *left, dev_t device, ino_t inode)
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
                        shm_add_used(left, makedev(major_number, minor_number), (ino_t)inode);
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
                        shm_add_used(left, status.st_dev, status.st_ino);
        }
        closedir(folder);
}

static void shm_add_process(struct left *left, pid_t pid)
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
                        shm_add_process(left, pid);
        }
        if (processes)
                closedir(processes);
}

static bool shm_is_used(const struct left *left, ino_t inode)
{
        for (size_t i = 0; i < left->n_used; i++)
                if (left->used[i] == inode)
                        return true;
        return false;
}

/* ---- removing ---- */

static bool shm_is_before(const struct timespec *a, const struct timespec *b)
{
        return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static bool stays(const struct stat *status, void *data)
{
        const struct left *left = data;

        return !shm_is_before(&status->st_ctim, &left->changed_before) || shm_is_used(left, status->st_ino);
}

static bool sees_all_processes(void)
{
        struct stat status;

        return stat("/proc/self/ns/pid", &status) == 0 && status.st_ino == FIRST_PID_NAMESPACE;
}

/* False: a process uses the tmpfs, or it is not known which files are used. */
static bool find_used(struct left *left, int folder, pid_t daemon)
{
        struct stat status;

        if (fstat(folder, &status) < 0 || mps_shm_find_user(status.st_dev, daemon))
                return false;
        left->device = status.st_dev;
        if (daemon)
                add_processes(left, daemon);
        return left->is_known;
}

/* Takes |folder|. */
static size_t empty(struct left *left, int folder, unsigned int ms, bool *ret_is_over)
{
        struct sweep *sweep = sweep_new(folder, stays, left);
        size_t removed;

        *ret_is_over = sweep_run(sweep, ms);
        removed = sweep_removed(sweep);
        sweep_free(sweep);
        return removed;
}

/*
 * The order matters: first check that no container has the tmpfs, then remove the old files. A container that starts in
 * between, or while files are being removed, creates new files, which stay.
 */
size_t mps_shm_remove_left(const struct mps_shm_left *what, unsigned int ms, bool *ret_is_over)
{
        _close_ int folder = -1;
        struct left left = {.is_known = true};
        size_t removed = 0;

        *ret_is_over = true;
        if (!sees_all_processes())
                return 0;
        folder = open(what->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0)
                return 0;
        clock_gettime(CLOCK_REALTIME_COARSE, &left.changed_before); /* the clock by which the kernel dates files */
        left.changed_before.tv_sec -= (time_t)what->age_s;
        left.used = xcalloc(USED_MAX, sizeof(*left.used));
        if (find_used(&left, folder, what->daemon))
                removed = empty(&left, TAKE_FD(folder), ms, ret_is_over);
        free(left.used);
        return removed;
}

void mps_shm_left_serve(const void *message, size_t size UNUSED, struct strbuf *answer, const void *data UNUSED)
{
        struct mps_shm_left_answer said = {0};

        said.removed = mps_shm_remove_left(message, MPS_SHM_LEFT_MS, &said.is_over);
        strbuf_append(answer, &said, sizeof(said));
}

/* ---- the choice ---- */

int daemon_shm_prepare(struct daemon_shm *shm, uint64_t kib, bool is_new, struct error *err)
{
        const bool has_folder = access(shm->folder->shm, F_OK) == 0;
        bool is_mounted;

        daemon_shm_stop(shm); /* its new process may use other files */
        shm->is_own = false;
        if (!kib && has_folder)
                log_warn("an MPS daemon had shared memory of its own, and has that of the node now: containers that "
                         "started before cannot connect any more (error 805): end them",
                        LOG_STR("name", shm->name));
        if (!kib || (!is_new && !has_folder))
                return 0;
        if (mps_shm_mount(shm->folder->path, kib, &is_mounted, err) < 0) {
                if (!is_new)
                        return -1;
                log_warn("an MPS daemon has no shared memory of its own and uses the node's: a tenant who fills that "
                         "keeps clients off every GPU",
                        LOG_STR("name", shm->name), LOG_ERR(err));
                return 0;
        }
        if (is_mounted)
                mps_folder_label(shm->folder->shm);
        shm->is_own = true;
        return 0;
}

void daemon_shm_find(struct daemon_shm *shm, pid_t daemon)
{
        shm->is_own = mps_shm_is_of(daemon, shm->folder->shm);
}

/* ---- polls ---- */

static void ask_to_remove(struct daemon_shm *shm, pid_t daemon);

static void on_left_removed(
        struct worker_request *request, const struct error *err, const void *answer, size_t size UNUSED)
{
        struct daemon_shm *shm = container_of(request, struct daemon_shm, removal);
        struct mps_shm_left_answer result = {.is_over = true};

        shm->is_removing = false;
        if (err)
                log_warn("what ended containers left in the shared memory of an MPS daemon stays there",
                        LOG_STR("name", shm->name), LOG_ERR(err));
        else
                memcpy(&result, answer, sizeof(result));
        if (result.removed)
                log_info("files that ended containers left in the shared memory of an MPS daemon were removed",
                        LOG_STR("name", shm->name), LOG_UINT("files", result.removed));
        if (!result.is_over && !shm->has_clients)
                ask_to_remove(shm, shm->left.daemon);
}

static void ask_to_remove(struct daemon_shm *shm, pid_t daemon)
{
        struct mps_shm_left *left = &shm->left;

        left->daemon = daemon;
        left->age_s = MPS_SHM_LEFT_AGE_S;
        snprintf(left->path, sizeof(left->path), "%s", shm->folder->shm);
        shm->removal = (struct worker_request){
                .message = left, .size = sizeof(*left), .deadline_ms = REMOVAL_DEADLINE_MS, .done = on_left_removed};
        shm->is_removing = true;
        worker_ask(shm->cleaner, &shm->removal);
}

void daemon_shm_stop(struct daemon_shm *shm)
{
        if (shm->is_removing)
                worker_cancel(shm->cleaner, &shm->removal);
        shm->is_removing = false;
}

bool daemon_shm_poll(struct daemon_shm *shm, pid_t daemon, bool has_clients)
{
        bool has_news;

        if (!shm->is_own)
                return false;
        has_news = mps_shm_watch_poll(&shm->watch, shm->folder->shm, shm->name);
        shm->has_clients = has_clients;
        /* The daemon's own folder counts as one file. */
        if (has_clients)
                daemon_shm_stop(shm);
        else if (!shm->is_removing && shm->watch.shm.files > 1 && shm->watch.polls % POLLS_BETWEEN_REMOVALS == 0)
                ask_to_remove(shm, daemon);
        return has_news;
}
