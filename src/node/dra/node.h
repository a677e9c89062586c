// SPDX-License-Identifier: Apache-2.0
/*
 * The things of the node that the parts of the DRA driver need: its API server, its ledger, its names, and the plan in
 * force. The driver (node/dra/driver.h) owns this and changes it; the other parts only read it.
 */
#pragma once

#include <uv.h>

#include "gpu/units.h"
#include "net/kube/client.h"
#include "node/cdi/files.h"
#include "node/dra/prepared_record.h"
#include "node/dra/publish.h"
#include "node/ledger/ledger.h"
#include "plan/plan.h"

struct dra_driver_options {
        uv_loop_t *loop;
        struct kube_client *client; /* outlives the driver, like the ledger, |health| and |cdi_files| */
        struct ledger *ledger;
        const struct unit_health *health;
        struct cdi_files *cdi_files;
        const struct config *config; /* names and folders of it are copied */
        /* Repairs the CDI specifications of the GPUs if something is wrong with them. */
        void (*repair_cdi)(void *data);
        /* A MIG device was made or destroyed: reads the GPUs again, which leads to a plan. */
        void (*rescan)(void *data);
        void (*on_released)(void *data); /* a claim holds nothing any more: its GPU may go to the device plugin */
        void (*on_offer)(const struct dra_layout *layout, void *data); /* another layout is offered */
        void *data;
};

struct dra_node {
        struct dra_driver_options options; /* without the configuration */
        const char *name;
        const char *driver; /* its name */
        const char *pool;
        const char *cdi_root;
        const char *metadata; /* the folder of dra_metadata_write() */
        struct dra_record *record;
        struct dra_publisher *publisher;
        const struct plan *plan; /* NULL: not known yet */
        bool is_closing;         /* the ledger may be freed already: calls that still come are refused */
};

/* The error of calls that come, or have not ended, while the driver closes. */
void dra_node_raise_closing(struct error *ret);

/* Fails unless the CDI devices of the units are there, and the device nodes that CUDA needs in every container. */
int dra_node_check_cdi(const struct dra_node *node, struct error *err) MUST_USE;

/* The path of the claim on the API server, for the caller to free. */
char *dra_node_claim_path(const struct dra_node *node, const struct dra_claim *claim);

/* Reads the claim from the API server. */
struct kube_call *dra_node_get_claim(const struct dra_node *node, const struct dra_claim *claim, uint64_t timeout_ms,
        kube_done_fn *done, void *data);
