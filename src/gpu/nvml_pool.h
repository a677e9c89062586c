// SPDX-License-Identifier: Apache-2.0
/*
 * NVML in processes of its own (base/io/worker.h), so that no call of it can hold or end the program. Nothing else in
 * the agent or in the supervisor loads the library.
 *
 * A request is a function that runs in such a process, its question, and its answer. NVML is opened by the first
 * function that wants it, and stays open there; the process ends after ten seconds without a request, since a GPU that
 * a process has opened cannot be reset. Requests about the same GPU are served one after the other, in the order in
 * which they were asked, and so are those about no GPU. After one whose process was killed the next waits until that
 * has ended, since the driver may still be at it.
 *
 * One process serves all, as long as it answers. When a request has taken NVML_POOL_SLOW_MS and others wait, they get
 * another process. A call that has not returned after |hang_ms| is given up: its process is killed, its request fails
 * with an error that names the call and the GPU. Where the process cannot be killed, requests about the same GPU fail
 * at once until it has ended.
 *
 *         static int serve_name(struct nvml_serving *serving, struct pack *question, struct pack *answer,
 *                 struct error *err)
 *         {
 *                 const struct nvml *nvml;
 *
 *                 if (nvml_serving_open(serving, &nvml, err) < 0)
 *                         return -1;
 *                 …
 *                 PACK(answer, name);
 *                 return 0;
 *         }
 */
#pragma once

#include <uv.h>

#include "base/list.h"
#include "base/pack.h"
#include "gpu/hangs.h"
#include "gpu/driver_change.h"
#include "gpu/nvml.h"

#define NVML_POOL_SLOW_MS UINT64_C(500)
#define NVML_POOL_HANG_MS UINT64_C(10000)
#define NVML_POOL_MAX 16U /* processes, and calls that nvml_pool_hangs() names */

/* The state of NVML in a process of the pool. */
struct nvml_serving {
        const char *library; /* as in nvml_open() */
        const char *driver_root;
        const char *system_root; /* "" or a folder with /sys and /proc; NULL: the next two are not wanted */
        struct nvml *nvml;       /* NULL: closed */
        struct driver_mark mark; /* the driver that was opened, and the kernel's GPUs then */
        struct driver_gpus gpus;
        bool must_close;    /* set by who sees that the library has lost its driver or a GPU: it is opened again */
        struct arena arena; /* of one request */
};

int nvml_serving_open(struct nvml_serving *serving, const struct nvml **ret, struct error *err) MUST_USE;
/* The driver that would be loaded now, even while another one is open, and the kernel's GPUs now. */
struct driver_mark nvml_serving_mark(const struct nvml_serving *serving);
struct driver_gpus nvml_serving_gpus(const struct nvml_serving *serving);

/* Reads |question| and writes |answer|, which is dropped with an error. Texts of the question live until it returns. */
typedef int nvml_serve_fn(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err);

struct nvml_pool;
struct nvml_lane;

/* Embedded in a struct of its owner; the pool's until |done|. Starts zeroed, by nvml_request_init(). */
struct nvml_request {
        nvml_serve_fn *serve;
        char gpu[CALL_GPU_SIZE]; /* the UUID of what it is about, of a GPU or a MIG device; "": no GPU in particular */
        struct strbuf question;  /* filled with pack_writer(); freed by the pool */
        /*
         * Called from the loop, never inside nvml_pool_ask(). |err| NULL: it was served. ERROR_TIMEOUT: the call |lost|
         * did not return. Another kind, and |lost.call| is not "": the process ended in that call. |answer| is valid in
         * this callback, and empty with an error.
         */
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer);
        struct worker_call lost;

        /* Private. */
        struct worker_request inner;
        struct strbuf message;
        struct nvml_lane *lane;
        struct nvml_pool *pool;
        struct list link;
};

void nvml_request_init(struct nvml_request *request, nvml_serve_fn *serve, const char *gpu,
        void (*done)(struct nvml_request *request, const struct error *err, struct pack *answer));

struct nvml_pool_options {
        uv_loop_t *loop;
        const char *name; /* of the processes; 15 characters at most, a constant */
        const char *library;
        const char *driver_root;
        const char *system_root; /* as in struct nvml_serving */
        uint64_t hang_ms;        /* 0: NVML_POOL_HANG_MS */
        uint64_t idle_ms;        /* after which the first process ends; 0: WORKER_IDLE_MS */
        /* A call was given up, or a later request about the same GPU was answered. NULL: both are logged. */
        void (*on_hang)(const struct worker_call *call, bool is_over, void *data);
        void *data;
};

struct nvml_pool *nvml_pool_new(const struct nvml_pool_options *options);
void nvml_pool_ask(struct nvml_pool *pool, struct nvml_request *request);
/* |done| is not called any more, and the request is the owner's again. */
void nvml_pool_cancel(struct nvml_pool *pool, struct nvml_request *request);

/* The call that a request without an answer is in. Its name is "" before the request begins, and between two calls. */
struct worker_call nvml_pool_find_call(const struct nvml_request *request);
/* A request about no GPU turned out to be in a call about that one: others about no GPU do not wait for it any more. */
void nvml_pool_narrow(struct nvml_pool *pool, struct nvml_request *request, const char *gpu);

/* No later request is served with the library that is loaded now. */
void nvml_pool_renew(struct nvml_pool *pool);
/* No process is left that may have NVML open. */
bool nvml_pool_has_ended(const struct nvml_pool *pool);

/* The calls that were given up, about GPUs of which no request was answered since. Returns their number. */
size_t nvml_pool_hangs(const struct nvml_pool *pool, struct worker_call ret[NVML_POOL_MAX]);

/* Requests that were not served fail with ERROR_UNAVAILABLE, from inside. Accepts NULL, returns NULL. */
struct nvml_pool *nvml_pool_close(struct nvml_pool *pool);
