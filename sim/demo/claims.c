// SPDX-License-Identifier: Apache-2.0
/*
 * Shares by DRA: the cluster's scheduler allocates claims, kubelet calls the driver to prepare them, and a program in
 * each container reports its limits.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim/demo/pod.h"

#define DRIVER "gpu.warpshare.dev"
#define DEVICE_NAME_SIZE 64 /* a DNS label */
#define RETRY_MS UINT64_C(100)

struct claim {
        const char *name; /* also that of its pod */
        const char *device_class;
        const char *memory; /* NULL: the whole GPU */
        const char *threads;
        char device[DEVICE_NAME_SIZE]; /* that the scheduler allocated; the fields below are set by callbacks */
        struct demo_pod pod;
        bool is_answered;
        bool is_prepared;
        struct error err;
};

/* ---- what is offered ---- */

static const json_t *devices_of(const json_t *slice)
{
        return json_object_get(json_object_get(slice, "spec"), "devices");
}

static bool is_offered(void *data)
{
        const struct demo *demo = data;
        const char *name;
        json_t *slice;
        size_t count = 0;

        json_object_foreach(cluster_objects(demo->node.cluster, CLUSTER_SLICES), name, slice) count +=
                json_array_size(devices_of(slice));
        return !demo->node.agent->runs || (count == 2 && kubelet_dra_has(demo->node.dra, DRIVER));
}

static void show_devices(const struct demo *demo)
{
        const char *name;
        json_t *slice;

        printf("  %s%-13s %-36s %s%s\n", demo_style(demo, DEMO_DIM), "DEVICE", "CAPACITY", "FOR",
                demo_style(demo, DEMO_PLAIN));
        json_object_foreach(cluster_objects(demo->node.cluster, CLUSTER_SLICES), name, slice)
        {
                const json_t *device;
                size_t i;

                json_array_foreach(devices_of(slice), i, device)
                {
                        const bool is_shared = json_is_true(json_object_get(device, "allowMultipleAllocations"));
                        const json_t *capacity = json_object_get(device, "capacity");
                        const char *memory =
                                json_string_value(json_object_get(json_object_get(capacity, "memory"), "value"));
                        _free_ char *all = xasprintf("memory %s%s", memory, is_shared ? ", threadPercentage 100" : "");

                        printf("  %-13s %-36s %s\n", json_string_value(json_object_get(device, "name")), all,
                                is_shared ? "claims that fit together" : "one claim");
                }
        }
        putchar('\n');
        fflush(stdout);
}

/* ---- one claim ---- */

static json_t *object_of(const struct demo *demo, const struct claim *claim)
{
        return json_object_get(cluster_objects(demo->node.cluster, CLUSTER_CLAIMS), claim->name);
}

static void create(struct demo *demo, const struct claim *claim)
{
        cluster_put(demo->node.cluster, CLUSTER_CLAIMS,
                json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:{s:[{s:s, s:{s:s, s:{s:{s:s*, s:s*}}}}]}}}", "apiVersion",
                        "resource.k8s.io/v1", "kind", "ResourceClaim", "metadata", "name", claim->name, "namespace",
                        "default", "spec", "devices", "requests", "name", "gpu", "exactly", "deviceClassName",
                        claim->device_class, "capacity", "requests", "memory", claim->memory, "threadPercentage",
                        claim->threads));
}

/* False: no device fits. */
static bool allocate(struct demo *demo, struct claim *claim)
{
        struct cluster *cluster = demo->node.cluster;
        json_t *object = json_deep_copy(object_of(demo, claim));
        json_t *allocation = cluster_allocate(object, cluster_objects(cluster, CLUSTER_SLICES),
                cluster_objects(cluster, CLUSTER_CLAIMS), SIM_NODE_NAME);

        if (!allocation) {
                json_decref(object);
                return false;
        }
        json_object_set_new(object, "status",
                json_pack("{s:o, s:[{s:s, s:s, s:s}]}", "allocation", allocation, "reservedFor", "resource", "pods",
                        "name", claim->name, "uid", claim->name));
        cluster_put(cluster, CLUSTER_CLAIMS, object);
        snprintf(claim->device, sizeof(claim->device), "%s",
                json_string_value(json_object_get(
                        json_array_get(json_object_get(json_object_get(allocation, "devices"), "results"), 0),
                        "device")));
        return true;
}

static struct kubelet_dra_claim asked(const struct demo *demo, const struct claim *claim)
{
        const json_t *metadata = json_object_get(object_of(demo, claim), "metadata");

        return (struct kubelet_dra_claim){"default", json_string_value(json_object_get(metadata, "uid")), claim->name};
}

static void on_answer(const char *const *cdi_ids, size_t n_cdi_ids, const char *error, void *data)
{
        struct claim *claim = data;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        V1beta1__ContainerAllocateResponse options = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;

        claim->is_answered = true;
        if (error) {
                error_raise(&claim->err, ERROR_UNAVAILABLE, "%s", error);
                return;
        }
        claim->is_prepared = true;
        if (n_cdi_ids == 0)
                return;
        options.cdi_devices = ARENA_ARRAY(&arena, V1beta1__CDIDevice *, n_cdi_ids);
        for (; options.n_cdi_devices < n_cdi_ids; options.n_cdi_devices++) {
                V1beta1__CDIDevice *device = ARENA_NEW(&arena, V1beta1__CDIDevice);

                v1beta1__cdidevice__init(device);
                device->name = arena_strdup(&arena, cdi_ids[options.n_cdi_devices]);
                options.cdi_devices[options.n_cdi_devices] = device;
        }
        if (container_make(&claim->pod.container, &options, NULL, claim->pod.demo->node.cdi_root, &claim->err) < 0)
                claim->pod.container = (struct container){0};
}

static bool is_answered(void *claim)
{
        return ((struct claim *)claim)->is_answered;
}

static bool never(void *data UNUSED)
{
        return false;
}

/* Tries again and again, as kubelet does: the driver may not be ready yet. */
static bool run(struct demo *demo, struct claim *claim)
{
        const struct kubelet_dra_claim wanted = asked(demo, claim);
        uint64_t deadline = uv_hrtime() + DEMO_PATIENCE_MS * 1000000;

        claim->pod.name = claim->name;
        claim->pod.demo = demo;
        while (!claim->is_prepared && uv_hrtime() < deadline && demo->node.agent->runs && !demo->interrupted) {
                claim->is_answered = false;
                kubelet_dra_prepare(demo->node.dra, DRIVER, &wanted, on_answer, claim);
                sim_node_wait(&demo->node, is_answered, claim, 0);
                if (!claim->is_prepared)
                        demo_wait(demo, never, NULL, RETRY_MS);
        }
        if (!claim->pod.container.variables)
                demo_fail(demo, "%s does not run: %s", claim->name, claim->err.text);
        return claim->pod.container.variables;
}

/* Ends the pod: its share is free then. */
static void end(struct demo *demo, struct claim *claim)
{
        const struct kubelet_dra_claim wanted = asked(demo, claim);

        claim->is_answered = claim->is_prepared = false;
        kubelet_dra_unprepare(demo->node.dra, DRIVER, &wanted, on_answer, claim);
        sim_node_wait(&demo->node, is_answered, claim, 0);
        if (!claim->is_prepared)
                demo_fail(demo, "%s keeps its share: %s", claim->name, claim->err.text);
        create(demo, claim);
}

/* ---- the story ---- */

static void show_share(struct demo *demo, struct claim *claim)
{
        struct demo_limits got;

        create(demo, claim);
        if (!allocate(demo, claim)) {
                demo_fail(demo, "%s should fit", claim->name);
                return;
        }
        if (!run(demo, claim))
                return;
        got = demo_pod_connect(demo, &claim->pod);
        printf("  %s%-10s%s memory %-5s threadPercentage %-3s %-12s %5.1f %% %6.2f GiB\n", demo_style(demo, DEMO_CYAN),
                claim->name, demo_style(demo, DEMO_PLAIN), claim->memory, claim->threads, claim->device, got.threads,
                got.memory_mib / 1024.0);
        fflush(stdout);
        if (got.memory_mib != 1024 * strtoul(claim->memory, NULL, 10) ||
                got.threads < strtod(claim->threads, NULL) - 0.05 || got.threads > strtod(claim->threads, NULL) + 0.05)
                demo_fail(demo, "a program of %s should have what was claimed", claim->name);
}

static void show_whole(struct demo *demo, struct claim *claim, bool fits)
{
        const bool is_allocated = allocate(demo, claim);

        printf("  %s%-10s%s %-33s %s\n", demo_style(demo, DEMO_MAGENTA), claim->name, demo_style(demo, DEMO_PLAIN),
                "the whole GPU", is_allocated ? claim->device : "waits: cannot allocate all claims");
        fflush(stdout);
        if (is_allocated != fits)
                demo_fail(demo,
                        fits ? "it should get the GPU now" : "it should not get a GPU of which others have shares");
        else if (fits)
                run(demo, claim);
}

void demo_show_claims(struct demo *demo)
{
        struct claim shares[] = {
                {.name = "training", .device_class = "shared." DRIVER, .memory = "40Gi", .threads = "55"},
                {.name = "notebook", .device_class = "shared." DRIVER, .memory = "10Gi", .threads = "30"},
                {.name = "inference", .device_class = "shared." DRIVER, .memory = "8Gi", .threads = "10"},
        };
        struct claim whole = {.name = "whole", .device_class = DRIVER};

        if (!demo_wait(demo, is_offered, demo, DEMO_PATIENCE_MS) || !demo->node.agent->runs) {
                demo_fail(demo, "two devices should be offered");
                return;
        }
        puts("  One H100 with 80 GiB. The agent is a DRA driver now, and offers its GPU in\n  ResourceSlices:\n");
        show_devices(demo);
        printf("  %s%-10s %-33s %-12s %7s %10s%s\n", demo_style(demo, DEMO_DIM), "POD", "CLAIMS", "DEVICE", "THREADS",
                "MEMORY", demo_style(demo, DEMO_PLAIN));
        for (size_t i = 0; i < ARRAY_SIZE(shares) && !demo->wrong; i++)
                show_share(demo, &shares[i]);
        create(demo, &whole);
        if (!demo->wrong)
                show_whole(demo, &whole, false);
        for (size_t i = 0; i < ARRAY_SIZE(shares) && !demo->wrong; i++)
                end(demo, &shares[i]);
        if (!demo->wrong) {
                puts("\n  The three have ended:\n");
                show_whole(demo, &whole, true);
        }
        for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
                demo_pod_done(&shares[i].pod);
        demo_pod_done(&whole.pod);
}
