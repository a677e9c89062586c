/*
 * A collection, or one object of it, followed for as long as the loop runs: a list, then a watch that goes on from it, again and
 * again. It tells what is there and what is gone; it knows no kind.
 *
 *     listing ──all pages──► watching ──ended by the server──► watching, from the last resourceVersion
 *        ▲  │                   │
 *        │  └──failed──► waiting ◄──failed, dropped, silent for too long── (then listing or watching, where it was)
 *        └───────410: that resourceVersion is too old────────┘
 *
 * The watch remembers name and resourceVersion of each object. So what vanished while nobody watched is told as gone, and what is as
 * it was is not told again. Waiting grows from KUBE_WATCH_WAIT_MS to KUBE_WATCH_WAIT_LIMIT_MS, each with jitter, and is at least what
 * Retry-After says.
 *
 * Bookmarks are asked for, so that a collection in which nothing happens does not grow too old. The server is asked to end each
 * watch after 5 to 10 minutes; a connection that has not ended KUBE_WATCH_MARGIN_MS after that is half-open and is dropped; TCP
 * keepalive finds most of them earlier.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "kube/client.h"

#define KUBE_WATCH_LINE_LIMIT ((size_t)4 << 20) /* bytes of one event */
#define KUBE_WATCH_OBJECTS ((size_t)20000)      /* more is an error: a selector is missing */
#define KUBE_WATCH_SECONDS 300U                 /* that a watch is to last, at least; at most twice that */
#define KUBE_WATCH_MARGIN_MS UINT64_C(30000)
#define KUBE_WATCH_WAIT_MS UINT64_C(1000)
#define KUBE_WATCH_WAIT_LIMIT_MS UINT64_C(60000)

enum kube_change {
        KUBE_PRESENT, /* new or changed: |object| is all of it */
        KUBE_GONE,    /* |object| has at least metadata.name and, where there is one, metadata.namespace */
};

struct kube_watch;

struct kube_watch_options {
        const char *path;           /* of the collection: "/api/v1/nodes", "/api/v1/namespaces/gpu/configmaps" */
        const char *field_selector; /* "metadata.name=n1"; may be NULL. Not escaped */
        const char *label_selector;
        /* |object| is borrowed; take a reference to keep it. All callbacks come from the loop and may close the watch. */
        void (*on_object)(enum kube_change change, json_t *object, void *data);
        /* What was told is complete: after each list, and when a watch stands again after trouble. May be NULL. */
        void (*on_synced)(void *data);
        /*
         * It cannot be listed or watched now; it is tried again. Comes once for a trouble that stays the same, however often it is
         * tried, and again after on_synced. A denial (401, 403) is ERROR_DENIED, a missing kind (404) ERROR_NOT_FOUND. May be NULL.
         */
        void (*on_trouble)(const struct error *error, void *data);
        void *data;
        /* For tests; 0: the constants above. */
        size_t objects;
        unsigned int seconds;
        uint64_t margin_ms;
        uint64_t wait_ms;
};

/* Begins at once, and calls back from the loop only. */
struct kube_watch *kube_watch_new(struct kube_client *client, const struct kube_watch_options *options);

/* Nothing comes after it; the memory goes when the loop has closed the handles. Accepts NULL, returns NULL. */
struct kube_watch *kube_watch_close(struct kube_watch *watch);
