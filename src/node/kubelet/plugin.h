// SPDX-License-Identifier: Apache-2.0
/*
 * Serves one resource to kubelet: a socket of its own, the DevicePlugin service on it, and its registration.
 *
 * It executes what node/kubelet/registration.h decides. The first ListAndWatch on a server is kubelet's, which opens
 * one as soon as it knows the server. Other clients may open more and get the list, too; only the end of the first
 * stream means that kubelet is lost.
 *
 * It does not know where plans come from, nor the other resources. It starts serving when plugin_note_kubelet() says
 * that kubelet's socket exists. No request handler blocks, reads a file or calls NVML: kubelet admits one pod at a
 * time, so a slow answer delays the whole node. node/kubelet/requests.h answers the requests.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "node/kubelet/broker.h"
#include "node/kubelet/device_list.h"
#include "node/kubelet/registration.h"

struct plugin;

/* Settings that all plugins share; must outlive them. */
struct plugin_place {
        uv_loop_t *loop;
        const char *directory;      /* for our sockets: kubelet's device plugin directory */
        const char *kubelet_socket; /* NULL: serve, but never register */
        uint64_t incarnation;       /* differs for each start of the process; part of the socket names */
        const struct unit_health *health;
        const struct broker *broker; /* NULL: none */
        uint64_t bind_timeout_ms;    /* limit for an answer of the broker; 0: BROKER_TIMEOUT_MS */
};

/* Our sockets are called warpshare-<resource>-<incarnation>-<n>.sock. */
#define PLUGIN_SOCKET_PREFIX "warpshare-"

struct plugin *plugin_new(const struct plugin_place *place, const char *resource_name);

/*
 * Sets |resource| and its |plan|. The previous ones must stay valid until the next call: a request that kubelet made
 * from the previous list is answered from them.
 */
void plugin_set_resource(struct plugin *plugin, const struct plan *plan, const struct resource *resource);

/*
 * False: at registration kubelet got another option for PreStartContainer than |resource| needs, so a new plugin is
 * needed.
 */
bool plugin_has_same_options(const struct plugin *plugin, const struct plan *plan, const struct resource *resource);

/* Reads the health of every unit and asks the broker again; kubelet gets a new list if anything changed. */
void plugin_refresh(struct plugin *plugin);

/* Sends the last list to kubelet again. False: no kubelet is connected. */
bool plugin_repeat(struct plugin *plugin);

/* The resource and plan from before the present ones will be freed. */
void plugin_forget_previous(struct plugin *plugin);

/* The present list; valid until the next turn of the loop. */
const struct device_list *plugin_list(const struct plugin *plugin);

/* kubelet's socket appeared or was replaced; or it is gone. */
void plugin_note_kubelet(struct plugin *plugin, bool is_there);

/*
 * Ends the streams, waits shortly until kubelet has closed its side, and removes the socket. |closed| is called from
 * the loop when all this is done, never inside this call; the plugin has been freed then.
 */
void plugin_close(struct plugin *plugin, void (*closed)(void *data), void *data);
