#include "share/allocate.h"

#include <string.h>

#include "base/strbuf.h"

#define MAX_PAIRS 4
#define MAX_MOUNTS 2

struct request {
        struct arena *arena;
        const struct config *config;
        const struct resource *resource;
        struct allocation *allocation; /* arrays have room for what is above */
};

static void add_pair(const struct request *request, const char *name, const char *value)
{
        request->allocation->environment[request->allocation->n_environment++] =
                (struct allocate_pair){.name = name, .value = value};
}

static void add_mount(const struct request *request, const char *container_path, const char *host_path)
{
        request->allocation->mounts[request->allocation->n_mounts++] =
                (struct allocate_mount){.container_path = container_path, .host_path = host_path};
}

/* ---- which units, and how much of them ---- */

/* Bits by position of the device, since an id may be there twice; parts by position of the unit plus one, 0 for none yet. */
static int collect_parts(
        const struct request *request, const char *const *ids, size_t n_ids, size_t *ret_devices, struct error *err)
{
        const struct resource *resource = request->resource;
        struct allocation *allocation = request->allocation;
        uint8_t *seen = ARENA_ARRAY(request->arena, uint8_t, resource->n_devices);
        uint32_t *part_of = ARENA_ARRAY(request->arena, uint32_t, resource->n_units);

        allocation->parts = ARENA_ARRAY(request->arena, struct allocate_part, MIN(n_ids, resource->n_units));
        *ret_devices = 0;
        for (size_t i = 0; i < n_ids; i++) {
                const struct device *device = map_find(&resource->by_id, ids[i]);
                uint32_t *part;

                if (!device)
                        return error_set(err, ERROR_NOT_FOUND,
                                "invalid request for resource '%s': unknown device '%.100s'", resource->name, ids[i]);
                if (seen[device - resource->devices])
                        continue;
                seen[device - resource->devices] = 1;
                (*ret_devices)++;
                part = &part_of[device->unit];
                if (*part == 0) {
                        *part = (uint32_t)++allocation->n_parts;
                        allocation->parts[*part - 1].unit = &resource->units[device->unit];
                }
                allocation->parts[*part - 1].replicas++;
        }
        for (size_t i = 0; i < allocation->n_parts; i++) {
                struct allocate_part *one = &allocation->parts[i];

                one->share = share_of(resource, one->unit, one->replicas);
        }
        return 0;
}

static int check_size(const struct resource *resource, size_t n_devices, struct error *err)
{
        if (resource->strategy == SHARING_NONE || !resource->fail_requests_greater_than_one || n_devices <= 1)
                return 0;
        return error_set(err, ERROR_INVALID,
                "invalid request for resource '%s': maximum request size for shared resources is 1; found %zu; to allow "
                "more, set sharing.%s.failRequestsGreaterThanOne to false",
                resource->name, n_devices, resource->strategy == SHARING_MPS ? "mps" : "timeSlicing");
}

/* ---- what the container gets ---- */

static void add_visible_devices(const struct request *request)
{
        const struct allocation *allocation = request->allocation;
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;

        for (size_t i = 0; i < allocation->n_parts; i++) {
                const struct unit *unit = allocation->parts[i].unit;

                strbuf_printf(&list, "%s%s", i ? "," : "",
                        request->config->id_strategy == ID_STRATEGY_INDEX ? unit->index : unit->uuid);
        }
        add_pair(request, "NVIDIA_VISIBLE_DEVICES", arena_strdup(request->arena, list.data));
}

static const char *host_path(const struct request *request, const char *below)
{
        const char *root = request->config->mps_root;
        size_t length = strlen(root);

        while (length && root[length - 1] == '/')
                length--;
        return arena_printf(request->arena, "%.*s/%s", (int)length, root, below);
}

static void add_mps(const struct request *request)
{
        const char *below = arena_printf(request->arena, "%s/pipe", request->resource->name);
        const char *pipe = arena_printf(request->arena, "/mps/%s", below);

        add_pair(request, "CUDA_MPS_PIPE_DIRECTORY", pipe);
        add_mount(request, pipe, host_path(request, below));
        add_mount(request, "/dev/shm", host_path(request, "shm"));
}

/*
 * The limits of this container, where they are not the daemon's. One percentage counts for the whole process, so over several
 * units the least one is what no unit grants too little for. Memory limits go by CUDA's ordinal; which unit that is depends on
 * CUDA_DEVICE_ORDER and, by default, on which GPU CUDA thinks is faster, so here too each gets the least, and none too much.
 */
static void add_limits(const struct request *request)
{
        const struct allocation *allocation = request->allocation;
        _cleanup_(strbuf_done) struct strbuf memory = STRBUF_INIT;
        unsigned int permille = 1000;
        uint64_t mib = UINT64_MAX;

        for (size_t i = 0; i < allocation->n_parts; i++) {
                const struct share *share = &allocation->parts[i].share;

                permille = MIN(permille, share->threads_permille);
                if (share->memory_mib)
                        mib = MIN(mib, share->memory_mib);
        }
        if (permille % 10)
                add_pair(request, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                        arena_printf(request->arena, "%u.%u", permille / 10, permille % 10));
        else
                add_pair(request, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                        arena_printf(request->arena, "%u", permille / 10));
        if (mib == UINT64_MAX)
                return; /* no unit knows its memory */
        for (size_t i = 0; i < allocation->n_parts; i++)
                strbuf_printf(&memory, "%s%zu=%lluM", i ? "," : "", i, (unsigned long long)mib);
        add_pair(request, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", arena_strdup(request->arena, memory.data));
}

int allocate(struct allocation *ret, struct arena *arena, const struct plan *plan, const struct resource *resource,
        const struct allocate_request *wanted, struct error *err)
{
        struct allocation allocation = {
                .environment = ARENA_ARRAY(arena, struct allocate_pair, MAX_PAIRS),
                .mounts = ARENA_ARRAY(arena, struct allocate_mount, MAX_MOUNTS),
        };
        struct request request = {
                .arena = arena, .config = plan->config, .resource = resource, .allocation = &allocation};
        size_t n_devices;

        if (collect_parts(&request, wanted->ids, wanted->n_ids, &n_devices, err) < 0 ||
                check_size(resource, n_devices, err) < 0)
                return -1;
        add_visible_devices(&request);
        if (resource->strategy == SHARING_MPS) {
                add_mps(&request);
                if (resource->provisioning != PROVISIONING_UNIFORM)
                        add_limits(&request);
        }
        *ret = allocation;
        return 0;
}
