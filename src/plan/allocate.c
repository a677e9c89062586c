// SPDX-License-Identifier: Apache-2.0
#include "plan/allocate.h"

#include <string.h>

#include "plan/mps_limits.h"
#include "plan/mps_wanted.h"

#define VOLUME_ROOT "/var/run/nvidia-container-devices"
#define IMEX_CHANNEL "0" /* the only channel that is allowed */

static const struct extra {
        unsigned int bit;
        const char *variable;
        const char *cdi_device;
} extras[] = {
        {EXTRA_GDRCOPY, "NVIDIA_GDRCOPY", CDI_VENDOR "/" CDI_CLASS_GDRCOPY "=all"},
        {EXTRA_GDS, "NVIDIA_GDS", CDI_VENDOR "/" CDI_CLASS_GDS "=all"},
        {EXTRA_MOFED, "NVIDIA_MOFED", CDI_VENDOR "/" CDI_CLASS_MOFED "=all"},
};

static const struct control_node {
        unsigned int bit;
        const char *path;
} control_nodes[] = {
        {NODE_NVIDIACTL, "/dev/nvidiactl"},
        {NODE_UVM, "/dev/nvidia-uvm"},
        {NODE_UVM_TOOLS, "/dev/nvidia-uvm-tools"},
        {NODE_MODESET, "/dev/nvidia-modeset"},
};

/*
 * The largest number per answer. MPS: the pipe, two limits and seven facts; plus the device list and the IMEX channel.
 */
#define MAX_PAIRS (3 + 7 + ARRAY_SIZE(extras) + 2)
/* MPS: pipe, shared memory and device metadata; the units and the IMEX channel. */
#define MAX_MOUNTS(n_units) (3 + (n_units) + 1)
/* A MIG device needs three: its GPU, its GPU instance and itself. */
#define MAX_NODES(n_units) (ARRAY_SIZE(control_nodes) + 3 * (n_units) + 1)
/* The units, the IMEX channel, the extras and the limits. */
#define MAX_CDI_DEVICES(n_units) ((n_units) + 1 + ARRAY_SIZE(extras) + 1)

struct request {
        struct arena *arena;
        const struct plan *plan;
        const struct config *config;
        const struct resource *resource;
        const char *tag;
        const struct allocate_binding *binding; /* NULL: none */
        struct allocate_answer *answer;         /* its arrays have the maximum sizes above */
        const char **names;                     /* the parts' units by UUID or index, as configured */
};

static void add_pair(const struct request *request, const char *name, const char *value)
{
        request->answer->environment[request->answer->n_environment++] =
                (struct allocate_pair){.name = name, .value = value};
}

static struct allocate_mount *add_mount(
        const struct request *request, const char *container_path, const char *host_path)
{
        struct allocate_mount *mount = &request->answer->mounts[request->answer->n_mounts++];

        *mount = (struct allocate_mount){.container_path = container_path, .host_path = host_path};
        return mount;
}

static const char *allocate_join(struct arena *arena, const char *const *items, size_t count)
{
        size_t size = 1;
        char *text;
        char *at;

        for (size_t i = 0; i < count; i++)
                size += strlen(items[i]) + 1;
        at = text = arena_alloc(arena, 1, size);
        for (size_t i = 0; i < count; i++) {
                if (i)
                        *at++ = ',';
                at = stpcpy(at, items[i]);
        }
        return text;
}

/* The requested channel. The plan warns if its node does not exist. */
static bool has_imex_channel(const struct request *request)
{
        return request->config->devices.has_imex_channel && request->plan->inventory->nodes & NODE_IMEX_CHANNEL;
}

/* ---- units and replicas ---- */

/* |seen|: by device, since an id may occur twice. |part_of|: by unit, the position of its part plus one; 0: none. */
static int collect_parts(const struct request *request, const char *const *ids, size_t n_ids, struct error *err)
{
        const struct resource *resource = request->resource;
        struct allocate_answer *answer = request->answer;
        uint8_t *seen = ARENA_ARRAY(request->arena, uint8_t, resource->n_devices);
        uint32_t *part_of = ARENA_ARRAY(request->arena, uint32_t, resource->n_units);

        answer->parts = ARENA_ARRAY(request->arena, struct mps_part, MIN(n_ids, resource->n_units));
        for (size_t i = 0; i < n_ids; i++) {
                const struct device *device = map_find(&resource->by_id, ids[i]);
                uint32_t *part;

                if (!device)
                        return error_set(err, ERROR_NOT_FOUND,
                                "invalid request for resource '%s': unknown device '%.100s'", resource->name, ids[i]);
                if (seen[device - resource->devices])
                        continue;
                seen[device - resource->devices] = 1;
                part = &part_of[device->unit];
                if (*part == 0) {
                        *part = (uint32_t)++answer->n_parts;
                        answer->parts[*part - 1] =
                                (struct mps_part){.resource = resource, .unit = &resource->units[device->unit]};
                }
                answer->parts[*part - 1].replicas++;
        }
        return 0;
}

/*
 * All replicas come from the unit that the request is bound to, not from those of the ids: accounting follows the
 * allocation.
 */
static int bind_parts(const struct request *request, struct error *err)
{
        const struct resource *resource = request->resource;
        struct allocate_answer *answer = request->answer;
        const struct unit *unit;
        unsigned int replicas = 0;

        if (!request->binding || !request->binding->unit || answer->n_parts == 0)
                return 0;
        unit = resource_find_unit(resource, request->binding->unit);
        if (!unit)
                return error_set(err, ERROR_NOT_FOUND,
                        "invalid request for resource '%s': it no longer has the unit '%.100s', which was chosen for "
                        "this container",
                        resource->name, request->binding->unit);
        for (size_t i = 0; i < answer->n_parts; i++)
                replicas += answer->parts[i].replicas;
        if (replicas > unit->replicas)
                return error_set(err, ERROR_INVALID,
                        "invalid request for resource '%s': %u replicas of %s, which has %u", resource->name, replicas,
                        unit->uuid, unit->replicas);
        answer->parts[0] = (struct mps_part){.resource = resource, .unit = unit, .replicas = replicas};
        answer->n_parts = 1;
        return 0;
}

static void allocate_add_shares(const struct request *request)
{
        for (size_t i = 0; i < request->answer->n_parts; i++) {
                struct mps_part *part = &request->answer->parts[i];

                part->share = share_of(request->resource, part->unit, part->replicas);
        }
}

/* NULL: none. */
static const struct unit *first_shared_unit(const struct allocate_answer *answer)
{
        for (size_t i = 0; i < answer->n_parts; i++)
                if (answer->parts[i].unit->shared)
                        return answer->parts[i].unit;
        return NULL;
}

static int allocate_check_size(const struct request *request, size_t n_ids, struct error *err)
{
        const struct resource *resource = request->resource;

        if (!resource->fail_requests_greater_than_one || n_ids <= 1 || !first_shared_unit(request->answer))
                return 0;
        return error_set(err, ERROR_INVALID,
                "invalid request for resource '%s': maximum request size for shared resources is 1; found %zu; to allow "
                "more, set sharing.%s.failRequestsGreaterThanOne to false",
                resource->name, n_ids, resource->strategy == SHARING_MPS ? "mps" : "timeSlicing");
}

/* An MPS client has one control daemon. If each unit has a daemon of its own, the client sees only one unit. */
static int allocate_check_units(const struct request *request, struct error *err)
{
        const struct resource *resource = request->resource;

        const struct unit *shared = first_shared_unit(request->answer);

        if (resource->strategy != SHARING_MPS || request->answer->n_parts <= 1 || !shared ||
                !mps_has_own_daemon(resource->daemon_scope, shared->uuid))
                return 0;
        return error_set(err, ERROR_INVALID,
                "invalid request for resource '%s': devices of %zu units, but %s a container gets devices of one "
                "unit only; set sharing.mps.placement to same-gpu%s",
                resource->name, request->answer->n_parts, shared->mig ? "under MPS on MIG" : "with daemonScope gpu",
                shared->mig ? "" : ", or sharing.mps.daemonScope to resource");
}

static void collect_names(struct request *request)
{
        const struct allocate_answer *answer = request->answer;

        request->names = ARENA_ARRAY(request->arena, const char *, answer->n_parts);
        for (size_t i = 0; i < answer->n_parts; i++) {
                const struct unit *unit = answer->parts[i].unit;

                request->names[i] =
                        request->config->devices.id_strategy == ID_STRATEGY_INDEX ? unit->index : unit->uuid;
        }
}

/* ---- CDI ---- */

/*
 * The limits' CDI device is made when the container starts (node/kubelet/broker.h). This needs an allocation, whose id
 * is a new name.
 */
static bool has_limits_at_start(const struct request *request)
{
        return request->binding && request->binding->allocation &&
               mps_limits_at_start(request->plan, request->resource) &&
               (request->resource->provisioning == PROVISIONING_DECLARED ||
                       !mps_has_own_daemon(DAEMON_SCOPE_NODE, request->answer->parts[0].unit->uuid));
}

static bool is_in_namespace(const struct request *request)
{
        return request->binding && request->binding->pipe && request->binding->tier == MPS_TIER_NAMESPACE;
}

/*
 * The device has the same variables as the answer. In a partition percentages have no effect, and its id has no device;
 * a namespace has the limits itself.
 */
static const char *limits_name(const struct request *request, const struct unit *shared)
{
        bool has_own = is_in_namespace(request) || (request->binding && request->binding->partition);
        unsigned int k = has_own ? 0 : request->answer->parts[0].replicas;

        if (has_limits_at_start(request))
                return arena_printf(request->arena, CDI_KIND_MPS "=%s", request->binding->allocation);
        return arena_printf(
                request->arena, CDI_KIND_MPS "=%s", mps_limits_device(request->arena, request->resource, shared, k));
}

static void add_cdi(const struct request *request)
{
        struct allocate_answer *answer = request->answer;
        const struct unit *shared = first_shared_unit(answer);
        size_t n_units = answer->n_parts;
        const char **devices = ARENA_ARRAY(request->arena, const char *, MAX_CDI_DEVICES(n_units));
        size_t count = 0;

        for (size_t i = 0; i < n_units; i++)
                devices[count++] = arena_printf(request->arena, CDI_VENDOR "/" CDI_CLASS_GPU "=%s", request->names[i]);
        if (has_imex_channel(request))
                devices[count++] = CDI_VENDOR "/" CDI_CLASS_IMEX "=" IMEX_CHANNEL;
        for (size_t i = 0; i < ARRAY_SIZE(extras); i++)
                if (request->plan->cdi_extras & extras[i].bit)
                        devices[count++] = extras[i].cdi_device;
        if (request->plan->cdi_limits && request->resource->strategy == SHARING_MPS && shared)
                devices[count++] = limits_name(request, shared);
        if (count == 0)
                return;
        if (plan_device_lists(request->plan) & DEVICE_LIST_CDI_ANNOTATIONS) {
                answer->annotations = ARENA_NEW(request->arena, struct allocate_pair);
                answer->annotations[answer->n_annotations++] = (struct allocate_pair){
                        .name = arena_printf(request->arena, "%snvidia-device-plugin_%s",
                                request->config->cdi.annotation_prefix, request->tag),
                        .value = allocate_join(request->arena, devices, count),
                };
        }
        if (plan_device_lists(request->plan) & DEVICE_LIST_CDI_CRI) {
                answer->cdi_devices = devices;
                answer->n_cdi_devices = count;
        }
}

/* ---- MPS ---- */

/* |unit| is shared; any other shared units have the same daemon. */
static void add_door(const struct request *request, const struct unit *unit)
{
        const char *pipe = mps_limits_pipe(request->arena, request->resource, unit);
        const char *path = pipe + strlen("/mps");
        const char *shm = "shm";

        if (request->binding && request->binding->pipe)
                path = request->binding->pipe;
        if (request->binding && request->binding->shm)
                shm = request->binding->shm;
        add_pair(request, "CUDA_MPS_PIPE_DIRECTORY", pipe);
        add_mount(request, pipe, arena_path(request->arena, request->config->mps.root, path))->read_only =
                !request->config->mps.pipes_writable;
        add_mount(request, "/dev/shm", arena_path(request->arena, request->config->mps.root, shm));
}

static void add_metadata(const struct request *request)
{
        const struct allocate_binding *binding = request->binding;

        if (binding && binding->metadata)
                add_mount(request, arena_strdup(request->arena, binding->metadata_path),
                        arena_path(request->arena, request->config->mps.root, binding->metadata))
                        ->read_only = true;
}

/*
 * The parts with the memory limits that the container's variable has.
 *
 * Memory limits are set per CUDA ordinal. The unit of an ordinal depends on CUDA_DEVICE_ORDER and, by default, on which
 * GPU CUDA considers faster. So with several units each gets the smallest limit, and none too much.
 */
static const struct mps_part *limited_parts(const struct request *request)
{
        const struct allocate_answer *answer = request->answer;
        struct mps_part *parts = ARENA_ARRAY(request->arena, struct mps_part, answer->n_parts);
        uint64_t least = UINT64_MAX;

        for (size_t i = 0; i < answer->n_parts; i++)
                if (answer->parts[i].share.memory_mib)
                        least = MIN(least, answer->parts[i].share.memory_mib);
        for (size_t i = 0; i < answer->n_parts; i++) {
                parts[i] = answer->parts[i];
                if (least != UINT64_MAX && request->resource->provisioning != PROVISIONING_UNIFORM)
                        parts[i].share.memory_mib = least;
        }
        return parts;
}

/* Units that are not shared have no ordinal at the daemon. */
static void add_memory_limit(const struct request *request)
{
        const struct allocate_answer *answer = request->answer;
        const struct mps_part *parts = limited_parts(request);
        size_t n_shared = 0;
        const char *memory;

        for (size_t i = 0; i < answer->n_parts; i++)
                n_shared += parts[i].unit->shared != NULL;
        memory = mps_parts_memory(request->arena, parts, n_shared);
        if (memory)
                add_pair(request, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory);
}

/*
 * The container's own limits, if the daemon's defaults do not set them. In a partition percentages have no effect. A
 * namespace limits memory itself, and the variable could only lift that: plan/mps_limits.h.
 */
static void allocate_add_limits(const struct request *request)
{
        if (request->binding && request->binding->partition)
                add_pair(request, "CUDA_MPS_SM_PARTITION", arena_strdup(request->arena, request->binding->partition));
        else
                add_pair(request, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                        mps_limits_threads(
                                request->arena, mps_parts_threads(request->answer->parts, request->answer->n_parts)));
        if (!is_in_namespace(request))
                add_memory_limit(request);
}

static void add_facts(const struct request *request)
{
        const struct allocate_binding *binding = request->binding;
        const struct mps_part *parts = limited_parts(request);
        struct mps_fact facts[MPS_FACTS_MAX];
        size_t count;

        if (binding && binding->allocation)
                add_pair(request, "WARPSHARE_GRANT", arena_strdup(request->arena, binding->allocation));
        count = mps_facts(facts, request->arena, parts, request->answer->n_parts,
                binding && binding->allocation ? binding->tier
                                               : share_tier(request->plan, request->resource, parts[0].unit),
                binding ? binding->sms : 0);
        for (size_t i = 0; i < count; i++)
                add_pair(request, facts[i].name, facts[i].value);
}

/* False: containers get devices by CDI only. */
static bool has_variables(const struct request *request)
{
        return request->config->devices.lists & (DEVICE_LIST_ENVVAR | DEVICE_LIST_VOLUME_MOUNTS);
}

/*
 * If the variables are made at the start of the container, an answer leaves out what the next answer could contradict.
 * The limits stay in the answer if a runtime without CDI has no other source for them, or if the container may declare
 * others: its own variables have precedence over an answer's.
 */
static void add_mps(const struct request *request, const struct unit *unit)
{
        bool is_reported_at_start = has_limits_at_start(request);

        add_door(request, unit);
        add_metadata(request);
        if (request->resource->provisioning != PROVISIONING_UNIFORM &&
                (!is_reported_at_start || has_variables(request) ||
                        request->resource->provisioning == PROVISIONING_DECLARED))
                allocate_add_limits(request);
        if (!is_reported_at_start)
                add_facts(request);
}

/* ---- NVIDIA's container runtime ---- */

static void add_visible_devices(const struct request *request)
{
        unsigned int lists = request->config->devices.lists;

        if (lists & DEVICE_LIST_VOLUME_MOUNTS)
                add_pair(request, "NVIDIA_VISIBLE_DEVICES", VOLUME_ROOT);
        else
                add_pair(request, "NVIDIA_VISIBLE_DEVICES",
                        allocate_join(request->arena, request->names, request->answer->n_parts));
        if (lists & DEVICE_LIST_ENVVAR && has_imex_channel(request))
                add_pair(request, "NVIDIA_IMEX_CHANNELS", IMEX_CHANNEL);
}

static void add_volumes(const struct request *request)
{
        for (size_t i = 0; i < request->answer->n_parts; i++)
                add_mount(request, arena_printf(request->arena, VOLUME_ROOT "/%s", request->names[i]), "/dev/null");
        if (has_imex_channel(request))
                add_mount(request, VOLUME_ROOT "/imex/" IMEX_CHANNEL, "/dev/null");
}

/* ---- device nodes ---- */

/* MIG devices of one GPU share its node, and those of one GPU instance share the instance's node. */
static void allocate_add_node(const struct request *request, const char *path)
{
        struct allocate_answer *answer = request->answer;

        for (size_t i = 0; i < answer->n_nodes; i++)
                if (strcmp(answer->nodes[i].container_path, path) == 0)
                        return;
        answer->nodes[answer->n_nodes++] = (struct allocate_node){
                .container_path = path,
                .host_path = arena_path(request->arena, request->config->driver.dev_root, path),
                .permissions = "rw",
        };
}

static void add_numbered_node(const struct request *request, const char *stem, int minor)
{
        if (minor >= 0)
                allocate_add_node(request, arena_printf(request->arena, "%s%d", stem, minor));
}

static void add_unit_nodes(const struct request *request, const struct unit *unit)
{
        add_numbered_node(request, "/dev/nvidia", unit->gpu->minor);
        if (unit->mig) {
                add_numbered_node(request, "/dev/nvidia-caps/nvidia-cap", unit->mig->gpu_instance_cap);
                add_numbered_node(request, "/dev/nvidia-caps/nvidia-cap", unit->mig->compute_instance_cap);
        }
}

static void add_nvml_nodes(const struct request *request)
{
        const struct allocate_answer *answer = request->answer;

        for (size_t i = 0; i < ARRAY_SIZE(control_nodes); i++)
                if (request->plan->inventory->nodes & control_nodes[i].bit)
                        allocate_add_node(request, control_nodes[i].path);
        for (size_t i = 0; i < answer->n_parts; i++)
                add_unit_nodes(request, answer->parts[i].unit);
}

static void allocate_add_nodes(const struct request *request)
{
        struct allocate_answer *answer = request->answer;

        answer->nodes = ARENA_ARRAY(request->arena, struct allocate_node, MAX_NODES(answer->n_parts));
        switch (request->plan->inventory->platform) {
        case PLATFORM_NVML:
                add_nvml_nodes(request);
                break;
        case PLATFORM_WSL:
                if (answer->n_parts)
                        allocate_add_node(request, "/dev/dxg");
                break;
        case PLATFORM_TEGRA:
                break;
        }
        if (has_imex_channel(request))
                allocate_add_node(request, "/dev/nvidia-caps-imex-channels/channel" IMEX_CHANNEL);
}

/* ---- the answer ---- */

static void fill_answer(const struct request *request)
{
        const struct config *config = request->config;
        struct allocate_answer *answer = request->answer;
        const struct unit *shared = first_shared_unit(answer);

        answer->environment = ARENA_ARRAY(request->arena, struct allocate_pair, MAX_PAIRS);
        answer->mounts = ARENA_ARRAY(request->arena, struct allocate_mount, MAX_MOUNTS(answer->n_parts));
        if (plan_device_lists(request->plan) & DEVICE_LIST_CDI)
                add_cdi(request);
        if (request->resource->strategy == SHARING_MPS && shared)
                add_mps(request, shared);
        for (size_t i = 0; i < ARRAY_SIZE(extras); i++)
                if (config->devices.extras & extras[i].bit)
                        add_pair(request, extras[i].variable, "enabled");
        if (!has_variables(request))
                return;
        add_visible_devices(request);
        if (config->devices.lists & DEVICE_LIST_VOLUME_MOUNTS)
                add_volumes(request);
        if (config->devices.pass_specs)
                allocate_add_nodes(request);
}

int allocate(struct allocate_answer *ret, struct arena *arena, const struct plan *plan, const struct resource *resource,
        const struct allocate_request *wanted, struct error *err)
{
        struct allocate_answer answer = {0};
        struct request request = {
                .arena = arena,
                .plan = plan,
                .config = plan->config,
                .resource = resource,
                .tag = wanted->tag,
                .binding = wanted->binding,
                .answer = &answer,
        };

        if (collect_parts(&request, wanted->ids, wanted->n_ids, err) < 0 ||
                allocate_check_size(&request, wanted->n_ids, err) < 0 || bind_parts(&request, err) < 0 ||
                allocate_check_units(&request, err) < 0)
                return -1;
        allocate_add_shares(&request);
        collect_names(&request);
        fill_answer(&request);
        *ret = answer;
        return 0;
}
