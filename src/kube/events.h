/*
 * Kubernetes events: what happened to an object of the cluster, for whoever asks `kubectl describe` and `kubectl events`. Which
 * of them are told is decided by kube/event_queue.h; this sends them, one at a time, and again with back-off while the API
 * server cannot be had. It knows no reasons.
 *
 * They are core/v1 Events, as kubelet writes them: `kubectl get events` and `describe` show their count and when they were seen
 * last, and a patch may raise both. events.k8s.io/v1 is the same storage, but lets nothing be changed but a "series", which
 * wants a second process to end it, and which older kubectls do not show.
 *
 * Nothing is read from the API server, and nothing waits for it: telling returns at once, without a client it does nothing.
 * What an API server refuses (400, 403, 404, 422) is dropped; anything else is tried again, and given up when the server takes
 * others, but not this one (kube/event_tries.h).
 *
 * RBAC: create and patch of events, in all namespaces, since an event lies in the namespace of its object.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "kube/event_queue.h"

struct kube_client;
struct kube_events;

struct kube_events_options {
        uv_loop_t *loop;
        struct kube_client *client; /* NULL: nothing is sent. Must outlive the events */
        const char *component;      /* who tells: "warpshare" */
        const char *host;           /* on which node */

        /* An event could not be sent, or was refused; NULL: one was sent, and none waits that could not. Comes with every answer, for
         * the receiver to say it once. May be NULL. */
        void (*on_answer)(const struct error *err, void *data);
        /* It is dropped after many tries, of which |err| is what the last came to. May be NULL. */
        void (*on_given_up)(const struct event *event, const struct error *err, void *data);
        void *data;
        uint64_t retry_ms; /* for tests, after each failure; 0: kube/event_tries.h */
};

/* Copies the strings. */
struct kube_events *kube_events_new(const struct kube_events_options *options);

/* From the loop's thread. |event| is copied; a message that is too long is cut, one that is no UTF-8 is mended. */
void kube_events_report(struct kube_events *events, const struct event *event);

uint64_t kube_events_sent(const struct kube_events *events);    /* creations and patches that the server took */
uint64_t kube_events_dropped(const struct kube_events *events); /* that nobody will see */

/* What waits is given up, and not counted as dropped. |closed| is called from the loop, and may be NULL. */
void kube_events_close(struct kube_events *events, void (*closed)(void *data), void *data);
