// SPDX-License-Identifier: Apache-2.0
#include "sim/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/loop.h"

#define KUBELET_FOLDER "/var/lib/kubelet"

/* ---- the folder ---- */

/*
 * Any character device will do. A process without rights may create one with the numbers 0, 0, but not on every file
 * system.
 */
static bool make_device_node(const char *folder, const char *name)
{
        _free_ char *path = xasprintf("%s/%s", folder, name);

        return mknod(path, S_IFCHR | 0666, makedev(1, 3)) == 0 || mknod(path, S_IFCHR | 0666, makedev(0, 0)) == 0;
}

/*
 * Creates the files that the agent needs to write CDI specifications for a driver: device nodes and the CUDA library.
 */
static int make_driver(struct sim_node *node, const struct sim_node_options *options, struct error *err)
{
        _free_ char *devices = xasprintf("%s/dev", node->driver_root);
        _free_ char *libraries = xasprintf("%s/usr/lib64", node->driver_root);
        _free_ char *library = xasprintf("%s/libcuda.so.%s", libraries, options->driver_version);

        if (file_make_folder(devices, err) < 0 || file_make_folder(libraries, err) < 0 ||
                file_write(library, "", 0, err) < 0)
                return -1;
        node->has_device_nodes = make_device_node(devices, "nvidiactl") && make_device_node(devices, "nvidia-uvm");
        for (unsigned int i = 0; i < options->n_device_nodes && node->has_device_nodes; i++) {
                _free_ char *name = xasprintf("nvidia%u", i);

                node->has_device_nodes = make_device_node(devices, name);
        }
        return 0;
}

static int make_folder(struct sim_node *node, const struct sim_node_options *options, struct error *err)
{
        _free_ char *folder =
                options->above ? xasprintf("%s/node", options->above) : xstrdup("/tmp/warpshare-node-XXXXXX");
        _free_ char *shm = NULL;
        _free_ char *kubelet = NULL;

        if (options->above ? mkdir(folder, 0700) < 0 : !mkdtemp(folder))
                return error_errno(err, errno, "create '%s'", folder);
        node->folder = TAKE_PTR(folder);
        /*
         * It has a folder of its own: the simulator watches that, and must not wake up for every line of the agent's
         * log.
         */
        node->scenario_directory = xasprintf("%s/gpus", node->folder);
        node->scenario = xasprintf("%s/gpus.yaml", node->scenario_directory);
        node->config = xasprintf("%s/config.yaml", node->folder);
        node->log = xasprintf("%s/agent.log", node->folder);
        node->mps_log = xasprintf("%s/mps.log", node->folder);
        node->mps_root = xasprintf("%s/mps", node->folder);
        shm = xasprintf("%s/shm", node->mps_root);
        node->mps_scenario = xasprintf("%s/mps.conf", node->folder);
        node->driver_root = xasprintf("%s/driver", node->folder);
        node->cdi_root = xasprintf("%s/cdi", node->folder);
        kubelet = node->is_drop_in ? xstrdup(KUBELET_FOLDER) : xstrdup(node->folder);
        node->kubelet_directory = xasprintf("%s/device-plugins", kubelet);
        node->pod_resources_directory = xasprintf("%s/pod-resources", kubelet);
        node->pod_resources = xasprintf("%s/kubelet.sock", node->pod_resources_directory);
        if (mkdir(node->scenario_directory, 0750) < 0)
                return error_errno(err, errno, "create '%s'", node->scenario_directory);
        /* On a real node `warpshare mps mount-shm` mounts it, which needs root. */
        if (file_make_folder(shm, err) < 0)
                return -1;
        if (node->is_drop_in && access(node->kubelet_directory, F_OK) == 0)
                return error_set(err, ERROR_INVALID, "'%s' is there already: mount an empty folder at /var/lib before",
                        node->kubelet_directory);
        if (file_make_folder(node->kubelet_directory, err) < 0 ||
                file_make_folder(node->pod_resources_directory, err) < 0)
                return -1;
        if (options->n_device_nodes && make_driver(node, options, err) < 0)
                return -1;
        if (options->mps_programs &&
                file_write(node->mps_scenario, options->mps_scenario, strlen(options->mps_scenario), err) < 0)
                return -1;
        if (file_write(node->config, options->config, strlen(options->config), err) < 0)
                return -1;
        return sim_node_set_scenario(node, options->scenario, err);
}

int sim_node_set_scenario(struct sim_node *node, const char *text, struct error *err)
{
        return file_write(node->scenario, text, strlen(text), err);
}

static int remove_entry(const char *path, const struct stat *status UNUSED, int type UNUSED, struct FTW *level UNUSED)
{
        return remove(path);
}

void sim_node_remove(const char *folder)
{
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- the processes ---- */

static void on_exit_of(uv_process_t *handle, int64_t status UNUSED, int signal_number UNUSED)
{
        struct sim_process *process = handle->data;

        process->runs = false;
        uv_close((uv_handle_t *)handle, NULL);
}

static int start(struct sim_process *process, struct sim_node *node, char **arguments, char **environment,
        const char *log_path, int log_flags, struct error *err)
{
        int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | log_flags, 0644);
        uv_stdio_container_t stdio[] = {
                {.flags = UV_IGNORE},
                {.flags = UV_IGNORE},
                {.flags = UV_INHERIT_FD, .data.fd = log},
        };
        const uv_process_options_t options = {
                .exit_cb = on_exit_of,
                .file = arguments[0],
                .args = arguments,
                .env = environment,
                .stdio_count = ARRAY_SIZE(stdio),
                .stdio = stdio,
        };
        int rc;

        if (log < 0)
                return error_errno(err, errno, "create '%s'", log_path);
        process->process.data = process;
        rc = uv_spawn(node->loop, &process->process, &options);
        close(log);
        if (rc < 0)
                return error_errno(err, -rc, "start '%s'", arguments[0]);
        process->runs = true;
        return 0;
}

/* Folders that an agent with DRA needs. */
static char *plugins_path(const struct sim_node *node)
{
        return xasprintf("%s/plugins", node->folder);
}

static char *registry_path(const struct sim_node *node)
{
        return xasprintf("%s/plugins_registry", node->folder);
}

static char *kubeconfig_path(const struct sim_node *node)
{
        return xasprintf("%s/kubeconfig", node->folder);
}

static void wipe_slices(const char *driver, void *data)
{
        cluster_wipe_slices(((struct sim_node *)data)->cluster, SIM_NODE_NAME, driver);
}

static int start_cluster(struct sim_node *node, struct error *err)
{
        _free_ char *path = kubeconfig_path(node);
        _free_ char *registry = registry_path(node);
        _free_ char *text = NULL;

        if (cluster_new(&node->cluster, node->loop, err) < 0)
                return -1;
        cluster_put(node->cluster, CLUSTER_NODES,
                json_pack(
                        "{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", SIM_NODE_NAME));
        text = cluster_kubeconfig(node->cluster);
        if (file_write(path, text, strlen(text), err) < 0 || file_make_folder(registry, err) < 0)
                return -1;
        return kubelet_dra_new(&node->dra,
                &(struct kubelet_dra_options){
                        .loop = node->loop, .registry = registry, .wipe = wipe_slices, .data = node},
                err);
}

static int start_drop_in(struct sim_node *node, struct sim_process *process, struct error *err)
{
        _free_ char *config = xasprintf("--config-file=%s", node->config);
        _free_ char *scenario = xasprintf("WARPSHARE_SIM_SCENARIO=%s", node->scenario);
        _free_ char *folder = file_folder(node->library);
        _free_ char *libraries = xasprintf("LD_LIBRARY_PATH=%s", folder);
        char *arguments[] = {node->program, config, NULL};
        char *environment[] = {libraries, scenario, NULL};

        node->started_ns = (int64_t)uv_hrtime();
        return start(process, node, arguments, environment, node->log, 0, err);
}

static int start_agent(struct sim_node *node, struct sim_process *process, struct error *err)
{
        _free_ char *config = xasprintf("--config-file=%s", node->config);
        _free_ char *library = xasprintf("--nvml-library=%s", node->library);
        _free_ char *socket = xasprintf("--kubelet-socket=%s/kubelet.sock", node->kubelet_directory);
        _free_ char *pods = xasprintf("--pod-resources-socket=%s", node->pod_resources);
        _free_ char *root = xasprintf("--mps-directory=%s", node->mps_root);
        _free_ char *mps = xasprintf("--mps-root=%s", node->mps_root);
        _free_ char *driver = xasprintf("--driver-root=%s", node->driver_root);
        _free_ char *here = xasprintf("--driver-root-ctr-path=%s", node->driver_root);
        _free_ char *system = xasprintf("--system-root=%s", node->driver_root);
        _free_ char *cdi = xasprintf("--cdi-root=%s", node->cdi_root);
        _free_ char *mig = xasprintf("--mig-state-directory=%s/mig", node->folder);
        _free_ char *scenario = xasprintf("WARPSHARE_SIM_SCENARIO=%s", node->scenario);
        _free_ char *kubeconfig_file = kubeconfig_path(node);
        _free_ char *kubeconfig = xasprintf("--kubeconfig=%s", kubeconfig_file);
        _free_ char *registry_folder = registry_path(node);
        _free_ char *registry = xasprintf("--kubelet-plugins-registry=%s", registry_folder);
        _free_ char *plugins_folder = plugins_path(node);
        _free_ char *plugins = xasprintf("--kubelet-plugins=%s", plugins_folder);
        char name[] = "--node-name=" SIM_NODE_NAME;
        char command[] = "agent";
        char *arguments[21] = {
                node->program, command, config, library, socket, pods, root, mps, driver, here, system, cdi, mig};
        char *environment[] = {scenario, NULL};
        size_t count = 13;

        if (node->is_drop_in)
                return start_drop_in(node, process, err);
        for (size_t i = 0; i < ARRAY_SIZE(node->agent_options) && node->agent_options[i]; i++)
                arguments[count++] = node->agent_options[i];
        if (node->cluster) {
                arguments[count++] = kubeconfig;
                arguments[count++] = name;
                arguments[count++] = registry;
                arguments[count++] = plugins;
        }

        node->started_ns = (int64_t)uv_hrtime();
        return start(process, node, arguments, environment, node->log, node->syncs_log ? O_DSYNC : 0, err);
}

static int start_mps(struct sim_node *node, struct error *err)
{
        _free_ char *library = xasprintf("--nvml-library=%s", node->library);
        _free_ char *root = xasprintf("--mps-directory=%s", node->mps_root);
        _free_ char *path = xasprintf("PATH=%s", node->mps_programs);
        _free_ char *scenario = xasprintf("WARPSHARE_SIM_SCENARIO=%s", node->scenario);
        _free_ char *mps_scenario = xasprintf("WARPSHARE_MPS_SIM=%s", node->mps_scenario);
        char command[] = "mps";
        char shm[] = "--shared-memory=node"; /* here no process has a /dev/shm of its own */
        char grace[] = "--grace=0";
        char *arguments[] = {node->program, command, shm, root, library, grace, NULL};
        char *environment[] = {path, scenario, mps_scenario, NULL};

        return start(&node->mps, node, arguments, environment, node->mps_log, 0, err);
}

int sim_node_start(struct sim_node *node, const struct sim_node_options *options, struct error *err)
{
        struct kubelet_options kubelet = options->kubelet;

        *node = (struct sim_node){
                .loop = options->loop,
                .program = xstrdup(options->agent),
                .library = xstrdup(options->library),
                .mps_programs = options->mps_programs ? xstrdup(options->mps_programs) : NULL,
                .syncs_log = options->syncs_log,
                .is_drop_in = options->is_drop_in,
                .agent = node->agents,
        };
        for (size_t i = 0; i < ARRAY_SIZE(node->agent_options); i++)
                node->agent_options[i] = options->agent_options[i] ? xstrdup(options->agent_options[i]) : NULL;
        if (make_folder(node, options, err) < 0)
                return -1;
        kubelet.loop = options->loop;
        kubelet.directory = node->kubelet_directory;
        kubelet.pod_resources = node->pod_resources;
        if (kubelet_new(&node->kubelet, &kubelet, err) < 0 || (node->mps_programs && start_mps(node, err) < 0) ||
                (options->has_dra && start_cluster(node, err) < 0))
                return -1;
        return start_agent(node, node->agent, err);
}

/* ---- waiting ---- */

bool sim_node_wait(struct sim_node *node, bool (*is_true)(void *data), void *data, uint64_t timeout_ms)
{
        return loop_run_until(node->loop, is_true, data, timeout_ms);
}

/* ---- the end ---- */

static bool is_gone(void *process)
{
        return !((struct sim_process *)process)->runs;
}

static void stop(struct sim_node *node, struct sim_process *process)
{
        if (!process->runs)
                return;
        uv_process_kill(&process->process, SIGTERM);
        if (sim_node_wait(node, is_gone, process, 5000))
                return;
        uv_process_kill(&process->process, SIGKILL);
        sim_node_wait(node, is_gone, process, 1000);
}

int sim_node_restart_agent(struct sim_node *node, struct error *err)
{
        stop(node, node->agent);
        return start_agent(node, node->agent, err);
}

static struct sim_process *other_agent(struct sim_node *node)
{
        return node->agent == node->agents ? node->agents + 1 : node->agents;
}

int sim_node_start_next(struct sim_node *node, struct error *err)
{
        stop(node, other_agent(node));
        return start_agent(node, other_agent(node), err);
}

void sim_node_hand_over(struct sim_node *node)
{
        uv_process_kill(&node->agent->process, SIGTERM);
        node->agent = other_agent(node);
}

static bool kubelet_is_gone(void *node)
{
        return !((struct sim_node *)node)->kubelet;
}

static void on_kubelet_closed(void *node)
{
        ((struct sim_node *)node)->kubelet = NULL;
}

void sim_node_stop(struct sim_node *node)
{
        stop(node, &node->agents[0]);
        stop(node, &node->agents[1]);
        stop(node, &node->mps);
        kubelet_dra_close(node->dra);
        cluster_close(node->cluster);
        if (node->kubelet) {
                kubelet_close(node->kubelet, on_kubelet_closed, node);
                sim_node_wait(node, kubelet_is_gone, node, 2000);
        }
        if (node->folder)
                sim_node_remove(node->folder);
        free(node->program);
        free(node->library);
        free(node->mps_programs);
        for (size_t i = 0; i < ARRAY_SIZE(node->agent_options); i++)
                free(node->agent_options[i]);
        free(node->mps_log);
        free(node->mps_root);
        free(node->mps_scenario);
        free(node->driver_root);
        free(node->cdi_root);
        free(node->folder);
        free(node->scenario_directory);
        free(node->scenario);
        free(node->config);
        free(node->log);
        free(node->kubelet_directory);
        free(node->pod_resources_directory);
        free(node->pod_resources);
        *node = (struct sim_node){0};
}
