// SPDX-License-Identifier: Apache-2.0
/*
 * The keys of the configuration file: those of version v1 of NVIDIA's k8s-device-plugin (api/config/v1), and ours. Keys
 * that have a flag are not here but in option_table.c.
 */
#include "config/config_sharing.h"
#include "config/option.h"
#include "config/schema.h"
#include "config/word.h"

/* Rows: key, struct and member, what the type needs, help; the other fields follow by name. */
#define ROW(key, kind, at, width, text, ...)                                                                           \
        {                                                                                                              \
                .name = (key), .type = SCHEMA_##kind, .offset = (at), .size = (width), .help = (text), ##__VA_ARGS__   \
        }
#define INTO(key, kind, of, to, expected, text, ...)                                                                   \
        ROW(key, kind, TYPED_OFFSET(struct of, to, expected), sizeof(expected), text, ##__VA_ARGS__)
#define BOOL(key, of, to, text, ...) INTO(key, BOOL, of, to, bool, text, ##__VA_ARGS__)
#define UINT(key, of, to, from, upto, text, ...)                                                                       \
        INTO(key, UINT, of, to, unsigned int, text, .least = (from), .most = (upto), ##__VA_ARGS__)
#define CHOICE(key, of, to, words, text, ...)                                                                          \
        ROW(key, CHOICE, ENUM_OFFSET(struct of, to), sizeof(unsigned int), text, .choices = (words), ##__VA_ARGS__)
#define TEXT(key, of, to, text, ...) INTO(key, TEXT, of, to, const char *, text, ##__VA_ARGS__)
#define NAME(key, of, to, text, ...) INTO(key, NAME, of, to, const char *, text, ##__VA_ARGS__)
#define DEVICES(key, of, to, text) INTO(key, DEVICES, of, to, struct device_selector, text)
#define MEMORY(key, of, to, text, ...)                                                                                 \
        INTO(key, MEMORY, of, to, uint64_t, text, .most = CONFIG_MAX_RESERVE_MIB, ##__VA_ARGS__)
#define MAYBE(key, kind, to, expected, text)                                                                           \
        ROW(key, kind, TYPED_OFFSET(struct config, to, const expected *), sizeof(expected), text, .is_pointer = true)
#define OBJECT(key, of, to, shape, text, ...)                                                                          \
        ROW(key, OBJECT, offsetof(struct of, to), sizeof(void *), text, .object = (shape), ##__VA_ARGS__)
#define LIST(key, of, to, n, shape, text, ...)                                                                         \
        ROW(key, LIST, offsetof(struct of, to), sizeof(void *), text, .count = TYPED_OFFSET(struct of, n, size_t),     \
                .object = (shape), .most = CONFIG_MAX_RESOURCES, ##__VA_ARGS__)
#define GROUP(key, at, shape, text) ROW(key, GROUP, at, 0, text, .object = (shape))
#define KEYS(table) .keys = (table), .n_keys = ARRAY_SIZE(table)

static const char *const versions[] = {"v1", "", NULL};

/* ---- sharing ---- */

static const struct schema_key shared_keys[] = {
        NAME("name", shared_resource, name, "resource to share; nvidia.com/ may be left out",
                .needed = ", for example nvidia.com/gpu"),
        NAME("rename", shared_resource, rename, "name to advertise instead; takes precedence over renameByDefault",
                .is_quiet = true),
        DEVICES("devices", shared_resource, devices,
                "which units of the resource: all (the default), how many, or a list of indices (0, \"0:1\" for a "
                "MIG device) and UUIDs"),
        UINT("replicas", shared_resource, replicas, 1, CONFIG_MAX_REPLICAS, "into how many parts to share each unit",
                .needed = ": into how many parts to share each GPU"),
        CHOICE("placement", shared_resource, placement, placement_words,
                "which replicas are preferred, instead of the section's placement",
                .has = offsetof(struct shared_resource, has_placement), .is_quiet = true),
        UINT("sms", shared_resource, sms, 1, CONFIG_MAX_SMS,
                "only for provisioning sm: SMs of one replica, a multiple of the GPU's chunk (8 from Hopper on, 4 "
                "before); default: as many chunks as there are for each",
                .is_quiet = true),
        MEMORY("memory", shared_resource, memory_mib,
                "only for mps: memory of each GPU whose memory NVML does not report, such as a GB10: auto (the "
                "default: unknown, so there is no limit), MiB, or 64Gi",
                .is_quiet = true),
};
static const char *const shared_printed[] = {
        "name", "rename", "devices", "replicas", "sms", "memory", "placement", NULL};
static const struct schema_object shared_object = {
        KEYS(shared_keys), .size = sizeof(struct shared_resource), .printed = shared_printed};

/* By position among tier_limit_words. */
static const unsigned int tier_limits[] = {
        MPS_TIER_NAMESPACE, MPS_TIER_DEFAULT, MPS_TIER_VERIFIED, MPS_TIER_PARTITION, MPS_TIER_NAMESPACE};
static const unsigned int inverted[] = {true, false};

/* The keys from |provisioning| on are only for mps. */
#define N_MPS_KEYS 8
static const struct schema_key section_keys[] = {
        BOOL("renameByDefault", sharing_reading, section.rename_by_default, "advertise <name>.shared instead of <name>",
                .is_quiet = true),
        BOOL("failRequestsGreaterThanOne", sharing_reading, section.fail_requests_greater_than_one,
                "refuse containers that ask for more than one replica (default: true for mps with provisioning "
                "uniform, else false)",
                .has = offsetof(struct sharing_reading, section.shows_fail_requests), .is_quiet = true),
        LIST("resources", sharing_reading, section.resources, section.n_resources, &shared_object, "what is shared",
                .least = 1,
                .needed =
                        "; list what to share, for example {name: nvidia.com/gpu, replicas: 4}, or remove the section"),
        CHOICE("placement", sharing_reading, placement, placement_words,
                "which replicas are preferred: of the emptiest unit (distributed), of the fullest (packed), each of "
                "another unit (distinct), all of one unit (same-gpu), or of one unit if it can be "
                "(prefer-same-gpu); default: "
                "flags.plugin.sharedDevicesAllocationPolicy, or same-gpu where a container cannot have several GPUs",
                .has = offsetof(struct sharing_reading, has_placement)),
        CHOICE("scope", sharing_reading, section.scope, sharing_scope_words,
                "one resource for all units (aggregate, the default), or one for each: nvidia.com/gpu0, "
                "nvidia.com/gpu1 (individual)"),
        UINT("maxPerRequest", sharing_reading, section.max_per_request, 1, CONFIG_MAX_REPLICAS,
                "only with placement same-gpu: the most replicas that a container may ask for (default: half of a "
                "unit where replicas are reserved, else all); the fewer, the fewer are reserved",
                .is_quiet = true),
        CHOICE("reserve", sharing_reading, section.reserve, reserve_words,
                "with placement same-gpu: strict advertises only so many replicas that every request finds one unit "
                "with room; none advertises all, and a request may be refused; auto (the default): strict, but none "
                "with provisioning uniform",
                .is_quiet = true),
        CHOICE("provisioning", sharing_reading, section.provisioning, provisioning_words,
                "what k of N replicas are worth: one part whatever k is (uniform, the default), k parts with twice "
                "the threads (half), k parts (weighted), k times so many SMs (sm), or k parts unless the container or "
                "its pod's annotations say what they need (declared)"),
        CHOICE("daemonScope", sharing_reading, section.daemon_scope, daemon_scope_words,
                "an MPS control daemon for each unit (gpu, the default); one for all units of a resource (resource, the "
                "default under the names of NVIDIA's programs); or one for all GPUs of the node (node, the default "
                "with scope individual), so that a container may hold shares of several resources"),
        MEMORY("memoryReserve", sharing_reading, section.memory_reserve_mib,
                "memory of each unit that no share gets, for driver and MPS server: auto (the default), MiB, or "
                "512Mi, 1Gi; not under provisioning uniform",
                .has = offsetof(struct sharing_reading, section.has_memory_reserve)),
        UINT("maxThreads", sharing_reading, section.max_threads, 1, 100,
                "only for provisioning declared: percent of the threads that a container may declare (default: 100)",
                .is_quiet = true),
        MEMORY("maxMemory", sharing_reading, section.max_memory_mib,
                "only for provisioning declared: memory of each unit that a container may declare: auto (the default: "
                "all), MiB, or 512Mi, 1Gi",
                .zero = ": leave it out where there is to be no ceiling", .is_quiet = true),
        BOOL("declaredOvercommit", sharing_reading, section.refuses_overcommit,
                "only for provisioning declared: whether containers may declare more memory than their unit has in all; "
                "true (the default): that is reported; false: the container that comes last does not start",
                .values = inverted),
        CHOICE("guard", sharing_reading, section.guard, guard_mode_words,
                "what the limit monitor does about a process that exceeds its allocation: nothing (off), "
                "report it (report, the default), or terminate it (terminate)"),
        CHOICE("tier", sharing_reading, section.tier_limit, tier_limit_words,
                "the best way to enforce shares that may be used: default, verified, partition or namespace; auto "
                "(the default): the best that GPU and driver have",
                .values = tier_limits),
};
static const char *const section_printed[] = {"renameByDefault", "failRequestsGreaterThanOne", "scope", "maxPerRequest",
        "reserve", "provisioning", "daemonScope", "memoryReserve", "maxThreads", "maxMemory", "declaredOvercommit",
        "guard", "tier", "resources", NULL};
static const struct sharing_reading section_initial = {
        .section = {.guard = GUARD_REPORT, .tier_limit = MPS_TIER_NAMESPACE}};
#define SECTION(count)                                                                                                 \
        {                                                                                                              \
                .keys = section_keys, .n_keys = (count), .size = sizeof(struct sharing_reading),                       \
                .initial = &section_initial, .line = offsetof(struct sharing_reading, section.line), .exact = true,    \
                .printed = section_printed                                                                             \
        }
static const struct schema_object mps_object = SECTION(ARRAY_SIZE(section_keys));
static const struct schema_object slicing_object = SECTION(ARRAY_SIZE(section_keys) - N_MPS_KEYS);

static const struct schema_key sharing_keys[] = {
        OBJECT("timeSlicing", config, sharing.time_slicing, &slicing_object, "units whose containers take turns"),
        OBJECT("mps", config, sharing.mps, &mps_object,
                "units whose containers run at the same time, by NVIDIA's Multi-Process Service", .is_quiet = true),
};
static const struct schema_object sharing_object = {KEYS(sharing_keys)};

/* ---- resources ---- */

static const struct schema_key pattern_keys[] = {
        TEXT("pattern", resource_pattern, pattern,
                "product name of the GPU, or profile of the MIG device; * stands for any characters",
                .needed = ", for example '*' or 'NVIDIA A100*'"),
        NAME("name", resource_pattern, name, "resource name of what matches; nvidia.com/ may be left out",
                .needed = ", for example nvidia.com/gpu"),
};
static const struct schema_object pattern_object = {KEYS(pattern_keys), .size = sizeof(struct resource_pattern),
        .line = offsetof(struct resource_pattern, line), .exact = true};

static const struct schema_key resources_keys[] = {
        LIST("gpus", config, patterns.gpu, patterns.n_gpu, &pattern_object,
                "names for GPUs by product; the first that matches counts"),
        LIST("mig", config, patterns.mig, patterns.n_mig, &pattern_object,
                "names for MIG devices by profile; the first that matches counts", .is_quiet = true),
};
static const struct schema_object resources_object = {KEYS(resources_keys)};

/* ---- flags ---- */

static const struct schema_key gfd_keys[] = {
        MAYBE("oneshot", BOOL, discovery_flags.oneshot, bool, "label once and end"),
        MAYBE("noTimestamp", BOOL, discovery_flags.no_timestamp, bool, "leave the label with the time out"),
        MAYBE("sleepInterval", DURATION, discovery_flags.sleep_ns, int64_t,
                "time between two checks: 60s, 1m30s, infinite"),
        TEXT("outputFile", config, discovery_flags.output_file, "file for the labels"),
        TEXT("machineTypeFile", config, discovery_flags.machine_type_file, "file with the type of the machine"),
};
static const struct schema_object gfd_object = {KEYS(gfd_keys)};
static const struct schema_object plugin_object = {.options = "flags.plugin."};

static const struct schema_key flags_keys[] = {
        GROUP("plugin", 0, &plugin_object, "flags of the device plugin"),
        GROUP("gfd", 0, &gfd_object, "flags of GPU feature discovery; the agent heeds noTimestamp and machineTypeFile"),
        MAYBE("useNodeFeatureAPI", BOOL, discovery_flags.use_node_feature_api, bool,
                "flag of GPU feature discovery; the agent only checks it"),
};
/* The order of NVIDIA's plugin, with ours beside what it belongs to. */
static const char *const flags_printed[] = {"migStrategy", "failOnInitError", "mpsRoot", "mpsPipesWritable",
        "nvidiaDriverRoot", "nvidiaDevRoot", "gdrcopyEnabled", "gdsEnabled", "mofedEnabled", "useNodeFeatureAPI",
        "deviceDiscoveryStrategy", "plugin", NULL};
static const struct schema_object flags_object = {.options = "flags.", KEYS(flags_keys), .printed = flags_printed};
static const struct schema_object mig_object = {.options = "mig."};
static const struct schema_object imex_object = {.options = "imex."};

/* ---- dra ---- */

static const struct schema_key dra_defaults_keys[] = {
        MEMORY("memory", config_dra, default_memory_mib,
                "memory: auto (the default: an eighth of what the unit has for shares), MiB, or 512Mi, 1Gi",
                .zero = ", or auto"),
        UINT("threadPercentage", config_dra, default_thread_percentage, 1, 100, "percent of the threads (default: 10)"),
        UINT("clients", config_dra, default_clients, 1, CONFIG_MAX_SHARES,
                "processes that compute at the same time (default: 1)"),
};
static const struct schema_object dra_defaults_object = {KEYS(dra_defaults_keys)};

#define MOST_MILLI 64000U

static const struct schema_key dra_overhead_keys[] = {
        MEMORY("memoryPerPod", dra_overhead, pod_mib,
                "memory of the node for each pod: auto (none), MiB, or 300Mi, 1Gi", .is_quiet = true),
        MEMORY("memoryPerContainer", dra_overhead, container_mib,
                "memory of the node for each container with the claim: auto (none), MiB, or 300Mi, 1Gi",
                .is_quiet = true),
        UINT("milliCpuPerPod", dra_overhead, pod_milli, 0, MOST_MILLI,
                "thousandths of a CPU for each pod (default: none)", .is_quiet = true),
        UINT("milliCpuPerContainer", dra_overhead, container_milli, 0, MOST_MILLI,
                "thousandths of a CPU for each container with the claim (default: none)", .is_quiet = true),
};
static const struct schema_object dra_overhead_object = {KEYS(dra_overhead_keys)};

static const struct schema_key dra_host_keys[] = {
        GROUP("gpu", offsetof(struct config_dra, gpu_overhead), &dra_overhead_object,
                "of a whole GPU, or one whose claims take turns"),
        GROUP("mig", offsetof(struct config_dra, mig_overhead), &dra_overhead_object,
                "of a MIG device, or one whose claims take turns"),
        GROUP("shared", offsetof(struct config_dra, shared_overhead), &dra_overhead_object, "of a share by MPS"),
};
static const struct schema_object dra_host_object = {KEYS(dra_host_keys)};

static const struct schema_key dra_keys[] = {
        DEVICES("devices", config_dra, devices,
                "the GPUs that belong to DRA, with their MIG devices: all (the default), or a list of indices and "
                "UUIDs; the others stay with the device plugin"),
        BOOL("whole", config_dra, whole, "offer whole GPUs and MIG devices, for one claim each (default: true)"),
        BOOL("mps", config_dra, mps,
                "offer shares of GPUs and MIG devices by MPS, of memory and threads as claims request them (default: "
                "true)"),
        BOOL("timeSlicing", config_dra, time_slicing,
                "offer GPUs and MIG devices whose claims take turns (default: false)"),
        UINT("slots", config_dra, slots, 1, CONFIG_MAX_REPLICAS, "how many claims take turns on one unit (default: 4)"),
        GROUP("defaults", 0, &dra_defaults_object,
                "what a claim on a unit shared by MPS gets of what it does not request"),
        MEMORY("memory", config_dra, memory_mib,
                "memory of each GPU whose memory NVML does not report, such as a GB10: auto (the default: unknown, so it "
                "is not offered by MPS), MiB, or 64Gi",
                .is_quiet = true),
        MEMORY("memoryReserve", config_dra, memory_reserve_mib,
                "memory of each unit that no share gets, for driver and MPS server: auto (the default), MiB, or "
                "512Mi, 1Gi",
                .has = offsetof(struct config_dra, has_memory_reserve)),
        GROUP("hostOverhead", 0, &dra_host_object,
                "memory and CPU of the node that pods with such devices need beside what they request; Kubernetes 1.37 "
                "with the feature gate DRANodeAllocatableResources counts it"),
        CHOICE("daemonScope", config_dra, daemon_scope, dra_daemon_scope_words,
                "the MPS control daemons: one for each shared GPU (gpu, the default), or one for all of them (resource), "
                "so that a claim may have shares of several GPUs. MIG devices have one each"),
        CHOICE("fallback", config_dra, fallback, dra_fallback_words,
                "what is offered where the API server lacks a feature that the above need: whole units (whole, the "
                "default), or equal shares of each by MPS (shares)"),
        CHOICE("oneForm", config_dra, one_form, dra_one_form_words,
                "the only form of each unit that is offered where the scheduler is older than Kubernetes 1.36.2, which "
                "forgets shares and gives the whole unit out beside them: shared (the default) or whole"),
        UINT("shares", config_dra, shares, 1, CONFIG_MAX_SHARES,
                "how many equal shares of a unit, with fallback shares (default: 4)"),
        CHOICE("unenforced", config_dra, unenforced, dra_unenforced_words,
                "a share whose limits GPU and driver cannot enforce: its pod does not start (refuse, the default), or "
                "it starts and the claim has a condition (condition)"),
        CHOICE("unhealthy", config_dra, unhealthy, dra_unhealthy_words,
                "effect of the taint of devices that are unhealthy: no new pod gets one (NoSchedule, the default), or "
                "pods that have one are evicted, too (NoExecute)"),
};
static const char *const dra_printed[] = {"enabled", "driverName", "devices", "whole", "mps", "timeSlicing",
        "dynamicMig", "slots", "defaults", "memory", "memoryReserve", "hostOverhead", "daemonScope", "fallback",
        "oneForm", "shares", "unenforced", "unhealthy", NULL};
static const struct schema_object dra_object = {.options = "dra.", KEYS(dra_keys), .printed = dra_printed};

/* ---- the rest ---- */

static const struct schema_key health_keys[] = {
        ROW("xids", XIDS, offsetof(struct config, health.xid_rules), sizeof(void *),
                "what an Xid means for its GPU, by number: ignore or unhealthy",
                .count = offsetof(struct config, health.n_xid_rules)),
        BOOL("recover", config, health.recover,
                "whether a GPU is used again once it is healthy (default: true); false: only after a restart"),
        INTO("pendingRowRemap", CHOICE, config, health.counts_remaps, bool,
                "what a memory row that waits to be remapped means for its GPU: ignore (default) or unhealthy",
                .choices = xid_action_words),
};
static const struct schema_object health_object = {KEYS(health_keys)};

static const struct schema_key root_keys[] = {
        ROW("version", VERSION, 0, 0, "version of this schema: v1", .choices = versions),
        GROUP("flags", 0, &flags_object, "what flags and environment also set; they take precedence"),
        GROUP("resources", 0, &resources_object, "names of resources"),
        GROUP("sharing", 0, &sharing_object, "which units are shared, and how"),
        GROUP("imex", 0, &imex_object, "channels of the IMEX service"),
        GROUP("health", 0, &health_object, "which errors make a GPU unhealthy, and whether it recovers"),
        GROUP("dra", offsetof(struct config, dra), &dra_object,
                "what is offered by Dynamic Resource Allocation; enabled and driverName count at the start only"),
        GROUP("mig", 0, &mig_object, "the MIG geometry by the node's label; counts at the start only"),
};
const struct schema_object schema_file = {KEYS(root_keys)};
