/*
 * A request for devices → what the container gets. Pure: ids in, response out, nothing is remembered.
 *
 * kubelet never says for which pod a request is, may repeat it, and may send ids in any order. Ids of unhealthy devices are
 * not refused: kubelet picked them while they were healthy, and a promise was made.
 */
#pragma once

#include "share/plan.h"
#include "share/share.h"

struct allocate_pair {
        const char *name;
        const char *value;
};

struct allocate_mount {
        const char *container_path;
        const char *host_path;
        bool read_only;
};

/* What one container holds of one unit. */
struct allocate_part {
        const struct unit *unit;
        unsigned int replicas;
        struct share share;
};

struct allocation {
        struct allocate_pair *environment;
        size_t n_environment;
        struct allocate_mount *mounts;
        size_t n_mounts;
        struct allocate_part *parts; /* units in the order in which the request names them first */
        size_t n_parts;
};

/*
 * Errors carry the text that kubelet shows in the pod's status. An id that the resource does not have: ERROR_NOT_FOUND. More
 * than one replica where failRequestsGreaterThanOne forbids it: ERROR_INVALID. Duplicate ids count once.
 */
int allocate(struct allocation *ret, struct arena *arena, const struct config *config, const struct resource *resource,
        const char *const *ids, size_t n_ids, struct error *err) MUST_USE;
