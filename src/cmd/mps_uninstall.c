/*
 * warpshare mps uninstall: ends the daemons that a supervisor left, puts compute modes back, and removes what was made below the
 * MPS root. The daemons and the modes are a supervisor's work: one that wants nothing adopts what is on record, and closes.
 */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cmd/command.h"
#include "cmd/command_line.h"
#include "cmd/mps_command.h"
#include "cmd/shm.h"
#include "io/lock.h"
#include "mps/message.h"
#include "mps/record.h"
#include "mps/supervisor.h"

#define GRACE_MS UINT64_C(5000)
#define MOUNTINFO_MAX ((size_t)4 * 1024 * 1024)

static const char *const shared[] = {
        "mps-directory", "mps-control", "driver-root-ctr-path", "nvml-library", "log-level", NULL};

static const char help[] =
        "usage: warpshare mps uninstall [OPTION...]\n"
        "\n"
        "Where no supervisor runs: ends the MPS daemons that one has left (clients have five seconds), gives the GPUs their\n"
        "compute mode from before, removes the files and folders below the MPS directory that belong to MPS, and unmounts\n"
        "its shared memory if nobody uses that. What is in use or mounted stays, and is said. May be run again.\n"
        "\n";

const struct command_line mps_command_uninstall_line = {
        .shared = shared,
        .program = "warpshare mps uninstall",
        .help = help,
};

/* ---- daemons and compute modes ---- */

static void on_closed(void *data)
{
        *(bool *)data = true;
}

/* What is wanted goes from the record first, or else the supervisor would start it. */
static int want_nothing(const char *path, size_t *ret_daemons, size_t *ret_modes, struct error *err)
{
        struct mps_record record;
        int rc = mps_record_read(&record, path, err);

        if (rc == 0) {
                *ret_daemons = record.n_daemons;
                *ret_modes = record.n_modes;
                record.wanted = (struct mps_wanted){NULL, 0};
                rc = mps_record_write(&record, path, err);
        }
        mps_record_done(&record);
        return rc;
}

static int end_daemons(const struct option_set *set, const char *root, struct error *err)
{
        _free_ char *path = xasprintf("%s/" MPS_RECORD_FILE, root);
        struct mps_supervisor_options options = {
                .root = root,
                .control = command_line_get(set, "mps-control"),
                .driver_root = command_line_get(set, "driver-root-ctr-path"),
                .nvml_library = command_line_get(set, "nvml-library"),
                .sets_compute_mode = true,
        };
        struct mps_supervisor *supervisor;
        size_t n_daemons = 0;
        size_t n_modes = 0;
        bool is_closed = false;
        uv_loop_t loop;

        if (access(path, F_OK) < 0)
                return 0;
        if (want_nothing(path, &n_daemons, &n_modes, err) < 0)
                return -1;
        uv_loop_init(&loop);
        options.loop = &loop;
        if (mps_supervisor_new(&supervisor, &options, err) < 0) {
                uv_loop_close(&loop);
                return -1;
        }
        mps_supervisor_close(supervisor, GRACE_MS, on_closed, &is_closed);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
        printf("%zu MPS daemons on record were ended, %zu compute modes put back\n", n_daemons, n_modes);
        return 0;
}

/* ---- files ---- */

struct removal {
        struct strbuf mountinfo;
        unsigned int removed;
        unsigned int kept;
};

/* Something is mounted at |path| or below it. Paths of ours have no characters that mountinfo would escape. */
static bool has_mount(const struct removal *removal, const char *path)
{
        _free_ char *mark = xasprintf(" %s", path);
        size_t length = strlen(mark);

        for (const char *at = removal->mountinfo.data; (at = strstr(at, mark)); at++)
                if (at[length] == ' ' || at[length] == '/')
                        return true;
        return false;
}

static int remove_one(const char *path, const struct stat *status UNUSED, int type UNUSED, struct FTW *place UNUSED)
{
        return remove(path) < 0 && errno != ENOENT ? -1 : 0;
}

static void keep(struct removal *removal, const char *path, const char *why)
{
        printf("'%s' stays: %s\n", path, why);
        removal->kept++;
}

static void remove_tree(struct removal *removal, const char *path)
{
        char real[PATH_MAX];

        if (!realpath(path, real))
                return;
        if (has_mount(removal, real))
                keep(removal, path, "something is mounted there");
        else if (nftw(path, remove_one, 16, FTW_PHYS | FTW_MOUNT | FTW_DEPTH) != 0)
                keep(removal, path, strerror(errno));
        else
                removal->removed++;
}

static bool is_folder(const char *path)
{
        struct stat status;

        return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* What mps/folder.h makes for a daemon. */
static bool is_daemon(const char *path)
{
        _free_ char *pipe = xasprintf("%s/pipe", path);
        _free_ char *log = xasprintf("%s/log", path);

        return is_folder(pipe) && is_folder(log);
}

/* Daemons have a folder below the root, or one level deeper: "nvidia.com/gpu". */
static void remove_daemons(struct removal *removal, const char *folder, unsigned int levels)
{
        DIR *entries = opendir(folder);
        const struct dirent *entry;

        if (!entries)
                return;
        while ((entry = readdir(entries))) {
                _free_ char *path = xasprintf("%s/%s", folder, entry->d_name);

                if (entry->d_name[0] == '.' || strcmp(entry->d_name, "shm") == 0 || !is_folder(path))
                        continue;
                if (is_daemon(path)) {
                        remove_tree(removal, path);
                } else if (levels > 1) {
                        remove_daemons(removal, path, levels - 1);
                        rmdir(path); /* if it is empty now */
                }
        }
        closedir(entries);
}

static void remove_shm(struct removal *removal, const char *root)
{
        _free_ char *path = xasprintf("%s/shm", root);
        struct error err;
        pid_t user;
        int rc = shm_unmount(root, &user, &err);

        if (rc > 0 && user > 0)
                printf("'%s' stays: process %d has it as /dev/shm\n", path, user);
        else if (rc > 0)
                printf("'%s' stays: it is in use\n", path);
        else if (rc < 0)
                printf("'%s' stays: %s\n", path, err.text);
        removal->kept += rc != 0;
}

static void remove_file(struct removal *removal, const char *root, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", root, name);

        if (unlink(path) == 0)
                removal->removed++;
        else if (errno != ENOENT)
                keep(removal, path, strerror(errno));
}

/* The agent's, of who holds what: "grants-<resource>.json". */
static void remove_books(struct removal *removal, const char *root)
{
        DIR *entries = opendir(root);
        const struct dirent *entry;

        if (!entries)
                return;
        while ((entry = readdir(entries)))
                if (text_starts_with(entry->d_name, "grants-") && strstr(entry->d_name, ".json"))
                        remove_file(removal, root, entry->d_name);
        closedir(entries);
}

static unsigned int remove_files(const char *root)
{
        static const char *const files[] = {".ready", MPS_SOCKET, MPS_RECORD_FILE};
        struct removal removal = {.mountinfo = STRBUF_INIT};
        struct error err;

        if (file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &removal.mountinfo, &err) < 0)
                printf("mounts cannot be seen: %s\n", err.text);
        remove_daemons(&removal, root, 2);
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                remove_file(&removal, root, files[i]);
        remove_books(&removal, root);
        remove_shm(&removal, root);
        strbuf_done(&removal.mountinfo);
        if (removal.removed > 0)
                printf("%u files and folders of MPS were removed below '%s'\n", removal.removed, root);
        else if (removal.kept == 0)
                printf("nothing of MPS is left below '%s'\n", root);
        return removal.kept;
}

/* ---- the command ---- */

static int uninstall(const struct option_set *set)
{
        const char *root = command_line_get(set, "mps-directory");
        struct lock lock = LOCK_INIT;
        struct error err;
        int status = EXIT_FAILED;
        int rc;

        if (access(root, F_OK) < 0 && errno == ENOENT) {
                printf("'%s' is not there: nothing to do\n", root);
                return 0;
        }
        rc = lock_take(&lock, root, &err);
        if (rc == LOCK_BUSY)
                fprintf(stderr, "an MPS supervisor runs with '%s': end it first\n", root);
        else if (rc < 0 || end_daemons(set, root, &err) < 0)
                fprintf(stderr, "%s\n", err.text);
        else
                status = remove_files(root) > 0 ? EXIT_FAILED : 0;
        lock_release(&lock);
        return status;
}

int mps_command_uninstall(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct option_set set;
        int status;

        if (!command_line_read(&mps_command_uninstall_line, &set, NULL, &arena, argc, argv, &status))
                return status;
        command_line_setup_log(&set, "text");
        return uninstall(&set);
}
