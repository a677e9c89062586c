// SPDX-License-Identifier: Apache-2.0
#include "cmd/run/shares.h"
#include "cmd/uninstall/uninstall.h"
#include "base/io/loop.h"
#include "node/config/version.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/io/worker.h"
#include "base/sweep.h"
#include "base/text.h"
#include "gpu/apart.h"
#include "gpu/nvml.h"
#include "base/io/lock.h"
#include "mps/control/control.h"
#include "mps/supervisor/process.h"
#include "mps/supervisor/memory_limits.h"
#include "mps/supervisor/record.h"
#include "mps/supervisor/shm_mount.h"
#include "mps/supervisor/supervisor.h"
#include "mps/wire/message.h"
#include "node/ledger/share_metadata.h"
#include "plan/sharing_policy.h"

#define GRACE_MS UINT64_C(5000)
#define FOLDER_MS 60000U /* tenants may have left any number of files in a folder */

/* ---- memory limits of containers ---- */

struct limit {
        const struct mps_supervisor_options *options;
        const struct mps_container_limit *limit;
        const char *folder; /* of its cgroup */
};

static int clear_limit(const void *data, struct strbuf *answer UNUSED, struct error *err)
{
        const struct limit *limit = data;
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;

        if (nvml_open(&nvml, limit->options->nvml_library, limit->options->driver_root, err) < 0)
                return -1;
        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, limit->limit->unit);
        return memory_limit_clear(nvml, limit->limit, limit->folder, err) >= MEMORY_LIMIT_CANNOT ? -1 : 0;
}

/* Limits that cannot be removed end with their containers. */
static void clear_limits(
        struct removals *removals, const struct mps_supervisor_options *options, const struct mps_record *record)
{
        size_t n_cleared = 0;

        for (size_t i = 0; i < record->n_limits; i++) {
                const struct mps_container_limit *limit = &record->limits[i];
                _free_ char *folder = xasprintf("/sys/fs/cgroup%s", limit->cgroup);
                struct error err;

                if (removals->is_dry ||
                        apart_run(clear_limit, &(struct limit){options, limit, folder}, NULL, &err) == 0)
                        n_cleared++;
                else
                        removals_add(removals, REMOVAL_LEFT, MPS_REMOVAL_LIMITS, folder, "its memory limit on %s: %s",
                                limit->unit, err.text);
        }
        if (record->n_limits)
                removals_add(removals, REMOVAL_DONE, MPS_REMOVAL_LIMITS, "/sys/fs/cgroup", "%zu removed", n_cleared);
}

/* ---- daemons and compute modes ---- */

static void on_mps_closed(bool leaves_modes, void *data)
{
        *(bool *)data = leaves_modes;
}

struct existing {
        struct mps_record record;
        bool has_record; /* there is a file */
        size_t n_others; /* daemons that run and are not on record */
};

static bool is_on_record(const struct mps_record *record, pid_t pid)
{
        for (size_t i = 0; i < record->n_daemons; i++)
                if (record->daemons[i].pid == pid)
                        return true;
        return false;
}

/* Counts no daemons if the control program is missing: without it they can neither be found nor asked to end. */
static void count_others(struct existing *existing, const struct mps_supervisor_options *options)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct process_found *found;
        _free_ char *program = NULL;
        struct error err;
        size_t n_found;

        if (mps_control_find(&program, options->control, NULL, options->driver_root, &err) < 0)
                return;
        n_found = process_find_daemons(options->root, program, &arena, &found);
        for (size_t i = 0; i < n_found; i++)
                existing->n_others += !is_on_record(&existing->record, found[i].pid);
}

/* First removes the wanted daemons from the record, since the supervisor would start them. */
static int want_nothing(struct removals *removals, const struct mps_supervisor_options *options, const char *path,
        struct existing *existing, struct error *err)
{
        struct mps_record *record = &existing->record;

        if (mps_record_read(record, path, err) < 0)
                return error_prefix(err,
                        "what was before MPS cannot be read, and nothing was removed; to uninstall without putting back "
                        "compute modes and memory limits, remove that file");
        count_others(existing, options);
        clear_limits(removals, options, record);
        record->wanted = (struct mps_wanted){NULL, 0};
        record->n_limits = 0;
        return removals->is_dry || !existing->has_record ? 0 : mps_record_write(record, path, err);
}

static void report_daemons(struct removals *removals, const struct existing *existing, const char *path)
{
        const struct mps_record *record = &existing->record;

        if (existing->n_others)
                removals_add(removals, REMOVAL_DONE, MPS_REMOVAL_DAEMONS, path,
                        "%zu on record, %zu not on record, %zu compute modes restored", record->n_daemons,
                        existing->n_others, record->n_modes);
        else if (existing->has_record)
                removals_add(removals, REMOVAL_DONE, MPS_REMOVAL_DAEMONS, path,
                        "%zu on record, %zu compute modes restored", record->n_daemons, record->n_modes);
}

static int close_supervisor(const struct mps_supervisor_options *removal, struct error *err)
{
        struct mps_supervisor_options options = *removal;
        bool leaves_modes = false;
        uv_loop_t loop;

        loop_init(&loop);
        options.loop = &loop;
        options.sets_compute_mode = true;
        mps_supervisor_close(mps_supervisor_new(&options), GRACE_MS, on_mps_closed, &leaves_modes);
        worker_close_loop(&loop);
        if (leaves_modes)
                return error_set(err, ERROR_UNAVAILABLE,
                        "NVML does not return: the MPS daemons are ended, but compute modes are not put back; run this again when it does");
        return 0;
}

static int end_daemons(struct removals *removals, const struct mps_supervisor_options *options, struct error *err)
{
        _free_ char *path = xasprintf("%s/" MPS_RECORD_FILE, options->root);
        struct existing existing = {.has_record = access(path, F_OK) == 0};
        int rc = want_nothing(removals, options, path, &existing, err);

        if (rc == 0 && !removals->is_dry && (existing.has_record || existing.n_others))
                rc = close_supervisor(options, err);
        if (rc == 0)
                report_daemons(removals, &existing, path);
        mps_record_done(&existing.record);
        return rc;
}

/* ---- files ---- */

/* A folder of which something is to be removed. Tenants write below it, and may be at work there. */
struct place {
        struct removals *removals;
        int fd;
        const char *path; /* for messages */
};

static bool is_folder(int above, const char *name)
{
        struct stat status;

        return fstatat(above, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

/* The node's shared memory, or a daemon's. False: it stays. */
static bool remove_shm(const struct place *place)
{
        _free_ char *path = xasprintf("%s/" MPS_SHM_NAME, place->path);
        const bool is_mounted = mps_shm_is_mounted(place->fd);
        struct error err;
        pid_t user = 0;
        const int rc = place->removals->is_dry ? 0 : mps_shm_unmount(place->fd, place->path, &user, &err);

        if (rc > 0 && user > 0)
                removals_add(
                        place->removals, REMOVAL_LEFT, "shared memory", path, "process %d has it as /dev/shm", user);
        else if (rc > 0)
                removals_add(place->removals, REMOVAL_LEFT, "shared memory", path, "it is in use");
        else if (rc < 0)
                removals_add(place->removals, REMOVAL_LEFT, "shared memory", path, "%s", err.text);
        else if (is_mounted)
                removals_add(place->removals, REMOVAL_DONE, "shared memory", path, "unmounted");
        return rc == 0;
}

/*
 * Folders that mps/supervisor/folder.h makes for a daemon. The daemon's folder is known by them, so they are removed
 * last, after they were emptied.
 */
static const char *const daemon_folders[] = {"pipe", "log"};

static bool mps_is_daemon(int folder)
{
        bool has_all = true;

        for (size_t i = 0; i < ARRAY_SIZE(daemon_folders); i++)
                has_all = has_all && is_folder(folder, daemon_folders[i]);
        return has_all;
}

static int remove_tree(const struct place *daemon, int above, const char *name, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(daemon_folders); i++) {
                _free_ char *path = xasprintf("%s/%s", daemon->path, daemon_folders[i]);

                if (sweep_content(daemon->fd, daemon_folders[i], path, FOLDER_MS, err) < 0)
                        return -1;
        }
        return sweep_folder(above, name, daemon->path, FOLDER_MS, err);
}

static void remove_daemon(const struct place *daemon, int above, const char *name)
{
        struct error err;

        if (!remove_shm(daemon))
                removals_add(daemon->removals, REMOVAL_LEFT, "MPS folder", daemon->path, "its shared memory stays");
        else if (!daemon->removals->is_dry && remove_tree(daemon, above, name, &err) < 0)
                removals_add(daemon->removals, REMOVAL_LEFT, "MPS folder", daemon->path, "%s", err.text);
        else
                removals_add(daemon->removals, REMOVAL_DONE, "MPS folder", daemon->path, "%s", "");
}

static DIR *list(const struct place *place)
{
        const int fd = file_open_below(place->fd, ".", O_RDONLY | O_DIRECTORY);
        DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;

        if (!entries && fd >= 0)
                close(fd);
        return entries;
}

static void remove_daemons(const struct place *place, unsigned int levels);

/* A daemon's folder is below the root, or one level deeper: "nvidia.com/gpu". */
static void remove_what_is_of_daemons(const struct place *place, const char *name, unsigned int levels)
{
        _close_ int fd = file_open_below(place->fd, name, O_RDONLY | O_DIRECTORY);
        _free_ char *path = xasprintf("%s/%s", place->path, name);
        const struct place inner = {place->removals, fd, path};

        if (fd < 0 && errno == EXDEV)
                removals_add(place->removals, REMOVAL_LEFT, "MPS folder", path, "something is mounted there");
        if (fd < 0)
                return;
        if (mps_is_daemon(fd)) {
                remove_daemon(&inner, place->fd, name);
        } else if (levels > 1) {
                remove_daemons(&inner, levels - 1);
                if (!place->removals->is_dry)
                        unlinkat(place->fd, name, AT_REMOVEDIR); /* if it is empty now */
        }
}

static void remove_daemons(const struct place *place, unsigned int levels)
{
        DIR *entries = list(place);
        const struct dirent *entry;

        while (entries && (entry = readdir(entries)))
                if (entry->d_name[0] != '.' && strcmp(entry->d_name, MPS_SHM_NAME) != 0 &&
                        strcmp(entry->d_name, RUN_SHARES_NAME) != 0 && strcmp(entry->d_name, SHARE_METADATA_NAME) != 0)
                        remove_what_is_of_daemons(place, entry->d_name, levels);
        if (entries)
                closedir(entries);
}

static void mps_remove_file(const struct place *root, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", root->path, name);
        struct stat status;
        const int rc = root->removals->is_dry ? fstatat(root->fd, name, &status, AT_SYMLINK_NOFOLLOW)
                                              : unlinkat(root->fd, name, 0);

        if (rc == 0)
                removals_add(root->removals, REMOVAL_DONE, "MPS file", path, "%s", "");
        else if (errno != ENOENT)
                removals_add(root->removals, REMOVAL_LEFT, "MPS file", path, "%s", strerror(errno));
}

/* The agent's ledger files: "allocations-<resource>.json". */
static void remove_allocation_records(const struct place *root)
{
        DIR *entries = list(root);
        const struct dirent *entry;

        while (entries && (entry = readdir(entries)))
                if (text_starts_with(entry->d_name, "allocations-") && strstr(entry->d_name, ".json"))
                        mps_remove_file(root, entry->d_name);
        if (entries)
                closedir(entries);
}

/* Removes the folder with all that it has. False: it is not there, or stays. */
static bool mps_remove_folder(const struct place *root, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", root->path, name);
        struct error err;

        if (!is_folder(root->fd, name))
                return false;
        if (!root->removals->is_dry && sweep_folder(root->fd, name, path, FOLDER_MS, &err) < 0) {
                removals_add(root->removals, REMOVAL_LEFT, "MPS folder", path, "%s", err.text);
                return false;
        }
        removals_add(root->removals, REMOVAL_DONE, "MPS folder", path, "%s", "");
        return true;
}

/* `warpshare mps --standalone` adds the shares, where every user may write, and the units, and makes the root. */
static void remove_standalone(const struct place *root)
{
        if (!mps_remove_folder(root, RUN_SHARES_NAME))
                return;
        mps_remove_file(root, RUN_UNITS_NAME);
        /* It stays where it has other files, or is a mount. */
        if (!root->removals->is_dry && rmdir(root->path) == 0)
                removals_add(root->removals, REMOVAL_DONE, "MPS folder", root->path, "%s", "");
}

static void remove_files(const struct place *root)
{
        static const char *const names[] = {
                ".ready", MPS_SOCKET, MPS_RECORD_FILE, SHARING_POLICY_FILE, CONFIG_RECORD_NAME};

        remove_daemons(root, 2);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                mps_remove_file(root, names[i]);
        remove_allocation_records(root);
        mps_remove_folder(root, SHARE_METADATA_NAME);
        (void)remove_shm(root);
        remove_standalone(root);
}

int mps_removal_run(struct removals *removals, const struct mps_supervisor_options *options, struct error *err)
{
        struct lock lock = LOCK_INIT;
        int rc;

        if (access(options->root, F_OK) < 0 && errno == ENOENT)
                return MPS_REMOVAL_NOTHING;
        rc = lock_take_within(&lock, options->root, LOCK_PATIENCE_MS, err);
        if (rc != 0)
                return rc == LOCK_BUSY ? MPS_REMOVAL_BUSY : -1;
        rc = end_daemons(removals, options, err);
        if (rc == 0)
                remove_files(&(struct place){removals, lock.fd, options->root});
        lock_release(&lock);
        return rc;
}
