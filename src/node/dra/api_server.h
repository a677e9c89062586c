/*
 * Finds out what the API server has of DRA, by one request after the other. It knows no layout, and no slices but the
 * one of its probe.
 *
 *   group ──► version ──► probe ──► known
 *
 * Group: of v1, v1beta2 and v1beta1 the newest that the server has. Version: of the server itself, because 1.35 wants
 * counters and devices in different slices, and schedulers of some patch releases forget shares. Probe: a dry run with
 * a slice that has a field of each feature; fields that the server returns are features that are on. A server that
 * refuses the probe has none of them, even if it knows the fields.
 */
#pragma once

#include "base/error.h"
#include "node/dra/slices.h"
#include "net/kube/client.h"

struct dra_api_server_options {
        struct kube_client *client;
        const char *driver; /* all texts outlive the user */
        const char *node;
        const char *pool;
        /*
         * Each request ends with it: NULL: there is more to be asked, or all is known. ERROR_NOT_FOUND: the server has
         * no resource.k8s.io. |retry_after_ms|: the wait that the server asks for.
         */
        void (*done)(const struct error *error, uint64_t retry_after_ms, void *data);
        void *data;
};

/* An answer that is false here is not known yet; a user who doubts an answer makes it false again. */
struct dra_api_server {
        struct dra_api_server_options options;
        bool has_api;
        enum dra_api api;
        bool has_version;
        bool counters_apart;
        char forgetful[64]; /* "v1.36.1", whose scheduler forgets shares (node/dra/layout.h); "": it does not */
        bool has_features;
        struct dra_features features;
        json_t *probe; /* the spec that was sent */
};

void dra_api_server_init(struct dra_api_server *server, const struct dra_api_server_options *options);

/* The call has ended, or was cancelled. */
void dra_api_server_done(struct dra_api_server *server);

bool dra_api_server_is_known(const struct dra_api_server *server);

/* Sends the next request, of what is not known; |owner_uid| is that of the Node. Returns it, to be cancelled. */
struct kube_call *dra_api_server_ask(struct dra_api_server *server, const char *owner_uid);
