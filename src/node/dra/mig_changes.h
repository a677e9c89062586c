/*
 * The GPU instances of the MIG candidates of a claim: made for a Prepare, destroyed for an Unprepare, each by requests
 * to processes that have NVML (gpu/nvml_pool.h): one for each GPU, all at once, so that changes of one GPU are made in
 * the order in which they were asked for. What was made or destroyed is waited for in the inventory: only then do plan,
 * CDI and ResourceSlices agree with the GPU.
 *
 *   LOOKING ──► recorded ──► MAKING ──► recorded ──┐
 *      └──── all is there ─────────────────────────┴──► WAITING ──► done        DESTROYING ──► WAITING ──► done
 *
 * A process that hangs is killed, and its claim's call fails. What it may have made stays recorded as being made.
 */
#pragma once

#include "config/config.h"
#include "node/dra/node.h"

struct dra_changes;

/* |config| is not kept. */
struct dra_changes *dra_changes_new(const struct dra_node *node, const struct config *config);

/* No change may begin from now on. |closed| is called when all calls of NVML have ended, perhaps at once. */
void dra_changes_close(struct dra_changes *changes, void (*closed)(void *data), void *data);

/* Records the instances as they are now, one for each result of the claim, before they are made and after. */
typedef int dra_change_record_fn(const struct dra_instance *instances, void *data, struct error *err);

/* Called once, from the loop or from within the functions below that change no instance. */
typedef void dra_change_done_fn(const struct error *err, void *data);

/* Makes, or destroys, the instances of |claim|, at least one, which is copied. */
void dra_changes_make(struct dra_changes *changes, const struct dra_prepared_claim *claim, dra_change_record_fn *record,
        dra_change_done_fn *done, void *data);
void dra_changes_destroy(
        struct dra_changes *changes, const struct dra_prepared_claim *claim, dra_change_done_fn *done, void *data);

/* To be called after each new plan: changes that wait for it continue. */
void dra_changes_go_on(struct dra_changes *changes);

/* Refuses changes that wait for a plan; those that NVML works on are refused when it has answered. */
void dra_changes_refuse(struct dra_changes *changes);

/* True if none of the processes that make MIG devices has NVML open. */
bool dra_changes_have_closed_nvml(const struct dra_changes *changes);
