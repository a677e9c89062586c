#include "cmd/demo_node.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"

static const char config_text[] = "version: v1\n"
                                  "flags:\n"
                                  "  mpsRoot: /run/nvidia/mps\n"
                                  "  plugin:\n"
                                  "    sharedDevicesAllocationPolicy: packed\n"
                                  "sharing:\n"
                                  "  mps:\n"
                                  "    provisioning: weighted\n"
                                  "    failRequestsGreaterThanOne: false\n"
                                  "    resources:\n"
                                  "    - name: nvidia.com/gpu\n"
                                  "      replicas: 20\n";

/* Where the simulator lies, seen from the folder of this program: when installed, and in a build folder. */
static const char *const library_places[] = {
        "../lib/warpshare/libwarpshare-nvml-sim.so",
        "../../sim/lib/libnvidia-ml.so.1",
};

static int find_library(struct demo_node *node, const char *named, struct error *err)
{
        char program[4096];
        ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
        char *slash;

        if (named) {
                node->library = xstrdup(named);
                return 0;
        }
        if (length < 0)
                return error_errno(err, errno, "find this program");
        program[length] = '\0';
        slash = strrchr(program, '/');
        *slash = '\0';
        for (size_t i = 0; i < ARRAY_SIZE(library_places); i++) {
                _free_ char *path = xasprintf("%s/%s", program, library_places[i]);

                if (access(path, R_OK) == 0) {
                        node->library = realpath(path, NULL);
                        return 0;
                }
        }
        return error_set(err, ERROR_NOT_FOUND,
                "the simulated NVML library is not in '%s/../lib/warpshare'; name it with "
                "--nvml-library",
                program);
}

static int write_scenario(struct demo_node *node, int lost, struct error *err)
{
        struct strbuf text = STRBUF_INIT;
        int rc;

        strbuf_puts(&text, "driverVersion: 550.163.01\ncudaVersion: \"12.4\"\ngpus:\n");
        for (int i = 0; i < 4; i++)
                strbuf_printf(&text, "- {model: V100-32GB, numa: %d%s}\n", i / 2, i == lost ? ", lost: true" : "");
        if (lost >= 0)
                strbuf_printf(&text, "events:\n- {gpu: %d, xid: 79}\n", lost);
        rc = file_write(node->scenario, text.data, text.size, err);
        strbuf_done(&text);
        return rc;
}

static int make_folder(struct demo_node *node, struct error *err)
{
        char template[] = "/tmp/warpshare-demo-XXXXXX";

        if (!mkdtemp(template))
                return error_errno(err, errno, "create '%s'", template);
        node->folder = xstrdup(template);
        node->scenario = xasprintf("%s/gpus.yaml", node->folder);
        node->config = xasprintf("%s/config.yaml", node->folder);
        node->log = xasprintf("%s/agent.log", node->folder);
        node->kubelet_directory = xasprintf("%s/device-plugins", node->folder);
        if (mkdir(node->kubelet_directory, 0750) < 0)
                return error_errno(err, errno, "create '%s'", node->kubelet_directory);
        if (file_write(node->config, config_text, sizeof(config_text) - 1, err) < 0)
                return -1;
        return write_scenario(node, -1, err);
}

static void on_agent_exit(uv_process_t *process, int64_t status, int signal_number)
{
        struct demo_node *node = process->data;

        node->agent_runs = false;
        node->agent_status = signal_number ? 128 + signal_number : status;
        uv_close((uv_handle_t *)process, NULL);
}

static int start_agent(struct demo_node *node, struct error *err)
{
        _free_ char *config = xasprintf("--config-file=%s", node->config);
        _free_ char *library = xasprintf("--nvml-library=%s", node->library);
        _free_ char *socket = xasprintf("--kubelet-socket=%s/kubelet.sock", node->kubelet_directory);
        _free_ char *scenario = xasprintf("WARPSHARE_SIM_SCENARIO=%s", node->scenario);
        char program[] = "/proc/self/exe";
        char name[] = "warpshare";
        char command[] = "agent";
        char *arguments[] = {name, command, config, library, socket, NULL};
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
        rc = uv_spawn(node->loop, &node->agent, &options);
        close(log);
        if (rc < 0)
                return error_errno(err, -rc, "start the agent");
        node->agent_runs = true;
        return 0;
}

int demo_node_start(struct demo_node *node, uv_loop_t *loop, const char *named_library, struct error *err)
{
        struct kubelet_options kubelet = {.loop = loop};

        *node = (struct demo_node){.loop = loop};
        if (find_library(node, named_library, err) < 0 || make_folder(node, err) < 0)
                return -1;
        kubelet.directory = node->kubelet_directory;
        if (kubelet_new(&node->kubelet, &kubelet, err) < 0)
                return -1;
        return start_agent(node, err);
}

int demo_node_set_lost(struct demo_node *node, unsigned int gpu, bool lost, struct error *err)
{
        return write_scenario(node, lost ? (int)gpu : -1, err);
}

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

bool demo_node_wait(
        struct demo_node *node, bool (*is_true)(struct demo_node *node, void *data), void *data, uint64_t timeout_ms)
{
        struct deadline *deadline = xcalloc(1, sizeof(*deadline));
        bool result;

        uv_timer_init(node->loop, &deadline->timer);
        uv_timer_start(&deadline->timer, on_deadline, timeout_ms, 0);
        while (!(result = is_true(node, data)) && !deadline->over)
                uv_run(node->loop, UV_RUN_ONCE);
        uv_close((uv_handle_t *)&deadline->timer, free_deadline);
        return result;
}

static bool agent_is_gone(struct demo_node *node, void *data UNUSED)
{
        return !node->agent_runs;
}

static void on_kubelet_closed(void *data)
{
        ((struct demo_node *)data)->kubelet = NULL;
}

static bool kubelet_is_gone(struct demo_node *node, void *data UNUSED)
{
        return !node->kubelet;
}

static int remove_entry(const char *path, const struct stat *status UNUSED, int type UNUSED, struct FTW *level UNUSED)
{
        return remove(path);
}

void demo_node_stop(struct demo_node *node)
{
        if (node->agent_runs) {
                uv_process_kill(&node->agent, SIGTERM);
                if (!demo_node_wait(node, agent_is_gone, NULL, 5000)) {
                        uv_process_kill(&node->agent, SIGKILL);
                        demo_node_wait(node, agent_is_gone, NULL, 1000);
                }
        }
        if (node->kubelet) {
                kubelet_close(node->kubelet, on_kubelet_closed, node);
                demo_node_wait(node, kubelet_is_gone, NULL, 2000);
        }
        if (node->folder)
                nftw(node->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(node->folder);
        free(node->library);
        free(node->scenario);
        free(node->config);
        free(node->kubelet_directory);
        free(node->log);
}
