/*
 * The keys of the configuration file: those of version v1 of NVIDIA's k8s-device-plugin (api/config/v1), and ours. Keys
 * that have a flag are not here but in option_table.c.
 */
#include "config/config_file.h"
#include "config/word.h"

#define MEMBER(type, member) .offset = offsetof(struct type, member)
#define OBJECT(the_keys, type) .keys = (the_keys), .n_keys = ARRAY_SIZE(the_keys), .size = sizeof(struct type)

static const char *const versions[] = {"v1", "", NULL};

/* ---- sharing ---- */

static const struct schema_key shared_keys[] = {
        {.name = "name",
                .type = SCHEMA_NAME,
                MEMBER(file_resource, name),
                .needed = ", for example nvidia.com/gpu",
                .help = "resource to share; nvidia.com/ may be left out"},
        {.name = "rename",
                .type = SCHEMA_NAME,
                MEMBER(file_resource, rename),
                .help = "name to advertise instead; takes precedence over renameByDefault"},
        {.name = "devices",
                .type = SCHEMA_DEVICES,
                MEMBER(file_resource, devices),
                .help = "which units of the resource: all (the default), how many, or a list of indices (0, \"0:1\" for a "
                        "MIG device) and UUIDs"},
        {.name = "replicas",
                .type = SCHEMA_UINT,
                MEMBER(file_resource, replicas),
                .least = 1,
                .most = CONFIG_MAX_REPLICAS,
                .needed = ": into how many parts to share each GPU",
                .help = "into how many parts to share each unit"},
        {.name = "placement",
                .type = SCHEMA_CHOICE,
                MEMBER(file_resource, placement),
                .choices = placement_words,
                .help = "which replicas are preferred, instead of the section's placement"},
        {.name = "sms",
                .type = SCHEMA_UINT,
                MEMBER(file_resource, sms),
                .least = 1,
                .most = CONFIG_MAX_SMS,
                .help = "only for provisioning sm: SMs of one replica, a multiple of the GPU's chunk (8 from Hopper on, 4 "
                        "before); default: as many chunks as there are for each"},
        {.name = "memory",
                .type = SCHEMA_MEMORY,
                MEMBER(file_resource, memory),
                .most = CONFIG_MAX_RESERVE_MIB,
                .help = "only for mps: memory of each GPU whose memory NVML does not report, such as a GB10: auto (the "
                        "default: unknown, so there is no limit), MiB, or 64Gi"},
};
static const struct schema_object shared_object = {OBJECT(shared_keys, file_resource)};

/* The keys from |provisioning| on are only for mps. */
#define N_MPS_KEYS 8
static const struct schema_key section_keys[] = {
        {.name = "renameByDefault",
                .type = SCHEMA_BOOL,
                MEMBER(file_section, rename_by_default),
                .help = "advertise <name>.shared instead of <name>"},
        {.name = "failRequestsGreaterThanOne",
                .type = SCHEMA_BOOL,
                MEMBER(file_section, fail_requests_greater_than_one),
                .help = "refuse containers that ask for more than one replica (default: true for mps with provisioning "
                        "uniform, else false)"},
        {.name = "resources",
                .type = SCHEMA_LIST,
                MEMBER(file_section, resources),
                .object = &shared_object,
                .least = 1,
                .most = CONFIG_MAX_RESOURCES,
                .needed =
                        "; list what to share, for example {name: nvidia.com/gpu, replicas: 4}, or remove the section",
                .help = "what is shared"},
        {.name = "placement",
                .type = SCHEMA_CHOICE,
                MEMBER(file_section, placement),
                .choices = placement_words,
                .help = "which replicas are preferred: of the emptiest unit (distributed), of the fullest (packed), each of "
                        "another unit (distinct), all of one unit (same-gpu), or of one unit if it can be "
                        "(prefer-same-gpu); default: "
                        "flags.plugin.sharedDevicesAllocationPolicy, or same-gpu where a container cannot have several GPUs"},
        {.name = "scope",
                .type = SCHEMA_CHOICE,
                MEMBER(file_section, scope),
                .choices = sharing_scope_words,
                .help = "one resource for all units (aggregate, the default), or one for each: nvidia.com/gpu0, "
                        "nvidia.com/gpu1 (individual)"},
        {.name = "maxPerRequest",
                .type = SCHEMA_UINT,
                MEMBER(file_section, max_per_request),
                .least = 1,
                .most = CONFIG_MAX_REPLICAS,
                .help = "only with placement same-gpu: the most replicas that a container may ask for (default: half of a "
                        "unit where replicas are reserved, else all); the fewer, the fewer are reserved"},
        {.name = "reserve",
                .type = SCHEMA_CHOICE,
                MEMBER(file_section, reserve),
                .choices = reserve_words,
                .help = "with placement same-gpu: strict advertises only so many replicas that every request finds one unit "
                        "with room; none advertises all, and a request may be refused; auto (the default): strict, but none "
                        "with provisioning uniform"},
        {.name = "provisioning",
                .type = SCHEMA_CHOICE,
                MEMBER(file_section, provisioning),
                .choices = provisioning_words,
                .help = "what k of N replicas are worth: one part whatever k is (uniform, the default), k parts with twice "
                        "the threads (half), k parts (weighted), k times so many SMs (sm), or k parts unless the container or "
                        "its pod's annotations say what they need (declared)"},
        {.name = "daemonScope",
                .type = SCHEMA_CHOICE,
                MEMBER(file_section, daemon_scope),
                .choices = daemon_scope_words,
                .help = "an MPS control daemon for each unit (gpu, the default); one for all units of a resource (resource, the "
                        "default under the names of NVIDIA's programs); or one for all GPUs of the node (node, the default "
                        "with scope individual), so that a container may hold shares of several resources"},
        {.name = "memoryReserve",
                .type = SCHEMA_MEMORY,
                MEMBER(file_section, memory_reserve),
                .most = CONFIG_MAX_RESERVE_MIB,
                .help = "memory of each unit that no share gets, for driver and MPS server: auto (the default), MiB, or "
                        "512Mi, 1Gi; not under provisioning uniform"},
        {.name = "maxThreads",
                .type = SCHEMA_UINT,
                MEMBER(file_section, max_threads),
                .least = 1,
                .most = 100,
                .help = "only for provisioning declared: percent of the threads that a container may declare (default: 100)"},
        {.name = "maxMemory",
                .type = SCHEMA_MEMORY,
                MEMBER(file_section, max_memory),
                .most = CONFIG_MAX_RESERVE_MIB,
                .help = "only for provisioning declared: memory of each unit that a container may declare: auto (the default: "
                        "all), MiB, or 512Mi, 1Gi"},
        {.name = "declaredOvercommit",
                .type = SCHEMA_BOOL,
                MEMBER(file_section, declared_overcommit),
                .help = "only for provisioning declared: whether containers may declare more memory than their unit has in all; "
                        "true (the default): that is reported; false: the container that comes last does not start"},
        {.name = "guard",
                .type = SCHEMA_CHOICE,
                MEMBER(file_section, guard),
                .choices = guard_mode_words,
                .help = "what the limit monitor does about a process that exceeds its allocation: nothing (off), "
                        "report it (report, the default), or terminate it (terminate)"},
        {.name = "tier",
                .type = SCHEMA_CHOICE,
                MEMBER(file_section, tier),
                .choices = tier_limit_words,
                .help = "the best way to enforce shares that may be used: default, verified, partition or namespace; auto "
                        "(the default): the best that GPU and driver have"},
};
static const struct schema_object mps_object = {OBJECT(section_keys, file_section), .exact = true};
static const struct schema_object slicing_object = {.keys = section_keys,
        .n_keys = ARRAY_SIZE(section_keys) - N_MPS_KEYS,
        .size = sizeof(struct file_section),
        .exact = true};

static const struct schema_key sharing_keys[] = {
        {.name = "timeSlicing",
                .type = SCHEMA_OBJECT,
                MEMBER(file_sharing, time_slicing),
                .object = &slicing_object,
                .help = "units whose containers take turns"},
        {.name = "mps",
                .type = SCHEMA_OBJECT,
                MEMBER(file_sharing, mps),
                .object = &mps_object,
                .help = "units whose containers run at the same time, by NVIDIA's Multi-Process Service"},
};
static const struct schema_object sharing_object = {OBJECT(sharing_keys, file_sharing)};

/* ---- resources ---- */

static const struct schema_key pattern_keys[] = {
        {.name = "pattern",
                .type = SCHEMA_TEXT,
                MEMBER(file_pattern, pattern),
                .needed = ", for example '*' or 'NVIDIA A100*'",
                .help = "product name of the GPU, or profile of the MIG device; * stands for any characters"},
        {.name = "name",
                .type = SCHEMA_NAME,
                MEMBER(file_pattern, name),
                .needed = ", for example nvidia.com/gpu",
                .help = "resource name of what matches; nvidia.com/ may be left out"},
};
static const struct schema_object pattern_object = {OBJECT(pattern_keys, file_pattern), .exact = true};

static const struct schema_key resources_keys[] = {
        {.name = "gpus",
                .type = SCHEMA_LIST,
                MEMBER(file_resources, gpus),
                .object = &pattern_object,
                .most = CONFIG_MAX_RESOURCES,
                .help = "names for GPUs by product; the first that matches counts"},
        {.name = "mig",
                .type = SCHEMA_LIST,
                MEMBER(file_resources, mig),
                .object = &pattern_object,
                .most = CONFIG_MAX_RESOURCES,
                .help = "names for MIG devices by profile; the first that matches counts"},
};
static const struct schema_object resources_object = {OBJECT(resources_keys, file_resources)};

/* ---- flags ---- */

static const struct schema_key gfd_keys[] = {
        {.name = "oneshot", .type = SCHEMA_BOOL, MEMBER(file_gfd, oneshot), .help = "label once and end"},
        {.name = "noTimestamp",
                .type = SCHEMA_BOOL,
                MEMBER(file_gfd, no_timestamp),
                .help = "leave the label with the time out"},
        {.name = "sleepInterval",
                .type = SCHEMA_DURATION,
                MEMBER(file_gfd, sleep_ns),
                .help = "time between two checks: 60s, 1m30s, infinite"},
        {.name = "outputFile", .type = SCHEMA_TEXT, MEMBER(file_gfd, output_file), .help = "file for the labels"},
        {.name = "machineTypeFile",
                .type = SCHEMA_TEXT,
                MEMBER(file_gfd, machine_type_file),
                .help = "file with the type of the machine"},
};
static const struct schema_object gfd_object = {OBJECT(gfd_keys, file_gfd)};
static const struct schema_object plugin_object = {.options = "flags.plugin.", .size = sizeof(struct file_options)};

static const struct schema_key flags_keys[] = {
        {.name = "plugin",
                .type = SCHEMA_OBJECT,
                MEMBER(file_flags, plugin),
                .object = &plugin_object,
                .help = "flags of the device plugin"},
        {.name = "gfd",
                .type = SCHEMA_OBJECT,
                MEMBER(file_flags, gfd),
                .object = &gfd_object,
                .help = "flags of GPU feature discovery; the agent heeds noTimestamp and machineTypeFile"},
        {.name = "useNodeFeatureAPI",
                .type = SCHEMA_BOOL,
                MEMBER(file_flags, use_node_feature_api),
                .help = "flag of GPU feature discovery; the agent only checks it"},
};
static const struct schema_object flags_object = {OBJECT(flags_keys, file_flags), .options = "flags."};
static const struct schema_object mig_object = {.options = "mig.", .size = sizeof(struct file_options)};
static const struct schema_object imex_object = {.options = "imex.", .size = sizeof(struct file_options)};

/* ---- dra ---- */

static const struct schema_key dra_defaults_keys[] = {
        {.name = "memory",
                .type = SCHEMA_MEMORY,
                MEMBER(file_dra_defaults, memory),
                .most = CONFIG_MAX_RESERVE_MIB,
                .help = "memory: auto (the default: an eighth of what the unit has for shares), MiB, or 512Mi, 1Gi"},
        {.name = "threadPercentage",
                .type = SCHEMA_UINT,
                MEMBER(file_dra_defaults, thread_percentage),
                .least = 1,
                .most = 100,
                .help = "percent of the threads (default: 10)"},
        {.name = "clients",
                .type = SCHEMA_UINT,
                MEMBER(file_dra_defaults, clients),
                .least = 1,
                .most = CONFIG_MAX_SHARES,
                .help = "processes that compute at the same time (default: 1)"},
};
static const struct schema_object dra_defaults_object = {OBJECT(dra_defaults_keys, file_dra_defaults)};

static const struct schema_key dra_keys[] = {
        {.name = "devices",
                .type = SCHEMA_DEVICES,
                MEMBER(file_dra, devices),
                .help = "the GPUs that belong to DRA, with their MIG devices: all (the default), or a list of indices and "
                        "UUIDs; the others stay with the device plugin"},
        {.name = "whole",
                .type = SCHEMA_BOOL,
                MEMBER(file_dra, whole),
                .help = "offer whole GPUs and MIG devices, for one claim each (default: true)"},
        {.name = "mps",
                .type = SCHEMA_BOOL,
                MEMBER(file_dra, mps),
                .help = "offer shares of GPUs and MIG devices by MPS, of memory and threads as claims request them (default: "
                        "true)"},
        {.name = "timeSlicing",
                .type = SCHEMA_BOOL,
                MEMBER(file_dra, time_slicing),
                .help = "offer GPUs and MIG devices whose claims take turns (default: false)"},
        {.name = "slots",
                .type = SCHEMA_UINT,
                MEMBER(file_dra, slots),
                .least = 1,
                .most = CONFIG_MAX_REPLICAS,
                .help = "how many claims take turns on one unit (default: 4)"},
        {.name = "defaults",
                .type = SCHEMA_OBJECT,
                MEMBER(file_dra, defaults),
                .object = &dra_defaults_object,
                .help = "what a claim on a unit shared by MPS gets of what it does not request"},
        {.name = "memory",
                .type = SCHEMA_MEMORY,
                MEMBER(file_dra, memory),
                .most = CONFIG_MAX_RESERVE_MIB,
                .help = "memory of each GPU whose memory NVML does not report, such as a GB10: auto (the default: unknown, so it "
                        "is not offered by MPS), MiB, or 64Gi"},
        {.name = "memoryReserve",
                .type = SCHEMA_MEMORY,
                MEMBER(file_dra, memory_reserve),
                .most = CONFIG_MAX_RESERVE_MIB,
                .help = "memory of each unit that no share gets, for driver and MPS server: auto (the default), MiB, or "
                        "512Mi, 1Gi"},
        {.name = "daemonScope",
                .type = SCHEMA_CHOICE,
                MEMBER(file_dra, daemon_scope),
                .choices = dra_daemon_scope_words,
                .help = "the MPS control daemons: one for each shared GPU (gpu, the default), or one for all of them (resource), "
                        "so that a claim may have shares of several GPUs. MIG devices have one each"},
        {.name = "fallback",
                .type = SCHEMA_CHOICE,
                MEMBER(file_dra, fallback),
                .choices = dra_fallback_words,
                .help = "what is offered where the API server lacks a feature that the above need: whole units (whole, the "
                        "default), or equal shares of each by MPS (shares)"},
        {.name = "oneForm",
                .type = SCHEMA_CHOICE,
                MEMBER(file_dra, one_form),
                .choices = dra_one_form_words,
                .help = "the only form of each unit that is offered where the scheduler is older than Kubernetes 1.36.2, which "
                        "forgets shares and gives the whole unit out beside them: shared (the default) or whole"},
        {.name = "shares",
                .type = SCHEMA_UINT,
                MEMBER(file_dra, shares),
                .least = 1,
                .most = CONFIG_MAX_SHARES,
                .help = "how many equal shares of a unit, with fallback shares (default: 4)"},
        {.name = "unenforced",
                .type = SCHEMA_CHOICE,
                MEMBER(file_dra, unenforced),
                .choices = dra_unenforced_words,
                .help = "a share whose limits GPU and driver cannot enforce: its pod does not start (refuse, the default), or "
                        "it starts and the claim has a condition (condition)"},
        {.name = "unhealthy",
                .type = SCHEMA_CHOICE,
                MEMBER(file_dra, unhealthy),
                .choices = dra_unhealthy_words,
                .help = "effect of the taint of devices that are unhealthy: no new pod gets one (NoSchedule, the default), or "
                        "pods that have one are evicted, too (NoExecute)"},
};
static const struct schema_object dra_object = {OBJECT(dra_keys, file_dra), .options = "dra."};

/* ---- the rest ---- */

static const char *const remap_words[] = {"ignore", "unhealthy", NULL};

static const struct schema_key health_keys[] = {
        {.name = "xids",
                .type = SCHEMA_XIDS,
                MEMBER(file_health, xids),
                .help = "what an Xid means for its GPU, by number: ignore or unhealthy"},
        {.name = "recover",
                .type = SCHEMA_BOOL,
                MEMBER(file_health, recover),
                .help = "whether a GPU is used again once it is healthy (default: true); false: only after a restart"},
        {.name = "pendingRowRemap",
                .type = SCHEMA_TEXT,
                MEMBER(file_health, pending_row_remap),
                .choices = remap_words,
                .help = "what a memory row that waits to be remapped means for its GPU: ignore (default) or unhealthy"},
};
static const struct schema_object health_object = {OBJECT(health_keys, file_health)};

static const struct schema_key root_keys[] = {
        {.name = "version",
                .type = SCHEMA_TEXT,
                MEMBER(file_root, version),
                .choices = versions,
                .help = "version of this schema: v1"},
        {.name = "flags",
                .type = SCHEMA_OBJECT,
                MEMBER(file_root, flags),
                .object = &flags_object,
                .help = "what flags and environment also set; they take precedence"},
        {.name = "resources",
                .type = SCHEMA_OBJECT,
                MEMBER(file_root, resources),
                .object = &resources_object,
                .help = "names of resources"},
        {.name = "sharing",
                .type = SCHEMA_OBJECT,
                MEMBER(file_root, sharing),
                .object = &sharing_object,
                .help = "which units are shared, and how"},
        {.name = "imex",
                .type = SCHEMA_OBJECT,
                MEMBER(file_root, imex),
                .object = &imex_object,
                .help = "channels of the IMEX service"},
        {.name = "health",
                .type = SCHEMA_OBJECT,
                MEMBER(file_root, health),
                .object = &health_object,
                .help = "which errors make a GPU unhealthy, and whether it recovers"},
        {.name = "dra",
                .type = SCHEMA_OBJECT,
                MEMBER(file_root, dra),
                .object = &dra_object,
                .help = "what is offered by Dynamic Resource Allocation; enabled and driverName count at the start only"},
        {.name = "mig",
                .type = SCHEMA_OBJECT,
                MEMBER(file_root, mig),
                .object = &mig_object,
                .help = "the MIG geometry by the node's label; counts at the start only"},
};
const struct schema_object schema_file = {OBJECT(root_keys, file_root)};
