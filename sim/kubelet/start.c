// SPDX-License-Identifier: Apache-2.0
/*
 * The start of a container: PreStartContainer is called for each resource whose plugin asked for that, with the ids
 * that the container has, and the Allocate answers of all its resources are joined.
 */
#include <string.h>

#include "sim/kubelet/internal.h"

#define PRE_START_TIMEOUT_MS UINT64_C(30000)

struct start {
        struct kubelet *kubelet;
        const struct pod *pod;
        struct list *at; /* in the pod's list: the next resource whose plugin is called */
        kubelet_answer_fn *callback;
        void *data;
};

/* ---- options of the container ---- */

#define MEMBER(message, offset, type) ((type *)(void *)((char *)(message) + (offset)))

/*
 * The key of an entry is its first field: a name of a variable, an annotation or a CDI device, or a path in the
 * container.
 */
static const char *key_of(ProtobufCMessage *entry)
{
        return *MEMBER(entry, entry->descriptor->fields[0].offset, const char *);
}

static bool has_key(ProtobufCMessage *const *entries, size_t count, const char *key)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(key_of(entries[i]), key) == 0)
                        return true;
        return false;
}

/*
 * Adds the entries of |more| with new keys. An entry that is there stays: kubelet logs a different one, and drops it.
 */
static void join_list(
        struct arena *arena, ProtobufCMessage *all, ProtobufCMessage *more, const ProtobufCFieldDescriptor *field)
{
        ProtobufCMessage ***entries = MEMBER(all, field->offset, ProtobufCMessage **);
        size_t *count = MEMBER(all, field->quantifier_offset, size_t);
        ProtobufCMessage *const *added = *MEMBER(more, field->offset, ProtobufCMessage **);
        size_t n_added = *MEMBER(more, field->quantifier_offset, size_t);
        ProtobufCMessage **joined = ARENA_ARRAY(arena, ProtobufCMessage *, *count + n_added);

        if (*count)
                memcpy(joined, *entries, *count * sizeof(*joined));
        *entries = joined;
        for (size_t i = 0; i < n_added; i++)
                if (!has_key(joined, *count, key_of(added[i])))
                        joined[(*count)++] = added[i];
}

static void finish(struct start *start)
{
        V1beta1__ContainerAllocateResponse options = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
        const ProtobufCMessageDescriptor *descriptor = options.base.descriptor;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        LIST_FOR_EACH(link, &start->pod->held) {
                const struct held *held = container_of(link, struct held, link);

                for (unsigned int i = 0; i < descriptor->n_fields; i++)
                        join_list(&arena, &options.base, &held->response->container_responses[0]->base,
                                &descriptor->fields[i]);
        }
        start->callback(&options, NULL, start->data);
        free(start);
}

/* ---- PreStartContainer ---- */

static void refuse(struct start *start, const char *text)
{
        start->callback(NULL, text, start->data);
        free(start);
}

static void report_next(struct start *start);

static void on_reported(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        if (status != RPC_OK)
                refuse(data, text);
        else
                report_next(data);
}

static void report(struct start *start, const struct endpoint *endpoint, const struct held *held)
{
        static const struct rpc_handlers handlers = {.ended = on_reported};
        V1beta1__PreStartContainerRequest request = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;
        struct rpc_message *message;

        request.n_devices_ids = held->n_ids;
        request.devices_ids = held->ids;
        message = message_pack(&request.base);
        rpc_client_call(endpoint->peer->client, NULL, "/v1beta1.DevicePlugin/PreStartContainer", message,
                PRE_START_TIMEOUT_MS, &handlers, start);
        rpc_message_unref(message);
}

static void report_next(struct start *start)
{
        while (start->at != &start->pod->held) {
                const struct held *held = container_of(start->at, struct held, link);
                const struct endpoint *endpoint = endpoint_find(start->kubelet, held->resource);

                start->at = start->at->next;
                if (!endpoint->wants_start)
                        continue;
                if (endpoint->peer)
                        report(start, endpoint, held);
                else
                        refuse(start, ENDPOINT_STOPPED);
                return;
        }
        finish(start);
}

void container_start(struct kubelet *kubelet, const struct pod *pod, kubelet_answer_fn *answered, void *data)
{
        struct start *start = xcalloc(1, sizeof(*start));

        *start = (struct start){kubelet, pod, pod->held.next, answered, data};
        report_next(start);
}
