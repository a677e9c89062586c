/*
 * The configuration of the agent: command line, environment, file and defaults, merged by one rule.
 *
 * Precedence: command line, environment, file, default. Command line and environment are frozen at start; the file is read
 * again on every reload. The schema is that of NVIDIA's k8s-device-plugin, version v1, and a superset of it. One
 * table of options (config/option.h) carries the flag, its aliases, environment names, YAML key, type, default and help.
 *
 * Everything a config points to lives in the arena it was built in. A config is immutable once built.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

/*
 * The largest file that is read; the largest number of replicas of a unit (time-slicing: for MPS, GPU and driver set a lower
 * bound, which the plan checks); and the largest number of entries of one sharing section.
 */
#define CONFIG_FILE_LIMIT ((size_t)1024 * 1024)
#define CONFIG_MAX_REPLICAS 1000U
#define CONFIG_MAX_RESOURCES ((size_t)64)

enum sharing_strategy { SHARING_NONE, SHARING_TIME_SLICING, SHARING_MPS };

/* How many threads and how much memory a share of k of N replicas has: share/share.h. */
enum provisioning { PROVISIONING_UNIFORM, PROVISIONING_HALF, PROVISIONING_WEIGHTED };

enum allocation_policy { POLICY_DISTRIBUTED, POLICY_PACKED };
enum id_strategy { ID_STRATEGY_UUID, ID_STRATEGY_INDEX };

struct shared_resource {
        const char *name;   /* "nvidia.com/gpu" */
        const char *rename; /* the name advertised, or NULL to keep |name|; "<name>.shared" under renameByDefault */
        unsigned int replicas;
        int line; /* of |replicas| in the file, 1-based; 0 unknown */
};

struct sharing {
        enum sharing_strategy strategy;
        bool fail_requests_greater_than_one; /* default: only under MPS with uniform shares */
        enum provisioning provisioning;      /* mps */
        const struct shared_resource *resources;
        size_t n_resources;
};

struct config {
        const char *path; /* of the file, "" without one */
        bool fail_on_init_error;
        const char *mig_strategy;    /* "none" */
        const char *driver_root;     /* on the host */
        const char *driver_root_ctr; /* where it is mounted here */
        const char *mps_root;        /* on the host, "" unset */
        enum id_strategy id_strategy;
        enum allocation_policy policy;
        const char *kubelet_socket; /* "" : never register */
        const char *nvml_library;   /* "" : found by the driver root */
        const char *log_level;      /* debug | info | warn | error */
        const char *log_format;     /* text | json */
        struct sharing sharing;
};

/* Receives warnings: what was ignored or replaced, with its place. Each text is one sentence without a full stop. */
typedef void config_warn_fn(const char *text, void *data);

struct option_set; /* config/option.h: what command line and environment said */

/*
 * Builds the config from |options| and the file they name (read now). Errors name the file, the line, the path of the key,
 * the value and the bound.
 */
int config_build(const struct option_set *options, struct arena *arena, const struct config **ret, config_warn_fn *warn,
        void *warn_data, struct error *err) MUST_USE;

/* The effective configuration as indented JSON in NVIDIA's shape plus our keys; the caller frees. */
char *config_print(const struct config *config);

const char *sharing_strategy_name(enum sharing_strategy strategy); /* "none", "time-slicing", "mps" */
const char *provisioning_name(enum provisioning provisioning);     /* "uniform", "half", "weighted" */
const char *allocation_policy_name(enum allocation_policy policy); /* "distributed", "packed" */
