#include "mps/shared_memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/macro.h"
#include "base/strbuf.h"

#define OWNERS_MAX ((size_t)1024) /* what further users have is told as nobody's */
#define BLOCK UINT64_C(512)

/* ---- how full ---- */

static unsigned int permille(uint64_t part, uint64_t whole)
{
        return whole ? (unsigned int)((double)MIN(part, whole) * 1000 / (double)whole) : 0;
}

unsigned int mps_shm_permille(const struct mps_shm *shm)
{
        return MAX(permille(shm->used, shm->size), permille(shm->files, shm->files_max));
}

void mps_shm_judge(struct mps_shm *shm, const struct mps_shm *before)
{
        const unsigned int now = mps_shm_permille(shm);

        shm->is_full = now >= (before->is_full ? MPS_SHM_FREE_PERMILLE : MPS_SHM_FULL_PERMILLE);
        if (!shm->is_full)
                return;
        memcpy(shm->owners, before->owners, sizeof(shm->owners));
        shm->n_owners = before->n_owners;
        shm->nameless = before->nameless;
}

static bool has_same_owners(const struct mps_shm *a, const struct mps_shm *b)
{
        if (a->n_owners != b->n_owners)
                return false;
        for (size_t i = 0; i < a->n_owners; i++)
                if (a->owners[i].uid != b->owners[i].uid)
                        return false;
        return true;
}

bool mps_shm_is_same(const struct mps_shm *a, const struct mps_shm *b)
{
        return a->size == b->size && a->files_max == b->files_max && a->is_full == b->is_full &&
               permille(a->used, a->size) / 10 == permille(b->used, b->size) / 10 &&
               permille(a->files, a->files_max) / 10 == permille(b->files, b->files_max) / 10 && has_same_owners(a, b);
}

/* ---- looking ---- */

/* The tmpfs, or -1 without an error where there is none. */
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

int mps_shm_look(struct mps_shm *ret, const char *path, struct error *err)
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

/* ---- whose ---- */

struct count {
        struct mps_shm_owner *owners;
        size_t n_owners;
        size_t entries;
        uint64_t bytes;
        dev_t device;
};

static void add(struct count *count, const struct stat *status)
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

/* Takes |fd|. What cannot be opened is not counted: who looks is root. */
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
                add(count, &status);
                if (!S_ISDIR(status.st_mode) || depth + 1 == MPS_SHM_DEPTH_MAX)
                        continue;
                below = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (below >= 0)
                        walk(count, below, depth + 1);
        }
        closedir(folder);
}

/* By what each takes of the whole, bytes or files, whichever is more. */
static unsigned int weight(const struct mps_shm *shm, const struct mps_shm_owner *owner)
{
        return MAX(permille(owner->bytes, shm->size), permille(owner->files, shm->files_max));
}

static void keep_largest(struct mps_shm *shm, struct count *count)
{
        shm->n_owners = MIN(count->n_owners, (size_t)MPS_SHM_OWNERS);
        for (size_t i = 0; i < shm->n_owners; i++) {
                size_t largest = i;
                struct mps_shm_owner owner;

                for (size_t j = i + 1; j < count->n_owners; j++)
                        if (weight(shm, &count->owners[j]) > weight(shm, &count->owners[largest]))
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

/* ---- text ---- */

char *mps_shm_text(const struct mps_shm *shm)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%" PRIu64 " of %" PRIu64 " MiB and %" PRIu64 " of %" PRIu64 " files are used",
                shm->used >> 20, shm->size >> 20, shm->files, shm->files_max);
        for (size_t i = 0; i < shm->n_owners; i++)
                strbuf_printf(&text, "%suser %u has %" PRIu64 " MiB in %" PRIu64 " files", i ? ", " : "; ",
                        (unsigned int)shm->owners[i].uid, shm->owners[i].bytes >> 20, shm->owners[i].files);
        if (permille(shm->nameless, shm->size) >= 10)
                strbuf_printf(&text,
                        "; %" PRIu64 " MiB are of files that were removed and that a process still has open",
                        shm->nameless >> 20);
        return xstrdup(text.data);
}
