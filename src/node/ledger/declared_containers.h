// SPDX-License-Identifier: Apache-2.0
/*
 * provisioning: declared. What containers declare of their share (plan/declared.h), as their pods' objects
 * say. The pod is read when the container starts (declared_pods.h).
 *
 * What was read is kept as long as kubelet's record has the pod, since the limit monitor holds the container to it. For
 * a container that another agent started it is read when kubelet lists the container; whether it started with this
 * declaration is not known, so it proves nothing against that container.
 *
 * The memory that containers declare is added up by unit. A start that exceeds the unit is refused if the sharing
 * policy says so, and events name the units whose containers have more than the unit.
 */
#pragma once

#include <jansson.h>

#include "node/ledger/pod_events.h"
#include "plan/declared.h"
#include "plan/mps_limits.h"

/* A pod that could not be read is read again after this. */
#define DECLARED_AGAIN_MS INT64_C(60000)

/* A container that has a share whose size it may declare. */
struct declared_container {
        struct list link;
        struct arena arena;
        const char *pod_uid;
        const char *name;
        const char *resource; /* for whose start it was read; "": for none */
        int64_t read_at;      /* or tried */
        bool is_ours;         /* it started since this agent did */
        bool is_refused;      /* it did not start, for want of memory */
        struct declared said;
        struct map units; /* UUID → struct share * */
};

struct declared_containers {
        const struct ledger_core *core;
        struct pod_events *pod_events;
        struct list all;
        struct map exceeded; /* UUIDs of units whose containers declare more memory than there is */
        struct arena exceeded_arena;
};

void declared_containers_init(
        struct declared_containers *containers, const struct ledger_core *core, struct pod_events *pod_events);
void declared_containers_forget(struct declared_containers *containers);
/*
 * Forgets containers whose pods are not in kubelet's checkpoint, unless the pod was just read and may not be in it yet.
 */
void declared_containers_forget_ended(struct declared_containers *containers);

/* The container, or NULL if it is unknown. |pod_uid| NULL: pod and |name| are unknown. */
struct declared_container *declared_containers_find(
        const struct declared_containers *containers, const char *pod_uid, const char *name);
const struct declared_container *declared_containers_find_holder(
        const struct declared_containers *containers, const struct holder *holder);

/*
 * Notes what |pod| says of the entry's container, which starts now or has started. |pod| NULL: it could not be read,
 * and what is known stays. |is_applied|: false if annotations do not become variables of the container, and so do not
 * count.
 */
struct declared_container *declared_containers_note(struct declared_containers *containers,
        const struct checkpoint_entry *entry, const json_t *pod, bool is_start, bool is_applied);

/*
 * Sets the shares of the container's sorted |parts| to what it declares, and notes them; *ret_omits: MPS_LIMITS_NO_*;
 * *ret_priority: the variable that sets its priority, or NULL.
 * |of|: an entry of it in kubelet's record, or NULL.
 */
void declared_containers_apply(struct declared_containers *containers, const struct checkpoint_entry *of,
        struct mps_part *parts, size_t n_parts, unsigned int *ret_omits, const char **ret_priority);

/*
 * The share of the allocation's |replicas| of |unit|. |*ret_is_guess|: it is uncertain, so it does not count as
 * evidence against the pod.
 */
struct share declared_containers_share(const struct declared_containers *containers, const struct ledger_share *of,
        const struct unit *unit, unsigned int replicas, bool *ret_is_guess);

/* The start of the allocation's container was asked about, or will be. */
bool declared_containers_is_asked_about(const struct declared_containers *containers, const struct ledger_share *of);

/* ---- room ---- */

/*
 * Fails if a unit lacks room for |parts| and its sharing policy refuses that. |of|: the container's entries in
 * kubelet's record, at least one.
 */
int declared_containers_check_room(const struct declared_containers *containers, const struct checkpoint *of,
        const struct mps_part *parts, size_t n_parts, struct error *err) MUST_USE;

/* Reports units whose memory does not suffice for the declared shares, and those where it suffices again. */
void declared_containers_report_room(struct declared_containers *containers);
