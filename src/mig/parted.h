// SPDX-License-Identifier: Apache-2.0
/*
 * The configurations of MIG as NVIDIA's mig-parted has them in a file, version v1, and what one of them wants of each
 * GPU. Pure but for reading the file.
 *
 *         version: v1
 *         mig-configs:
 *           mixed:
 *           - devices: [2, 3]
 *             mig-enabled: false
 *           - device-filter: "0x233010DE"
 *             devices: [0, 1]
 *             mig-enabled: true
 *             mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}
 *
 * Read as strictly as NVIDIA's parser reads it: a field that it does not know is an error, of the configuration that
 * has it: the others of the file can be chosen. The last entry that is for a GPU counts for it, and a GPU without one
 * is left alone; entries of which one enables MIG and another disables it are an error: NVIDIA's program, which looks
 * at each, never has them fulfilled. A configuration that is for none of the node's GPUs is an error, since it would
 * change nothing. |devices| lists NVML's indices, independent of the filter; an index that the node does not have is
 * ignored. The same structs are used for configurations that are generated and written.
 *
 * A profile may have any of the names that drivers give it (mig/profile_text.h). "1c.3g.20gb" is a compute instance
 * that has not all of its GPU instance: mig/geometry.h says which share one.
 *
 * Errors name the file, the line, the key and the value: "config '/etc/mig.yaml' line 4: mig-configs.mixed[0].devices:
 * …".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/data/yaml.h"
#include "mig/node.h"

#define MIG_PARTED_FILE_LIMIT ((size_t)1024 * 1024)
#define MIG_PARTED_MAX_CONFIGS ((size_t)1024)
#define MIG_PARTED_MAX_NAME ((size_t)253)    /* bytes of a configuration's name */
#define MIG_PARTED_MAX_ENTRIES ((size_t)256) /* of one configuration */
#define MIG_PARTED_MAX_FILTERS ((size_t)256)
#define MIG_PARTED_MAX_DEVICES 512U          /* indices in one list, and one more than the largest index */
#define MIG_PARTED_MAX_PROFILES ((size_t)64) /* of one entry */
#define MIG_PARTED_MAX_COUNT 64U             /* MIG devices of one profile */

struct mig_parted_filter {
        uint32_t device; /* as struct mig_node_gpu has it */
        bool has_subsystem;
        uint32_t subsystem;
};

struct mig_parted_entry {
        const char *place; /* "config '/etc/mig.yaml' line 4: mig-configs.mixed[0]"; NULL: from no file */
        const struct mig_parted_filter *filters; /* none: any GPU */
        size_t n_filters;
        bool is_for_all;
        const unsigned int *devices; /* without |is_for_all| */
        size_t n_devices;
        bool is_enabled;
        const struct mig_wanted_count *counts; /* by the names in the file */
        size_t n_counts;
};

struct mig_parted_config {
        const char *name;
        struct mig_parted_entry *entries;
        size_t n_entries;
        const char *problem; /* why it cannot be used, and is without entries; NULL: it can */
};

struct mig_parted {
        const char *name; /* "config '/etc/mig.yaml'", for messages */
        const struct mig_parted_config *configs;
        size_t n_configs;
};

/* |name| is what messages call the text. |warn| may be NULL. What |ret| points to is in |arena|. */
int mig_parted_parse(struct mig_parted *ret, struct arena *arena, const char *name, const char *text, size_t size,
        yaml_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;
/* |path| "-" is standard input. */
int mig_parted_read(struct mig_parted *ret, struct arena *arena, const char *path, yaml_warn_fn *warn, void *warn_data,
        struct error *err) MUST_USE;

/*
 * The configuration |name|, or with "" the only one; else NOT_FOUND, or INVALID for one of several that is not named, or
 * for one that cannot be used.
 */
int mig_parted_choose(const struct mig_parted_config **ret, const struct mig_parted *parted, const char *name,
        struct error *err) MUST_USE;

/*
 * Resolves what |config|, which can be used, wants of each GPU of |node|, in the order of |node|. A GPU without MIG is
 * not named, unless an entry lists its index and wants MIG of it: that is an error. One that could not be read is named
 * by each entry that may be for it. Profiles have the names that the GPU's geometry has; where the driver lists none
 * (MIG is disabled), those of the file. |is_mode_only|: only whether MIG is enabled is wanted, and profiles may be
 * unknown. Whether it fits is not looked at.
 */
int mig_parted_resolve(const struct mig_wanted **ret, struct arena *arena, const struct mig_parted_config *config,
        const struct mig_node *node, bool is_mode_only, struct error *err) MUST_USE;

/* Warns of each entry of |config| that lists indices which no GPU of |node| has. */
void mig_parted_warn(
        const struct mig_parted_config *config, const struct mig_node *node, yaml_warn_fn *warn, void *warn_data);

/*
 * As YAML, or JSON with |is_json|, with a newline at the end: what NVIDIA's mig-parted reads. All of them can be used.
 */
void mig_parted_print(struct strbuf *text, const struct mig_parted *parted, bool is_json);

/*
 * The name of a profile in a file that is written: the driver's, as NVIDIA's mig-parted has it, where the driver
 * reports one.
 */
const char *mig_parted_profile(const struct mig_gpu_profile *profile);

/*
 * The default configurations of a node, made of the profiles that its driver lists, as NVIDIA's mig-parted makes them
 * (generate-config):
 *
 *   all-disabled    MIG off
 *   all-enabled     MIG on, without devices
 *   all-balanced    2 of one slice, 1 of two and, on GPUs of seven slices, 1 of three; of the smallest memory, without
 *                   attributes
 *   all-<profile>   as many of the profile as fit, '+' written as '.': all-1g.10gb, all-1g.10gb.me
 *
 * Where GPUs of several models have MIG, each entry has a filter. A configuration is there under every name that its
 * profile has, the driver's and the one made from its numbers. Pure.
 *
 * What NVML says of the A30 is wrong, says NVIDIA's code; its profiles stand here. Before R550 the driver lists no
 * profiles while MIG is disabled: the models that those drivers know have what is documented of them until MIG is
 * enabled; any other has all-disabled and all-enabled only.
 */
void mig_generate(struct mig_parted *ret, struct arena *arena, const struct mig_node *node);

/*
 * The geometry that a node has, as one configuration. Pure. GPUs with the same are one entry; a filter is there only
 * where models differ, and |devices| is "all" where the entry is for every GPU that its filter matches.
 *
 * A GPU instance without a compute instance is left out, as it has no MIG device. One with a compute instance of fewer
 * slices has the name "1c.3g.20gb", which NVIDIA's mig-parted applies, and this program does not.
 * An error names a GPU that could not be read.
 */
int mig_export(struct mig_parted *ret, struct arena *arena, const struct mig_node *node, const char *name,
        struct error *err) MUST_USE;
