/*
 * Memory that containers declare, added up by unit. A start that exceeds the unit is refused if the sharing policy says
 * so, and events name the units whose containers have more than the unit.
 */
#pragma once

#include "node/ledger/declared_containers.h"
#include "node/ledger/pod_events.h"

struct declared_room {
        const struct ledger_core *core;
        struct declared_containers *containers;
        struct pod_events *pod_events;
        struct map exceeded; /* UUIDs of units whose containers declare more memory than there is */
        struct arena arena;
};

void declared_room_init(struct declared_room *room, const struct ledger_core *core,
        struct declared_containers *containers, struct pod_events *pod_events);
void declared_room_forget(struct declared_room *room);

/*
 * Fails if a unit lacks room for |parts| and its sharing policy refuses that. |of|: the container's entries in
 * kubelet's record, at least one.
 */
int declared_room_check(const struct declared_room *room, const struct checkpoint *of, const struct mps_part *parts,
        size_t n_parts, struct error *err) MUST_USE;

/* Reports units whose memory does not suffice for the declared shares, and those where it suffices again. */
void declared_room_report(struct declared_room *room);
