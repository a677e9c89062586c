/*
 * The driver as kubelet finds it: the socket that kubelet's plugin watcher looks for, and the socket it then calls.
 *
 *     <registry>/<driver>[-<instance>]-reg.sock            Registration: GetInfo, NotifyRegistrationStatus
 *     <plugins>/<driver>/dra[-<instance>].sock             what the service serves
 *
 * |instance| is the pod's UID: two instances of a rolling update have sockets of their own, and kubelet (1.33 and later) calls the one
 * that registered last and is connected. Of two instances with the same names the second waits until nobody accepts on them any more.
 *
 * Sockets that were removed, or whose directory was replaced, are made again, the second before the first: kubelet may call as soon as it
 * has read GetInfo. The directory <plugins>/<driver> is made where it is missing, the registry is kubelet's and is waited for. Sockets
 * of instances that are gone are removed: the name is one of ours, the file is older than DRA_REGISTRATION_STALE_S, and a connect is
 * refused. A live instance accepts, and one that is about to listen has a new file.
 *
 * Refused by kubelet: the reason is logged when it changes and given to |on_status|, and the first socket is made again after a pause that
 * grows from 10 s to 2 minutes. Kubelet tries again by itself as well, with a back-off of its own.
 *
 * It does not know claims. The process must ignore SIGPIPE.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "dra/service.h"

#define DRA_REGISTRATION_STALE_S 10

struct dra_registration;

struct dra_registration_options {
        uv_loop_t *loop;
        const char *registry;        /* "/var/lib/kubelet/plugins_registry" */
        const char *plugins;         /* "/var/lib/kubelet/plugins", absolute: kubelet dials it */
        const char *driver;          /* DNS subdomain in lower case, at most 63 characters */
        const char *instance;        /* letters, digits and '-'; NULL: none */
        struct dra_service *service; /* outlives it */
        uint64_t poll_ms;            /* how often the sockets are looked at without a hint; 0: 10 s */
        uint64_t retry_ms;           /* the first pause after a refusal; 0: 10 s */
        /* Kubelet has registered the driver (|error| is NULL), or has refused it. May be NULL. */
        void (*on_status)(const char *error, void *data);
        void *data;
};

/* ERROR_INVALID: a name or a path that kubelet could not use. All else is tried again: the directories need not exist. */
int dra_registration_new(
        struct dra_registration **ret, const struct dra_registration_options *options, struct error *err) MUST_USE;

/* The directory of this driver's sockets for |plugins| and |driver|, for the caller to free: also what the service locks. */
char *dra_registration_directory(const char *plugins, const char *driver);

/* |name|, without its folder, is what a socket of |driver| is called: the one in the registry, the one in the driver's own directory. */
bool dra_registration_is_first(const char *driver, const char *name);
bool dra_registration_is_second(const char *driver, const char *name);

/*
 * The first socket goes, so that kubelet turns to another instance, then the second: calls in progress have |grace_ms| to end. |closed| is
 * called last, from the loop, never from within this call.
 */
void dra_registration_close(
        struct dra_registration *registration, uint64_t grace_ms, void (*closed)(void *data), void *data);
