#include "cmd/shm.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"

#define FALLBACK_KIB UINT64_C(65536)
#define FILES 65536U /* about 1 KiB of the kernel's memory each; servers and clients make a few each */
#define PROC_FILE_MAX ((size_t)4 * 1024 * 1024)

/* ---- what is there ---- */

enum there { NOTHING, A_FOLDER, OUR_TMPFS, SOMETHING_ELSE };

static int look(const char *root, const char *path, enum there *ret, dev_t *ret_device, struct error *err)
{
        struct stat above;
        struct stat status;
        struct statfs system;

        if (stat(root, &above) < 0)
                return error_errno(err, errno, "look at '%s'", root);
        if (stat(path, &status) < 0) {
                if (errno != ENOENT)
                        return error_errno(err, errno, "look at '%s'", path);
                *ret = NOTHING;
                return 0;
        }
        *ret_device = status.st_dev;
        if (status.st_dev == above.st_dev)
                *ret = S_ISDIR(status.st_mode) ? A_FOLDER : SOMETHING_ELSE;
        else
                *ret = statfs(path, &system) == 0 && system.f_type == TMPFS_MAGIC ? OUR_TMPFS : SOMETHING_ELSE;
        return 0;
}

/* ---- mounting ---- */

uint64_t shm_size_kib(const char *meminfo)
{
        const char *total = strstr(meminfo, "MemTotal:");
        uint64_t kib = 0;

        if (total && sscanf(total, "MemTotal: %" SCNu64 " kB", &kib) == 1 && kib / 2 > 0)
                return kib / 2;
        return FALLBACK_KIB;
}

static uint64_t read_size_kib(void)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read("/proc/meminfo", PROC_FILE_MAX, &text, &err) < 0)
                return FALLBACK_KIB;
        return shm_size_kib(text.data);
}

int shm_mount(const char *root, bool *ret_mounted, struct error *err)
{
        _free_ char *path = xasprintf("%s/shm", root);
        _free_ char *options = xasprintf("size=%" PRIu64 "k,nr_inodes=%u", read_size_kib(), FILES);
        enum there there;
        dev_t device;

        if (look(root, path, &there, &device, err) < 0)
                return -1;
        if (there == SOMETHING_ELSE)
                return error_set(
                        err, ERROR_INVALID, "'%s' is neither a folder nor a tmpfs; unmount or remove it", path);
        if (there == NOTHING && mkdir(path, 0755) < 0)
                return error_errno(err, errno, "make '%s'", path);
        *ret_mounted = there != OUR_TMPFS;
        if (there == OUR_TMPFS)
                return 0;
        if (mount("shm", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RELATIME, options) == 0)
                return 0;
        if (errno == EPERM)
                return error_set(err, ERROR_DENIED,
                        "mount a tmpfs at '%s': not permitted; the container has to be privileged (CAP_SYS_ADMIN), and "
                        "its mount of the MPS root has to be Bidirectional, so that others see the tmpfs",
                        path);
        return error_errno(err, errno, "mount a tmpfs at '%s'", path);
}

/* ---- unmounting ---- */

/* A line of mountinfo: "id parent major:minor root mountpoint …". */
static bool has_as_shm(const char *mountinfo, dev_t device)
{
        _free_ char *mark = xasprintf(" %u:%u ", major(device), minor(device));

        for (const char *at = mountinfo; (at = strstr(at, mark)); at++) {
                const char *point = strchr(at + strlen(mark), ' ');

                if (point && strncmp(point, " /dev/shm ", 10) == 0)
                        return true;
        }
        return false;
}

static bool is_of_our_mounts(const char *pid)
{
        _free_ char *path = xasprintf("/proc/%s/ns/mnt", pid);
        struct stat ours;
        struct stat theirs;

        return stat("/proc/self/ns/mnt", &ours) == 0 && stat(path, &theirs) == 0 && ours.st_ino == theirs.st_ino;
}

static pid_t find_user(dev_t device)
{
        DIR *processes = opendir("/proc");
        const struct dirent *entry;
        pid_t user = 0;

        if (!processes)
                return 0;
        while (!user && (entry = readdir(processes))) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                _free_ char *path = NULL;
                struct error err;

                if (!isdigit((unsigned char)entry->d_name[0]) || is_of_our_mounts(entry->d_name))
                        continue;
                path = xasprintf("/proc/%s/mountinfo", entry->d_name);
                if (file_read(path, PROC_FILE_MAX, &text, &err) == 0 && has_as_shm(text.data, device))
                        user = (pid_t)strtol(entry->d_name, NULL, 10);
        }
        closedir(processes);
        return user;
}

int shm_unmount(const char *root, pid_t *ret_user, struct error *err)
{
        _free_ char *path = xasprintf("%s/shm", root);
        enum there there;
        dev_t device = 0;

        *ret_user = 0;
        if (look(root, path, &there, &device, err) < 0)
                return -1;
        if (there == NOTHING || there == SOMETHING_ELSE)
                return 0;
        if (there == OUR_TMPFS) {
                *ret_user = find_user(device);
                if (*ret_user)
                        return 1;
                if (umount2(path, UMOUNT_NOFOLLOW) < 0) {
                        if (errno == EBUSY)
                                return 1;
                        return error_errno(err, errno, "unmount '%s'", path);
                }
        }
        if (rmdir(path) < 0 && errno != ENOENT)
                return error_errno(err, errno, "remove '%s'", path);
        return 0;
}
