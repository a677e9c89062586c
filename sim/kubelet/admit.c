// SPDX-License-Identifier: Apache-2.0
/*
 * Admission of a pod of one container. For each resource: choose candidates, call GetPreferredAllocation, call
 * Allocate, record the devices. A struct admission lives from kubelet_run() until the container starts or the pod is
 * rejected.
 */
#include <string.h>

#include "sim/kubelet/internal.h"

struct admission {
        struct kubelet *kubelet;
        struct arena arena;
        struct pod *pod;
        struct kubelet_request *requests; /* in the order in which they are served */
        size_t n_requests;
        size_t at;
        struct endpoint *endpoint; /* of the request that is being served, as all below */
        const char **candidates;
        size_t n_candidates;
        const char **chosen;
        size_t n_chosen;
        bool is_held;
        kubelet_answer_fn *callback;
        void *data;
};

static void serve_next(struct admission *admission);

static void finish(struct admission *admission)
{
        arena_done(&admission->arena);
        free(admission);
}

/* kubelet keeps the devices of a rejected pod until the next admission or the next List; here they are free at once. */
static void reject(struct admission *admission, const char *text)
{
        pod_free(admission->pod);
        admission->callback(NULL, text, admission->data);
        finish(admission);
}

/* ---- Allocate ---- */

static void hold(struct admission *admission, V1beta1__AllocateResponse *response)
{
        struct pod *pod = admission->pod;
        struct held *held = ARENA_NEW(&pod->arena, struct held);

        *held = (struct held){
                .resource = admission->endpoint->resource,
                .ids = message_strings(&pod->arena, admission->chosen, admission->n_chosen),
                .n_ids = admission->n_chosen,
                .response = response,
        };
        list_append(&pod->held, &held->link);
        record_write(admission->kubelet);
        admission->is_held = true;
}

static void on_allocated(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        V1beta1__AllocateResponse *response = v1beta1__allocate_response__unpack(NULL, size, message);

        if (response && response->n_container_responses)
                hold(data, response);
        else
                v1beta1__allocate_response__free_unpacked(response, NULL);
}

static void on_allocate_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct admission *admission = data;

        if (status != RPC_OK || !admission->is_held) {
                reject(admission, status != RPC_OK ? text : "no containers return in allocation response");
                return;
        }
        admission->at++;
        serve_next(admission);
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
        container.devices_ids = message_strings(&admission->arena, admission->chosen, admission->n_chosen);
        message = message_pack(&request.base);
        rpc_client_call(admission->endpoint->peer->client, NULL, "/v1beta1.DevicePlugin/Allocate", message, 0,
                &handlers, admission);
        rpc_message_unref(message);
}

/* ---- GetPreferredAllocation ---- */

static void on_preferred(struct rpc_call *call UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct admission *admission = data;
        const size_t count = admission->requests[admission->at].count;
        V1beta1__PreferredAllocationResponse *response =
                v1beta1__preferred_allocation_response__unpack(NULL, size, message);

        if (!response)
                return;
        /*
         * kubelet ignores preferred devices that are no candidates, and chooses arbitrary candidates if there are too
         * few.
         */
        for (size_t i = 0; response->n_container_responses && i < response->container_responses[0]->n_deviceids; i++) {
                const char *id = response->container_responses[0]->deviceids[i];

                for (size_t j = 0; j < admission->n_candidates && admission->n_chosen < count; j++) {
                        if (admission->candidates[j] && strcmp(admission->candidates[j], id) == 0) {
                                admission->chosen[admission->n_chosen++] = admission->candidates[j];
                                admission->candidates[j] = NULL;
                                break;
                        }
                }
        }
        v1beta1__preferred_allocation_response__free_unpacked(response, NULL);
}

static void take_the_rest_and_allocate(struct admission *admission)
{
        const size_t count = admission->requests[admission->at].count;

        for (size_t j = 0; j < admission->n_candidates && admission->n_chosen < count; j++)
                if (admission->candidates[j])
                        admission->chosen[admission->n_chosen++] = admission->candidates[j];
        call_allocate(admission);
}

static void on_preference_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct admission *admission = data;

        if (status != RPC_OK || !admission->endpoint->peer)
                reject(admission, status != RPC_OK ? text : ENDPOINT_STOPPED);
        else
                take_the_rest_and_allocate(admission);
}

static void call_preference(struct admission *admission)
{
        static const struct rpc_handlers handlers = {.message = on_preferred, .ended = on_preference_ended};
        V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
        V1beta1__ContainerPreferredAllocationRequest container = V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
        V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container};
        struct rpc_message *message;

        request.n_container_requests = 1;
        request.container_requests = containers;
        container.n_available_deviceids = admission->n_candidates;
        container.available_deviceids =
                message_strings(&admission->arena, admission->candidates, admission->n_candidates);
        container.allocation_size = (int32_t)admission->requests[admission->at].count;
        message = message_pack(&request.base);
        rpc_client_call(admission->endpoint->peer->client, NULL, "/v1beta1.DevicePlugin/GetPreferredAllocation",
                message, 0, &handlers, admission);
        rpc_message_unref(message);
}

/* ---- one resource after the other ---- */

/* Candidates are healthy devices that no pod holds, in random order, because kubelet keeps them in a Go map. */
static void collect_candidates(struct admission *admission)
{
        const struct endpoint *endpoint = admission->endpoint;

        admission->candidates = ARENA_ARRAY(&admission->arena, const char *, endpoint->n_devices);
        for (size_t i = 0; i < endpoint->n_devices; i++) {
                const struct known_device *device = &endpoint->devices[i];
                size_t at;

                if (!device->healthy || pod_of_device(admission->kubelet, device->id))
                        continue;
                at = random_below(admission->kubelet, admission->n_candidates + 1);
                admission->candidates[admission->n_candidates] = admission->candidates[at];
                admission->candidates[at] = arena_strdup(&admission->arena, device->id);
                admission->n_candidates++;
        }
}

static void serve_next(struct admission *admission)
{
        const struct kubelet_request *request = &admission->requests[admission->at];
        bool is_served;

        if (admission->at == admission->n_requests) {
                container_start(admission->kubelet, admission->pod, admission->callback, admission->data);
                finish(admission);
                return;
        }
        admission->endpoint = endpoint_find(admission->kubelet, request->resource);
        admission->chosen = ARENA_ARRAY(&admission->arena, const char *, request->count);
        admission->n_candidates = admission->n_chosen = 0;
        admission->is_held = false;
        is_served = admission->endpoint && admission->endpoint->peer;
        if (is_served)
                collect_candidates(admission);
        if (!is_served || admission->n_candidates < request->count)
                reject(admission,
                        arena_printf(&admission->arena,
                                "requested number of devices unavailable for %s. Requested: %zu, Available: %zu",
                                request->resource, request->count, admission->n_candidates));
        else if (request->count < admission->n_candidates && admission->endpoint->has_preference)
                call_preference(admission);
        else
                take_the_rest_and_allocate(admission);
}

/* In random order: kubelet iterates over a Go map. */
static void take_requests(struct admission *admission, const struct kubelet_request *requests, size_t n_requests)
{
        admission->requests = ARENA_ARRAY(&admission->arena, struct kubelet_request, n_requests);
        for (size_t i = 0; i < n_requests; i++) {
                size_t at = random_below(admission->kubelet, i + 1);

                admission->requests[i] = admission->requests[at];
                admission->requests[at] = (struct kubelet_request){
                        arena_strdup(&admission->arena, requests[i].resource), requests[i].count};
        }
        admission->n_requests = n_requests;
}

void kubelet_run(struct kubelet *kubelet, const char *pod, const struct kubelet_request *requests, size_t n_requests,
        kubelet_answer_fn *answered, void *data)
{
        struct admission *admission = xcalloc(1, sizeof(*admission));

        admission->kubelet = kubelet;
        admission->pod = pod_new(kubelet, pod);
        admission->callback = answered;
        admission->data = data;
        take_requests(admission, requests, n_requests);
        serve_next(admission);
}
