/*
 * What `warpshare top` shows: the model, made of a page of metrics (docs/metrics.md, "What is used"), and its three forms. Pure but for
 * fetch and local, which get the page: from the agent, or from the driver where there is no agent.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "metrics/page.h"

/* A pod on a unit, or what else has memory of it. Numbers are NaN where the page does not have them. */
struct top_share {
        const char *by; /* "mps-server", "host", "hidden", "unattributed"; NULL: a pod's */
        const char *pod_namespace;
        const char *pod;
        const char *container;
        const char *claim;
        const char *pod_uid;
        double limit; /* bytes */
        double used;
        double peak;
        double sm; /* 0 to 1 */
        double memory_controller;
        double seconds;
        double sm_seconds;
        double energy; /* joules, an estimate */
};

struct top_unit {
        const char *uuid;
        const char *index; /* "3", "3:1", or NULL */
        double capacity;   /* bytes */
        double used;
        double utilization; /* 0 to 1 */
        double temperature;
        double power; /* watts */
        double power_limit;
        struct top_share **shares;
        size_t n_shares;
        size_t capacity_of_shares;
};

struct top {
        struct top_unit *units; /* by index */
        size_t n_units;
};

enum top_sort { TOP_BY_MEMORY, TOP_BY_SM, TOP_BY_PEAK, TOP_BY_POD };

/* |filter|: only shares whose "namespace/pod/container" contains it, and units that have one; "": all. */
struct top_wish {
        enum top_sort sort;
        const char *filter;
};

/* All lives in |arena|, and the texts in the page's. */
void top_make(struct top *ret, struct arena *arena, const struct page *page, const struct top_wish *wish);

/* What stands in the column of pods, in |arena|: "team-a/train", "claim team-a/gpu", "pod 1e2f…", "(host)". */
const char *top_share_name(const struct top_share *share, struct arena *arena);

/* |width|: of the terminal; longer lines are cut; 0: they are not. */
void top_print_table(struct strbuf *text, const struct top *top, bool has_colours, unsigned int width);
char *top_print_json(const struct top *top); /* the caller frees it, and the next */
char *top_print_csv(const struct top *top);

/* The page of the agent at |address| (metrics/http.h); the caller frees it. ERROR_UNAVAILABLE: nobody answers there. */
int top_fetch(char **ret, const char *address, struct error *err) MUST_USE;

/* The same of the driver itself. Pods have no names then, and nothing is known of the time before. */
int top_read_local(
        char **ret, const char *library, const char *driver_root, const char *system_root, struct error *err) MUST_USE;
