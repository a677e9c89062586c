#include "share/plan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_RESOURCE "nvidia.com/gpu"
#define DEVICES_PER_MESSAGE "kubelet takes a list of at most 4 MiB"

struct builder {
        struct arena *arena;
        const struct config *config;
        const struct inventory *inventory;
        config_warn_fn *warn;
        void *warn_data;
        struct error *err;
};

static void warn_text(const struct builder *builder, const char *format, ...) PRINTF_LIKE(2, 3);

static void warn_text(const struct builder *builder, const char *format, ...)
{
        va_list args;

        if (!builder->warn)
                return;
        va_start(args, format);
        builder->warn(arena_vprintf(builder->arena, format, args), builder->warn_data);
        va_end(args);
}

/* ---- how many clients MPS can serve ---- */

static unsigned int driver_branch(const char *version)
{
        return version ? (unsigned int)MIN(strtoul(version, NULL, 10), 100000UL) : 0;
}

/*
 * Clients of one MPS server on one GPU, from NVIDIA's MPS documentation: 16 before Volta, 48 since, 60 with the driver of CUDA
 * 13.1 (branch 590). A GPU that does not tell its architecture counts as Volta: older ones are a dying breed.
 */
static unsigned int mps_clients(const struct gpu *gpu, const char *driver_version)
{
        bool is_old = gpu->architecture != GPU_ARCHITECTURE_UNKNOWN ? gpu->architecture < GPU_ARCHITECTURE_VOLTA
                                                                    : gpu->compute_major > 0 && gpu->compute_major < 7;

        if (is_old)
                return 16;
        return driver_branch(driver_version) >= 590 ? 60 : 48;
}

static int fail_shared(const struct builder *builder, const struct shared_resource *shared, const char *text)
{
        return error_set(builder->err, ERROR_INVALID, "config '%.150s' line %d: %s.replicas: %s", builder->config->path,
                shared->line, shared->path, text);
}

static int check_clients(const struct builder *builder, const struct shared_resource *shared, const struct gpu *gpu)
{
        const char *version = builder->inventory->driver_version;
        unsigned int most = mps_clients(gpu, version);
        char text[256];

        if (shared->section->strategy != SHARING_MPS || shared->replicas <= most)
                return 0;
        snprintf(text, sizeof(text), "%u, at most %u for this GPU and driver (%.100s, %.50s)", shared->replicas, most,
                gpu->name ? gpu->name : "unknown GPU", version ? version : "unknown driver");
        return fail_shared(builder, shared, text);
}

/* ---- units and devices ---- */

static int collect_units(const struct builder *builder, const struct shared_resource *shared, struct resource *resource)
{
        const struct inventory *inventory = builder->inventory;
        struct unit *units = ARENA_ARRAY(builder->arena, struct unit, inventory->n_gpus);
        unsigned int replicas = shared ? shared->replicas : 1;

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (shared && check_clients(builder, shared, gpu) < 0)
                        return -1;
                units[i] = (struct unit){
                        .uuid = gpu->uuid,
                        .index = arena_printf(builder->arena, "%u", gpu->index),
                        .gpu = gpu,
                        .shared = shared,
                        .memory = gpu->memory,
                        .replicas = replicas,
                        .position = i,
                        .first_device = i * replicas,
                };
        }
        resource->units = units;
        resource->n_units = inventory->n_gpus;
        return 0;
}

/* "<uuid>::<n>", by hand: there may be tens of thousands, and printf takes longer than all the rest. */
static const char *replica_id(struct arena *arena, const char *uuid, size_t length, unsigned int replica)
{
        char digits[12];
        size_t at = sizeof(digits);
        char *id;

        do
                digits[--at] = (char)('0' + replica % 10);
        while (replica /= 10);
        id = arena_alloc(arena, 1, length + 2 + sizeof(digits) - at + 1);
        memcpy(id, uuid, length);
        memcpy(id + length, "::", 2);
        memcpy(id + length + 2, digits + at, sizeof(digits) - at);
        return id;
}

static void collect_devices(const struct builder *builder, struct resource *resource)
{
        unsigned int replicas = resource->n_units ? resource->units[0].replicas : 0;
        struct device *devices = ARENA_ARRAY(builder->arena, struct device, resource->n_units * replicas);
        size_t count = 0;

        map_reserve(&resource->by_id, resource->n_units * replicas);
        for (size_t i = 0; i < resource->n_units; i++) {
                const char *uuid = resource->units[i].uuid;
                size_t length = strlen(uuid);

                for (unsigned int replica = 0; replica < replicas; replica++) {
                        struct device *device = &devices[count++];
                        bool is_new;

                        device->id = resource->strategy == SHARING_NONE
                                             ? uuid
                                             : replica_id(builder->arena, uuid, length, replica);
                        device->unit = (uint32_t)i;
                        device->replica = replica;
                        is_new = map_add(&resource->by_id, device->id, device);
                        assert(is_new); /* an inventory names each UUID once */
                }
        }
        resource->devices = devices;
        resource->n_devices = count;
}

static const struct shared_resource *find_shared(const struct sharing_section *section, const char *name)
{
        for (size_t i = 0; section && i < section->n_resources; i++)
                if (strcmp(section->resources[i].name, name) == 0)
                        return &section->resources[i];
        return NULL;
}

static int check_devices(
        const struct builder *builder, const struct shared_resource *shared, const struct resource *resource)
{
        size_t replicas = shared ? shared->replicas : 1;
        char text[256];

        if (resource->n_units * replicas <= PLAN_MAX_DEVICES)
                return 0;
        if (!shared)
                return error_set(builder->err, ERROR_INVALID, "%zu GPUs, at most %zu (" DEVICES_PER_MESSAGE ")",
                        resource->n_units, PLAN_MAX_DEVICES);
        snprintf(text, sizeof(text),
                "%zu on %zu GPUs are %zu devices, at most %zu (" DEVICES_PER_MESSAGE "): use at most %zu", replicas,
                resource->n_units, resource->n_units * replicas, PLAN_MAX_DEVICES,
                PLAN_MAX_DEVICES / resource->n_units);
        return fail_shared(builder, shared, text);
}

static int build_resource(const struct builder *builder, struct resource *resource)
{
        const struct sharing *sharing = &builder->config->sharing;
        const struct shared_resource *shared = find_shared(sharing->mps, GPU_RESOURCE);

        resource->base_name = GPU_RESOURCE;
        resource->name = GPU_RESOURCE;
        if (!shared)
                shared = find_shared(sharing->time_slicing, GPU_RESOURCE);
        if (shared) {
                resource->name = shared->rename ? shared->rename : shared->name;
                resource->strategy = shared->section->strategy;
                resource->provisioning = shared->section->provisioning;
                resource->placement = shared->has_placement ? shared->placement : builder->config->placement;
                resource->fail_requests_greater_than_one = shared->section->fail_requests_greater_than_one;
        }
        if (collect_units(builder, shared, resource) < 0 || check_devices(builder, shared, resource) < 0)
                return -1;
        collect_devices(builder, resource);
        return 0;
}

/* ---- the plan ---- */

int plan_build(struct plan **ret, struct arena *arena, const struct config *config, const struct inventory *inventory,
        config_warn_fn *warn, void *warn_data, struct error *err)
{
        struct builder builder = {.arena = arena,
                .config = config,
                .inventory = inventory,
                .warn = warn,
                .warn_data = warn_data,
                .err = err};
        struct plan *plan = ARENA_NEW(arena, struct plan);
        struct resource *resource = ARENA_NEW(arena, struct resource);

        for (size_t i = 0; i < inventory->n_unnamed_failures; i++)
                warn_text(&builder, "a GPU is left out, since it does not tell its UUID: %s",
                        inventory->unnamed_failures[i]);
        plan->config = config;
        plan->inventory = inventory;
        plan->resources = resource;
        if (build_resource(&builder, resource) < 0)
                return -1;
        /* A resource without a GPU is not advertised at all, as NVIDIA's plugin has it. */
        plan->n_resources = resource->n_units ? 1 : 0;
        if (!plan->n_resources)
                map_done(&resource->by_id);
        *ret = plan;
        return 0;
}

void plan_done(struct plan *plan)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                map_done(&plan->resources[i].by_id);
        plan->n_resources = 0;
}

const struct resource *plan_find(const struct plan *plan, const char *name)
{
        for (size_t i = 0; i < plan->n_resources; i++)
                if (strcmp(plan->resources[i].name, name) == 0)
                        return &plan->resources[i];
        return NULL;
}

/* Ids follow from UUID, replicas and strategy, and need no comparison of their own. */
static bool unit_is_same(const struct unit *a, const struct unit *b)
{
        return strcmp(a->uuid, b->uuid) == 0 && strcmp(a->index, b->index) == 0 && a->memory == b->memory &&
               a->replicas == b->replicas && a->gpu->numa_node == b->gpu->numa_node;
}

bool resource_is_same(const struct resource *a, const struct resource *b)
{
        if (strcmp(a->name, b->name) != 0 || strcmp(a->base_name, b->base_name) != 0)
                return false;
        if (a->strategy != b->strategy || a->provisioning != b->provisioning ||
                a->fail_requests_greater_than_one != b->fail_requests_greater_than_one || a->n_units != b->n_units)
                return false;
        for (size_t i = 0; i < a->n_units; i++)
                if (!unit_is_same(&a->units[i], &b->units[i]))
                        return false;
        return true;
}
