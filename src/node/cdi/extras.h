/*
 * The other classes: gdrcopy, gds and mofed, each with one device "all", and imex-channel, whose device has the
 * channel's number as its name.
 */
#pragma once

#include "node/cdi/context.h"
#include "node/cdi/spec.h"

struct extra {
        unsigned int bit; /* EXTRA_*; 0: the IMEX channel */
        const char *class_name;
        const char *device;
        const char *folder;
        const char *const *names; /* of nodes in |folder|; a '*' at the end stands for digits. NULL ends the list */
        const char *const *files; /* files in the driver's tree that are needed, too; NULL ends the list */
};

#define N_EXTRAS 4
extern const struct extra extras_table[N_EXTRAS];

bool extras_is_enabled(const struct config *config, const struct extra *extra);

/* Adds the device to |spec| if at least one of its nodes exists. */
void extras_add(const struct cdi_context *context, const struct extra *extra, struct spec *spec);
