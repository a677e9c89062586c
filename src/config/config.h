// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration of the agent: command line, environment, file and defaults, merged by one rule.
 *
 * Precedence: command line, environment, file, default. Command line and environment are frozen at start; the file is
 * read again on every reload. The schema is that of NVIDIA's k8s-device-plugin, version v1, and a superset of it. One
 * table of options (config/option.h) carries the flag, its aliases, environment names, YAML key, type, default and
 * help.
 *
 * Everything a config points to lives in the arena it was built in. A config is immutable once built.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"

#define CONFIG_FILE_LIMIT ((size_t)1024 * 1024) /* bytes of a file */
#define CONFIG_MAX_REPLICAS 50000U      /* of a unit; under MPS, GPU and driver set a lower bound: plan/plan.h */
#define CONFIG_MAX_RESOURCES 64U        /* entries of a sharing section; patterns for GPUs, and for MIG devices */
#define CONFIG_MAX_DEVICES 512U         /* that an entry lists or counts; above the largest index */
#define CONFIG_MAX_SMS 4096U            /* of a replica, beyond any GPU */
#define CONFIG_MAX_RESERVE_MIB 1048576U /* of memory, beyond any GPU */
#define CONFIG_MAX_XIDS ((size_t)256)   /* rules */
#define CONFIG_MAX_XID 1023U            /* gpu/health.h has room for no larger one */
#define CONFIG_MAX_SHARES 60U           /* static ones of a unit by DRA, and clients of a claim: no driver has more */
#define CONFIG_MAX_DRIVER ((size_t)63)  /* characters of the name of a DRA driver: the limit of the API server */

#define CONFIG_KUBELET_ROOT "/var/lib/kubelet" /* the default of kubelet's --root-dir */
/*
 * kubelet's folder of device plugins and of its record of their devices, independent of its --root-dir (Kubernetes
 * documentation, "Device Plugins" and "Local Files And Paths Used By The Kubelet").
 */
#define CONFIG_DEVICE_PLUGINS "/var/lib/kubelet/device-plugins"
#define CONFIG_MPS_DIRECTORY "/mps" /* where the MPS root is mounted in containers */

enum sharing_strategy { SHARING_NONE, SHARING_TIME_SLICING, SHARING_MPS };

/*
 * How many threads and how much memory a share of k of N replicas has: plan/share.h; declared: plan/declared.h. The
 * numbers are in records on disk: new ones go to the end.
 */
enum provisioning {
        PROVISIONING_UNIFORM,
        PROVISIONING_HALF,
        PROVISIONING_WEIGHTED,
        PROVISIONING_SM,
        PROVISIONING_DECLARED
};
#define PROVISIONING_LAST PROVISIONING_DECLARED

/* The replicas that are preferred for a container: plan/prefer.h. */
enum placement {
        PLACEMENT_DISTRIBUTED,
        PLACEMENT_PACKED,
        PLACEMENT_DISTINCT,
        PLACEMENT_SAME_GPU,
        PLACEMENT_PREFER_SAME_GPU
};

/*
 * Whether units of one kind are one resource, or one each: "nvidia.com/gpu" or "nvidia.com/gpu0", "nvidia.com/gpu1", …
 */
enum sharing_scope { SCOPE_AGGREGATE, SCOPE_INDIVIDUAL };

/*
 * The GPUs that one MPS control daemon serves: a unit; all units of a resource, as NVIDIA's components have it; or all
 * GPUs of the node, so that a container may hold shares of several resources. The numbers are in records on disk: new
 * ones go to the end.
 */
enum daemon_scope { DAEMON_SCOPE_GPU, DAEMON_SCOPE_RESOURCE, DAEMON_SCOPE_NODE };

/* The action on an MPS client that uses more than its allocation: node/ledger/limit_monitor.h. */
enum guard_mode { GUARD_OFF, GUARD_REPORT, GUARD_TERMINATE };

/*
 * How a share is enforced, weakest first.
 *
 *   default    the control daemon's own limits, the same for every client: no client can raise them
 *   verified   variables of the container below those; a tenant can drop them, so the limit monitor compares
 *   partition  static SM partitions (driver r590): whole SM chunks of one client alone
 *   namespace  an MPS namespace a container (driver r615)
 */
enum mps_tier { MPS_TIER_DEFAULT, MPS_TIER_VERIFIED, MPS_TIER_PARTITION, MPS_TIER_NAMESPACE };

enum mig_strategy { MIG_STRATEGY_NONE, MIG_STRATEGY_SINGLE, MIG_STRATEGY_MIXED };
enum discovery_strategy { DISCOVERY_AUTO, DISCOVERY_NVML, DISCOVERY_TEGRA };
/*
 * Whether replicas are kept unadvertised so that every request that the scheduler admits finds one unit with room: as
 * many as that takes; or none, so that all are advertised and a request may be refused. AUTO: STRICT where several
 * replicas mean a larger share, NONE with provisioning uniform.
 */
enum reserve { RESERVE_AUTO, RESERVE_STRICT, RESERVE_NONE };

/* Where the labels of the node go: node/status/labels_publisher.h. */
enum labels_output { LABELS_NONE, LABELS_FILE, LABELS_NODE_FEATURE, LABELS_NODE };

/* The readers of metrics that need a token. */
enum metrics_asked { METRICS_ASK_NOBODY, METRICS_ASK_REMOTE, METRICS_ASK_ALL };

/* The readers of the page of the node where no token is needed: local clients, or all. */
enum node_page_reader { NODE_PAGE_LOCAL, NODE_PAGE_OPEN };

/* On which objects Kubernetes events are created: none; the node; the node and the pods concerned. */
enum events_about { EVENTS_NONE, EVENTS_NODE, EVENTS_PODS };

/*
 * The form of a unit that DRA offers where the API server lacks a feature: the unit as a whole, or equal static shares
 * of it (node/dra/layout.h).
 */
enum dra_fallback { DRA_FALLBACK_WHOLE, DRA_FALLBACK_SHARES };

/*
 * The form of a unit that DRA offers where the scheduler would give out several forms of it at the same time: shares by
 * MPS (or by time-slicing where only that is offered), or the unit as a whole (node/dra/layout.h).
 */
enum dra_one_form { DRA_ONE_FORM_SHARED, DRA_ONE_FORM_WHOLE };

/*
 * A share by DRA whose limits GPU and driver cannot enforce: its claim is not prepared, or it is and says so in a
 * condition.
 */
enum dra_unenforced { DRA_UNENFORCED_REFUSE, DRA_UNENFORCED_CONDITION };

/* The effect of the taint of an unhealthy DRA device: no new pod gets it, or pods that have it are evicted as well. */
enum dra_unhealthy { DRA_UNHEALTHY_NO_SCHEDULE, DRA_UNHEALTHY_NO_EXECUTE };

enum id_strategy { ID_STRATEGY_UUID, ID_STRATEGY_INDEX };

/* How the devices of a container reach the container runtime: a set of bits; 0 is legal and adds none of them. */
enum {
        DEVICE_LIST_ENVVAR = 1U << 0,
        DEVICE_LIST_VOLUME_MOUNTS = 1U << 1,
        DEVICE_LIST_CDI_ANNOTATIONS = 1U << 2,
        DEVICE_LIST_CDI_CRI = 1U << 3,
};
#define DEVICE_LIST_CDI (DEVICE_LIST_CDI_ANNOTATIONS | DEVICE_LIST_CDI_CRI)

/* Devices that a container may get beside GPUs: a set of bits. */
enum {
        EXTRA_GDRCOPY = 1U << 0,
        EXTRA_GDS = 1U << 1,
        EXTRA_MOFED = 1U << 2,
};

/* One item of "devices": a GPU by index ("0"), a MIG device by indices ("0:1"), or either by UUID. */
struct device_ref {
        const char *uuid; /* NULL: by index */
        unsigned int gpu;
        int mig; /* -1: the whole GPU */
        int line;
};

/*
 * The units of a resource that an entry means: all of them, the first |count| that no other entry names, or those
 * listed.
 */
struct device_selector {
        enum { SELECT_ALL, SELECT_COUNT, SELECT_LIST } kind;
        unsigned int count;
        const struct device_ref *refs;
        size_t n_refs;
};

struct shared_resource {
        const struct sharing_section *section;
        const char *path;   /* "sharing.mps.resources[0]", for errors */
        const char *name;   /* "nvidia.com/gpu" */
        const char *rename; /* the name advertised, or NULL to keep |name|; "<name>.shared" under renameByDefault */
        bool is_suffixed;   /* |rename| is "<name>.shared" */
        unsigned int replicas;
        unsigned int sms;    /* provisioning sm: SMs of one replica; 0: the unit's chunks of SMs by the replicas */
        uint64_t memory_mib; /* of each GPU whose memory NVML does not report; 0: unknown, so no share has a limit */
        bool has_placement;  /* else that of the config counts */
        enum placement placement;
        struct device_selector devices;
        int line; /* of |replicas| in the file, 1-based; 0 unknown */
};

struct sharing_section {
        enum sharing_strategy strategy;
        bool rename_by_default;
        bool fail_requests_greater_than_one; /* default: only under MPS with uniform shares */
        bool shows_fail_requests; /* printed: it is in the file, or this is mps, where NVIDIA's plugin prints it */
        enum sharing_scope scope;
        enum provisioning provisioning; /* mps, and all that follows */
        enum daemon_scope daemon_scope;
        enum guard_mode guard;
        enum mps_tier tier_limit;     /* no better tier than this one is used; default: namespace, so any */
        bool has_memory_reserve;      /* else a figure by the unit and its clients: plan/share.h */
        uint64_t memory_reserve_mib;  /* of each unit, for driver and MPS server */
        unsigned int max_threads;     /* provisioning declared, like the next two members: percent; 0: no ceiling */
        uint64_t max_memory_mib;      /* of each unit; 0: no ceiling */
        bool refuses_overcommit;      /* a container whose declared memory a unit has no room for does not start */
        unsigned int max_per_request; /* both strategies; 0: not set, plan/plan.h has the default */
        enum reserve reserve;
        const struct shared_resource *resources;
        size_t n_resources;
        int line;
};

/*
 * Both sections may be there as long as they share different units. An entry of timeSlicing whose name an entry of mps
 * has too, one of them without a selector, is dropped with a warning, since NVIDIA's plugin lets MPS win.
 */
struct sharing {
        const struct sharing_section *time_slicing; /* NULL: not there */
        const struct sharing_section *mps;          /* NULL: not there */
};

/* "resources.gpus" and "resources.mig": product name or MIG profile → resource name; the first match counts. */
struct resource_pattern {
        /* '*' stands for any run of characters, everything else for itself; anchored at both ends */
        const char *pattern;
        const char *name;
        int line;
};

/* "flags.gfd" and "flags.useNodeFeatureAPI": what the file says to GPU feature discovery; NULL: nothing. */
struct config_discovery {
        const bool *use_node_feature_api;
        const bool *oneshot;
        const bool *no_timestamp;
        const int64_t *sleep_ns; /* INT64_MAX: infinite */
        const char *output_file;
        const char *machine_type_file;
};

/* "mig", ours: the MIG geometry by the node's label. It holds from the start. */
struct config_mig {
        bool manager;
        const char *file;     /* "": generated */
        const char *fallback; /* configuration of a node without the label; "": none */
        const char *state_directory;
        const char *program; /* "": this one */
};

/*
 * "dra", ours: what the node offers by Dynamic Resource Allocation (node/dra/layout.h says what the devices are). The
 * driver's name, the folders, the instance and whether DRA is there at all hold from the start; the rest may change on
 * reload.
 */
/* The node's own memory and CPU that a device costs, for each pod that has it and for each container; 0: not said. */
struct dra_overhead {
        uint64_t pod_mib;
        uint64_t container_mib;
        unsigned int pod_milli; /* thousandths of a CPU */
        unsigned int container_milli;
};

struct config_dra {
        bool enabled;
        const char *driver_name;        /* a DNS subdomain in lower case, at most CONFIG_MAX_DRIVER characters */
        struct device_selector devices; /* the GPUs that belong to DRA: all, or a list without MIG devices */
        bool whole;                     /* one of the three is true */
        bool mps;
        bool time_slicing;
        bool dynamic_mig;               /* MIG devices are made for claims, on GPUs in MIG mode */
        enum daemon_scope daemon_scope; /* of shared GPUs: GPU, or RESOURCE for one daemon of all of them */
        unsigned int slots;             /* by time-slicing */
        uint64_t default_memory_mib;    /* of a claim on a shared unit that requests none; 0: a part of the unit's */
        unsigned int default_thread_percentage;
        unsigned int default_clients;
        uint64_t memory_mib;     /* as of a shared resource */
        bool has_memory_reserve; /* as of a sharing section */
        uint64_t memory_reserve_mib;
        struct dra_overhead gpu_overhead;    /* of a whole GPU, or one whose claims take turns */
        struct dra_overhead mig_overhead;    /* the same of a MIG device */
        struct dra_overhead shared_overhead; /* of a share by MPS */
        enum dra_fallback fallback;
        enum dra_one_form one_form;
        unsigned int shares; /* with DRA_FALLBACK_SHARES */
        enum dra_unenforced unenforced;
        enum dra_unhealthy unhealthy;
        const char *registry; /* kubelet's folders: "<kubelet-root>/plugins_registry" */
        const char *plugins;  /* "<kubelet-root>/plugins" */
        const char *instance; /* UID of this pod; NULL: none */
};

/* "health.xids": what an Xid means for the GPU, against the table in gpu/health.h. */
struct xid_rule {
        unsigned int xid;
        bool unhealthy;
        int line;
};

/* The driver: where it is installed, and what is read of it. */
struct config_driver {
        const char *root;         /* on the host */
        const char *dev_root;     /* on the host; the driver root where it is not set */
        const char *mounted_root; /* where the driver root is mounted here */
        const char *nvml_library; /* "" : found by the driver root */
};

struct config_mps {
        const char *root;      /* on the host, "" unset */
        const char *directory; /* where the MPS root is mounted here: "/mps" */
        bool pipes_writable;   /* for tenants, who by default may connect and no more */
        const char *control;   /* the program nvidia-cuda-mps-control: a name that is looked up, or a path */
};

/* How the devices of a container reach it, and which it gets beside GPUs. */
struct config_devices {
        unsigned int lists;     /* DEVICE_LIST_* */
        bool lists_are_default; /* none was named, nor was a program of NVIDIA's name started */
        bool metadata;          /* containers with a share get device metadata (node/cdi/metadata.h) */
        enum id_strategy id_strategy;
        unsigned int extras; /* EXTRA_*: enabled */
        bool pass_specs;
        bool has_imex_channel; /* channel 0 is to be given to every container; no other is legal */
        bool imex_required;    /* an error when its device node is missing, instead of a warning */
};

struct config_cdi {
        const char *annotation_prefix;
        const char *hook_path;            /* on the host */
        const char *const *feature_flags; /* NULL-terminated; unknown ones mean nothing */
        const char *const *disable_hooks; /* NULL-terminated; "all" */
        const char *root;                 /* where the specifications go: "/var/run/cdi" */
};

/* "resources", for GPUs and for MIG devices. */
struct config_patterns {
        const struct resource_pattern *gpu;
        size_t n_gpu;
        const struct resource_pattern *mig;
        size_t n_mig;
};

/* "health", ours. */
struct config_health {
        const struct xid_rule *xid_rules;
        size_t n_xid_rules;
        bool counts_remaps; /* health.pendingRowRemap is "unhealthy" */
        /* a unit that probes find well returns; false: it stays away until a restart, as in NVIDIA's plugin */
        bool recover;
};

struct config_metrics {
        const char *address;        /* net/metrics/http.h; "": no metrics */
        bool dcgm;                  /* metrics of GPUs under dcgm-exporter's names, too */
        unsigned int usage_seconds; /* between readings of who uses what; 0: none */
        bool tls;
        const char *tls_certificate; /* "", both: one is made */
        const char *tls_key;
        enum metrics_asked authorization; /* whom the API server has to let read metrics */
        enum node_page_reader node_page;
        const char *const *pod_labels;      /* keys, NULL-terminated: labels of pods that metrics repeat */
        const char *const *pod_label_names; /* there, in the same order */
};

struct config_kubelet {
        const char *socket;        /* "" : never register */
        const char *pod_resources; /* its socket that lists which container holds what */
        const char *pods;          /* its socket that has their objects, from 1.37 on; "": it is not asked */
};

/* The node and its pod of the agent as objects of the cluster, and what is written about the node. */
struct config_node {
        const char *name;        /* "": unknown */
        const char *pod_name;    /* "": unknown */
        const char *kubeconfig;  /* "": the pod's service account */
        const char *condition;   /* its type; "": none */
        const char *taint;       /* config/kube_name.h; "": none */
        bool config_annotations; /* the node says which configuration is in force: node/config/outcome.h */
        enum events_about events;
        enum labels_output labels_output;
        const char *labels_file;
};

struct config_log {
        const char *level;  /* debug | info | warn | error */
        const char *format; /* text | json | klog */
};

struct config {
        const char
                *path; /* of the file, "" without one; or the name of a text, with the key in a ConfigMap or values */
        bool fail_on_init_error;
        enum mig_strategy mig_strategy;
        enum discovery_strategy discovery;
        struct config_driver driver;
        struct config_mps mps;
        struct config_devices devices;
        struct config_cdi cdi;
        enum placement placement; /* the default of shared resources */
        struct sharing sharing;
        struct config_patterns patterns;
        struct config_health health;
        struct config_metrics metrics;
        struct config_discovery discovery_flags;
        struct config_dra dra;
        struct config_mig mig;
        struct config_kubelet kubelet;
        struct config_node node;
        const char *system_root; /* "": /dev, /proc, /sys and the mpsRoot of doctor are below it */
        struct config_log log;
};

/* Receives warnings: what was ignored or replaced, with its place. Each text is one sentence without a full stop. */
typedef void config_warn_fn(const char *text, void *data);

struct option_set; /* config/option.h: what command line and environment said */

/*
 * Builds the config from |options| and the file they name (read now). Errors name the file, the line, the path of the
 * key, the value and the bound.
 */
int config_build(const struct option_set *options, struct arena *arena, const struct config **ret, config_warn_fn *warn,
        void *warn_data, struct error *err) MUST_USE;

/* A file that was read already, or was never one: a key of a ConfigMap. At most CONFIG_FILE_LIMIT bytes are taken. */
struct config_text {
        const char *name; /* what errors call it: config '<name>' */
        const char *text;
        size_t size;
};

/* Like config_build(), but with |text| instead of the file that the options name, unless it is NULL. */
int config_build_text(const struct option_set *options, const struct config_text *text, struct arena *arena,
        const struct config **ret, config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/* The effective configuration as indented JSON in NVIDIA's shape plus our keys; the caller frees. */
char *config_print(const struct config *config);

/*
 * The JSON Schema of the file, draft 7, for editors: completion, help texts, and marks at what is wrong; the caller
 * frees.
 */
char *config_schema(void);

/* The reference as the file has it: "0", "0:1", "GPU-…". */
const char *device_ref_text(struct arena *arena, const struct device_ref *ref);

/* Whether a GPU is among those that |dra| selects, enabled or not. */
bool config_dra_selects(const struct config_dra *dra, unsigned int index, const char *uuid);

const char *sharing_strategy_name(enum sharing_strategy strategy); /* "none", "time-slicing", "mps" */
const char *provisioning_name(enum provisioning provisioning);     /* "uniform", "half", "weighted", "sm", "declared" */
const char *placement_name(enum placement placement); /* "distributed", "packed", "distinct", "same-gpu", … */

/*
 * CDI is used beside the default lists: none was named, and a resource is of one unit, so that a
 * container asks for two resources to get two GPUs.
 */
bool config_adds_cdi(const struct config *config);

const char *daemon_scope_name(enum daemon_scope scope); /* "gpu", "resource", "node" */
const char *mps_tier_name(enum mps_tier tier);          /* "default", "verified", "partition", "namespace" */
/*
 * The tier as containers, labels, metrics and people read it, in one word that is valid as a label's value: its name,
 * or "verified-no-memory-limit" and the like where memory has no limit because its size is unknown. A configuration and
 * records have the name.
 */
const char *mps_tier_promise(enum mps_tier tier, bool limits_memory);
const char *mig_strategy_name(enum mig_strategy strategy); /* "none", "single", "mixed" */
