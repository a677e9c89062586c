// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a claim that is to be prepared, until it can be allocated: the claim from the API server, then, once the layout
 * is known, its pods (node/ledger/pod_source.h) where they decide: of a claim with several shares by MPS, which
 * containers use them together; and where a pod uses another claim by MPS, whether the same container does, which would
 * get only one of the two. Then it waits for room (node/dra/room.h), and for a device that is not offered now, as while
 * its GPU changes.
 *
 *   claim ──► layout ──► pods ──► look ──┬─────────────────────────────────────► done
 *                                  ▲     ├── ask: read a claim in the way ──┐
 *                                  └─────┼──────────────────────────────────┘
 *                                  ▲     └── blocked ──┬── something has become free, another layout
 *                                  └───────────────────┘
 *                                                      └── ROOM_WAIT_MS passed, or no request waits for it ──► refused
 *
 * Nothing is made for a claim while it is read.
 *
 * It also asks the API server which pods use the claims that are prepared already, and gives the answers to the ledger:
 * once when the driver has begun, and again when a process belongs to no known pod of a claim. All claims wait for
 * that.
 */
#pragma once

#include "node/dra/node.h"
#include "node/dra/wanted.h"

struct dra_readings;

/*
 * |err| NULL: the claim is read and its results want devices of the layout, as long as the function has not returned.
 */
typedef void dra_reading_done_fn(const struct error *err, void *data);

/* |node| outlives it. */
struct dra_readings *dra_readings_new(const struct dra_node *node);

/*
 * Reads a claim that is only named, into |arena|. Both are borrowed until |done|, which is called exactly once, perhaps
 * before the function returns.
 */
void dra_reading_begin(struct dra_readings *readings, struct dra_claim *claim, struct arena *arena,
        dra_reading_done_fn *done, void *data);

/* Refuses the claim that was begun with |data|, since no request waits for it any more. */
void dra_reading_abandon(struct dra_readings *readings, const void *data);

/* To be called when the layout has changed or something has become free: claims that are blocked look again, too. */
void dra_readings_look_again(struct dra_readings *readings);

/* Asks for the pods of each prepared claim, at once. */
void dra_readings_ask_pods(struct dra_readings *readings);

/*
 * Asks again. If it is called again and again, requests are sent after DRA_PODS_MS, then after twice that, and so on up
 * to DRA_PODS_MAX_MS: for a process that belongs to no claim it would be called for ever. The first pause comes again
 * when it was not called for DRA_PODS_QUIET_MS, since the last answer was enough then.
 */
#define DRA_PODS_MS UINT64_C(1000)
#define DRA_PODS_MAX_MS UINT64_C(60000)
#define DRA_PODS_QUIET_MS UINT64_C(5000)
void dra_readings_refresh_pods(struct dra_readings *readings);

/* Refuses all claims because the driver closes, and asks for no pods any more. */
void dra_readings_refuse(struct dra_readings *readings);

/* Needs all claims to be done. The memory is freed when the loop has closed the timer. Accepts NULL, returns NULL. */
struct dra_readings *dra_readings_close(struct dra_readings *readings);
