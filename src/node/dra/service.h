// SPDX-License-Identifier: Apache-2.0
/*
 * Serves DRAPlugin v1 and v1beta1, and DRAResourceHealth v1 and v1alpha1 (node/dra/health_stream.h). It passes claims
 * to node/dra/prepare.h.
 *
 * A request of kubelet's has several claims. Each claim is a work. The request is answered when all its works are done,
 * or after |timeout_ms|: the answer then has an error for each claim that is not done. That is before kubelet gives up,
 * after 45 s. The answer has an entry for every claim.
 *
 * Works of different claims run at the same time; those of one UID run one after another, in the order of the requests.
 * A request for what the newest work of the claim already does shares that work, even if the request before has timed
 * out: kubelet tries again after a timeout, the claim's allocation cannot change while it is reserved, and so the
 * second request gets the result that was too late for the first. A Prepare waits for a running Unprepare of the same
 * claim, and the other way round. A work that has not begun is dropped when no request waits for it any more: the claim
 * may have been unprepared by another way meanwhile. For a Prepare that has begun, the backend is notified.
 *
 *     Prepare A ──► work 1 runs          answered: both requests, and then work 2 begins
 *     Prepare A ──► shares work 1
 *     Unprepare A ──► work 2 waits
 *
 * In a rolling update there are two instances. Works begin only while the process holds the lock on |lock_directory|
 * (base/io/lock.h), and the lock is released when no work runs. An instance that does not get the lock within
 * |timeout_ms| answers with an error, and kubelet tries again. There is one lock for all claims, because the instances
 * share the record and the CDI files.
 *
 * It knows neither the content of claims nor the API server nor sockets (those are in node/dra/registration.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "node/dra/health_stream.h"
#include "net/rpc/session.h"

#define DRA_SERVICE_TIMEOUT_MS UINT64_C(40000)  /* below kubelet's 45 s */
#define DRA_SERVICE_CLAIMS_MAX ((size_t)128)    /* in one request */
#define DRA_SERVICE_REQUESTS_MAX ((size_t)1024) /* requests that are not answered; another one is refused */
#define DRA_SERVICE_WORKS_MAX ((size_t)4096)    /* works that are not done; a request that needs more is refused */

struct dra_prepare;

struct dra_service_options {
        uv_loop_t *loop;
        struct dra_prepare *prepare; /* outlives the works that run */
        const char *lock_directory;  /* NULL: no lock; it may not exist yet */
        uint64_t timeout_ms;         /* 0: DRA_SERVICE_TIMEOUT_MS */
        uint64_t resend_ms;          /* of health; 0: DRA_HEALTH_RESEND_MS */
};

struct dra_service;

struct dra_service *dra_service_new(const struct dra_service_options *options);

/* The methods for an rpc_server, and their context; valid as long as the service. */
struct rpc_service dra_service_rpc(struct dra_service *service);

struct dra_health_stream *dra_service_health(struct dra_service *service);

/*
 * From now on requests and works are left to the next instance (node/dra/registration.h): none is answered or begun.
 * The owner must fail the works that run, and undo them.
 */
void dra_service_hold(struct dra_service *service);

/* The number of requests that are not answered, and of works that are not done. */
size_t dra_service_requests(const struct dra_service *service);
size_t dra_service_works(const struct dra_service *service);

/*
 * To be called when its servers are closed: no call may be open. Works that run continue, but their answers are
 * dropped. The memory is freed when the loop has closed the timers. Accepts NULL, returns NULL.
 */
struct dra_service *dra_service_close(struct dra_service *service);
