#include "sim/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

/* ---- the folder ---- */

static int make_folder(struct sim_node *node, const struct sim_node_options *options, struct error *err)
{
        char template[] = "/tmp/warpshare-node-XXXXXX";

        if (!mkdtemp(template))
                return error_errno(err, errno, "create '%s'", template);
        node->folder = xstrdup(template);
        /* Alone in a folder: the simulator watches it, and must not wake up for every line of the agent's log. */
        node->scenario_directory = xasprintf("%s/gpus", node->folder);
        node->scenario = xasprintf("%s/gpus.yaml", node->scenario_directory);
        node->config = xasprintf("%s/config.yaml", node->folder);
        node->log = xasprintf("%s/agent.log", node->folder);
        node->kubelet_directory = xasprintf("%s/device-plugins", node->folder);
        node->pod_resources_directory = xasprintf("%s/pod-resources", node->folder);
        node->pod_resources = xasprintf("%s/kubelet.sock", node->pod_resources_directory);
        if (mkdir(node->scenario_directory, 0750) < 0)
                return error_errno(err, errno, "create '%s'", node->scenario_directory);
        if (mkdir(node->kubelet_directory, 0750) < 0)
                return error_errno(err, errno, "create '%s'", node->kubelet_directory);
        if (mkdir(node->pod_resources_directory, 0750) < 0)
                return error_errno(err, errno, "create '%s'", node->pod_resources_directory);
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

/* ---- the agent ---- */

static void on_agent_exit(uv_process_t *process, int64_t status UNUSED, int signal_number UNUSED)
{
        struct sim_node *node = process->data;

        node->agent_runs = false;
        uv_close((uv_handle_t *)process, NULL);
}

static int start_agent(struct sim_node *node, const struct sim_node_options *from, struct error *err)
{
        _free_ char *program = xstrdup(from->agent);
        _free_ char *config = xasprintf("--config-file=%s", node->config);
        _free_ char *library = xasprintf("--nvml-library=%s", from->library);
        _free_ char *socket = xasprintf("--kubelet-socket=%s/kubelet.sock", node->kubelet_directory);
        _free_ char *scenario = xasprintf("WARPSHARE_SIM_SCENARIO=%s", node->scenario);
        char command[] = "agent";
        char *arguments[] = {program, command, config, library, socket, NULL};
        char *environment[] = {scenario, NULL};
        int log = open(node->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        uv_stdio_container_t stdio[] = {
                {.flags = UV_IGNORE},
                {.flags = UV_IGNORE},
                {.flags = UV_INHERIT_FD, .data.fd = log},
        };
        const uv_process_options_t options = {
                .exit_cb = on_agent_exit,
                .file = program,
                .args = arguments,
                .env = environment,
                .stdio_count = ARRAY_SIZE(stdio),
                .stdio = stdio,
        };
        int rc;

        if (log < 0)
                return error_errno(err, errno, "create '%s'", node->log);
        node->agent.data = node;
        node->started_ns = (int64_t)uv_hrtime();
        rc = uv_spawn(node->loop, &node->agent, &options);
        close(log);
        if (rc < 0)
                return error_errno(err, -rc, "start '%s'", program);
        node->agent_runs = true;
        return 0;
}

int sim_node_start(struct sim_node *node, const struct sim_node_options *options, struct error *err)
{
        struct kubelet_options kubelet = options->kubelet;

        *node = (struct sim_node){.loop = options->loop};
        if (make_folder(node, options, err) < 0)
                return -1;
        kubelet.loop = options->loop;
        kubelet.directory = node->kubelet_directory;
        kubelet.pod_resources = node->pod_resources;
        if (kubelet_new(&node->kubelet, &kubelet, err) < 0)
                return -1;
        return start_agent(node, options, err);
}

/* ---- waiting ---- */

/* A deadline outlives the function that set it: libuv gives the memory back in a callback. */
struct deadline {
        uv_timer_t timer;
        bool over;
};

static void on_deadline(uv_timer_t *timer)
{
        container_of(timer, struct deadline, timer)->over = true;
}

static void free_deadline(uv_handle_t *handle)
{
        free(container_of((uv_timer_t *)handle, struct deadline, timer));
}

bool sim_node_wait(struct sim_node *node, bool (*is_true)(void *data), void *data, uint64_t timeout_ms)
{
        struct deadline *deadline = xcalloc(1, sizeof(*deadline));
        bool result;

        uv_timer_init(node->loop, &deadline->timer);
        uv_timer_start(&deadline->timer, on_deadline, timeout_ms, 0);
        while (!(result = is_true(data)) && !deadline->over)
                uv_run(node->loop, UV_RUN_ONCE);
        uv_close((uv_handle_t *)&deadline->timer, free_deadline);
        return result;
}

/* ---- the end ---- */

static bool agent_is_gone(void *node)
{
        return !((struct sim_node *)node)->agent_runs;
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
        if (node->agent_runs) {
                uv_process_kill(&node->agent, SIGTERM);
                if (!sim_node_wait(node, agent_is_gone, node, 5000)) {
                        uv_process_kill(&node->agent, SIGKILL);
                        sim_node_wait(node, agent_is_gone, node, 1000);
                }
        }
        if (node->kubelet) {
                kubelet_close(node->kubelet, on_kubelet_closed, node);
                sim_node_wait(node, kubelet_is_gone, node, 2000);
        }
        if (node->folder)
                nftw(node->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
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
