// SPDX-License-Identifier: Apache-2.0
#include "bench/node.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "bench/figure.h"

#define START_TIMEOUT_MS 10000
#define UUID "GPU-%08x-1111-2222-3333-444444444444"
#define MPS_GPUS_MAX 16U /* of the simulated MPS programs */

static char *make_scenario(const struct node *node)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "driverVersion: 580.105.08\ncudaVersion: \"13.0\"\ngpus:\n");
        for (unsigned int i = 0; i < node->options.gpus; i++) {
                strbuf_printf(&text, "- {model: H100-80GB, uuid: " UUID ", numa: %u, processes: [", i, i / 4 % 2);
                for (unsigned int j = i; j < node->options.n_processes; j += node->options.gpus)
                        strbuf_printf(
                                &text, "{pid: %d, memory: 500MiB, utilization: 3},", (int)node->options.processes[j]);
                strbuf_puts(&text, "]}\n");
        }
        if (node->n_xids)
                strbuf_puts(&text, "events:\n");
        for (unsigned int i = 0; i < node->n_xids; i++)
                strbuf_printf(&text, "- {gpu: %u, xid: 79}\n", i);
        return strbuf_take(&text);
}

/* The same GPUs as MPS sees them. */
static char *make_mps_scenario(const struct node_options *options)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "version: 580\n");
        for (unsigned int i = 0; i < options->gpus; i++)
                strbuf_printf(&text, "gpu: " UUID " sms=132 memory=81920 cc=9 name=H100\n", i);
        return strbuf_take(&text);
}

static bool is_mps(const struct node_options *options)
{
        return !options->is_drop_in && options->replicas > 1 && options->replicas <= 48 &&
               options->gpus <= MPS_GPUS_MAX;
}

/* MPS with weighted shares, where it may be: that makes the longest answers. */
static char *make_config(const struct node_options *options)
{
        struct strbuf text = STRBUF_INIT;
        bool mps = is_mps(options);

        strbuf_puts(&text, "version: v1\nflags:\n  mpsRoot: /run/nvidia/mps\n");
        if (options->replicas > 1)
                strbuf_printf(&text,
                        "sharing:\n  %s:\n%s    failRequestsGreaterThanOne: false\n    resources:\n"
                        "    - {name: " NODE_RESOURCE ", replicas: %u}\n",
                        mps ? "mps" : "timeSlicing",
                        mps ? "    provisioning: weighted\n    daemonScope: resource\n" : "", options->replicas);
        return strbuf_take(&text);
}

static int fail_with_log(const struct node *node, struct error *err)
{
        struct strbuf log = STRBUF_INIT;
        struct error ignored;

        if (file_read(node->sim.log, (size_t)1 << 20, &log, &ignored) == 0)
                fputs(log.data, stderr);
        strbuf_done(&log);
        return error_set(err, ERROR_TIMEOUT, "the agent %s; its log is above",
                node->sim.agent->runs ? "did not bring its devices in time" : "ended");
}

bool node_is_whole(const struct node *node)
{
        return kubelet_allocatable(node->sim.kubelet, NODE_RESOURCE) == node->options.gpus * node->options.replicas;
}

static bool has_all_devices(void *data)
{
        const struct node *node = data;

        return !node->sim.agent->runs || (node->registered_ns && node_is_whole(node));
}

static int wait_for_devices(struct node *node, struct error *err)
{
        if (!sim_node_wait(&node->sim, has_all_devices, node, START_TIMEOUT_MS) || !node->sim.agent->runs)
                return fail_with_log(node, err);
        return 0;
}

static void on_register(const char *resource UNUSED, void *data)
{
        struct node *node = data;

        if (!node->registered_ns)
                node->registered_ns = clock_ns();
}

static void on_change(const char *resource UNUSED, size_t capacity UNUSED, size_t allocatable, void *data)
{
        struct node *node = data;

        node->list_ns = clock_ns();
        if (allocatable == 0 && !node->gone_ns)
                node->gone_ns = node->list_ns;
        else if (node->gone_ns && !node->back_ns && node_is_whole(node))
                node->back_ns = node->list_ns;
}

/* The agent looks for them below the driver's root. */
static void show_processes(const struct node *node)
{
        _free_ char *folder = xasprintf("%s/proc", node->sim.driver_root);

        (void)mkdir(folder, 0755);
        for (unsigned int i = 0; i < node->options.n_processes; i++) {
                _free_ char *own = xasprintf("/proc/%d", (int)node->options.processes[i]);
                _free_ char *link = xasprintf("%s/%d", folder, (int)node->options.processes[i]);

                (void)!symlink(own, link);
        }
}

int node_start(struct node *node, uv_loop_t *loop, const struct node_options *options, struct error *err)
{
        _free_ char *config = make_config(options);
        _free_ char *scenario = NULL;
        _free_ char *mps_scenario = make_mps_scenario(options);
        struct sim_node_options sim = {
                .loop = loop,
                .agent = options->agent,
                .library = options->library,
                .config = config,
                .mps_programs = is_mps(options) ? options->mps : NULL,
                .mps_scenario = mps_scenario,
                .agent_options = {options->agent_options[0], options->agent_options[1]},
                .syncs_log = options->syncs_log,
                .is_drop_in = options->is_drop_in,
                .kubelet = {.on_register = on_register, .on_change = on_change, .data = node},
        };

        *node = (struct node){.options = *options};
        sim.scenario = scenario = make_scenario(node);
        if (sim_node_start(&node->sim, &sim, err) < 0)
                return -1;
        show_processes(node);
        if (wait_for_devices(node, err) < 0)
                return -1;
        if (!sim.mps_programs)
                return 0;
        node->registered_ns = 0;
        if (sim_node_restart_agent(&node->sim, err) < 0)
                return -1;
        return wait_for_devices(node, err);
}

int node_add_xid(struct node *node, struct error *err)
{
        _free_ char *scenario = NULL;

        node->n_xids++;
        scenario = make_scenario(node);
        return sim_node_set_scenario(&node->sim, scenario, err);
}

char *node_plugin_socket(const struct node *node)
{
        DIR *directory = opendir(node->sim.kubelet_directory);
        const struct dirent *entry;
        char *path = NULL;

        if (!directory)
                return NULL;
        while (!path && (entry = readdir(directory)))
                if (strcmp(entry->d_name, "kubelet.sock") != 0 && strstr(entry->d_name, ".sock"))
                        path = xasprintf("%s/%s", node->sim.kubelet_directory, entry->d_name);
        closedir(directory);
        return path;
}

static bool never(void *data UNUSED)
{
        return false;
}

void node_pause(struct node *node, uint64_t ms)
{
        sim_node_wait(&node->sim, never, NULL, ms);
}

void node_stop(struct node *node)
{
        sim_node_stop(&node->sim);
}
