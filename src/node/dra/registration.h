/*
 * The driver's two sockets: the one that kubelet's plugin watcher looks for, and the one that kubelet then calls.
 *
 *     the first     Registration: GetInfo, NotifyRegistrationStatus
 *     the second    the methods of node/dra/service.h
 *
 * Their files: node/dra/sockets.h. |instance| is the pod's UID: in a rolling update each of the two instances has its
 * own sockets, and kubelet (1.33 and later) calls the connected instance that registered last. If two instances have
 * the same names, the second waits until the first no longer accepts connections.
 *
 * Kubelet looks for sockets once a second, and tries a call that has failed again only after a minute. So who ends
 * keeps the connections until the next instance is there, and hands over to it:
 *
 *     serving ──hand over──► waits for the next instance ──it listens──► the second file leads to it ──► ended
 *                                        └───────────── patience is over ──────────────► files removed ──┘
 *
 * Then kubelet's gRPC connects by the same path to the next instance, and sends again the calls that had no answer: the
 * end of the connection says that none of them has begun.
 *
 * Sockets that were removed, or whose directory was replaced, are created again, the second before the first, because
 * kubelet may call as soon as it has read GetInfo. The directory <plugins>/<driver> is created if it is missing; the
 * registry is kubelet's, so it is waited for. Sockets of instances that are gone are removed.
 *
 * If kubelet refuses the driver, the reason is given to |on_status| and is logged when it changes, and the first socket
 * is created again after a pause that grows from 10 s to 2 minutes. Kubelet also tries again by itself, with its own
 * back-off.
 *
 * It knows no claims. The process must ignore SIGPIPE.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "node/dra/service.h"

struct dra_registration;

struct dra_registration_options {
        uv_loop_t *loop;
        const char *registry;        /* "plugins_registry" of kubelet's root, absolute */
        const char *plugins;         /* "plugins" there, absolute: kubelet dials it */
        const char *driver;          /* DNS subdomain in lower case, at most 63 characters */
        const char *instance;        /* letters, digits and '-'; NULL: none, and nothing is handed over */
        struct dra_service *service; /* outlives it */
        uint64_t poll_ms;            /* how often the sockets are checked, besides events of the watch; 0: 10 s */
        uint64_t retry_ms;           /* the first pause after a refusal; 0: 10 s */
        /* Called when kubelet has registered the driver (|error| NULL) or has refused it. May be NULL. */
        void (*on_status)(const char *error, void *data);
        void *data;
};

/*
 * ERROR_INVALID: kubelet could not use a name or path. Other failures are tried again: the directories may not exist
 * yet.
 */
int dra_registration_new(
        struct dra_registration **ret, const struct dra_registration_options *options, struct error *err) MUST_USE;

/*
 * Removes the first socket, so that kubelet uses another instance, then the second; calls in progress have |grace_ms|
 * to end. |closed| is called last, from the loop, never from within this call.
 */
void dra_registration_close(
        struct dra_registration *registration, uint64_t grace_ms, void (*closed)(void *data), void *data);

/*
 * Closes without grace, but first waits up to |patience_ms| for the next instance and hands over to it. To be called
 * when the service answers nothing any more (dra_service_hold()), and while nothing keeps the next one from beginning.
 */
void dra_registration_hand_over(
        struct dra_registration *registration, uint64_t patience_ms, void (*closed)(void *data), void *data);
