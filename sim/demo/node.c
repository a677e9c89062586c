// SPDX-License-Identifier: Apache-2.0
#include "sim/demo/demo.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/strbuf.h"

const char *const demo_uuids[DEMO_GPUS] = {
        "GPU-f24067f0-df23-46da-b2a7-704d860216fa",
        "GPU-0ccc6449-9f0e-4c5b-8d0a-3d1c7a52be11",
        "GPU-f411c36a-51d7-4b9f-a3e8-90c2e6f4d723",
        "GPU-ca2a1141-7c68-4e0d-b5f1-16a84b3c9e02",
};

static const char *const configurations[] = {
        /* As NVIDIA's plugin would share it, except that each GPU has its own MPS daemon. */
        [DEMO_EQUAL_PARTS] = "version: v1\n"
                             "sharing:\n"
                             "  mps:\n"
                             "    resources:\n"
                             "    - name: nvidia.com/gpu\n"
                             "      replicas: 20\n",
        [DEMO_EACH_GPU] = "version: v1\n"
                          "sharing:\n"
                          "  mps:\n"
                          "    scope: individual\n"
                          "    provisioning: weighted\n"
                          "    resources:\n"
                          "    - name: nvidia.com/gpu\n"
                          "      replicas: 10\n",
        [DEMO_DECLARED] = "version: v1\n"
                          "sharing:\n"
                          "  mps:\n"
                          "    provisioning: declared\n"
                          "    maxPerRequest: 1\n"
                          "    resources:\n"
                          "    - name: nvidia.com/gpu\n"
                          "      replicas: 20\n",
        [DEMO_ANY_PARTS] = "version: v1\n"
                           "sharing:\n"
                           "  mps:\n"
                           "    provisioning: weighted\n"
                           "    maxPerRequest: 7\n"
                           "    resources:\n"
                           "    - name: nvidia.com/gpu\n"
                           "      replicas: 10\n",
        [DEMO_CLAIMS] = "version: v1\n"
                        "dra:\n"
                        "  enabled: true\n",
        [DEMO_MIG] = "version: v1\n"
                     "flags:\n"
                     "  migStrategy: mixed\n"
                     "mig:\n"
                     "  manager: true\n",
};

static void describe_gpu(struct strbuf *text, const struct demo *demo, unsigned int i, bool is_lost)
{
        strbuf_printf(text, "- {model: V100-32GB, uuid: %s, numa: %u", demo_uuids[i], i / 2);
        if (is_lost)
                strbuf_puts(text, ", lost: true");
        if (demo->use[i])
                strbuf_printf(text, ", utilization: %u, temperature: %u, power: %u", demo->use[i],
                        34 + demo->use[i] * 35 / 100, 50 + demo->use[i] * 22 / 10);
        strbuf_puts(text, "}\n");
}

/* Programs of the pods are processes of the GPUs, too: one simulator tells the other by a folder. */
static char *processes_folder(const struct demo *demo)
{
        return xasprintf("%s/processes", demo->node.folder);
}

/*
 * A scenario of four GPUs, for the caller to free. |lost|: the position of one that no longer answers, after Xid 79, or
 * -1. |processes|: NULL: none.
 */
static char *make_scenario(const struct demo *demo, int lost, const char *processes)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "driverVersion: " DEMO_DRIVER "\ncudaVersion: \"12.4\"\n");
        if (processes)
                strbuf_printf(&text, "processDirectory: %s\n", processes);
        strbuf_puts(&text, "gpus:\n");
        for (unsigned int i = 0; i < DEMO_GPUS; i++)
                describe_gpu(&text, demo, i, (int)i == lost);
        if (lost >= 0)
                strbuf_printf(&text, "events:\n- {gpu: %d, xid: 79}\n", lost);
        return strbuf_take(&text);
}

/* The same GPUs for the simulated MPS programs. */
static char *make_mps_scenario(const char *processes)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "version: 550\n");
        if (processes)
                strbuf_printf(&text, "process-directory: %s\n", processes);
        for (unsigned int i = 0; i < DEMO_GPUS; i++)
                strbuf_printf(&text, "gpu: %s sms=80 memory=32768 cc=7 name=V100\n", demo_uuids[i]);
        return strbuf_take(&text);
}

static void on_daemons(const struct mps_status *status, const char *reason UNUSED, void *data)
{
        struct demo *demo = data;

        demo->daemons = status;
        for (size_t i = 0; status && i < status->n_daemons; i++)
                if (status->daemons[i].state == MPS_FAULT) {
                        free(demo->fault);
                        demo->fault = xstrdup(status->daemons[i].reason);
                }
}

static void expect(struct demo *demo, enum demo_parts parts)
{
        const bool is_equal = parts == DEMO_EQUAL_PARTS || parts == DEMO_DECLARED;

        demo->replicas = is_equal ? DEMO_EQUAL : DEMO_REPLICAS;
        demo->offered = is_equal ? (size_t)DEMO_GPUS * DEMO_EQUAL : DEMO_ADVERTISED(DEMO_GPUS);
        demo->most_permille = is_equal ? 1000 / DEMO_EQUAL : 1000 * DEMO_MOST / DEMO_REPLICAS;
        demo->most_mib = is_equal ? DEMO_EQUAL_MIB : DEMO_LARGEST_MIB;
}

static const char one_h100[] =
        "driverVersion: " DEMO_DRIVER "\ncudaVersion: \"12.4\"\ngpus:\n- {model: H100-80GB, uuid: " DEMO_H100 "}\n";
static const char mps_of_h100[] = "version: 550\ngpu: " DEMO_H100 " sms=132 memory=81920 cc=9 name=H100\n";

/* The node has its folder now, which the scenarios name: programs see what others change or use. */
static int name_folder(struct demo *demo, enum demo_parts parts, struct error *err)
{
        _free_ char *processes = processes_folder(demo);
        _free_ char *text = NULL;
        _free_ char *mps_text = NULL;

        if (parts == DEMO_MIG) {
                text = xasprintf("geometryFile: %s/geometry\n%s", demo->node.folder, one_h100);
        } else if (parts == DEMO_ANY_PARTS) {
                text = make_scenario(demo, -1, processes);
                mps_text = make_mps_scenario(processes);
                if (file_make_folder(processes, err) < 0 ||
                        file_write(demo->node.mps_scenario, mps_text, strlen(mps_text), err) < 0)
                        return -1;
        }
        return text ? sim_node_set_scenario(&demo->node, text, err) : 0;
}

int demo_start(struct demo *demo, enum demo_parts parts, const char *program, const char *programs, struct error *err)
{
        const bool has_h100 = parts == DEMO_CLAIMS || parts == DEMO_MIG;
        _free_ char *scenario = NULL;
        _free_ char *mps_scenario = make_mps_scenario(NULL);
        struct sim_node_options options = {
                .loop = &demo->loop,
                .agent = program,
                .library = demo->library,
                .config = configurations[parts],
                .mps_programs = programs,
                .mps_scenario = has_h100 ? mps_of_h100 : mps_scenario,
                .n_device_nodes = has_h100 ? 1 : DEMO_GPUS,
                .driver_version = DEMO_DRIVER,
                .above = demo->folder,
                .has_dra = has_h100,
                .agent_options = {"--metrics-address=127.0.0.1:0", "--usage-interval=1s"},
        };

        memset(demo->use, 0, sizeof(demo->use));
        scenario = make_scenario(demo, -1, NULL);
        options.scenario = has_h100 ? one_h100 : scenario;
        expect(demo, parts);
        if (sim_node_start(&demo->node, &options, err) < 0 || name_folder(demo, parts, err) < 0)
                return -1;
        return mps_link_new(&demo->link,
                &(struct mps_link_options){&demo->loop, demo->node.mps_root, "", 50, on_daemons, demo}, err);
}

void demo_set_gpus(struct demo *demo, int lost)
{
        _free_ char *processes = processes_folder(demo);
        _free_ char *scenario = make_scenario(demo, lost, processes);
        struct error err;

        if (sim_node_set_scenario(&demo->node, scenario, &err) < 0)
                demo_fail(demo, "%s", err.text);
}

static void on_link_closed(void *demo)
{
        ((struct demo *)demo)->link = NULL;
}

static bool is_link_closed(void *demo)
{
        return !((struct demo *)demo)->link;
}

void demo_stop(struct demo *demo)
{
        demo_end_pods(demo);
        if (demo->link) {
                mps_link_close(demo->link, on_link_closed, demo);
                sim_node_wait(&demo->node, is_link_closed, demo, DEMO_PATIENCE_MS);
        }
        sim_node_stop(&demo->node);
        demo->node = (struct sim_node){0};
        demo->daemons = NULL;
        free(TAKE_PTR(demo->fault));
}
