#include "mps/supervisor/shared_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/macro.h"

#define OWNERS_MAX ((size_t)1024) /* files of more users are counted as nameless */
#define BLOCK UINT64_C(512)
#define POLLS_BETWEEN_COUNTS 30U

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

static void shared_memory_add(struct count *count, const struct stat *status)
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
                shared_memory_add(count, &status);
                if (!S_ISDIR(status.st_mode) || depth + 1 == MPS_SHM_DEPTH_MAX)
                        continue;
                below = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (below >= 0)
                        walk(count, below, depth + 1);
        }
        closedir(folder);
}

/* Sorts by the part that each uses of the total: bytes or files, whichever is larger. */
static unsigned int shared_memory_weight(const struct mps_shm *shm, const struct mps_shm_owner *owner)
{
        const struct mps_shm alone = {
                .size = shm->size, .used = owner->bytes, .files_max = shm->files_max, .files = owner->files};

        return mps_shm_permille(&alone);
}

static void keep_largest(struct mps_shm *shm, struct count *count)
{
        shm->n_owners = MIN(count->n_owners, (size_t)MPS_SHM_OWNERS);
        for (size_t i = 0; i < shm->n_owners; i++) {
                size_t largest = i;
                struct mps_shm_owner owner;

                for (size_t j = i + 1; j < count->n_owners; j++)
                        if (shared_memory_weight(shm, &count->owners[j]) >
                                shared_memory_weight(shm, &count->owners[largest]))
                                largest = j;
                owner = count->owners[largest];
                count->owners[largest] = count->owners[i];
                count->owners[i] = shm->owners[i] = owner;
        }
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

/* ---- polls ---- */

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
