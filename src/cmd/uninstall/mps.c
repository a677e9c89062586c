#include "cmd/uninstall/mps.h"
#include "io/loop.h"
#include "nodeconfig/record.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mountinfo.h"
#include "base/sweep.h"
#include "base/text.h"
#include "gpu/apart.h"
#include "gpu/hangs.h"
#include "gpu/nvml.h"
#include "io/lock.h"
#include "mps/control/control.h"
#include "mps/supervisor/identity.h"
#include "mps/supervisor/memory_limit.h"
#include "mps/supervisor/record.h"
#include "mps/supervisor/shm_mount.h"
#include "mps/supervisor/supervisor.h"
#include "mps/wire/message.h"
#include "share/sharing_policy.h"

#define GRACE_MS UINT64_C(5000)
#define FOLDER_MS 60000U /* tenants may have left any number of files in a folder */
#define MOUNTINFO_MAX ((size_t)4 * 1024 * 1024)

/* ---- memory limits of containers ---- */

struct limits {
        const struct mps_removal_options *options;
        const struct mps_record *record;
        struct nvml *nvml; /* in the process; NULL: closed */
};

static char *limit_folder(const struct mps_container_limit *limit)
{
        return xasprintf("/sys/fs/cgroup%s", limit->cgroup);
}

/* In a process of its own, with the position of a limit: why it is still there, or nothing. */
static void serve_limit(const void *message, size_t size UNUSED, struct strbuf *answer, const void *data)
{
        struct limits *limits = (struct limits *)(uintptr_t)data;
        const struct mps_removal_options *options = limits->options;
        const struct mps_container_limit *limit;
        _free_ char *folder = NULL;
        struct error err;
        size_t position;

        memcpy(&position, message, sizeof(position));
        limit = &limits->record->limits[position];
        folder = limit_folder(limit);
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
        if (!limits->nvml && nvml_open(&limits->nvml, options->nvml_library, options->driver_root, &err) < 0) {
                strbuf_puts(answer, err.text);
                return;
        }
        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, limit->unit);
        if (memory_limit_clear(limits->nvml, limit, folder, &err) >= MEMORY_LIMIT_CANNOT)
                strbuf_puts(answer, err.text);
}

/* False: NVML does not return, or has ended its process: |err| says where. */
static bool clear_limit(
        struct removals *removals, struct worker_alone *alone, const struct mps_record *record, size_t position)
{
        const struct mps_container_limit *limit = &record->limits[position];
        _cleanup_(strbuf_done) struct strbuf problem = STRBUF_INIT;
        _free_ char *folder = limit_folder(limit);
        struct error cause;
        struct error err;
        const bool is_lost = worker_alone_ask(alone, &position, sizeof(position), APART_CALL_MS, &problem, &cause) < 0;

        if (is_lost) {
                const struct call_info call = gpu_call_of_worker(&alone->lost);

                hang_explain(&call, &cause, gpu_call_now_ms(), &err);
                strbuf_puts(&problem, err.text);
        }
        if (problem.size)
                removals_add(removals, REMOVAL_LEFT, MPS_REMOVAL_LIMITS, folder, "its memory limit on %s: %s",
                        limit->unit, problem.data);
        return problem.size == 0;
}

/* Limits that cannot be removed end with their containers. */
static void clear_limits(
        struct removals *removals, const struct mps_removal_options *options, const struct mps_record *record)
{
        const struct limits limits = {options, record, NULL};
        struct worker_alone alone;
        size_t n_cleared = 0;

        if (!record->n_limits)
                return;
        worker_alone_begin(&alone, "warpshare-limit", serve_limit, &limits);
        for (size_t i = 0; i < record->n_limits; i++)
                n_cleared += removals->is_dry || clear_limit(removals, &alone, record, i);
        removals_add(removals, REMOVAL_DONE, MPS_REMOVAL_LIMITS, "/sys/fs/cgroup", "%zu removed", n_cleared);
        worker_alone_end(&alone);
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

static void count_other(const struct identity_found *found, void *data)
{
        struct existing *existing = data;

        for (size_t i = 0; i < existing->record.n_daemons; i++)
                if (existing->record.daemons[i].pid == found->pid)
                        return;
        existing->n_others++;
}

/* Without the program there is no daemon to be seen, and none that could be asked to end. */
static void count_others(struct existing *existing, const struct mps_removal_options *options)
{
        _free_ char *program = NULL;
        struct error err;

        if (mps_control_find(&program, options->control, NULL, options->driver_root, &err) == 0)
                identity_find_daemons(options->root, program, count_other, existing);
}

/* First removes the wanted daemons from the record, since the supervisor would start them. */
static int want_nothing(struct removals *removals, const struct mps_removal_options *options, const char *path,
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

static int close_supervisor(const struct mps_removal_options *removal, struct error *err)
{
        struct mps_supervisor_options options = {
                .root = removal->root,
                .control = removal->control,
                .driver_root = removal->driver_root,
                .nvml_library = removal->nvml_library,
                .sets_compute_mode = true,
        };
        bool leaves_modes = false;
        uv_loop_t loop;

        loop_init(&loop);
        options.loop = &loop;
        mps_supervisor_close(mps_supervisor_new(&options), GRACE_MS, on_mps_closed, &leaves_modes);
        uv_run(&loop, UV_RUN_DEFAULT);
        uv_loop_close(&loop);
        if (leaves_modes)
                return error_set(err, ERROR_UNAVAILABLE,
                        "NVML does not return: the MPS daemons are ended, but compute modes are not put back; run this again when it does");
        return 0;
}

static int end_daemons(struct removals *removals, const struct mps_removal_options *options, struct error *err)
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

struct files {
        struct removals *removals;
        struct strbuf mountinfo;
};

/* Something is mounted at |path| or below it. Our paths have no characters that mountinfo would escape. */
static bool has_mount(const struct files *files, const char *path)
{
        const size_t length = strlen(path);
        const char *at = files->mountinfo.data;
        struct mountinfo_line mount;

        while (mountinfo_next(&at, &mount))
                if (strncmp(mount.point, path, length) == 0 && strchr(" /", mount.point[length]))
                        return true;
        return false;
}

static void remove_tree(struct files *files, const char *path)
{
        char real[PATH_MAX];
        struct error err;

        if (!realpath(path, real))
                return;
        if (has_mount(files, real))
                removals_add(files->removals, REMOVAL_LEFT, "MPS folder", path, "something is mounted there");
        else if (!files->removals->is_dry && sweep_folder(path, FOLDER_MS, &err) < 0)
                removals_add(files->removals, REMOVAL_LEFT, "MPS folder", path, "%s", err.text);
        else
                removals_add(files->removals, REMOVAL_DONE, "MPS folder", path, "%s", "");
}

static void read_mounts(struct files *files)
{
        struct error err;

        strbuf_clear(&files->mountinfo);
        if (file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &files->mountinfo, &err) < 0)
                removals_add(files->removals, REMOVAL_UNSEEN, "mounts", "/proc/self/mountinfo", "%s", err.text);
}

/* The node's shared memory, or a daemon's. */
static void remove_shm(struct files *files, const char *folder)
{
        _free_ char *path = xasprintf("%s/shm", folder);
        char real[PATH_MAX];
        const bool is_mounted = realpath(path, real) && has_mount(files, real);
        struct error err;
        pid_t user;
        int rc;

        if (access(path, F_OK) < 0)
                return;
        rc = files->removals->is_dry ? 0 : mps_shm_unmount(path, &user, &err);
        if (rc > 0 && user > 0)
                removals_add(
                        files->removals, REMOVAL_LEFT, "shared memory", path, "process %d has it as /dev/shm", user);
        else if (rc > 0)
                removals_add(files->removals, REMOVAL_LEFT, "shared memory", path, "it is in use");
        else if (rc < 0)
                removals_add(files->removals, REMOVAL_LEFT, "shared memory", path, "%s", err.text);
        else if (is_mounted)
                removals_add(files->removals, REMOVAL_DONE, "shared memory", path, "unmounted");
        if (is_mounted && !files->removals->is_dry)
                read_mounts(files);
}

static bool is_folder(const char *path)
{
        struct stat status;

        return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* The files that mps/supervisor/folder.h creates for a daemon. */
static bool is_daemon(const char *path)
{
        _free_ char *pipe = xasprintf("%s/pipe", path);
        _free_ char *log = xasprintf("%s/log", path);

        return is_folder(pipe) && is_folder(log);
}

/* A daemon's folder is below the root, or one level deeper: "nvidia.com/gpu". */
static void remove_daemons(struct files *files, const char *folder, unsigned int levels)
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
                        remove_shm(files, path);
                        remove_tree(files, path);
                } else if (levels > 1) {
                        remove_daemons(files, path, levels - 1);
                        if (!files->removals->is_dry)
                                rmdir(path); /* if it is empty now */
                }
        }
        closedir(entries);
}

static void remove_file(struct files *files, const char *root, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", root, name);
        int rc = files->removals->is_dry ? access(path, F_OK) : unlink(path);

        if (rc == 0)
                removals_add(files->removals, REMOVAL_DONE, "MPS file", path, "%s", "");
        else if (errno != ENOENT)
                removals_add(files->removals, REMOVAL_LEFT, "MPS file", path, "%s", strerror(errno));
}

/* The agent's ledger files: "allocations-<resource>.json", and "grants-<resource>.json" of older versions. */
static void remove_allocation_records(struct files *files, const char *root)
{
        DIR *entries = opendir(root);
        const struct dirent *entry;

        if (!entries)
                return;
        while ((entry = readdir(entries)))
                if ((text_starts_with(entry->d_name, "allocations-") || text_starts_with(entry->d_name, "grants-")) &&
                        strstr(entry->d_name, ".json"))
                        remove_file(files, root, entry->d_name);
        closedir(entries);
}

static void remove_files(struct removals *removals, const char *root)
{
        static const char *const names[] = {
                ".ready", MPS_SOCKET, MPS_RECORD_FILE, SHARING_POLICY_FILE, CONFIG_RECORD_NAME};
        struct files files = {.removals = removals, .mountinfo = STRBUF_INIT};

        read_mounts(&files);
        remove_daemons(&files, root, 2);
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                remove_file(&files, root, names[i]);
        remove_allocation_records(&files, root);
        remove_shm(&files, root);
        strbuf_done(&files.mountinfo);
}

int mps_removal_run(struct removals *removals, const struct mps_removal_options *options, struct error *err)
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
                remove_files(removals, options->root);
        lock_release(&lock);
        return rc;
}
