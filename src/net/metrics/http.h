// SPDX-License-Identifier: Apache-2.0
/*
 * GET /metrics, GET /node, GET /healthz and GET /livez on a TCP port, for Prometheus, for `warpshare top` and its like,
 * and for kubelet's probes. It does not know the content of the pages. /healthz reports whether all is well. /livez
 * answers as long as the loop runs, since a restart repairs a loop that hangs, but nothing else that /healthz reports.
 * HTTP itself, with its bounds and deadlines, is net/http/server.h.
 *
 * Pages are made on the loop, which has more urgent things to do, so clients must not be able to keep it busy: a page
 * that took t to make is given to all clients that ask for the same within the next 50 t, at most
 * METRICS_HTTP_SHARED_MS. Local clients get a new one each time, unless they need a token like all others.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/error.h"
#include "net/http/server.h"

#define METRICS_HTTP_CONNECTIONS 32U
#define METRICS_HTTP_PER_PEER 8U
#define METRICS_HTTP_SHARED_MS 2000U

struct metrics_http;

/* The status of the answer. */
enum metrics_permission {
        METRICS_ALLOWED = 200,
        METRICS_NOBODY = 401,    /* no token, or an invalid one */
        METRICS_DENIED = 403,    /* the user may not read that page */
        METRICS_UNDECIDED = 503, /* it cannot be found out now */
};
/* |why|: a sentence for the client, unless it is allowed. */
typedef void metrics_permission_fn(enum metrics_permission permission, const char *why, void *waiting);

struct metrics_asker {
        const char *authorization; /* the header; NULL: none was sent */
        const char *path;
        bool is_suspect; /* net/http/server.h */
};

struct metrics_http_options {
        uv_loop_t *loop;
        const char *address; /* "127.0.0.1:9400", "[::1]:9400"; ":9400": every address; port 0: the kernel chooses */
        char *(*metrics)(void *data); /* the page, which is freed */
        /*
         * The page of the node, JSON, which is freed; NULL: there is none. What is asked for by `?history=1` and
         * `?processes=1`
         */
        char *(*node)(bool has_history, bool has_processes, void *data);
        char *(*unhealthy_reason)(void *data); /* one sentence, which is freed; NULL: healthy */
        /*
         * May |asker| read the page of that path? Asked for /metrics and /node, of local clients
         * (http_request_is_local()) only where |asks_local|. |done| is called once, at once or later, or cancel() ends
         * the question: what ask() returned; NULL if |done| was called already. ask NULL: everybody may.
         */
        void *(*ask)(const struct metrics_asker *asker, metrics_permission_fn *done, void *waiting, void *data);
        void (*cancel)(void *question, void *data);
        bool asks_local;
        /*
         * Where |ask| is NULL, clients of other machines, or pods, may read /node, but for its processes. false: local
         * ones alone.
         */
        bool node_is_open;
        const struct http_server_tls *tls; /* net/http/server.h; NULL: none */
        void (*on_tls_trouble)(const struct error *error, void *data);
        void *data;           /* no callback may close */
        uint64_t deadline_ms; /* 0: HTTP_DEADLINE_MS */
};

int metrics_http_new(struct metrics_http **ret, const struct metrics_http_options *options, struct error *err) MUST_USE;

unsigned int metrics_http_port(const struct metrics_http *http);

/* Connections end at once; the memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct metrics_http *metrics_http_close(struct metrics_http *http);
