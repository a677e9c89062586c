/*
 * The labels of this node as it is: what labels/labels.h wants to know beside configuration, GPUs and plan is read from the machine.
 * Warnings go to the log, each text once as long as it stays.
 */
#pragma once

#include <stdint.h>

#include "labels/labels.h"

#define LABELS_MACHINE_FILE "/sys/class/dmi/id/product_name"

struct labels_source {
        const struct config *config;
        const struct inventory *inventory; /* NULL: NVML cannot be used */
        const struct plan *plan;           /* NULL: none can be made */
        const char *machine_file;          /* NULL: LABELS_MACHINE_FILE of the machine; "": none */
        int64_t timestamp;                 /* 0: without */
};

/* What was warned about last. Zero at first. */
struct labels_warnings {
        char *text;
};

/* Under migStrategy single these MIG devices can have no plan, however they are shared: then the labels are made without one. */
bool labels_layout_is_invalid(const struct config *config, const struct inventory *inventory);

void labels_make(
        struct labels *ret, struct arena *arena, const struct labels_source *source, struct labels_warnings *warnings);

void labels_warnings_done(struct labels_warnings *warnings);
