// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet's answer is a tree: pods, containers, and an entry per device and NUMA node. It is flattened and sorted by
 * id, then pod, so that duplicates stand together; the rest is then counted per container and distributed.
 *
 * One call at a time. Questions wait in |asked| until the next call, and in |sent| until its answer. A connection that
 * failed once is not used again.
 */
#include "node/kubelet/pod_resources.h"

#include <assert.h>
#include <string.h>
#include <sys/un.h>

#include <podresources.pb-c.h>

#include "base/list.h"
#include "net/rpc/client.h"
#include "net/rpc/message.h"

#define TIMEOUT_MS UINT64_C(5000)
/* About 300 bytes for each of 100,000 devices; also bounds a message made to use much memory. */
#define MEMORY_LIMIT ((size_t)64 * 1024 * 1024)

/* ---- the answer ---- */

struct entry {
        struct held_device device;
        const V1__PodResources *pod;
        size_t container; /* its position among all containers */
};

struct flat {
        struct pod_container *containers;
        size_t n_containers;
        struct entry *entries;
        size_t n_entries;
};

/* The first pass counts, the second fills in. */
static void add_entries(
        struct flat *flat, const char *prefix, const V1__PodResources *pod, const V1__ContainerResources *container)
{
        for (size_t i = 0; i < container->n_devices; i++) {
                const V1__ContainerDevices *devices = container->devices[i];

                if (strncmp(devices->resource_name, prefix, strlen(prefix)) != 0)
                        continue;
                for (size_t j = 0; flat->entries && j < devices->n_device_ids; j++)
                        flat->entries[flat->n_entries + j] = (struct entry){
                                .device = {.resource = devices->resource_name, .id = devices->device_ids[j]},
                                .pod = pod,
                                .container = flat->n_containers,
                        };
                flat->n_entries += devices->n_device_ids;
        }
}

static void lay_flat(struct flat *flat, const char *prefix, const V1__ListPodResourcesResponse *response)
{
        flat->n_containers = flat->n_entries = 0;
        for (size_t i = 0; i < response->n_pod_resources; i++) {
                const V1__PodResources *pod = response->pod_resources[i];

                for (size_t j = 0; j < pod->n_containers; j++) {
                        add_entries(flat, prefix, pod, pod->containers[j]);
                        if (flat->containers)
                                flat->containers[flat->n_containers] = (struct pod_container){
                                        .pod_namespace = pod->namespace_,
                                        .pod = pod->name,
                                        .container = pod->containers[j]->name,
                                };
                        flat->n_containers++;
                }
        }
}

/* By device, then pod. */
static int compare_holdings(const struct entry *a, const struct entry *b)
{
        int order = strcmp(a->device.resource, b->device.resource);

        if (!order)
                order = strcmp(a->device.id, b->device.id);
        if (!order)
                order = strcmp(a->pod->namespace_, b->pod->namespace_);
        return order ? order : strcmp(a->pod->name, b->pod->name);
}

static int compare_entries(const void *left, const void *right)
{
        const struct entry *a = left;
        const struct entry *b = right;
        int order = compare_holdings(a, b);

        return order ? order : (a->container > b->container) - (a->container < b->container);
}

/*
 * If one pod has an id several times, only its last entry stays: kubelet lists an id once for each NUMA node, and a
 * later container may have the device of an earlier one. If two pods have the id, both entries stay;
 * node/kubelet/holders.h reports the fault.
 */
static void drop_repeated(struct flat *flat)
{
        size_t kept = 0;

        if (flat->n_entries)
                qsort(flat->entries, flat->n_entries, sizeof(*flat->entries), compare_entries);
        for (size_t i = 0; i < flat->n_entries; i++)
                if (i + 1 == flat->n_entries || compare_holdings(&flat->entries[i], &flat->entries[i + 1]) != 0)
                        flat->entries[kept++] = flat->entries[i];
        flat->n_entries = kept;
}

/* Gives each container its part of one array. */
static void count_out(const struct flat *flat, struct arena *arena)
{
        struct held_device *devices = ARENA_ARRAY(arena, struct held_device, flat->n_entries);
        struct held_device **next = ARENA_ARRAY(arena, struct held_device *, flat->n_containers);

        for (size_t i = 0; i < flat->n_entries; i++)
                flat->containers[flat->entries[i].container].n_devices++;
        for (size_t i = 0; i < flat->n_containers; i++) {
                flat->containers[i].devices = next[i] = devices;
                devices += flat->containers[i].n_devices;
        }
        for (size_t i = 0; i < flat->n_entries; i++)
                *next[flat->entries[i].container]++ = flat->entries[i].device;
}

int pod_list_read(struct pod_list *ret, struct arena *arena, const char *prefix, const uint8_t *message, size_t size,
        struct error *err)
{
        const V1__ListPodResourcesResponse *response = (const V1__ListPodResourcesResponse *)protobuf_unpack(
                &v1__list_pod_resources_response__descriptor, arena, MEMORY_LIMIT, message, size, err);
        struct flat flat = {0};
        size_t kept = 0;

        if (!response)
                return -1;
        lay_flat(&flat, prefix, response);
        flat.containers = ARENA_ARRAY(arena, struct pod_container, flat.n_containers);
        flat.entries = ARENA_ARRAY(arena, struct entry, flat.n_entries);
        lay_flat(&flat, prefix, response);
        drop_repeated(&flat);
        count_out(&flat, arena);
        for (size_t i = 0; i < flat.n_containers; i++)
                if (flat.containers[i].n_devices)
                        flat.containers[kept++] = flat.containers[i];
        *ret = (struct pod_list){.containers = flat.containers, .n_containers = kept};
        return 0;
}

/* ---- questions ---- */

struct pod_resources {
        uv_loop_t *loop;
        char *socket;
        struct rpc_client *client; /* NULL: not connected */
        struct list asked;
        struct list sent;
        struct arena arena; /* arena of the answer */
        struct pod_list list;
        unsigned int n_messages;
        struct error failure; /* an answer that has arrived */
        bool is_delivering;
        bool is_closed;
};

struct question {
        struct list link;
        pod_list_fn *done;
        void *data;
};

static void free_questions(struct list *questions)
{
        while (!list_is_empty(questions)) {
                struct question *question = container_of(questions->next, struct question, link);

                list_remove(&question->link);
                free(question);
        }
}

static void pod_resources_free_all(struct pod_resources *pods)
{
        free_questions(&pods->asked);
        free_questions(&pods->sent);
        arena_done(&pods->arena);
        free(pods->socket);
        free(pods);
}

static enum error_kind pod_resources_kind_of(enum rpc_status status)
{
        switch (status) {
        case RPC_DEADLINE_EXCEEDED:
                return ERROR_TIMEOUT;
        case RPC_PERMISSION_DENIED:
        case RPC_UNAUTHENTICATED:
                return ERROR_DENIED;
        case RPC_UNIMPLEMENTED:
                return ERROR_UNSUPPORTED;
        default:
                return ERROR_UNAVAILABLE; /* RESOURCE_EXHAUSTED among them: kubelet's limit on calls, or our limit on
                                           * sizes */
        }
}

static void pod_resources_start(struct pod_resources *pods);

/* A callback may ask again, or close. */
static void pod_resources_deliver(struct pod_resources *pods, const struct error *err)
{
        pods->is_delivering = true;
        while (!pods->is_closed && !list_is_empty(&pods->sent)) {
                struct question *question = container_of(pods->sent.next, struct question, link);
                pod_list_fn *done = question->done;
                void *data = question->data;

                list_remove(&question->link);
                free(question);
                done(err, err ? NULL : &pods->list, data);
        }
        pods->is_delivering = false;
        if (pods->is_closed) {
                pod_resources_free_all(pods);
                return;
        }
        arena_done(&pods->arena);
        pod_resources_start(pods);
}

static void on_message(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct pod_resources *pods = data;
        struct error err;

        if (pods->n_messages++ > 0)
                error_raise(&pods->failure, ERROR_INVALID, "more than one answer");
        else if (pod_list_read(&pods->list, &pods->arena, "", message, size, &err) < 0)
                pods->failure = err;
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct pod_resources *pods = data;
        struct error *failure = &pods->failure;

        if (pods->is_closed)
                return;
        if (status != RPC_OK)
                error_raise(failure, pod_resources_kind_of(status), "%s: %s", rpc_status_name(status), text);
        else if (pods->n_messages == 0)
                error_raise(failure, ERROR_INVALID, "no answer");
        if (!failure->kind) {
                pod_resources_deliver(pods, NULL);
                return;
        }
        error_raise_prefix(failure, "List on '%s'", pods->socket);
        rpc_client_close(TAKE_PTR(pods->client));
        pod_resources_deliver(pods, failure);
}

/* kubelet closed the connection while no call was running; a running call has ended already. */
static void on_connection_closed(struct rpc_client *client, const struct error *reason UNUSED, void *data)
{
        struct pod_resources *pods = data;

        if (pods->client == client)
                rpc_client_close(TAKE_PTR(pods->client));
}

static void connect_to_kubelet(struct pod_resources *pods)
{
        const struct rpc_client_options options = {
                .limits = {.message = POD_RESOURCES_MAX}, .on_closed = on_connection_closed, .data = pods};
        struct error err;
        int rc = rpc_client_new(&pods->client, pods->loop, pods->socket, &options, &err);

        assert(rc == 0); /* fails only for an invalid path, which pod_resources_new() has checked */
}

/* Starts the next call, if there are questions and no call is running. */
static void pod_resources_start(struct pod_resources *pods)
{
        static const struct rpc_handlers handlers = {.message = on_message, .ended = on_ended};
        struct rpc_message *request;

        if (pods->is_delivering || !list_is_empty(&pods->sent) || list_is_empty(&pods->asked))
                return;
        while (!list_is_empty(&pods->asked)) {
                struct list *link = pods->asked.next;

                list_remove(link);
                list_append(&pods->sent, link);
        }
        pods->n_messages = 0;
        pods->failure = (struct error){0};
        if (!pods->client)
                connect_to_kubelet(pods);
        request = rpc_message_new(0);
        rpc_client_call(pods->client, NULL, "/v1.PodResourcesLister/List", request, TIMEOUT_MS, &handlers, pods);
        rpc_message_unref(request);
}

int pod_resources_new(struct pod_resources **ret, uv_loop_t *loop, const char *socket, struct error *err)
{
        size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
        struct pod_resources *pods;

        if (strlen(socket) == 0 || strlen(socket) > most)
                return error_set(err, ERROR_INVALID, "socket '%s': the path has %zu bytes, from 1 to %zu are possible",
                        socket, strlen(socket), most);
        pods = xcalloc(1, sizeof(*pods));
        pods->loop = loop;
        pods->socket = xstrdup(socket);
        list_init(&pods->asked);
        list_init(&pods->sent);
        *ret = pods;
        return 0;
}

void pod_resources_close(struct pod_resources *pods)
{
        if (!pods)
                return;
        pods->is_closed = true;
        rpc_client_close(TAKE_PTR(pods->client));
        if (!pods->is_delivering)
                pod_resources_free_all(pods);
}

void pod_resources_list(struct pod_resources *pods, pod_list_fn *done, void *data)
{
        struct question *question = xcalloc(1, sizeof(*question));

        question->done = done;
        question->data = data;
        list_append(&pods->asked, &question->link);
        pod_resources_start(pods);
}
