// SPDX-License-Identifier: Apache-2.0
/* Removes what is left on this machine: sockets, CDI specifications, and records. */
#include "cmd/uninstall/uninstall.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/file.h"
#include "base/text.h"
#include "node/cdi/mps_devices.h"
#include "cmd/doctor/facts.h"
#include "mig/record.h"
#include "mig/run.h"
#include "node/dra/claim_cdi.h"
#include "node/dra/prepared_record.h"
#include "node/dra/registration.h"
#include "base/io/lock.h"
#include "base/io/loop.h"
#include "base/io/unix_socket.h"
#include "node/kubelet/plugin.h"
#include "node/kubelet/pod_resources.h"
#include "plan/allocate.h"
#include "plan/checkpoint.h"

#define DEVICE_PREFIX "nvidia.com/" /* of every advertised resource */

/* Removes each file of |folder| that |is_ours|, unless |left| says why they stay. */
static void remove_all_of(struct removals *removals, const char *what, const char *folder, const char *left,
        bool (*is_ours)(const char *driver, const char *name), const char *driver)
{
        DIR *directory = opendir(folder);
        const struct dirent *entry;
        size_t n_before = removals->n_rows;

        if (!directory && errno != ENOENT) {
                removals_add(removals, REMOVAL_UNSEEN, what, folder, "%s", strerror(errno));
                return;
        }
        while (directory && (entry = readdir(directory))) {
                _free_ char *path = xasprintf("%s/%s", folder, entry->d_name);

                if (is_ours(driver, entry->d_name))
                        removals_unlink(removals, what, path, left);
        }
        if (directory)
                closedir(directory);
        if (removals->n_rows == n_before)
                removals_add(removals, REMOVAL_ABSENT, what, folder, "%s", "");
}

/* ---- sockets ---- */

static bool is_plugin_socket(const char *directory, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", directory, name);
        struct stat status;

        return text_starts_with(name, PLUGIN_SOCKET_PREFIX) && lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

void uninstall_sockets(struct removals *removals, const char *kubelet_directory)
{
        remove_all_of(removals, "kubelet socket", kubelet_directory, NULL, is_plugin_socket, kubelet_directory);
}

/* ---- CDI ---- */

struct question {
        bool is_answered;
        bool is_known;
        size_t n_holders;
};

static bool holds_gpu(const struct pod_container *container)
{
        for (size_t i = 0; i < container->n_devices; i++)
                if (text_starts_with(container->devices[i].resource, DEVICE_PREFIX))
                        return true;
        return false;
}

static void on_files_listed(const struct error *err, const struct pod_list *list, void *data)
{
        struct question *question = data;

        question->is_answered = true;
        question->is_known = !err;
        for (size_t i = 0; !err && i < list->n_containers; i++)
                question->n_holders += holds_gpu(&list->containers[i]);
}

static bool is_answered(void *question)
{
        return ((struct question *)question)->is_answered;
}

/* False: kubelet does not answer. */
static bool ask_kubelet(const char *socket, size_t *ret_holders)
{
        struct question question = {false};
        struct pod_resources *pods;
        struct error err;
        uv_loop_t loop;

        loop_init(&loop);
        if (pod_resources_new(&pods, &loop, socket, &err) == 0) {
                pod_resources_list(pods, on_files_listed, &question);
                loop_run_until(&loop, is_answered, &question, 0);
                pod_resources_close(pods);
                uv_run(&loop, UV_RUN_DEFAULT);
        }
        uv_loop_close(&loop);
        *ret_holders = question.n_holders;
        return question.is_known;
}

/* Counts what kubelet's checkpoint has of our devices. The checkpoint may still contain pods that have ended. */
static size_t count_checkpoint(const char *kubelet_directory)
{
        _free_ char *path = xasprintf("%s/" CHECKPOINT_NAME, kubelet_directory);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct arena scratch = ARENA_INIT;
        struct checkpoint checkpoint = {.n_entries = 0};
        struct error err;

        if (file_read(path, CHECKPOINT_MAX, &text, &err) < 0 ||
                checkpoint_read(&checkpoint, &scratch, DEVICE_PREFIX, text.data, text.size, &err) < 0)
                checkpoint.n_entries = 0;
        arena_done(&scratch);
        return checkpoint.n_entries;
}

/* A socket on which NVIDIA's plugin listens, for the caller to free; NULL: none. */
static char *find_nvidias_plugin(const char *kubelet_directory)
{
        DIR *directory = opendir(kubelet_directory);
        const struct dirent *entry;
        char *found = NULL;

        while (directory && !found && (entry = readdir(directory))) {
                _free_ char *path = xasprintf("%s/%s", kubelet_directory, entry->d_name);

                if (facts_is_nvidia_socket(entry->d_name) && reach_socket(path) == 0)
                        found = TAKE_PTR(path);
        }
        if (directory)
                closedir(directory);
        return found;
}

static bool has_prepared_claims(const struct config *config)
{
        DIR *directory = opendir(config->cdi.root);
        const struct dirent *entry;
        bool found = false;

        while (directory && !found && (entry = readdir(directory)))
                found = dra_claim_cdi_is_file(config->dra.driver_name, entry->d_name);
        if (directory)
                closedir(directory);
        return found;
}

/* Why the specifications are to stay, for the caller to free; NULL: they may go. */
static char *files_find_use(const struct config *config, const char *kubelet_directory)
{
        _free_ char *plugin = find_nvidias_plugin(kubelet_directory);
        size_t n_holders;

        if (plugin)
                return xasprintf("NVIDIA's device plugin serves on '%s', and has files of these names", plugin);
        if (!*config->kubelet.pod_resources || !ask_kubelet(config->kubelet.pod_resources, &n_holders))
                n_holders = count_checkpoint(kubelet_directory);
        if (has_prepared_claims(config))
                return xstrdup(
                        "DRA claims are prepared, whose specifications name devices of it; end their pods while an agent "
                        "runs, or use --force");
        if (n_holders > 0)
                return xasprintf(
                        "%zu containers hold GPUs, and are started again by it; end them first, or use --force",
                        n_holders);
        return NULL;
}

/* |use| says why the specifications stay, or is NULL. */
struct specifications {
        struct removals *removals;
        const char *use;
};

static void uninstall_specification(const char *path, const char *allocation UNUSED, void *data)
{
        const struct specifications *specifications = data;

        removals_unlink(specifications->removals, "CDI specification", path, specifications->use);
}

void uninstall_cdi(
        struct removals *removals, const struct config *config, const char *kubelet_directory, bool is_forced)
{
        static const char *const classes[] = {
                CDI_CLASS_GPU, CDI_CLASS_IMEX, CDI_CLASS_GDRCOPY, CDI_CLASS_GDS, CDI_CLASS_MOFED, CDI_CLASS_MPS};
        _free_ char *use = is_forced ? NULL : files_find_use(config, kubelet_directory);
        struct specifications specifications = {removals, use};
        size_t n_before = removals->n_rows;

        for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
                _free_ char *path = xasprintf("%s/" CDI_VENDOR "-%s.json", config->cdi.root, classes[i]);

                if (access(path, F_OK) == 0)
                        uninstall_specification(path, NULL, &specifications);
        }
        start_devices_each(config->cdi.root, uninstall_specification, &specifications);
        if (removals->n_rows == n_before)
                removals_add(removals, REMOVAL_ABSENT, "CDI specification", config->cdi.root, "%s", "");
}

/* ---- DRA ---- */

static bool is_record(const char *driver UNUSED, const char *name)
{
        return strcmp(name, DRA_RECORD_NAME) == 0;
}

void uninstall_dra(struct removals *removals, const struct config *config, const char *agent, bool is_forced)
{
        const struct config_dra *dra = &config->dra;
        const char *left = is_forced
                                   ? NULL
                                   : "the claim is prepared, and its containers are started again by it; end its pods "
                                     "while an agent runs, or use --force";
        size_t n_left;
        _free_ char *directory = dra_sockets_directory(dra->plugins, dra->driver_name);
        _free_ char *metadata = xasprintf("%s/" DRA_METADATA_NAME, directory);

        remove_all_of(removals, "DRA socket", dra->registry, agent, dra_sockets_is_first, dra->driver_name);
        remove_all_of(removals, "DRA socket", directory, agent, dra_sockets_is_second, dra->driver_name);
        n_left = removals_count(removals, REMOVAL_LEFT);
        remove_all_of(removals, "CDI specification of a claim", config->cdi.root, left, dra_claim_cdi_is_file,
                dra->driver_name);
        remove_all_of(removals, "device metadata of a claim", metadata, left, dra_metadata_is_file, dra->driver_name);
        if (!removals->is_dry)
                (void)rmdir(metadata);
        /*
         * Without the record it would be unknown what is prepared; with it the next agent would make the specifications
         * again.
         */
        if (removals_count(removals, REMOVAL_LEFT) == n_left)
                remove_all_of(removals, "record of claims", directory, agent, is_record, dra->driver_name);
}

/* ---- MIG ---- */

static const char what_record[] = "record of a MIG change";

/* |left|: why it stays if it is there; NULL: it does not. */
static void remove_record(struct removals *removals, const char *folder, const char *name, const char *left)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);

        if (access(path, F_OK) < 0)
                removals_add(removals, errno == ENOENT ? REMOVAL_ABSENT : REMOVAL_UNSEEN, what_record, path, "%s",
                        errno == ENOENT ? "" : strerror(errno));
        else
                removals_unlink(removals, what_record, path, left);
}

void uninstall_mig(struct removals *removals, const char *folder, bool is_forced)
{
        struct lock lock = LOCK_INIT;
        struct error err;
        const char *left = is_forced
                                   ? NULL
                                   : "the change is unfinished: 'warpshare mig apply --resume' finishes or undoes it; "
                                     "--force removes the record, and the geometry stays as it is";

        if (access(folder, F_OK) < 0 && errno == ENOENT) {
                removals_add(removals, REMOVAL_ABSENT, what_record, folder, "%s", "");
                return;
        }
        switch (lock_take_within(&lock, folder, LOCK_PATIENCE_MS, &err)) {
        case 0:
                remove_record(removals, folder, MIG_RECORD_NAME, left);
                remove_record(removals, folder, MIG_RUN_RECORD_NAME, NULL);
                /* The folder above it is not ours alone. */
                if (!removals->is_dry)
                        (void)rmdir(folder);
                break;
        case LOCK_BUSY:
                removals_add(removals, REMOVAL_LEFT, what_record, folder,
                        "another process changes the MIG geometry now: wait until it has ended");
                break;
        default:
                removals_add(removals, REMOVAL_UNSEEN, what_record, folder, "%s", err.text);
        }
        lock_release(&lock);
}
