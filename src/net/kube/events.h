// SPDX-License-Identifier: Apache-2.0
/*
 * Sends Kubernetes events, which `kubectl describe` and `kubectl events` show. net/kube/event_queue.h decides which
 * ones are sent; this module sends them one at a time, and again with back-off while the API server is not reachable.
 * It does not know the reasons of events.
 *
 * They are core/v1 Events, as kubelet writes them: `kubectl get events` and `describe` show their count and last time,
 * and a patch may change both. events.k8s.io/v1 uses the same storage, but only its "series" can be changed, which a
 * second process must end and which older kubectl versions do not show.
 *
 * Nothing is read from the API server, and the caller never waits for it. Without a client nothing is sent. An event
 * that the API server refuses (400, 403, 404, 422) is dropped. After any other failure it is sent again, and given up
 * if the server accepts others, but not this one (net/kube/event_queue.h).
 *
 * RBAC: create and patch of events, in all namespaces, since an event is in the namespace of its object.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "net/kube/event_queue.h"

struct kube_client;
struct kube_events;

struct kube_events_options {
        uv_loop_t *loop;
        struct kube_client *client; /* NULL: nothing is sent. Must outlive the struct */
        const char *component;      /* the reporting component: "warpshare" */
        const char *host;           /* name of the node */

        /*
         * An event could not be sent, or was refused; NULL: one was sent, and no failed one waits. Called after every
         * answer; the receiver should log it once. May be NULL.
         */
        void (*on_answer)(const struct error *err, void *data);
        /* The event is dropped after many attempts; |err| is the last failure. May be NULL. */
        void (*on_given_up)(const struct event *event, const struct error *err, void *data);
        void *data;
        uint64_t retry_ms; /* for tests, after each failure; 0: net/kube/event_queue.h */
};

/* Copies the strings. */
struct kube_events *kube_events_new(const struct kube_events_options *options);

/* Call it from the loop's thread. |event| is copied; a message that is too long is cut, invalid UTF-8 is repaired. */
void kube_events_report(struct kube_events *events, const struct event *event);

uint64_t kube_events_sent(const struct kube_events *events);    /* creations and patches that the server accepted */
uint64_t kube_events_dropped(const struct kube_events *events); /* events that were dropped */

/* Waiting events are given up, and do not count as dropped. |closed| is called from the loop, and may be NULL. */
void kube_events_close(struct kube_events *events, void (*closed)(void *data), void *data);
