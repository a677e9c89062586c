/*
 * Reads what each command of `warpshare mig` needs first: the GPUs of this node, and what a configuration wants of
 * them.
 */
#pragma once

#include "cmd/cli/command.h"
#include "gpu/nvml.h"
#include "mig/node.h"
#include "mig/parted.h"

struct mig_source {
        struct arena arena;
        struct nvml *nvml;
        struct mig_node node;
        struct mig_parted parted; /* of the file; without one those that are generated */
        const struct mig_parted_config *config;
        const struct mig_wanted *wanted; /* of each GPU of |node| */
};

/* Opens NVML and reads the GPUs only; |set| says where NVML is. Close the source even if this fails. */
int mig_source_open_node(struct mig_source *ret, const struct option_set *set, struct error *err) MUST_USE;

/* Also reads the configurations of |file|; cmd/mig/command.h says what "" means. Warnings go to standard error. */
int mig_source_open_file(
        struct mig_source *ret, const struct option_set *set, const char *file, struct error *err) MUST_USE;

/* Also chooses the configuration |name|; |is_mode_only| as in mig_parted_resolve(). */
int mig_source_open(struct mig_source *ret, const struct option_set *set, const char *file, const char *name,
        bool is_mode_only, struct error *err) MUST_USE;

void mig_source_close(struct mig_source *source);
