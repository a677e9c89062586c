// SPDX-License-Identifier: Apache-2.0
/*
 * A node of the cluster: what is known of its Node object, of its agent, and of its GPUs. Reading the Node object is
 * pure, and so is reading the values of other API objects, as they are kept: in an arena, cut to a bound, and clean
 * (base/text.h), since they are shown in terminals.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "node/report/node_page.h"

#define CLUSTER_LABELS ((size_t)512) /* of a node; more are ignored, and so on */
#define CLUSTER_TAINTS ((size_t)64)
#define CLUSTER_CONDITIONS ((size_t)64)
#define CLUSTER_RESOURCES ((size_t)128)
#define CLUSTER_LOOK ((size_t)128)  /* items of a list that are looked at for one of them */
#define CLUSTER_TEXT ((size_t)1024) /* bytes of a message; the rest is cut */

struct cluster_label {
        const char *key;
        const char *value;
};

struct cluster_taint {
        const char *key;
        const char *value;  /* "" for none */
        const char *effect; /* "NoSchedule", … */
};

struct cluster_condition {
        const char *type;
        const char *status; /* "True", "False", "Unknown" */
        const char *reason;
        const char *message;
        int64_t since; /* Unix seconds; 0: not known */
};

/* An extended resource, or another one with a domain: "nvidia.com/gpu". Not cpu, memory, pods and storage. */
struct cluster_resource {
        const char *name;
        uint64_t capacity;    /* devices that a plugin has reported to kubelet; at most UINT32_MAX each */
        uint64_t allocatable; /* the healthy part of it, which the scheduler counts with */
};

/* The content of a Node object; all in one arena. */
struct cluster_node_object {
        const char *uid;
        bool is_ready;
        bool is_cordoned;    /* spec.unschedulable */
        const char *kubelet; /* its version, "v1.36.0"; NULL: unknown, also below */
        const char *address; /* InternalIP */
        int64_t created;     /* Unix seconds; 0: unknown */
        const struct cluster_label *labels;
        size_t n_labels;
        const struct cluster_taint *taints;
        size_t n_taints;
        const struct cluster_condition *conditions;
        size_t n_conditions;
        const struct cluster_resource *resources; /* by name */
        size_t n_resources;
};

enum cluster_agent_state {
        CLUSTER_AGENT_NONE,    /* no pod of an agent on this node */
        CLUSTER_AGENT_ASKED,   /* its first answer has not come yet */
        CLUSTER_AGENT_ANSWERS, /* |page| is of the last question */
        CLUSTER_AGENT_TOO_OLD, /* it is there, but serves no node page (404) */
        CLUSTER_AGENT_SILENT,  /* it cannot be asked, does not answer, or its answer is not a node page: |reason| */
};

/* The pod of an agent. */
struct cluster_agent {
        const char *node;
        const char *namespace;
        const char *pod;
        const char *image;
        const char *trouble; /* why it cannot be asked: "its container waits: ImagePullBackOff"; NULL: it can */
        unsigned int port;   /* of its pages */
        bool is_tls;
        bool is_ready;
        uint64_t restarts;
        int64_t created; /* Unix seconds; 0: unknown */
};

struct cluster_node {
        const char *name;
        uint64_t version;                         /* the view's version when it changed last */
        const struct cluster_node_object *object; /* NULL: no Node object, or none may be read */
        const struct cluster_agent *agent;        /* NULL: none */
        enum cluster_agent_state state;
        const char *reason;           /* TOO_OLD, SILENT: why, in a sentence without a full stop; otherwise NULL */
        int64_t since;                /* Unix seconds: since when the state is so */
        const struct node_page *page; /* the last one, also of an agent that is silent now; NULL: none yet */
        int64_t page_time;            /* Unix seconds: when it came */
};

/* "none", "asked", "answers", "too-old", "silent" */
const char *cluster_agent_state_name(enum cluster_agent_state state);

/* All lives in |arena|; what is missing or of a wrong type is empty. */
const struct cluster_node_object *cluster_node_read(const json_t *object, struct arena *arena);

const char *cluster_node_label(const struct cluster_node *node, const char *key); /* NULL: none */
const struct cluster_resource *cluster_node_resource(const struct cluster_node *node, const char *name);
const struct cluster_condition *cluster_node_condition(const struct cluster_node *node, const char *type);

/* A place on the page of a node, for going through its units or their shares; zeroed at first. */
struct cluster_place {
        const struct report_gpu *gpu;
        const struct report_unit *unit;
        const struct report_share *share;
        size_t n_gpus; /* those that are done; private, like the next two */
        size_t n_units;
        size_t n_shares;
};

/* The next one; false: there is none. |page| may be NULL. */
bool cluster_next_unit(const struct node_page *page, struct cluster_place *place);
bool cluster_next_share(const struct node_page *page, struct cluster_place *place);

/* ---- values of API objects ---- */

/* NULL stays NULL. Cleaned; at most CLUSTER_TEXT bytes, cut between characters. */
const char *read_cut(struct arena *arena, const char *text);

/* The member's text, cut; NULL or "" where it is not a string, or |object| not an object. */
const char *read_text(struct arena *arena, const json_t *object, const char *key);
const char *read_text_or_empty(struct arena *arena, const json_t *object, const char *key);

/* The first object of a list whose member |key| is |text|; NULL: none is, or |text| is NULL. */
const json_t *read_find(const json_t *list, const char *key, const char *text);

/* metav1.Time, "2026-11-22T13:00:00Z", as Unix seconds; 0 for NULL and for any other text. */
int64_t read_time(const char *text);

/*
 * Whether devices can be counted by it: its domain is not Kubernetes' own, as in "nvidia.com/gpu", or it stands for a
 * device class ("deviceclass.resource.kubernetes.io/gpu").
 */
bool read_is_device_resource(const char *name);

/* "namespace/name" of an object, for the caller to free; NULL: it lacks one of them. */
char *read_key(const json_t *object);
