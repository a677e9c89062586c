// SPDX-License-Identifier: Apache-2.0
#include "node/labels/labels.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "plan/capability.h"
#include "plan/share.h"

#define NVIDIA LABELS_NVIDIA_PREFIX
#define UNKNOWN_VERSION "unknown.unknown.unknown" /* what NVIDIA's program says without NVML */

#define CLASS_VGA 0x030000U
#define CLASS_3D 0x030200U

/* ---- values ---- */

static bool is_legal(char c)
{
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
               c == '.';
}

static bool is_end(char c)
{
        return is_legal(c) && c != '-' && c != '_' && c != '.';
}

const char *label_clean(struct arena *arena, const char *text)
{
        char *clean = arena_alloc(arena, strlen(text) + 1, 1);
        bool is_between = false;
        size_t size = 0;

        for (; *text; text++) {
                if (*text == ' ') {
                        is_between = size > 0;
                } else if (is_legal(*text)) {
                        if (is_between)
                                clean[size++] = '-';
                        clean[size++] = *text;
                        is_between = false;
                }
        }
        clean[size] = '\0';
        return clean;
}

/* Works in place. Our own values are legal, but texts of drivers and files may have any characters. */
static const char *make_legal(char *value)
{
        size_t size = 0;
        char *begin = value;

        for (const char *c = value; *c; c++)
                if (is_legal(*c))
                        value[size++] = *c;
        value[size] = '\0';
        while (*begin && !is_end(*begin))
                begin++;
        size = MIN(strlen(begin), LABELS_MAX_VALUE);
        while (size && !is_end(begin[size - 1]))
                size--;
        begin[size] = '\0';
        return begin;
}

size_t label_leading(const char *const *texts, size_t count)
{
        size_t leading = 0;
        size_t most = 0;

        for (size_t i = 0; i < count; i++) {
                size_t same = 0;

                for (size_t j = 0; j < count; j++)
                        same += strcmp(texts[i], texts[j]) == 0;
                if (same > most) {
                        most = same;
                        leading = i;
                }
        }
        return leading;
}

/* ---- the set ---- */

void label_set_warn(const struct label_set *set, const char *format, ...)
{
        va_list args;

        if (!set->warn)
                return;
        va_start(args, format);
        set->warn(arena_vprintf(set->arena, format, args), set->warn_data);
        va_end(args);
}

static void labels_grow(struct label_set *set)
{
        size_t capacity = set->capacity ? set->capacity * 2 : 64;
        struct label *items = ARENA_ARRAY(set->arena, struct label, capacity);

        if (set->count)
                memcpy(items, set->items, set->count * sizeof(*items));
        set->items = items;
        set->capacity = capacity;
}

static void labels_put(struct label_set *set, const char *key, char *value)
{
        const char *slash = strchr(key, '/');
        size_t at = 0;

        if (strlen(slash ? slash + 1 : key) > LABELS_MAX_NAME) {
                label_set_warn(set, "no label '%s': its name has more than %zu characters", key, LABELS_MAX_NAME);
                return;
        }
        while (at < set->count && strcmp(set->items[at].key, key) != 0)
                at++;
        if (at == set->capacity)
                labels_grow(set);
        set->items[at] = (struct label){key, make_legal(value)};
        set->count = MAX(set->count, at + 1);
}

void label_set_put(struct label_set *set, const char *key, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        labels_put(set, arena_strdup(set->arena, key), arena_vprintf(set->arena, format, args));
        va_end(args);
}

void label_set_put_of(struct label_set *set, const char *resource, const char *what, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        labels_put(set, arena_printf(set->arena, "%s.%s", resource, what), arena_vprintf(set->arena, format, args));
        va_end(args);
}

static int labels_compare(const void *a, const void *b)
{
        return strcmp(((const struct label *)a)->key, ((const struct label *)b)->key);
}

/*
 * ---- the machine as a whole: versions, modes, capabilities, vGPU. Those of versions, machine, MIG, MPS and mode are
 * there only where GPUs are ----
 */

bool labels_counts_gpu(const struct inventory *inventory, const struct gpu *gpu)
{
        return *gpu->name || inventory->platform != PLATFORM_NVML;
}

static bool labels_has_gpus(const struct inventory *inventory)
{
        for (size_t i = 0; inventory && i < inventory->n_gpus; i++)
                if (labels_counts_gpu(inventory, &inventory->gpus[i]))
                        return true;
        return false;
}

static void put_driver_version(struct label_set *set, const char *version)
{
        const char *parts[3] = {"", "", ""};
        char *rest = arena_strdup(set->arena, version);
        size_t count = 0;

        for (char *part; (part = strsep(&rest, ".")); count++)
                if (count < ARRAY_SIZE(parts))
                        parts[count] = part;
        if (count < 2 || count > ARRAY_SIZE(parts)) {
                label_set_warn(
                        set, "no labels of the driver's version: '%.40s' is not of the form X.Y or X.Y.Z", version);
                return;
        }
        /* The first three are deprecated by NVIDIA, and selectors have them. */
        label_set_put(set, NVIDIA "cuda.driver.major", "%s", parts[0]);
        label_set_put(set, NVIDIA "cuda.driver.minor", "%s", parts[1]);
        label_set_put(set, NVIDIA "cuda.driver.rev", "%s", parts[2]);
        label_set_put(set, NVIDIA "cuda.driver-version.major", "%s", parts[0]);
        label_set_put(set, NVIDIA "cuda.driver-version.minor", "%s", parts[1]);
        label_set_put(set, NVIDIA "cuda.driver-version.revision", "%s", parts[2]);
        label_set_put(set, NVIDIA "cuda.driver-version.full", "%s", version);
}

static void put_cuda_version(struct label_set *set, int major, int minor)
{
        if (!major)
                return;
        label_set_put(set, NVIDIA "cuda.runtime.major", "%d", major);
        label_set_put(set, NVIDIA "cuda.runtime.minor", "%d", minor);
        label_set_put(set, NVIDIA "cuda.runtime-version.major", "%d", major);
        label_set_put(set, NVIDIA "cuda.runtime-version.minor", "%d", minor);
        label_set_put(set, NVIDIA "cuda.runtime-version.full", "%d.%d", major, minor);
}

static void put_machine(struct label_set *set)
{
        const char *machine = set->input->machine;
        char *line;

        if (!machine) {
                label_set_put(set, NVIDIA "gpu.machine", "unknown");
                return;
        }
        line = arena_strdup(set->arena, machine + strspn(machine, " \t\r\n"));
        line[strcspn(line, "\n")] = '\0';
        label_set_put(set, NVIDIA "gpu.machine", "%s", label_clean(set->arena, line));
}

static const char *mode_of(const struct inventory *inventory)
{
        unsigned int class = inventory->gpus[0].pci_class;

        for (size_t i = 1; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].pci_class != class)
                        return "unknown";
        return class == CLASS_VGA ? "graphics" : class == CLASS_3D ? "compute" : "unknown";
}

static void put_clique(struct label_set *set)
{
        const struct inventory *inventory = set->input->inventory;
        const struct gpu_fabric *first = NULL;

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu_fabric *fabric = &inventory->gpus[i].fabric;

                if (fabric->state != GPU_FABRIC_ATTACHED)
                        continue;
                if (first && (fabric->clique != first->clique || strcmp(fabric->cluster, first->cluster) != 0)) {
                        label_set_warn(set, "no label gpu.clique: GPUs are in clique %s.%u and in %s.%u",
                                first->cluster, first->clique, fabric->cluster, fabric->clique);
                        return;
                }
                first = fabric;
        }
        if (first)
                label_set_put(set, NVIDIA "gpu.clique", "%s.%u", first->cluster, first->clique);
}

static bool has_mps_unit(const struct plan *plan)
{
        for (size_t i = 0; plan && i < plan->n_resources; i++)
                if (plan->resources[i].strategy == SHARING_MPS)
                        return true;
        return false;
}

static bool has_claimable_share(const struct labels_input *input)
{
        if (!input->config->dra.mps)
                return false;
        for (size_t i = 0; i < input->inventory->n_gpus; i++)
                if (plan_is_for_dra(input->config, input->inventory, &input->inventory->gpus[i]))
                        return true;
        return false;
}

/*
 * The label selects the nodes on which NVIDIA's MPS daemons run, and ours with such a node selector: it is true where
 * they have something to do, also for claims, which NVIDIA's program does not know. With MIG the plan decides whether a
 * unit is shared by MPS; NVIDIA's program does not run with both MPS and MIG.
 */
static bool is_mps_capable(const struct labels_input *input, bool has_mig)
{
        return has_claimable_share(input) || (input->config->sharing.mps && (!has_mig || has_mps_unit(input->plan)));
}

static void put_capabilities(struct label_set *set)
{
        const struct labels_input *input = set->input;
        bool can_mig = false;
        bool has_mig = false;

        for (size_t i = 0; i < input->inventory->n_gpus; i++) {
                can_mig = can_mig || input->inventory->gpus[i].mig_capable;
                has_mig = has_mig || input->inventory->gpus[i].mig_enabled;
        }
        label_set_put(set, NVIDIA "mig.capable", "%s", can_mig ? "true" : "false");
        if (input->config->mig_strategy != MIG_STRATEGY_NONE)
                label_set_put(set, NVIDIA "mig.strategy", "%s", mig_strategy_name(input->config->mig_strategy));
        label_set_put(set, NVIDIA "mps.capable", "%s", is_mps_capable(input, has_mig) ? "true" : "false");
        label_set_put(set, NVIDIA "gpu.mode", "%s", mode_of(input->inventory));
}

static void put_vgpu(struct label_set *set)
{
        const struct vgpu *vgpu = &set->input->vgpu;

        if (vgpu->state == VGPU_UNKNOWN)
                return;
        label_set_put(set, NVIDIA "vgpu.present", "%s", vgpu->state == VGPU_PRESENT ? "true" : "false");
        if (!*vgpu->host_driver_version)
                return;
        label_set_put(set, NVIDIA "vgpu.host-driver-version", "%s", vgpu->host_driver_version);
        label_set_put(set, NVIDIA "vgpu.host-driver-branch", "%s", vgpu->host_driver_branch);
}

static void labels_put_node(struct label_set *set)
{
        const struct labels_input *input = set->input;
        const struct inventory *inventory = input->inventory;

        if (input->timestamp)
                label_set_put(set, NVIDIA "gfd.timestamp", "%" PRId64, input->timestamp);
        put_vgpu(set);
        if (!labels_has_gpus(inventory))
                return;
        put_machine(set);
        put_driver_version(set, inventory->platform == PLATFORM_NVML ? inventory->driver_version : UNKNOWN_VERSION);
        put_cuda_version(set, inventory->cuda_major, inventory->cuda_minor);
        put_capabilities(set);
        put_clique(set);
}

/*
 * ---- our own labels: what one device of a resource gives. They are named after the resource that pods request, and
 * have the least that any unit gives, so that a pod that chose a node by them gets at least that much. Numbers are
 * whole, for Gt and Lt of a node affinity ----
 */

/* UINT64_MAX, UINT_MAX: no unit has said anything yet; 0: unknown, or not limited by us. */
struct worth {
        uint64_t memory_mib;
        unsigned int threads_permille;
        unsigned int sms;
        unsigned int clients;
        unsigned int most;
        enum mps_tier tier;
        bool lacks_limits; /* of memory, on one of its units at least */
        bool has_mps;
        bool has_slices; /* of time: memory and threads of a container are not limited */
};

static void shares_add_unit(
        struct worth *worth, const struct plan *plan, const struct resource *resource, const struct unit *unit)
{
        struct share share = share_of(resource, unit, 1);
        uint64_t memory = unit->shared ? share.memory_mib : unit->memory >> 20;
        bool is_mps = unit->shared && resource->strategy == SHARING_MPS;

        worth->most = MIN(worth->most, share_most(resource, unit));
        worth->memory_mib = MIN(worth->memory_mib, memory);
        worth->threads_permille = MIN(worth->threads_permille, share.threads_permille);
        worth->sms = MIN(worth->sms, share_sms(unit, &share));
        worth->has_slices = worth->has_slices || (unit->shared && resource->strategy == SHARING_TIME_SLICING);
        if (!is_mps)
                return;
        worth->has_mps = true;
        worth->clients = MIN(worth->clients, capability_clients(unit, plan->inventory->driver_version));
        worth->tier = MIN(worth->tier, share_tier(plan, resource, unit));
        worth->lacks_limits = worth->lacks_limits || !share_limits_memory(unit);
}

static void shares_put_resource(struct label_set *set, const struct plan *plan, const struct resource *resource)
{
        const char *slash = strchr(resource->name, '/');
        const char *name = arena_printf(set->arena, LABELS_PREFIX "%s", slash ? slash + 1 : resource->name);
        struct worth worth = {.memory_mib = UINT64_MAX,
                .threads_permille = UINT_MAX,
                .sms = UINT_MAX,
                .clients = UINT_MAX,
                .most = UINT_MAX,
                .tier = MPS_TIER_NAMESPACE};

        for (size_t i = 0; i < resource->n_units; i++)
                shares_add_unit(&worth, plan, resource, &resource->units[i]);
        label_set_put_of(set, name, "sharing", "%s", sharing_strategy_name(resource->strategy));
        label_set_put_of(set, name, "most", "%u", worth.most);
        if (!worth.has_slices) {
                if (worth.memory_mib)
                        label_set_put_of(set, name, "memory", "%llu", (unsigned long long)worth.memory_mib);
                label_set_put_of(set, name, "threads", "%u", worth.threads_permille / 10);
                if (worth.sms)
                        label_set_put_of(set, name, "sms", "%u", worth.sms);
        }
        if (!worth.has_mps)
                return;
        label_set_put_of(set, name, "provisioning", "%s", provisioning_name(resource->provisioning));
        label_set_put_of(set, name, "tier", "%s", mps_tier_promise(worth.tier, !worth.lacks_limits));
        label_set_put_of(set, name, "clients", "%u", worth.clients);
}

static void labels_put_shares(struct label_set *set)
{
        const struct plan *plan = set->input->plan;

        for (size_t i = 0; plan && i < plan->n_resources; i++)
                shares_put_resource(set, plan, &plan->resources[i]);
}

/* ---- the whole ---- */

void labels_build(struct labels *ret, struct arena *arena, const struct labels_input *input, config_warn_fn *warn,
        void *warn_data)
{
        struct label_set set = {.arena = arena, .input = input, .warn = warn, .warn_data = warn_data};

        labels_put_node(&set);
        if (labels_has_gpus(input->inventory)) {
                labels_put_gpus(&set);
                labels_put_shares(&set);
        }
        if (set.count)
                qsort(set.items, set.count, sizeof(*set.items), labels_compare);
        *ret = (struct labels){set.items, set.count};
}

void labels_print(const struct labels *labels, struct strbuf *text)
{
        for (size_t i = 0; i < labels->count; i++)
                strbuf_printf(text, "%s=%s\n", labels->items[i].key, labels->items[i].value);
}
