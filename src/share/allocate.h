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

struct allocate_node {
        const char *container_path;
        const char *host_path;
        const char *permissions; /* "rw" */
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
        struct allocate_pair *annotations;
        size_t n_annotations;
        struct allocate_mount *mounts;
        size_t n_mounts;
        struct allocate_node *nodes; /* device nodes; each path once */
        size_t n_nodes;
        const char **cdi_devices; /* qualified names, for the CRI */
        size_t n_cdi_devices;
        struct allocate_part *parts; /* units in the order in which the request names them first */
        size_t n_parts;
};

/* One container of a request. */
struct allocate_request {
        const char *const *ids;
        size_t n_ids;
        const char *tag; /* unique for this answer: part of the annotation's key; a UUID in kubelet's use */
};

/*
 * Errors carry the text that kubelet shows in the pod's status. An id that the resource does not have: ERROR_NOT_FOUND. More
 * than one replica where failRequestsGreaterThanOne forbids it: ERROR_INVALID. Duplicate ids count once.
 */
int allocate(struct allocation *ret, struct arena *arena, const struct plan *plan, const struct resource *resource,
        const struct allocate_request *request, struct error *err) MUST_USE;
