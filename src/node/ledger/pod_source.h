// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a pod: from kubelet, whose socket of pods (Kubernetes 1.37, v1alpha1.Pods/GetPod) needs no right in the
 * cluster; and from the API server if that socket is missing, refuses, has another pod, or does not answer in time.
 * For each pod kubelet is asked on a connection of its own: a kubelet that starts, ends or is updated changes
 * nothing here.
 *
 *   get ──► kubelet, half of the time ──┬── the pod ────────────────────► done
 *                                       └── any failure ──► API server ──► done
 *
 * kubelet's pod becomes JSON of the API's form, with only these fields: name, namespace, UID and annotations; of
 * containers and init containers name, env, envFrom, mount paths, the names of limits, and claims; the pod's claims. A
 * value is dropped if it is empty, as the API server does; where a variable's value comes from is an empty object.
 *
 * kubelet answers with the status that it knows itself, in which the names of claims are missing that are made from
 * templates (recorded of 1.36.2, test/fixtures/kubelet-1.36). A claim is only asked about if it is reserved for the
 * pod, so if one entry of the pod has no name, and no other is that claim, the entry is given that name. Somebody else
 * may be meant if the pod has an extended resource, whose claim has no entry. So a question about a claim takes
 * kubelet's answer only if all entries of the pod have a name then, and one of them is that claim.
 *
 * Sizes are bounded by POD_ANSWER_MAX and POD_MEMORY_MAX; each wait by the question's timeout.
 */
#pragma once

#include <uv.h>

#include "net/kube/client.h"

#define POD_ANSWER_MAX KUBE_ANSWER_LIMIT  /* bytes of kubelet's answer */
#define POD_MEMORY_MAX ((size_t)16 << 20) /* that it takes once it is read */

struct pod_source {
        uv_loop_t *loop;
        char *socket;               /* of kubelet; "": it is not asked */
        struct kube_client *client; /* NULL: the API server is not used. Borrowed */
};

/* Opens nothing. Fails for a path that no socket can have. */
int pod_source_init(struct pod_source *source, uv_loop_t *loop, const char *socket, struct kube_client *client,
        struct error *err) MUST_USE;
void pod_source_done(struct pod_source *source); /* its calls have ended */

/* Somebody can be asked about a pod with this UID; NULL: it is not known. */
bool pod_source_can_ask(const struct pod_source *source, const char *uid);

struct pod_question {
        const char *namespace;
        const char *name;
        const char *uid;   /* NULL: not known, so kubelet is not asked */
        const char *claim; /* NULL, or the ResourceClaim whose use is asked for, reserved for the pod */
        uint64_t timeout_ms;
        kube_done_fn *done; /* as of kube_client_send(); only |object| and |error| are set if kubelet has answered;
                             ERROR_NOT_FOUND: it does not know the UID */
        void *data;
};

struct pod_call;

/*
 * Somebody can be asked. The question is copied. |done| is never called inside this; the call is valid until then, or
 * until it is cancelled.
 */
struct pod_call *pod_source_get(const struct pod_source *source, const struct pod_question *question);
struct pod_call *pod_call_cancel(struct pod_call *call); /* accepts NULL, returns NULL */

/* kubelet's answer → a Pod of the API, a new reference; NULL on failure, with ERROR_INVALID in |err|. Pure. */
json_t *pod_answer_read(const uint8_t *message, size_t size, struct error *err);
