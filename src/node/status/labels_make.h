/*
 * Makes the labels of this node: reads from the machine what node/labels/labels.h needs besides configuration, GPUs and
 * plan. Warnings are logged; a text is not repeated while it stays the same.
 */
#pragma once

#include <stdint.h>

#include "node/labels/labels.h"

#define LABELS_MACHINE_FILE "/sys/class/dmi/id/product_name"

struct labels_source {
        const struct config *config;
        const struct inventory *inventory; /* NULL: NVML cannot be used */
        const struct plan *plan;           /* NULL: no plan can be made */
        const char *machine_file;          /* NULL: the machine's LABELS_MACHINE_FILE; "": none */
        int64_t timestamp;                 /* 0: without */
};

/* The last warnings. Zeroed at first. */
struct labels_warnings {
        char *text;
};

/*
 * Under migStrategy single no plan is possible for these MIG devices, however they are shared; then the labels are made
 * without one.
 */
bool labels_layout_is_invalid(const struct config *config, const struct inventory *inventory);

void labels_make(
        struct labels *ret, struct arena *arena, const struct labels_source *source, struct labels_warnings *warnings);

void labels_warnings_done(struct labels_warnings *warnings);
