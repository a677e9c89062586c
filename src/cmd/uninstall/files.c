#include "cmd/uninstall/uninstall.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#include "base/file.h"
#include "base/text.h"
#include "node/cdi/start_devices.h"
#include "cmd/doctor/facts.h"
#include "node/dra/claim_cdi.h"
#include "base/io/loop.h"
#include "base/io/reach.h"
#include "node/kubelet/plugin.h"
#include "node/kubelet/pod_resources.h"
#include "plan/cdi_name.h"
#include "plan/checkpoint.h"

#define DEVICE_PREFIX "nvidia.com/" /* of every advertised resource */

static void remove_file(struct removals *removals, const char *what, const char *path)
{
        if (!removals->is_dry && unlink(path) < 0)
                removals_add(removals, REMOVAL_LEFT, what, path, "%s", strerror(errno));
        else
                removals_add(removals, REMOVAL_DONE, what, path, "%s", "");
}

/* ---- sockets ---- */

static bool is_socket(DIR *directory, const char *name)
{
        struct stat status;

        return fstatat(dirfd(directory), name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(status.st_mode);
}

void uninstall_sockets(struct removals *removals, const char *kubelet_directory)
{
        static const char what[] = "kubelet socket";
        DIR *directory = opendir(kubelet_directory);
        const struct dirent *entry;
        size_t n_before = removals->n_rows;

        if (!directory) {
                removals_add(removals, errno == ENOENT ? REMOVAL_ABSENT : REMOVAL_UNSEEN, what, kubelet_directory, "%s",
                        strerror(errno));
                return;
        }
        while ((entry = readdir(directory))) {
                _free_ char *path = xasprintf("%s/%s", kubelet_directory, entry->d_name);

                if (text_starts_with(entry->d_name, PLUGIN_SOCKET_PREFIX) && is_socket(directory, entry->d_name))
                        remove_file(removals, what, path);
        }
        closedir(directory);
        if (removals->n_rows == n_before)
                removals_add(removals, REMOVAL_ABSENT, what, kubelet_directory, "%s", "");
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

/* It may still contain pods that have ended. */
static size_t read_record(const char *kubelet_directory)
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
        DIR *directory = opendir(config->cdi_root);
        const struct dirent *entry;
        bool found = false;

        while (directory && !found && (entry = readdir(directory)))
                found = dra_claim_cdi_is_file(config->dra.driver_name, entry->d_name);
        if (directory)
                closedir(directory);
        return found;
}

/* Why the specifications are to stay, for the caller to free; NULL: they may go. */
static char *find_use(const struct config *config, const char *kubelet_directory)
{
        _free_ char *plugin = find_nvidias_plugin(kubelet_directory);
        size_t n_holders;

        if (plugin)
                return xasprintf("NVIDIA's device plugin serves on '%s', and has files of these names", plugin);
        if (!*config->pod_resources || !ask_kubelet(config->pod_resources, &n_holders))
                n_holders = read_record(kubelet_directory);
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

/* A specification file; |use| says why it stays, or is NULL. */
struct specification {
        struct removals *removals;
        const char *use;
};

static void uninstall_specification(const char *path, const char *allocation UNUSED, void *data)
{
        static const char what[] = "CDI specification";
        const struct specification *specification = data;

        if (specification->use)
                removals_add(specification->removals, REMOVAL_LEFT, what, path, "%s", specification->use);
        else
                remove_file(specification->removals, what, path);
}

void uninstall_cdi(
        struct removals *removals, const struct config *config, const char *kubelet_directory, bool is_forced)
{
        static const char *const classes[] = {
                CDI_CLASS_GPU, CDI_CLASS_IMEX, CDI_CLASS_GDRCOPY, CDI_CLASS_GDS, CDI_CLASS_MOFED, CDI_CLASS_MPS};
        _free_ char *use = is_forced ? NULL : find_use(config, kubelet_directory);
        struct specification specification = {removals, use};
        size_t n_before = removals->n_rows;

        for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
                _free_ char *path = xasprintf("%s/" CDI_VENDOR "-%s.json", config->cdi_root, classes[i]);

                if (access(path, F_OK) == 0)
                        uninstall_specification(path, NULL, &specification);
        }
        start_devices_each(config->cdi_root, uninstall_specification, &specification);
        if (removals->n_rows == n_before)
                removals_add(removals, REMOVAL_ABSENT, "CDI specification", config->cdi_root, "%s", "");
}
