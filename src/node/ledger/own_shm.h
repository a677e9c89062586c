/*
 * Containers under MPS whose pod has a volume of its own at /dev/shm. kubelet puts a pod's volumes behind the mounts of
 * device plugins, so the pod's counts there, and CUDA ends with error 805: client and server share memory by that
 * folder. Only the pod's specification says so; each pod that holds something by MPS is read once, if the agent may
 * read pods, after kubelet has listed it.
 */
#pragma once

#include <jansson.h>

#include "node/ledger/core.h"

struct own_shm {
        const struct ledger_core *core;
        struct map pods; /* UIDs of those that were read */
        struct arena arena;
        struct kube_call *call; /* for |pod|; NULL: none is being read */
        struct node_event_pod pod;
};

void own_shm_init(struct own_shm *own_shm, const struct ledger_core *core);
void own_shm_forget(struct own_shm *own_shm);

/* After kubelet's list: reads the next pod that was not read yet, and reports what is wrong with it. */
void own_shm_read_next(struct own_shm *own_shm);
/* The same for a pod that was read for another reason; |object|: as the API server has it. */
void own_shm_check(struct own_shm *own_shm, const struct node_event_pod *pod, const json_t *object);
