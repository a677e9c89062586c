// SPDX-License-Identifier: Apache-2.0
#include "bench/requests.h"

#include <deviceplugin.pb-c.h>

/* protobuf-c declares what it only reads as char **. */
static char **strings(const char *const *from)
{
        return (char **)(uintptr_t)from;
}

static struct rpc_message *pack(const ProtobufCMessage *source)
{
        struct rpc_message *message = rpc_message_new(protobuf_c_message_get_packed_size(source));

        protobuf_c_message_pack(source, rpc_message_payload(message));
        return message;
}

struct rpc_message *request_allocate(const char *const *ids, size_t n_ids)
{
        V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
        V1beta1__ContainerAllocateRequest *containers[] = {&container};
        V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;

        container.devices_ids = strings(ids);
        container.n_devices_ids = n_ids;
        request.container_requests = containers;
        request.n_container_requests = 1;
        return pack(&request.base);
}

struct rpc_message *request_prefer(const char *const *available, size_t n_available, size_t wanted)
{
        V1beta1__ContainerPreferredAllocationRequest container = V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT;
        V1beta1__ContainerPreferredAllocationRequest *containers[] = {&container};
        V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;

        container.available_deviceids = strings(available);
        container.n_available_deviceids = n_available;
        container.allocation_size = (int32_t)wanted;
        request.container_requests = containers;
        request.n_container_requests = 1;
        return pack(&request.base);
}
