/*
 * What the two halves of the stand-in share. Not for others.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "sim/kubelet/kubelet.h"
#include "rpc/client.h"
#include "rpc/server.h"

struct known_device {
        const char *id;
        bool healthy;
};

/* A resource name, and the plugin registered last under it. */
struct endpoint {
        struct list link;
        char *resource;
        struct peer *peer;  /* NULL: stopped */
        struct arena arena; /* of the device ids */
        struct known_device *devices;
        size_t n_devices;
        size_t n_healthy;
        struct map by_id;
        size_t reported_capacity;
        size_t reported_allocatable;
};

/* A connection to a plugin. */
struct peer {
        struct list link;
        struct kubelet *kubelet;
        char *resource;
        struct rpc_client *client;
        struct rpc_call *register_call; /* waits for the plugin's options */
        unsigned int references;
        bool dropped;
};

/* A device in a pod's hands. */
struct held {
        struct list link;
        char *pod;
        char *resource;
        char *id;
};

struct kubelet {
        struct kubelet_options options;
        char *directory;
        struct rpc_server *server;
        struct rpc_server *pods_server; /* NULL: none */
        struct list endpoints;
        struct list peers;
        struct list held;
        unsigned int registrations;
        uint32_t random;
        bool closing;
        unsigned int open; /* servers */
        void (*closed)(void *data);
        void *closed_data;
};

struct endpoint *endpoint_find(const struct kubelet *kubelet, const char *resource);
void held_free(struct held *held);
const struct held *held_find(const struct kubelet *kubelet, const char *id);

/* The method List, over |context|, a struct kubelet. */
void pods_handle_list(struct rpc_call *call, const uint8_t *message, size_t size, void *context);
