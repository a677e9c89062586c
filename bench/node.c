#include "bench/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "bench/figure.h"

#define START_TIMEOUT_MS 10000

/* ---- the folder ---- */

static int write_scenario(const struct node *node, struct error *err)
{
        struct strbuf text = STRBUF_INIT;
        int rc;

        strbuf_puts(&text, "driverVersion: 580.105.08\ncudaVersion: \"13.0\"\ngpus:\n");
        for (unsigned int i = 0; i < node->options.gpus; i++)
                strbuf_printf(&text, "- {model: H100-80GB, numa: %u}\n", i / 4 % 2);
        if (node->n_xids)
                strbuf_puts(&text, "events:\n");
        for (unsigned int i = 0; i < node->n_xids; i++)
                strbuf_printf(&text, "- {gpu: %u, xid: 79}\n", i);
        rc = file_write(node->scenario, text.data, text.size, err);
        strbuf_done(&text);
        return rc;
}

/* MPS with weighted shares, where it may be: that makes the longest answers. */
static int write_config(const struct node *node, struct error *err)
{
        _free_ char *path = xasprintf("%s/config.yaml", node->folder);
        struct strbuf text = STRBUF_INIT;
        bool mps = node->options.replicas <= 48;
        int rc;

        strbuf_puts(&text, "version: v1\nflags:\n  mpsRoot: /run/nvidia/mps\n");
        if (node->options.replicas > 1)
                strbuf_printf(&text,
                        "sharing:\n  %s:\n%s    failRequestsGreaterThanOne: false\n    resources:\n"
                        "    - {name: " NODE_RESOURCE ", replicas: %u}\n",
                        mps ? "mps" : "timeSlicing", mps ? "    provisioning: weighted\n" : "", node->options.replicas);
        rc = file_write(path, text.data, text.size, err);
        strbuf_done(&text);
        return rc;
}

static int make_folder(struct node *node, struct error *err)
{
        char template[] = "/tmp/warpshare-bench-XXXXXX";

        if (!mkdtemp(template))
                return error_errno(err, errno, "create '%s'", template);
        node->folder = xstrdup(template);
        /* Alone in a folder: the simulator watches it, and must not wake up for every line of the agent's log. */
        node->scenario_directory = xasprintf("%s/gpus", node->folder);
        node->scenario = xasprintf("%s/gpus.yaml", node->scenario_directory);
        node->kubelet_directory = xasprintf("%s/device-plugins", node->folder);
        if (mkdir(node->scenario_directory, 0750) < 0)
                return error_errno(err, errno, "create '%s'", node->scenario_directory);
        if (mkdir(node->kubelet_directory, 0750) < 0)
                return error_errno(err, errno, "create '%s'", node->kubelet_directory);
        return write_config(node, err) < 0 ? -1 : write_scenario(node, err);
}

static int remove_entry(const char *path, const struct stat *status UNUSED, int type UNUSED, struct FTW *level UNUSED)
{
        return remove(path);
}

/* ---- the agent ---- */

static void on_agent_exit(uv_process_t *process, int64_t status UNUSED, int signal_number UNUSED)
{
        struct node *node = process->data;

        node->agent_runs = false;
        uv_close((uv_handle_t *)process, NULL);
}

static int start_agent(struct node *node, struct error *err)
{
        _free_ char *program = xstrdup(node->options.agent);
        _free_ char *config = xasprintf("--config-file=%s/config.yaml", node->folder);
        _free_ char *library = xasprintf("--nvml-library=%s", node->options.library);
        _free_ char *socket = xasprintf("--kubelet-socket=%s/kubelet.sock", node->kubelet_directory);
        _free_ char *scenario = xasprintf("WARPSHARE_SIM_SCENARIO=%s", node->scenario);
        _free_ char *log_path = xasprintf("%s/agent.log", node->folder);
        char command[] = "agent";
        char *arguments[] = {program, command, config, library, socket, NULL};
        char *environment[] = {scenario, NULL};
        int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
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
                return error_errno(err, errno, "create '%s'", log_path);
        node->agent.data = node;
        node->started_ns = clock_ns();
        rc = uv_spawn(node->loop, &node->agent, &options);
        close(log);
        if (rc < 0)
                return error_errno(err, -rc, "start '%s'", program);
        node->agent_runs = true;
        return 0;
}

static int fail_with_log(const struct node *node, struct error *err)
{
        _free_ char *path = xasprintf("%s/agent.log", node->folder);
        struct strbuf log = STRBUF_INIT;
        struct error ignored;

        if (file_read(path, (size_t)1 << 20, &log, &ignored) == 0)
                fputs(log.data, stderr);
        strbuf_done(&log);
        return error_set(err, ERROR_TIMEOUT, "the agent %s; its log is above",
                node->agent_runs ? "did not bring its devices in time" : "ended");
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

bool node_wait(struct node *node, bool (*is_true)(struct node *node, void *data), void *data, uint64_t timeout_ms)
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

static bool has_all_devices(struct node *node, void *data UNUSED)
{
        return !node->agent_runs ||
               kubelet_allocatable(node->kubelet, NODE_RESOURCE) == node->options.gpus * node->options.replicas;
}

static bool agent_is_gone(struct node *node, void *data UNUSED)
{
        return !node->agent_runs;
}

static bool kubelet_is_gone(struct node *node, void *data UNUSED)
{
        return !node->kubelet;
}

/* ---- public ---- */

static void on_register(const char *resource UNUSED, void *data)
{
        struct node *node = data;

        if (!node->registered_ns)
                node->registered_ns = clock_ns();
}

static void on_change(const char *resource UNUSED, size_t capacity UNUSED, size_t allocatable UNUSED, void *data)
{
        ((struct node *)data)->list_ns = clock_ns();
}

int node_start(struct node *node, uv_loop_t *loop, const struct node_options *options, struct error *err)
{
        struct kubelet_options kubelet = {
                .loop = loop, .on_register = on_register, .on_change = on_change, .data = node};

        *node = (struct node){.loop = loop, .options = *options};
        if (make_folder(node, err) < 0)
                return -1;
        kubelet.directory = node->kubelet_directory;
        if (kubelet_new(&node->kubelet, &kubelet, err) < 0 || start_agent(node, err) < 0)
                return -1;
        if (!node_wait(node, has_all_devices, NULL, START_TIMEOUT_MS) || !node->agent_runs)
                return fail_with_log(node, err);
        return 0;
}

int node_add_xid(struct node *node, struct error *err)
{
        node->n_xids++;
        return write_scenario(node, err);
}

char *node_plugin_socket(const struct node *node)
{
        DIR *directory = opendir(node->kubelet_directory);
        const struct dirent *entry;
        char *path = NULL;

        if (!directory)
                return NULL;
        while (!path && (entry = readdir(directory)))
                if (strncmp(entry->d_name, "warpshare-", 10) == 0 && strstr(entry->d_name, ".sock"))
                        path = xasprintf("%s/%s", node->kubelet_directory, entry->d_name);
        closedir(directory);
        return path;
}

static void on_kubelet_closed(void *data)
{
        ((struct node *)data)->kubelet = NULL;
}

void node_stop(struct node *node)
{
        if (node->agent_runs) {
                uv_process_kill(&node->agent, SIGTERM);
                if (!node_wait(node, agent_is_gone, NULL, 5000)) {
                        uv_process_kill(&node->agent, SIGKILL);
                        node_wait(node, agent_is_gone, NULL, 1000);
                }
        }
        if (node->kubelet) {
                kubelet_close(node->kubelet, on_kubelet_closed, node);
                node_wait(node, kubelet_is_gone, NULL, 2000);
        }
        if (node->folder)
                nftw(node->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
        free(node->folder);
        free(node->scenario_directory);
        free(node->scenario);
        free(node->kubelet_directory);
}
