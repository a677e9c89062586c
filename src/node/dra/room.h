// SPDX-License-Identifier: Apache-2.0
/*
 * Whether the devices that a claim was allocated are free on this node. They may still be held: kubelet deletes a pod
 * with a grace period of 0 at once, the scheduler allocates the devices of its claim to the next claim, and the
 * Unprepare of the first claim comes after the Prepare of the second. Kubelet retries a failed Prepare only after more
 * than a minute, so it is better to wait. Claim A has 20 GiB of a GPU, and so has claim B now:
 *
 *   B does not fit beside A ──► is A still allocated? ──┬── no: its Unprepare is under way ──► wait for it
 *                                                       └── yes: a conflict; a scheduler made a mistake ──► refuse
 *
 * It asks for one claim at a time, and for no more than it takes to know. It neither reads claims nor waits itself.
 */
#pragma once

#include "base/alloc.h"
#include "base/error.h"
#include "node/dra/claim.h"
#include "node/dra/prepared_record.h"
#include "node/ledger/ledger.h"

enum dra_room_state {
        DRA_ROOM_THERE,
        DRA_ROOM_COMES, /* claims that are over have what is missing */
        DRA_ROOM_ASK,   /* dra_room_learn() must say whether |asked| is over */
        DRA_ROOM_NONE,  /* claims that are not over have it */
};

struct dra_room_known;

/* The state for one claim that is being prepared; zeroed at first. */
struct dra_room {
        const struct dra_record *record; /* borrowed, like |ledger| */
        const struct ledger *ledger;
        struct arena *arena;          /* of the rest */
        struct dra_room_known *known; /* claims that were asked for */
        struct dra_claim asked;       /* only named */
};

/*
 * |claim| wants devices of |layout|. Unless it fits, |err| says what is in the way: for DRA_ROOM_NONE counting only
 * claims that are not over, else counting all.
 */
enum dra_room_state dra_room_look(
        struct dra_room *room, const struct dra_claim *claim, const struct dra_layout *layout, struct error *err);

void dra_room_learn(struct dra_room *room, bool is_over);

/* Something has become free, so claims that were not over may be now. */
void dra_room_doubt(struct dra_room *room);
