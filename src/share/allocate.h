/*
 * A request for devices → what the container gets. Pure: ids in, response out, nothing is remembered.
 *
 * kubelet never says for which pod a request is, may repeat it, and may send ids in any order. Ids of unhealthy devices are
 * not refused: kubelet picked them while they were healthy, and a promise was made.
 *
 * The answer is that of NVIDIA's k8s-device-plugin v0.20, for the strategies that config->device_lists names:
 *
 *   cdi-annotations  annotation "<prefix>nvidia-device-plugin_<tag>": qualified CDI names, joined by commas
 *   cdi-cri          the same names as a list
 *                    to those of MPS its variables once more, which no variable of the pod replaces (share/mps_limits.h)
 *   always           MPS: its pipe directory and shared memory, the limits unless they are the daemon's, and what the
 *                    container was given, for frameworks that size themselves; and NVIDIA_GDRCOPY, NVIDIA_GDS,
 *                    NVIDIA_MOFED "enabled"
 *   envvar           NVIDIA_VISIBLE_DEVICES: the names; NVIDIA_IMEX_CHANNELS
 *   volume-mounts    /dev/null below /var/run/nvidia-container-devices for each name, and NVIDIA_VISIBLE_DEVICES says to look
 *                    there, which replaces the value of envvar
 *   device nodes     of driver, units and IMEX channel, where they are wanted and envvar or volume-mounts is there
 *
 * A unit is named once however many replicas are asked for, by UUID or index. What cannot be had is left out: an IMEX channel
 * without its node, an extra without a CDI device, a node whose minor is unknown.
 *
 * What an MPS container was given: share/mps_facts.h, and WARPSHARE_GRANT, the allocation's id, where there is one. Where its limits are made
 * when it starts (share/mps_limits.h), so are these, and variables have only the limits, for runtimes that know no CDI.
 *
 * Better than there: a node is in the list once, units are in the order of the request by index too, and a container without
 * a shared unit has no part in MPS.
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
        const char *host_path;   /* the same below config->dev_root */
        const char *permissions; /* "rw" */
};

/* What one container holds of one unit. */
struct allocate_part {
        const struct unit *unit;
        unsigned int replicas;
        struct share share;
};

struct allocate_answer {
        struct allocate_pair *environment;
        size_t n_environment;
        struct allocate_pair *annotations;
        size_t n_annotations;
        struct allocate_mount *mounts;
        size_t n_mounts;
        struct allocate_node *nodes; /* each path once */
        size_t n_nodes;
        const char **cdi_devices; /* qualified names, for the CRI */
        size_t n_cdi_devices;
        struct allocate_part *parts; /* units in the order in which the request names them first */
        size_t n_parts;
};

/* Where the ledger (share/allocations.h) and `warpshare mps` put a request; all NULL and zero: its ids say all. */
struct allocate_binding {
        const char *allocation; /* id of the allocation: WARPSHARE_GRANT */
        const char *unit;       /* UUID of the one unit that all its replicas are of, whatever the ids say; or NULL */
        enum mps_tier tier;     /* how the share is enforced there */
        const char *pipe;       /* directory below the MPS root to mount instead of the daemon's; or NULL */
        const char *shm;       /* directory below the MPS root that is /dev/shm of its daemon; NULL: that of the node */
        const char *partition; /* CUDA_MPS_SM_PARTITION, or NULL */
        unsigned int sms;      /* of the partition; 0 unknown */
};

/* One container of a request. */
struct allocate_request {
        const struct allocate_binding *binding; /* NULL: none */
        const char *const *ids;
        size_t n_ids;
        const char *tag; /* unique for this answer, at most 36 bytes: the end of the annotation's key */
};

/*
 * Errors carry the text that kubelet shows in the pod's status. An id that the resource does not have, or a bound unit that
 * it does not have: ERROR_NOT_FOUND. More than one id, a replica among them, where failRequestsGreaterThanOne forbids it:
 * ERROR_INVALID; here an id that is there twice counts twice, everywhere else once. Several units, one of them shared by MPS,
 * where each has a daemon of its own: ERROR_INVALID.
 *
 * What |ret| points to lives in |arena| or in what the plan lives in; nothing of it is the request's.
 */
int allocate(struct allocate_answer *ret, struct arena *arena, const struct plan *plan, const struct resource *resource,
        const struct allocate_request *request, struct error *err) MUST_USE;
