/*
 * A request to /api on its way: whose token it has, what its viewer may see, and for the page of a GPU or a pod the
 * last hour, which the node's agent is asked for then: the cluster's view has no histories, which would be most of its
 * memory.
 */
#pragma once

#include "cluster/cluster.h"
#include "cluster/dashboard/scope.h"
#include "net/http/server.h"
#include "net/kube/access.h"
#include "net/kube/client.h"

#define VISIT_NAMESPACES ((size_t)KUBE_ACCESS_WISHES) /* in which a viewer's rights are asked for; more are hidden */
#define VISIT_AGENT_MS UINT64_C(3000)                 /* for the history; then the answer has none */

struct visit_options {
        struct cluster *cluster;    /* borrowed, like the two below */
        struct kube_client *client; /* of |cluster| */
        struct kube_access *rights; /* NULL: everybody sees all */
        /* Each answers the request. */
        void (*answer)(struct http_request *request, const struct cluster_view *view,
                const struct dashboard_scope *scope, void *data);
        void (*refuse)(struct http_request *request, unsigned int status, const char *text);
        /* The node whose agent's last hour is wanted; NULL: none. */
        const struct cluster_node *(*find_node)(const struct http_request *request, const struct cluster_view *view);
        void *data;
};

/* |options| outlives the requests. */
void visit_begin(struct http_request *request, const struct visit_options *options);
