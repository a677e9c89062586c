// SPDX-License-Identifier: Apache-2.0
/*
 * Follows a collection, or one object of it, as long as the loop runs: a list, then a watch that continues from it,
 * repeatedly. It reports which objects exist and which are gone; it knows no kind.
 *
 *     listing ──all pages──► watching ──its time is over──► watching, from the last resourceVersion
 *        ▲  │                   │
 *        │  └──failed──► waiting ◄──failed, dropped, silent for too long── (then listing or watching, where it was)
 *        └───────410: that resourceVersion is too old────────┘
 *
 * The watch remembers name and resourceVersion of each object. So an object that vanished between two watches is
 * reported as gone, and an unchanged object is not reported again. The wait grows from KUBE_WATCH_WAIT_MS to
 * KUBE_WATCH_WAIT_LIMIT_MS, with jitter, and is at least what Retry-After says.
 *
 * An event that is too large ends the watch, and a list follows (net/kube/list.h), which can name the object.
 *
 * When an API server restarts, the watches of all nodes end at the same moment. So a watch that was accepted and ends
 * early waits for a random time, up to KUBE_WATCH_SPREAD times the shortest wait, before it continues.
 *
 * It asks for bookmarks, so that the resourceVersion of a collection without changes does not become too old. It asks
 * the server to end each watch after 5 to 10 minutes; a connection that has not ended KUBE_WATCH_MARGIN_MS after that
 * is half-open and is dropped; TCP keepalive finds most of them earlier.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "net/kube/client.h"

#define KUBE_WATCH_LINE_LIMIT KUBE_ANSWER_LIMIT /* bytes of one event */
#define KUBE_WATCH_OBJECTS ((size_t)20000)      /* with more, all are gone, and it fails: a selector is missing */
#define KUBE_WATCH_SECONDS 300U                 /* shortest duration of a watch; the longest is twice that */
#define KUBE_WATCH_MARGIN_MS UINT64_C(30000)
#define KUBE_WATCH_WAIT_MS UINT64_C(1000)
#define KUBE_WATCH_WAIT_LIMIT_MS UINT64_C(60000)
#define KUBE_WATCH_SPREAD 10U

enum kube_change {
        KUBE_PRESENT, /* new or changed: |object| is complete */
        KUBE_GONE,    /* |object| has at least metadata.name and, if it has one, metadata.namespace */
};

struct kube_watch;

struct kube_watch_options {
        const char *path;           /* of the collection: "/api/v1/nodes", "/api/v1/namespaces/gpu/configmaps" */
        const char *field_selector; /* "metadata.name=n1"; may be NULL. Not escaped */
        const char *label_selector;
        bool is_metadata; /* of each object only the metadata is needed: only that comes */
        /*
         * |object| is borrowed; take a reference to keep it. All callbacks come from the loop and may close the watch.
         */
        void (*on_object)(enum kube_change change, json_t *object, void *data);
        /*
         * All present objects have been reported: after each list, and when a watch is accepted again after trouble.
         * May be NULL.
         */
        void (*on_synced)(void *data);
        /*
         * A watch stands again that had ended before its time, with no trouble between them: so it is when the API
         * server was restarted, and the server may be of another release now. May be NULL.
         */
        void (*on_resumed)(void *data);
        /*
         * Objects are too large (KUBE_ANSWER_LIMIT, KUBE_ANSWER_VALUES) and are left out: |error| says which, after
         * each on_synced, and when that changes; NULL: none is any more. What was reported of such an object before it
         * grew stands. May be NULL: then a list with such an object is trouble, and the state before it stands.
         */
        void (*on_left_out)(const struct error *error, void *data);
        /*
         * Listing or watching fails; it is tried again. Called once for the same trouble, and again after on_synced. A
         * denial (401, 403) is ERROR_DENIED, a missing kind (404) ERROR_NOT_FOUND. May be NULL.
         */
        void (*on_trouble)(const struct error *error, void *data);
        void *data;
        /* For tests; 0: the constants above. */
        size_t objects;
        unsigned int seconds;
        uint64_t margin_ms;
        uint64_t wait_ms;
};

/* Starts at once; callbacks come from the loop only. */
struct kube_watch *kube_watch_new(struct kube_client *client, const struct kube_watch_options *options);

/* No callback after this; the memory is freed when the loop has closed the handles. Accepts NULL, returns NULL. */
struct kube_watch *kube_watch_close(struct kube_watch *watch);
