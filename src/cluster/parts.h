/* The parts of struct cluster, private to its files. */
#pragma once

#include "base/list.h"
#include "cluster/cluster.h"
#include "cluster/poll.h"
#include "cluster/sorted.h"
#include "net/kube/list.h"
#include "net/kube/watch.h"

enum { CLUSTER_WATCH_NODES, CLUSTER_WATCH_AGENTS, CLUSTER_WATCH_PODS, N_CLUSTER_WATCHES };

struct cluster_watch {
        struct cluster *cluster;
        struct kube_watch *watch; /* NULL: not wanted */
        bool is_settled;          /* synced, or in trouble, at least once */
        struct error trouble;     /* kind ERROR_NONE: none */
        struct error too_large;   /* objects that were left out; the same */
};

struct cluster {
        struct cluster_options options; /* texts are owned */
        struct cluster_watch watches[N_CLUSTER_WATCHES];
        struct sorted nodes;
        struct sorted agents;
        struct error strangers; /* the agents' pods are in several namespaces; kind ERROR_NONE: they are not */
        struct sorted pods;
        struct sorted more;       /* struct cluster_pod_entry without its pod: those that are left out */
        struct kube_list *refill; /* reads the one that is called |refill_key|; NULL: none */
        char *refill_key;
        struct poll poll;
        uv_timer_t tell; /* on_change is due */
        unsigned int n_open;
        struct cluster_view view;
        const struct cluster_node **node_views; /* for |view|, as the next */
        const struct cluster_pod **pod_views;
        const struct error *too_large[N_CLUSTER_WATCHES];
        struct arena more_arena; /* of the view's |more| */
};

/* What stands in the arrays begins with its key. */
struct cluster_entry {
        char *name;
        struct cluster_node view;
        struct cluster *cluster;
        struct arena object_arena;
        struct arena page_arena;
        struct node_page page;
        struct list agents; /* struct cluster_agent_pod; usually one */
        char *path;         /* what is asked; NULL: nobody is */
        char *reason;
        struct poll_turn turn;
};

struct cluster_agent_pod {
        char *key; /* "namespace/name" */
        struct list link;
        struct arena arena;
        const struct cluster_agent *agent;
        struct cluster_entry *entry;
};

struct cluster_pod_entry {
        char *key; /* "namespace/name" */
        struct arena arena;
        const struct cluster_pod *pod;
};

char *cluster_pod_key(const json_t *object); /* for the caller to free; NULL: it has no name */

/* Something was changed: the new version of the view. */
uint64_t cluster_changed(struct cluster *cluster);

/* A Node object; a pod of an agent; a pod that waits or failed. */
void cluster_on_node(enum kube_change change, json_t *object, struct cluster *cluster);
void cluster_on_agent(enum kube_change change, json_t *object, struct cluster *cluster);
void cluster_on_pod(enum kube_change change, json_t *object, struct cluster *cluster);

/* Whose pods are left out, for the view. */
const struct cluster_more *cluster_count_more(struct cluster *cluster, size_t *ret_count);
void cluster_stop_refill(struct cluster *cluster);

/* For struct poll_options. */
char *cluster_question(struct poll_turn *turn, void *data);
bool cluster_on_answer(struct poll_turn *turn, const struct kube_answer *answer, void *data);

void cluster_entry_free(struct cluster_entry *entry);
void cluster_agent_pod_free(struct cluster_agent_pod *pod);
void cluster_pod_entry_free(struct cluster_pod_entry *entry);
