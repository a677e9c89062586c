// SPDX-License-Identifier: Apache-2.0
/*
 * NodeWatchResources: sends the health of the devices to all watchers. Kubelet shows it in the status of pods.
 *
 * A stream gets the whole list when it opens, at once after a change, and again every |resend_ms|, because a device
 * that kubelet has not been sent for |timeout_s| becomes "Unknown". Without watchers no timer runs. For a slow reader
 * one message is kept, the newest.
 *
 * DRAResourceHealth v1 (kubelet 1.37 and newer) and v1alpha1 (1.34 to 1.39) have the same messages, so both are served
 * by the same code, and a watcher of one is a watcher as any other.
 *
 * It does not know where health comes from, nor taints in ResourceSlices.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "net/rpc/session.h"

#define DRA_HEALTH_RESEND_MS UINT64_C(10000)
#define DRA_HEALTH_MESSAGE_MAX ((size_t)1024) /* bytes; a longer message is cut, as kubelet does */

/* The numbers of the protocol. */
enum dra_health_status { DRA_HEALTH_UNKNOWN = 0, DRA_HEALTH_HEALTHY = 1, DRA_HEALTH_UNHEALTHY = 2 };

struct dra_health_device {
        const char *pool_name;
        const char *device_name;
        enum dra_health_status status;
        int64_t updated_unix_s;
        const char *message; /* shown from 1.36 on; NULL: none */
};

struct dra_health_stream;

/* |resend_ms|: 0 means DRA_HEALTH_RESEND_MS. A stream that opens before the first list is set waits for it. */
struct dra_health_stream *dra_health_stream_new(uv_loop_t *loop, uint64_t resend_ms);

/* Sets the health of all devices, which is copied. A list that is the same as before is not sent again. */
void dra_health_stream_set(struct dra_health_stream *stream, const struct dra_health_device *devices, size_t count);

/* Adds a call of NodeWatchResources; for its handler. */
void dra_health_stream_add(struct dra_health_stream *stream, struct rpc_call *call);

/* Ends the calls with OK; kubelet opens another one. */
void dra_health_stream_end_all(struct dra_health_stream *stream);

/* No call may be open any more. The memory is freed when the loop has closed the timer. Accepts NULL, returns NULL. */
struct dra_health_stream *dra_health_stream_close(struct dra_health_stream *stream);
