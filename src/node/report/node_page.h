// SPDX-License-Identifier: Apache-2.0
/*
 * The page of one node, GET /node of the agent (docs/node-page.md): its GPUs, how they are shared, who was granted how
 * much of them, who uses how much, and what happened lately. The agent writes it; `warpshare top`, `kubectl warpshare`
 * and the dashboard read it. Pure: structs and text.
 *
 * What is not known is absent on the page: NaN, NULL or a list without items here. Reading is strict about types and
 * bounds, and ignores members that it does not know, so that agents and commands of different versions understand each
 * other. Words (sharing, by, kind) are texts for the same reason. Texts have at most REPORT_TEXT_MAX bytes:
 * longer ones are cut when they are written. They are cleaned (base/text.h) when they are written and when they are
 * read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

struct json_shape;

#define NODE_PAGE_VERSION 1U
#define NODE_PAGE_MAX                                                                                                  \
        ((size_t)4 * 1024 * 1024) /* bytes of a page; its reader takes up to a hundred times as much for a moment */
#define REPORT_TEXT_MAX ((size_t)1024)
#define REPORT_GPUS_MAX 256U
#define REPORT_UNITS_MAX 64U    /* of a GPU */
#define REPORT_SHARES_MAX 2048U /* of a unit */
#define REPORT_OTHERS_MAX 8U
#define REPORT_PROCESSES_MAX 1024U /* of a share */
#define REPORT_HISTORY_MAX 60U     /* minutes */
#define REPORT_EVENTS_MAX 64U

struct report_process {
        double pid; /* in the agent's PID namespace */
        const char *name;
        double memory_used; /* bytes, as everywhere here */
        double sm;          /* ratios are from 0 to 1 */
};

/* One value a minute, the newest last; NaN: unknown. */
struct report_history {
        const double *values;
        size_t n_values;
};

/* A pod's share of a unit, and its use of it. */
struct report_share {
        const char *pod_namespace;
        const char *pod;
        const char *container;
        const char *claim;
        const char *pod_uid;
        double replicas; /* granted; absent under DRA */
        double memory_limit;
        double thread_percent; /* 0 to 100 */
        double memory_used;
        double memory_peak; /* of the last hour */
        double sm;
        double memory_controller;
        double idle_since; /* whole seconds since the epoch; absent: it is active, or that is not known */
        double seconds;    /* counters: with a process on the unit */
        double sm_seconds;
        double energy; /* joules, an estimate */
        const struct report_process *processes;
        size_t n_processes;
        struct report_history sm_history;
        struct report_history memory_history; /* bytes */
};

/* Memory and activity that do not belong to a pod. */
struct report_other {
        const char *by; /* "mps-server", "host", "hidden", "unattributed" */
        double memory_used;
        double sm;
        const struct report_process *processes;
        size_t n_processes;
};

/* The GPU itself, or one of its MIG devices. */
struct report_unit {
        const char *uuid;
        const char *index;    /* "0", "0:1" */
        const char *profile;  /* of a MIG device */
        const char *resource; /* that it is advertised as */
        const char *sharing;  /* "none", "time-slicing", "mps" */
        const char *by;       /* who grants it: "device-plugin", "dra" */
        bool draining;        /* a change waits for the pods that have some of it; no other pod gets any meanwhile */
        double replicas;
        double granted;  /* of the replicas; NaN also where another agent still serves the node */
        double reserved; /* kept back so that larger requests find room */
        double memory;
        double memory_used;
        double utilization;
        bool has_health; /* else the next two say nothing */
        bool healthy;
        const char *reason; /* why it is not healthy */
        struct report_history sm_history;
        struct report_history memory_history;
        const struct report_share *shares;
        size_t n_shares;
        const struct report_other *others;
        size_t n_others;
};

struct report_gpu {
        const char *uuid;
        const char *index;
        const char *model;
        double memory;
        double memory_used;
        double utilization;
        double temperature; /* °C */
        double power;       /* watts */
        double power_limit;
        const struct report_unit *units;
        size_t n_units;
};

struct report_event {
        double time;      /* seconds since the epoch */
        const char *kind; /* "Normal", "Warning" */
        const char *reason;
        const char *unit; /* UUID; NULL: it is not about one */
        const char *text;
};

struct node_page {
        unsigned int version;
        const char *node;
        const char *agent; /* its version; NULL: the page was made without one */
        double time;       /* of the newest sample, seconds since the epoch */
        const char *driver;
        const char *configuration;  /* the name of the one in force, where it has one */
        const char *owners_unknown; /* why it is not known who uses a unit, and what to do; NULL: it is known */
        const struct report_gpu *gpus;
        size_t n_gpus;
        const struct report_event *events; /* the newest last */
        size_t n_events;
};

/* All unknown. */
extern const struct report_process report_process_unknown;
extern const struct report_share report_share_unknown;
extern const struct report_other report_other_unknown;
extern const struct report_unit report_unit_unknown;
extern const struct report_gpu report_gpu_unknown;

/* How each of these is written as JSON (base/data/json_fields.h), for pages that show parts of a node's page. */
extern const struct json_shape report_share_shape;
extern const struct json_shape report_unit_shape;
extern const struct json_shape report_gpu_shape;
extern const struct json_shape report_event_shape;

/*
 * The replicas of a unit that pods have: the agent's number, or at least the sum of its shares; NaN if both are
 * unknown.
 */
double report_unit_granted(const struct report_unit *unit);

/* The text, with a newline, for the caller to free. Lists are within their bounds. |is_indented|: for people. */
char *node_page_write(const struct node_page *page, bool is_indented);

/*
 * All that is returned lives in |arena|. ERROR_INVALID: no such page, or more than NODE_PAGE_MAX; a page of another
 * version is one as long as its members are of the same types.
 */
int node_page_read(
        struct node_page *ret, struct arena *arena, const char *text, size_t size, struct error *err) MUST_USE;
