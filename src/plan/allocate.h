// SPDX-License-Identifier: Apache-2.0
/*
 * Converts a request for devices into what the container gets. Pure: ids in, answer out, nothing is remembered.
 *
 * kubelet never says for which pod a request is, may repeat it, and may send ids in any order. Ids of unhealthy devices
 * are not refused: kubelet chose them while they were healthy, and the pod was promised them.
 *
 * The answer is that of NVIDIA's k8s-device-plugin v0.20, for the strategies that config->device_lists names:
 *
 *   cdi-annotations  annotation "<prefix>nvidia-device-plugin_<tag>": qualified CDI names, joined by commas
 *   cdi-cri          the same names as a list
 *                    to those of MPS its variables once more, which no variable of the pod replaces
 *                    (plan/mps_limits.h)
 *   always           MPS: its pipe directory and shared memory, the limits unless they are the daemon's, and what the
 *                    container was given, for frameworks that size themselves; and NVIDIA_GDRCOPY, NVIDIA_GDS,
 *                    NVIDIA_MOFED "enabled"
 *   envvar           NVIDIA_VISIBLE_DEVICES: the names; NVIDIA_IMEX_CHANNELS
 *   volume-mounts    /dev/null below /var/run/nvidia-container-devices for each name, and NVIDIA_VISIBLE_DEVICES says
 *                    to look there, which replaces the value of envvar
 *   device nodes     of driver, units and IMEX channel, where they are wanted and envvar or volume-mounts is there
 *
 * A unit is named once, by UUID or index, for any number of its replicas. Missing things are left out: an IMEX channel
 * without its node, an extra without a CDI device, a node whose minor is unknown.
 *
 * Variables that describe the share of an MPS container: plan/mps_limits.h, and WARPSHARE_GRANT with the allocation's
 * id, if there is one. If the limits are made at the start (plan/mps_limits.h), these are, too; the answer's variables
 * then have only the limits, for runtimes without CDI.
 *
 * Differences from NVIDIA's: a node is in the list once, units are in the order of the request also by index, and a
 * container without a shared unit gets nothing of MPS.
 */
#pragma once

#include "plan/mps_limits.h"

/*
 * The names of CDI devices: "<vendor>/<class>=<device>". Allocate returns them, and node/cdi/cdi.h writes the
 * specifications that define them. They are those of NVIDIA's k8s-device-plugin v0.20, except for the kind mps, which
 * is ours.
 */
#define CDI_VENDOR "k8s.device-plugin.nvidia.com"
#define CDI_CLASS_GPU "gpu"
#define CDI_CLASS_IMEX "imex-channel"
#define CDI_CLASS_GDRCOPY "gdrcopy"
#define CDI_CLASS_GDS "gds"
#define CDI_CLASS_MOFED "mofed"

#define CDI_VENDOR_MPS "nvidia.com"
#define CDI_CLASS_MPS "mps"
#define CDI_KIND_MPS CDI_VENDOR_MPS "/" CDI_CLASS_MPS

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
        const char *host_path;   /* that path below config->dev_root */
        const char *permissions; /* "rw" */
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
        struct mps_part *parts; /* units in the order in which the request names them first */
        size_t n_parts;
};

/* The choice of the ledger (plan/allocations.h) or of `warpshare mps`. All NULL and zero: the ids decide. */
struct allocate_binding {
        const char *allocation; /* id of the allocation: WARPSHARE_GRANT */
        const char *unit;       /* UUID of the unit of all its replicas, instead of the ids'; or NULL */
        enum mps_tier tier;     /* how the share is enforced */
        const char *pipe;       /* directory below the MPS root to mount instead of the daemon's; or NULL */
        const char *shm;        /* directory below the MPS root that is its daemon's /dev/shm; NULL: the node's */
        const char *partition;  /* CUDA_MPS_SM_PARTITION, or NULL */
        unsigned int sms;       /* of the partition; 0 unknown */
        const char *metadata;   /* file below the MPS root to mount at |metadata_path|; or NULL */
        const char *metadata_path;
};

/* One container of a request. */
struct allocate_request {
        const struct allocate_binding *binding; /* NULL: none */
        const char *const *ids;
        size_t n_ids;
        const char *tag; /* unique for this answer, at most 36 bytes: the end of the annotation's key */
};

/*
 * kubelet shows the text of an error in the pod's status. ERROR_NOT_FOUND: the resource does not have an id, or the
 * bound unit. ERROR_INVALID: more than one id with a replica among them although failRequestsGreaterThanOne forbids it
 * (only here, an id that occurs twice counts twice); or several units of which one is shared by MPS, although each has
 * a daemon of its own.
 *
 * |ret| points into |arena| and the plan's arena, not into the request.
 */
int allocate(struct allocate_answer *ret, struct arena *arena, const struct plan *plan, const struct resource *resource,
        const struct allocate_request *request, struct error *err) MUST_USE;
