// SPDX-License-Identifier: Apache-2.0
/*
 * The driver's two sockets: the one that kubelet's plugin watcher looks for, and the one that kubelet then calls.
 *
 *     the first     <registry>/<driver>[-<instance>]-reg.sock    Registration: GetInfo, NotifyRegistrationStatus
 *     the second    <plugins>/<driver>/dra[-<instance>].sock     the methods of node/dra/service.h
 *
 * |instance| is the pod's UID: in a rolling update each of the two instances has its own sockets, and kubelet (1.33 and
 * later) calls the connected instance that registered last. If two instances have the same names, the second waits
 * until the first no longer accepts connections.
 *
 * Kubelet looks for sockets once a second, and tries a call that has failed again only after a minute. So who ends
 * keeps the connections until the next instance is there, and hands over to it:
 *
 *     serving ──hand over──► waits for the next instance ──it listens──► the second file leads to it ──► ended
 *                                        └───────────── patience is over ──────────────► files removed ──┘
 *
 * Then kubelet's gRPC connects by the same path to the next instance, and sends again the calls that had no answer: the
 * end of the connection says that none of them has begun. For this the second file of the instance that ends becomes a
 * symbolic link to the second socket of the next one, and its first file stays:
 *
 *     dra-a.sock ──► dra-b.sock
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

/* ---- the files ---- */

/*
 * An instance of more characters, as a pod's UID, is a hash of that length there: paths have 107 bytes at most,
 * kubelet's root may be long, and kubelet dials them.
 */
#define DRA_SOCKETS_TAG_MAX ((size_t)8)
#define DRA_SOCKETS_STALE_S 10       /* a younger file without a listener may be of an instance that is starting */
#define DRA_SOCKETS_HANDED_OVER_S 60 /* kubelet knows the next instance after a second, and a call takes up to 45 s */

/* The files of one instance. |instance| NULL: it has no name of its own, and cannot hand over. Texts are copied. */
struct dra_sockets {
        char *driver;
        char *registry;
        char *directory; /* <plugins>/<driver> */
        char *first;
        char *second;
        bool has_instance;
};

void dra_sockets_init(
        struct dra_sockets *ret, const char *registry, const char *plugins, const char *driver, const char *instance);
void dra_sockets_done(struct dra_sockets *sockets);

/* <plugins>/<driver>, for the caller to free. */
char *dra_sockets_directory(const char *plugins, const char *driver);

/* Whether |name|, without its folder, is that of the first or second socket of an instance of |driver|. */
bool dra_sockets_is_first(const char *driver, const char *name);
bool dra_sockets_is_second(const char *driver, const char *name);

/*
 * Hands over to an instance whose second socket is newer than this one's and accepts connections. False: there is none.
 * The owner still has to end its connections.
 */
bool dra_sockets_hand_over(const struct dra_sockets *sockets);

/* Removes leftover files: sockets without a listener, and those of instances that handed over long ago. */
void dra_sockets_tidy(const struct dra_sockets *sockets);

/* ---- the registration ---- */

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
