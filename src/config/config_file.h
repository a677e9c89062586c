/*
 * What the configuration file says, before command line and environment have their say. Part of config/config.h.
 */
#pragma once

#include "config/config.h"
#include "config/option.h"
#include "config/schema.h"
#include "base/data/tree.h"

struct config_file {
        const char **values; /* by position in option_table; NULL: not in the file */
        struct sharing sharing;
        const struct resource_pattern *gpu_patterns;
        size_t n_gpu_patterns;
        const struct resource_pattern *mig_patterns;
        size_t n_mig_patterns;
        struct xid_list xids;
        bool recover;
        bool counts_remaps;
        struct config_discovery discovery;
        struct config_dra dra; /* but for what is an option */
};

/*
 * Reads |path|; "" is an empty file. Values that |options| has set already are not looked at, so that a wrong one does
 * no harm where it does not count.
 */
int config_file_read(struct config_file *ret, const char *path, const struct option_set *options, struct arena *arena,
        config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/* The same of what was read already. */
int config_file_parse(struct config_file *ret, const struct config_text *text, const struct option_set *options,
        struct arena *arena, config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/* ---- the file as the tables of file_schema.c read it: its keys, none of them interpreted ---- */

struct file_resource {
        struct tree_node node;
        const char *name;
        const char *rename; /* NULL: absent */
        struct device_selector devices;
        unsigned int replicas;
        unsigned int placement;
        unsigned int sms;
        struct memory_size memory;
};

struct file_section {
        struct tree_node node;
        bool rename_by_default;
        bool fail_requests_greater_than_one;
        unsigned int scope;
        unsigned int placement;
        unsigned int max_per_request;
        unsigned int reserve;
        unsigned int provisioning;
        unsigned int daemon_scope;
        struct memory_size memory_reserve;
        unsigned int max_threads;
        struct memory_size max_memory;
        bool declared_overcommit;
        unsigned int guard;
        unsigned int tier;
        struct schema_list resources; /* struct file_resource */
};

struct file_sharing {
        struct tree_node node;
        struct file_section *time_slicing;
        struct file_section *mps;
};

struct file_pattern {
        struct tree_node node;
        const char *pattern;
        const char *name;
};

struct file_resources {
        struct tree_node node;
        struct schema_list gpus; /* struct file_pattern */
        struct schema_list mig;
};

struct file_gfd {
        struct tree_node node;
        bool oneshot;
        bool no_timestamp;
        int64_t sleep_ns;
        const char *output_file;
        const char *machine_type_file;
};

struct file_options {
        struct tree_node node; /* all its keys are options */
};

struct file_flags {
        struct tree_node node;
        struct file_options *plugin;
        struct file_gfd *gfd;
        bool use_node_feature_api;
};

struct file_health {
        struct tree_node node;
        struct xid_list xids;
        bool recover;
        const char *pending_row_remap; /* NULL: ignore */
};

struct file_dra_defaults {
        struct tree_node node;
        struct memory_size memory;
        unsigned int thread_percentage;
        unsigned int clients;
};

struct file_dra {
        struct tree_node node;
        struct device_selector devices;
        bool whole;
        bool mps;
        bool time_slicing;
        unsigned int slots;
        struct file_dra_defaults *defaults;
        struct memory_size memory;
        struct memory_size memory_reserve;
        unsigned int daemon_scope;
        unsigned int fallback;
        unsigned int one_form;
        unsigned int shares;
        unsigned int unenforced;
        unsigned int unhealthy;
};

struct file_root {
        struct tree_node node;
        const char *version;
        struct file_flags *flags;
        struct file_resources *resources;
        struct file_sharing *sharing;
        struct file_options *imex;
        struct file_health *health;
        struct file_dra *dra;
        struct file_options *mig;
};

/* What counts where the section is silent. */
struct sharing_defaults {
        const char *policy; /* sharedDevicesAllocationPolicy, if anybody said it; else NULL */
        bool drop_in;
};

/* config_sharing.c: what the section "sharing" means; |sharing| may be NULL. */
int config_sharing_build(struct sharing *ret, const struct tree *tree, const struct file_sharing *sharing,
        const struct sharing_defaults *defaults, struct error *err) MUST_USE;

/*
 * config_section.c: what the keys of one section mean together: its defaults by each other, and what they cannot say at
 * once.
 */
int config_sharing_settle(struct sharing_section *section, struct shared_resource *resources, const struct tree *tree,
        const struct file_section *file, const struct sharing_defaults *defaults, struct error *err) MUST_USE;

/* config_dra.c: what the section "dra" means; NULL: it is not there. */
int config_dra_build(
        struct config_dra *ret, const struct tree *tree, const struct file_dra *file, struct error *err) MUST_USE;
