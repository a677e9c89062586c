// SPDX-License-Identifier: Apache-2.0
/*
 * A kubelet that does whatever a kubelet may: it takes registrations in the manner that the test sets, follows
 * ListAndWatch, calls plugins, and cuts what the test says. It has nothing on disk but its socket. There is one.
 */
#pragma once

#include "unit.h"

#include "net/rpc/client.h"
#include "net/rpc/server.h"

#define WILD_IDS 32
#define WILD_ENDPOINTS ((size_t)512)

/* What becomes of a Register request. */
enum wild_manner {
        WILD_TAKES,
        WILD_REFUSES,
        WILD_IS_SILENT,
        WILD_FORGETS, /* answered well, and no list is asked for */
        WILD_CUTS,    /* answered well, and the connection is closed at once */
        WILD_MANNERS,
};

/* A plugin that has registered, as kubelet has it. */
struct wild_endpoint {
        char resource[32];
        struct rpc_client *client; /* NULL: closed */
        struct rpc_call *registering, *watch;
        bool is_current; /* of its resource */
        bool calls_at_start;
        bool has_list;
        size_t n_ids;
        struct {
                char id[24];
                bool is_healthy;
        } ids[WILD_IDS];
};

struct wild_kubelet {
        uv_loop_t *loop;
        const char *folder;
        struct rpc_server *server; /* NULL: it does not run */
        enum wild_manner manner;
        /* Up to 1.36: the end of an old stream disconnects who has the name now (node/kubelet/registration.h). */
        bool is_old;
        struct wild_endpoint endpoints[WILD_ENDPOINTS];
        size_t n_endpoints;
        unsigned int n_registers; /* requests that have come */
        unsigned int n_requests, n_open_requests, n_answers;
};
extern struct wild_kubelet kubelet;

/* |folder| must outlive it. It does not run yet. */
void wild_begin(uv_loop_t *loop, const char *folder);
void wild_start(void);
/* Also where it does not run. Its socket is gone then, but the connections are closed by the loop. */
void wild_stop(void);

/* The files in its folder whose names begin with |prefix|; they are removed, or only counted. */
size_t wild_each_file(const char *prefix, bool removes);

/* The newest of that name, or NULL. */
struct wild_endpoint *wild_find(const char *resource);
size_t wild_count_watches(void);
/* The connection goes, or only the list. */
void wild_cut(struct wild_endpoint *endpoint);
void wild_unwatch(struct wild_endpoint *endpoint);

/* Allocate for one container, or PreStartContainer. */
void wild_allocate(struct wild_endpoint *endpoint, char **ids, size_t n_ids);
void wild_start_container(struct wild_endpoint *endpoint, char **ids, size_t n_ids);
