/*
 * Granted against used, with names: what usage/usage.h knows of pods by their UID, joined to whom the units were given. Pure.
 *
 * A row is one pod on one unit. The container is known if all that the pod was given of the unit, or of this node where nothing says which unit it
 * was, belongs to one container: a process shows the id of its container, and only kubelet could say which of the pod's containers that is.
 *
 * A pod that was given something and has no process has a row; so has a pod with processes that was given nothing. A pod that has neither any more, and
 * of which nobody here knows a name, has none: its series end.
 */
#pragma once

#include "usage/usage.h"

/* What one container was given. */
struct usage_owner {
        const char *unit;          /* UUID; NULL: of which unit is not known, so only the names count */
        const char *pod_uid;       /* never NULL */
        const char *pod_namespace; /* names may be NULL, as far as they are not known */
        const char *pod;
        const char *container;
        const char *claim; /* the name of the ResourceClaim that it was given by */
        uint64_t limit;    /* bytes of the unit's memory; 0: none */
};

struct usage_row {
        const char *unit;
        const char *pod_uid;
        const char *pod_namespace;
        const char *pod;
        const char *container;
        const char *claim;
        bool is_granted;                 /* something of this unit; else the next is 0 */
        uint64_t limit;                  /* bytes, of all its containers; 0: none, or one has none */
        const struct usage_share *share; /* NULL: it has no processes there, and had none */
};

/* By unit and pod, in |arena|; texts are those of |owners| and |shares|. */
size_t usage_rows(const struct usage_owner *owners, size_t n_owners, const struct usage_share *shares, size_t n_shares,
        struct arena *arena, const struct usage_row **ret);
