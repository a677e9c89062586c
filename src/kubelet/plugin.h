/*
 * One resource as kubelet meets it: a socket of its own, the DevicePlugin service on it, and its registration.
 *
 * It carries out what kubelet/registration.h decides. The first ListAndWatch on a server is kubelet's, which opens one as soon as it
 * knows the server; who opens another gets the list, too, and may leave: only the end of the first means that kubelet is lost.
 *
 * It does not know where plans come from, nor the other resources. It starts serving when it is told that kubelet's socket is
 * there. Nothing in a request handler blocks, reads a file or calls NVML: kubelet admits one pod at a time, and a slow answer holds
 * up the node. How requests are answered: kubelet/requests.h, and kubelet/starts.h for those that no other pod waits for.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "kubelet/broker.h"
#include "kubelet/device_list.h"
#include "kubelet/registration.h"

struct plugin;

/* Where plugins live; shared by all of them, outlives them. */
struct plugin_place {
        uv_loop_t *loop;
        const char *directory;       /* for our sockets: kubelet's device plugin directory */
        const char *kubelet_socket;  /* NULL: serve, but never register */
        uint64_t incarnation;        /* differs with each start of the process: part of the socket names */
        const struct broker *broker; /* NULL: none */
        uint64_t bind_timeout_ms;    /* how long it may take; 0: BROKER_TIMEOUT_MS */
};

/* Our sockets are called warpshare-<resource>-<incarnation>-<n>.sock. */
#define PLUGIN_SOCKET_PREFIX "warpshare-"

struct plugin *plugin_new(const struct plugin_place *place, const char *resource_name);

/*
 * |resource| and its |plan| replace the ones before, which must stay valid until the next call: a request that kubelet made
 * from the list before is answered from them.
 */
void plugin_set_resource(struct plugin *plugin, const struct plan *plan, const struct resource *resource,
        device_list_health_fn *health, void *data);

/*
 * False: kubelet was told otherwise at registration whether it is to ask before it starts a container of |resource|, so it takes another
 * plugin to have it so.
 */
bool plugin_is_asked_alike(const struct plugin *plugin, const struct plan *plan, const struct resource *resource);

/* Asks |health| again for every unit, and the broker; kubelet is told if anything changed. */
void plugin_refresh(struct plugin *plugin, device_list_health_fn *health, void *data);

/* Tells kubelet once more what it was told last. False: it is not listening. */
bool plugin_repeat(struct plugin *plugin);

/* The resource and the previous plan the present ones are about to go. */
void plugin_forget_previous(struct plugin *plugin);

/* What kubelet is told now; borrowed until the next turn of the loop. */
const struct device_list *plugin_list(const struct plugin *plugin);

/* kubelet's socket appeared or was replaced; or is gone. */
void plugin_kubelet_came(struct plugin *plugin);
void plugin_kubelet_went(struct plugin *plugin);

/*
 * Ends the streams, waits shortly until kubelet has closed its side, removes the socket. |closed| is called from the loop
 * when all of it is done, never from within this call; the plugin is freed before.
 */
void plugin_close(struct plugin *plugin, void (*closed)(void *data), void *data);
