/*
 * What the results of a claim mean on this node: which device of the layout each is, and with which limits. Pure; knows neither ledger nor
 * supervisor.
 *
 * "gpu-0-shared" with consumedCapacity memory 10Gi, threadPercentage 30 is GPU 0 by MPS with these limits. A static share has the limits
 * of its device. Whole GPUs, MIG devices and time-sliced ones have none. With admin access such a device is given beside its users, and so
 * a share by MPS is not: its limits would have to come from somewhere.
 *
 * One process can talk to one MPS daemon only, so devices by MPS of two units in one claim need a daemon that serves both.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "dra/claim.h"
#include "dra/layout.h"

struct dra_wanted {
        const struct dra_claim_result *result;
        const struct dra_device *device;
        uint64_t memory_bytes;          /* 0: no limit */
        unsigned int thread_percentage; /* 0: no limit */
        unsigned int clients;           /* 0: no limit */
        enum dra_unenforced unenforced;
};

struct dra_wanted_rules {
        const struct dra_layout *layout; /* NULL: not known yet */
        unsigned int kinds;              /* bit 1 << enum dra_device_kind: can be prepared */
        const char *driver;              /* its name */
        enum dra_unenforced unenforced;  /* where neither claim nor class says so: dra/parameters.h */
        bool one_daemon;                 /* an MPS daemon serves all units of the node */
};

/*
 * One for each result, in their order, in |arena|; they borrow from claim and layout. ERROR_UNAVAILABLE: the layout does not have the
 * device, or is not there. ERROR_UNSUPPORTED: not with these rules. ERROR_INVALID: the claim cannot be of a scheduler that saw this layout.
 */
int dra_wanted_read(const struct dra_wanted **ret, struct arena *arena, const struct dra_claim *claim,
        const struct dra_wanted_rules *rules, struct error *err) MUST_USE;
