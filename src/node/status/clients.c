#include "node/status/clients.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "net/kube/object.h"
#include "node/status/watch.h"

#define CLIENT_LABEL "nvidia.com/gpu.deploy.client"
#define UPGRADE_LABEL "nvidia.com/gpu-driver-upgrade-state"
#define UNLOADING "pod-restart-required"
#define VALUE_MAX 63 /* Kubernetes' limit for a label */

struct node_clients {
        struct node_clients_options options;
        struct node_listener listener;
        char *reason; /* NULL: they may be here */
};

static char *clients_reason_text(const char *label, const char *value)
{
        return xasprintf("%s=%.*s", label, VALUE_MAX, value);
}

char *node_clients_reason(const json_t *node)
{
        const char *client = object_text(node, "metadata", "labels", CLIENT_LABEL, NULL);
        const char *upgrade = object_text(node, "metadata", "labels", UPGRADE_LABEL, NULL);

        if (client)
                return strcmp(client, "true") == 0 ? NULL : clients_reason_text(CLIENT_LABEL, client);
        return upgrade && strcmp(upgrade, UNLOADING) == 0 ? clients_reason_text(UPGRADE_LABEL, upgrade) : NULL;
}

static void clients_on_node(const json_t *node, void *data)
{
        struct node_clients *clients = data;
        _free_ char *before = NULL;

        if (!node)
                return;
        before = clients->reason;
        clients->reason = node_clients_reason(node);
        if (!before != !clients->reason)
                clients->options.changed(clients->reason, clients->options.data);
}

struct node_clients *node_clients_new(const struct node_clients_options *options)
{
        struct node_clients *clients = xcalloc(1, sizeof(*clients));

        clients->options = *options;
        clients->listener = (struct node_listener){.on_node = clients_on_node, .data = clients};
        node_watch_listen(options->watch, &clients->listener);
        return clients;
}

struct node_clients *node_clients_close(struct node_clients *clients)
{
        if (!clients)
                return NULL;
        node_watch_leave(&clients->listener);
        free(clients->reason);
        free(clients);
        return NULL;
}
