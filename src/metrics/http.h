/*
 * GET /metrics, GET /healthz and GET /livez on a TCP port, for Prometheus and for kubelet's probes. It knows nothing of what the pages
 * say. /healthz asks whether all is well; /livez is answered by whoever can answer, since a restart mends a loop that hangs, and nothing
 * else of what /healthz complains about.
 * The protocol is libmicrohttpd's, without a thread of its own: the loop runs it when there is something to do. Nobody who
 * connects is trusted, nor can anybody change anything here.
 *
 * A connection has one request and METRICS_HTTP_DEADLINE_MS for all of it, however slowly its client writes and reads. One IP address
 * has at most METRICS_HTTP_PER_PEER; whoever comes on top of that is let go at once. When there are more than
 * METRICS_HTTP_CONNECTIONS, the oldest of the address that has most of them ends: so a probe is answered whatever other addresses hold,
 * and kubelet has no reason to restart a process that is well. A head has room in METRICS_HTTP_MEMORY, ours included.
 */
#pragma once

#include <uv.h>

#include "base/error.h"

#define METRICS_HTTP_CONNECTIONS 16U
#define METRICS_HTTP_PER_PEER 8U
#define METRICS_HTTP_MEMORY ((size_t)8 * 1024)
#define METRICS_HTTP_DEADLINE_MS UINT64_C(10000)

struct metrics_http;

struct metrics_http_options {
        uv_loop_t *loop;
        const char *address; /* "127.0.0.1:9400", "[::1]:9400"; ":9400": every address; port 0: the kernel chooses */
        char *(*metrics)(void *data); /* the page, which is freed */
        char *(*ailment)(void *data); /* why all is not well, one sentence, which is freed; NULL: well */
        void *data;                   /* neither callback may close */
        uint64_t deadline_ms;         /* 0: METRICS_HTTP_DEADLINE_MS */
};

int metrics_http_new(struct metrics_http **ret, const struct metrics_http_options *options, struct error *err) MUST_USE;

unsigned int metrics_http_port(const struct metrics_http *http);

/* Connections end at once; the memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct metrics_http *metrics_http_close(struct metrics_http *http);
