// SPDX-License-Identifier: Apache-2.0
/* What the parts of the stand-in share; private to this folder. */
#pragma once

#include <deviceplugin.pb-c.h>

#include "base/list.h"
#include "base/map.h"
#include "sim/kubelet/kubelet.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"

struct known_device {
        const char *id;
        bool healthy;
};

/* A resource name, and the plugin registered last under it. */
struct endpoint {
        struct list link;
        char *resource;
        struct peer *peer; /* NULL: stopped */
        bool wants_start;  /* the plugin's options: call PreStartContainer, call GetPreferredAllocation */
        bool has_preference;
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
        bool wants_start;
        bool has_preference;
        unsigned int references;
        bool dropped;
};

/* What a container holds of one resource, and the plugin's answer. */
struct held {
        struct list link;
        const char *resource;
        char **ids;
        size_t n_ids;
        V1beta1__AllocateResponse *response; /* for at least one container */
};

/* The name of a pod's only container. */
#define CONTAINER "main"

struct pod {
        struct list link;
        struct arena arena;
        char *name;
        char *uid;
        struct list held; /* in the order in which Allocate was called */
};

struct kubelet {
        struct kubelet_options options;
        char *directory;
        struct rpc_server *server;
        struct rpc_server *pods_server; /* NULL: none */
        struct list endpoints;
        struct list peers;
        struct list pods;
        unsigned int n_pods; /* that were ever admitted */
        unsigned int registrations;
        uint32_t random;
        bool closing;
        unsigned int open; /* how many servers are not closed yet */
        void (*closed)(void *data);
        void *closed_data;
};

#define ENDPOINT_STOPPED "endpoint has been stopped"

struct endpoint *endpoint_find(const struct kubelet *kubelet, const char *resource);
size_t random_below(struct kubelet *kubelet, size_t bound);

struct rpc_message *message_pack(const ProtobufCMessage *source);
/* protobuf-c declares what it only reads as char **. */
char **message_strings(struct arena *arena, const char *const *from, size_t count);

struct pod *pod_new(struct kubelet *kubelet, const char *name);
void pod_free(struct pod *pod);
const struct pod *pod_of_device(const struct kubelet *kubelet, const char *id); /* NULL: free */

/* Starts the container of a pod that was admitted. */
void container_start(struct kubelet *kubelet, const struct pod *pod, kubelet_answer_fn *answered, void *data);

void record_write(const struct kubelet *kubelet);

/* Handles the method List; |context| is the struct kubelet. */
void pods_handle_list(struct rpc_call *call, const uint8_t *message, size_t size, void *context);
