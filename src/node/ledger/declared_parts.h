/*
 * The inside of provisioning: declared, for the ledger's files of that name.
 */
#pragma once

#include "node/ledger/parts.h"

/* Until a pod is read again that could not be. */
#define DECLARED_AGAIN_MS INT64_C(60000)

struct declared_unit {
        const char *uuid;
        struct share share;
};

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
        struct declared_unit *units;
        size_t n_units;
};

/* ---- declared.c: what containers have ---- */

/* The container, or NULL: nothing is known of it. |pod_uid| NULL: the pod is not known, nor is |name|. */
struct declared_container *declared_find(const struct ledger *ledger, const char *pod_uid, const char *name);
const struct declared_container *declared_find_of(const struct ledger *ledger, const struct holder *holder);
/*
 * Notes what |pod| says of the entry's container, which starts now or has started. |pod| NULL: it could not be read,
 * and what is known stays.
 */
struct declared_container *declared_take(
        struct ledger *ledger, const struct checkpoint_entry *entry, const json_t *pod, bool is_start);
/* What did not become variables when the container started is not its share. */
void declared_drop_annotations(struct declared *said);
/* Those whose pods kubelet's record has no more. One that it does not have yet is young. */
void declared_forget_ended(struct ledger *ledger);
/* What the container has of |unit|. |container| NULL: nothing is known of it, and |replicas| say what it has. */
struct share declared_share_in(const struct declared_container *container, const struct resource *resource,
        const struct unit *unit, unsigned int replicas);
/* Its containers are asked about when they start; else nothing can carry a pod's annotations to its containers. */
bool declared_asks_at_start(const struct ledger *ledger, const struct ledger_resource *shared);
/* The start of its container was asked about, or will be. */
bool declared_is_asked_about(
        const struct ledger *ledger, const struct ledger_resource *shared, const struct allocation *allocation);

/* ---- declared_room.c: more than there is ---- */

/* Says which units have too little memory for all that is declared of them, and which have enough again. */
void declared_judge(struct ledger *ledger);
