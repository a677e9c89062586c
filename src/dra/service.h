/*
 * DRAPlugin v1 and v1beta1, and NodeWatchResources (dra/health_stream.h), as calls to whoever prepares claims.
 *
 * A request of kubelet's names claims. Each claim is one piece of work for the backend, and the request is answered when all of its claims
 * are, or after |timeout_ms|: what is not done by then gets an error of ours, while kubelet still listens (it waits for 45 s). The answer
 * has an entry for every claim.
 *
 * Works of different claims run at the same time; those of one UID one after another, in the order of the requests. A request that asks
 * for what the newest work of that claim does already shares it, even if the first who asked has got an error meanwhile: kubelet asks
 * again after a timeout, the claim's allocation cannot change while it is reserved, and so the second attempt gets what the first one took too
 * long for. Asked to prepare while an Unprepare runs, or the other way round, the second waits. Work that has not begun when the last
 * who waited for it is gone is dropped: an Unprepare may have come by another way meanwhile.
 *
 *     Prepare A ──► work 1 runs          answered: both requests, and then work 2 begins
 *     Prepare A ──► shares work 1
 *     Unprepare A ──► work 2 waits
 *
 * Two instances (a rolling update): work begins only while this process holds the lock on |lock_directory| (io/lock.h), and the lock is given
 * back when no work runs. Who cannot get it within |timeout_ms| answers with an error, so that kubelet tries again. It is one lock for
 * all claims, since the instances also share the ledger and the CDI files.
 *
 * It does not know claims' contents, the API server, nor sockets (dra/registration.h has them).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "dra/health_stream.h"
#include "rpc/session.h"

#define DRA_SERVICE_TIMEOUT_MS UINT64_C(40000)  /* below kubelet's 45 s */
#define DRA_SERVICE_CLAIMS_MAX ((size_t)128)    /* of one request */
#define DRA_SERVICE_REQUESTS_MAX ((size_t)1024) /* not answered yet; one more is refused */
#define DRA_SERVICE_WORKS_MAX ((size_t)4096)    /* not done yet; a request that needs more is refused */

/* |uid| is letters, digits and '-'; the other two are names as the API server has them. */
struct dra_service_claim {
        const char *namespace;
        const char *uid;
        const char *name;
};

struct dra_service_device {
        const char *const *request_names; /* without the part after a '/'; none: all of the claim's */
        size_t n_request_names;
        const char *pool_name;
        const char *device_name;
        const char *const *cdi_device_ids;
        size_t n_cdi_device_ids;
        const char *share_id; /* NULL: none */
};

struct dra_work;

/*
 * Each work is answered exactly once by one of the functions below, at once or later, however late: its memory goes then. |claim|
 * lives as long as the work.
 */
struct dra_service_backend {
        void (*prepare)(struct dra_work *work, const struct dra_service_claim *claim, void *data);
        void (*unprepare)(struct dra_work *work, const struct dra_service_claim *claim, void *data);
        void *data;
};

/* Done; |devices| are copied, and ignored for an Unprepare. */
void dra_work_succeed(struct dra_work *work, const struct dra_service_device *devices, size_t count);
void dra_work_fail(struct dra_work *work, const struct error *err);

struct dra_service_options {
        uv_loop_t *loop;
        struct dra_service_backend backend;
        const char *lock_directory; /* NULL: no lock; need not exist yet */
        uint64_t timeout_ms;        /* 0: DRA_SERVICE_TIMEOUT_MS */
        uint64_t resend_ms;         /* of health; 0: DRA_HEALTH_RESEND_MS */
};

struct dra_service;

struct dra_service *dra_service_new(const struct dra_service_options *options);

/* What a server of it serves: methods and their context, borrowed. */
struct rpc_service dra_service_rpc(struct dra_service *service);

struct dra_health_stream *dra_service_health(struct dra_service *service);

/* Requests that are not answered, and works that are not done. */
size_t dra_service_requests(const struct dra_service *service);
size_t dra_service_works(const struct dra_service *service);

/*
 * To be called when its servers are closed: no call may be open. Work that runs goes on and is answered to nobody. The memory goes when
 * the loop has closed the timers. Accepts NULL, returns NULL.
 */
struct dra_service *dra_service_close(struct dra_service *service);
