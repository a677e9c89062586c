/*
 * Admission of one container: choose, prefer, allocate, hold. One struct admission lives from the question to the answer.
 */
#include <string.h>

#include <deviceplugin.pb-c.h>

#include "sim/kubelet/internal.h"

struct admission {
        struct kubelet *kubelet;
        struct endpoint *endpoint;
        struct arena arena;
        const char *pod;
        size_t count;
        const char **candidates;
        size_t n_candidates;
        const char **chosen;
        size_t n_chosen;
        uint64_t started;
        int64_t prefer_ns;
        bool answered;
        kubelet_answer_fn *callback;
        void *data;
};

void held_free(struct held *held)
{
        list_remove(&held->link);
        free(held->pod);
        free(held->resource);
        free(held->id);
        free(held);
}

const struct held *held_find(const struct kubelet *kubelet, const char *id)
{
        LIST_FOR_EACH(link, &kubelet->held) {
                const struct held *held = container_of(link, struct held, link);

                if (strcmp(held->id, id) == 0)
                        return held;
        }
        return NULL;
}

static void finish(struct admission *admission, struct kubelet_answer *answer)
{
        admission->answered = true;
        answer->prefer_ns = admission->prefer_ns;
        admission->callback(answer, admission->data);
}

static void admission_free(struct admission *admission)
{
        arena_done(&admission->arena);
        free(admission);
}

static void reject(struct admission *admission, const char *text)
{
        struct kubelet_answer answer = {.error = text};

        finish(admission, &answer);
}

static void on_allocated(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct admission *admission = data;
        V1beta1__AllocateResponse *response = v1beta1__allocate_response__unpack(NULL, size, message);
        struct kubelet_answer answer = {
                .admitted = true,
                .ids = admission->chosen,
                .n_ids = admission->n_chosen,
                .allocate_ns = (int64_t)(uv_hrtime() - admission->started),
        };
        const V1beta1__ContainerAllocateResponse *container;
        const char **names;
        const char **values;

        if (!response || response->n_container_responses == 0) {
                reject(admission, "no containers return in allocation response");
                v1beta1__allocate_response__free_unpacked(response, NULL);
                return;
        }
        container = response->container_responses[0];
        names = ARENA_ARRAY(&admission->arena, const char *, container->n_envs);
        values = ARENA_ARRAY(&admission->arena, const char *, container->n_envs);
        for (size_t i = 0; i < container->n_envs; i++) {
                names[i] = container->envs[i]->key;
                values[i] = container->envs[i]->value;
        }
        answer.names = names;
        answer.values = values;
        answer.n_environment = container->n_envs;
        for (size_t i = 0; i < admission->n_chosen; i++) {
                struct held *held = xcalloc(1, sizeof(*held));

                held->pod = xstrdup(admission->pod);
                held->resource = xstrdup(admission->endpoint->resource);
                held->id = xstrdup(admission->chosen[i]);
                list_append(&admission->kubelet->held, &held->link);
        }
        finish(admission, &answer);
        v1beta1__allocate_response__free_unpacked(response, NULL);
}

static void on_allocate_ended(struct rpc_call *call UNUSED, enum rpc_status status UNUSED, const char *text, void *data)
{
        struct admission *admission = data;

        if (!admission->answered)
                reject(admission, text);
        admission_free(admission);
}

static struct rpc_message *pack(const ProtobufCMessage *source)
{
        struct rpc_message *message = rpc_message_new(protobuf_c_message_get_packed_size(source));

        protobuf_c_message_pack(source, rpc_message_payload(message));
        return message;
}

/* protobuf-c declares what it only reads as char **. */
static char **strings(struct arena *arena, const char *const *from, size_t count)
{
        char **to = ARENA_ARRAY(arena, char *, count);

        for (size_t i = 0; i < count; i++)
                to[i] = arena_strdup(arena, from[i]);
        return to;
}

static void call_allocate(struct admission *admission)
{
        static const struct rpc_handlers handlers = {.message = on_allocated, .ended = on_allocate_ended};
        V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
        V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
        V1beta1__ContainerAllocateRequest *containers[] = {&container};
        struct rpc_message *message;

        request.n_container_requests = 1;
        request.container_requests = containers;
        container.n_devices_ids = admission->n_chosen;
        container.devices_ids = strings(&admission->arena, admission->chosen, admission->n_chosen);
        message = pack(&request.base);
        admission->started = uv_hrtime();
        rpc_client_call(admission->endpoint->peer->client, NULL, "/v1beta1.DevicePlugin/Allocate", message, 0,
                &handlers, admission);
        rpc_message_unref(message);
}

static void on_preferred(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct admission *admission = data;
        V1beta1__PreferredAllocationResponse *response =
                v1beta1__preferred_allocation_response__unpack(NULL, size, message);

        admission->prefer_ns = (int64_t)(uv_hrtime() - admission->started);
        if (!response)
                return;
        /* What is not among the candidates is left out, what is missing is filled up arbitrarily. */
        for (size_t i = 0; response->n_container_responses && i < response->container_responses[0]->n_deviceids; i++) {
                const char *id = response->container_responses[0]->deviceids[i];

                for (size_t j = 0; j < admission->n_candidates && admission->n_chosen < admission->count; j++) {
                        if (admission->candidates[j] && strcmp(admission->candidates[j], id) == 0) {
                                admission->chosen[admission->n_chosen++] = admission->candidates[j];
                                admission->candidates[j] = NULL;
                                break;
                        }
                }
        }
        v1beta1__preferred_allocation_response__free_unpacked(response, NULL);
}

static void on_prefer_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct admission *admission = data;

        if (status != RPC_OK || !admission->endpoint->peer) {
                reject(admission, status != RPC_OK ? text : "endpoint has been stopped");
                admission_free(admission);
                return;
        }
        for (size_t j = 0; j < admission->n_candidates && admission->n_chosen < admission->count; j++)
                if (admission->candidates[j])
                        admission->chosen[admission->n_chosen++] = admission->candidates[j];
        call_allocate(admission);
}

static void call_prefer(struct admission *admission)
{
        static const struct rpc_handlers handlers = {.message = on_preferred, .ended = on_prefer_ended};
        V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
        V1beta1__ContainerPreferredAllocationRequest container = V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
        V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container};
        struct rpc_message *message;

        request.n_container_requests = 1;
        request.container_requests = containers;
        container.n_available_deviceids = admission->n_candidates;
        container.available_deviceids = strings(&admission->arena, admission->candidates, admission->n_candidates);
        container.allocation_size = (int32_t)admission->count;
        message = pack(&request.base);
        admission->started = uv_hrtime();
        rpc_client_call(admission->endpoint->peer->client, NULL, "/v1beta1.DevicePlugin/GetPreferredAllocation",
                message, 0, &handlers, admission);
        rpc_message_unref(message);
}

/* Healthy, not held, in random order, as Go's maps give them. */
static void collect_candidates(struct admission *admission)
{
        const struct endpoint *endpoint = admission->endpoint;

        admission->candidates = ARENA_ARRAY(&admission->arena, const char *, endpoint->n_devices);
        for (size_t i = 0; i < endpoint->n_devices; i++) {
                const struct known_device *device = &endpoint->devices[i];
                size_t at;

                if (!device->healthy || held_find(admission->kubelet, device->id))
                        continue;
                admission->kubelet->random = admission->kubelet->random * 1664525U + 1013904223U;
                at = (admission->kubelet->random >> 8) % (admission->n_candidates + 1);
                admission->candidates[admission->n_candidates] = admission->candidates[at];
                admission->candidates[at] = arena_strdup(&admission->arena, device->id);
                admission->n_candidates++;
        }
}

void kubelet_admit(struct kubelet *kubelet, const char *pod, const char *resource, size_t count,
        kubelet_answer_fn *answered, void *data)
{
        struct admission *admission = xcalloc(1, sizeof(*admission));
        _free_ char *text = NULL;

        admission->kubelet = kubelet;
        admission->endpoint = endpoint_find(kubelet, resource);
        admission->pod = arena_strdup(&admission->arena, pod);
        admission->count = count;
        admission->callback = answered;
        admission->data = data;
        admission->chosen = ARENA_ARRAY(&admission->arena, const char *, count);
        if (admission->endpoint && admission->endpoint->peer)
                collect_candidates(admission);
        if (admission->n_candidates < count) {
                text = xasprintf("requested number of devices unavailable for %s. Requested: %zu, Available: %zu",
                        resource, count, admission->n_candidates);
                reject(admission, text);
                admission_free(admission);
                return;
        }
        if (count < admission->n_candidates) {
                call_prefer(admission);
                return;
        }
        for (size_t i = 0; i < count; i++)
                admission->chosen[admission->n_chosen++] = admission->candidates[i];
        call_allocate(admission);
}
