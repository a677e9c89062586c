#include "node/kubelet/protobuf.h"

/*
 * protobuf-c allocates memory field by field. An arena serves this, so that a request of 10,000 ids costs a few large
 * allocations and is freed in one step. Beyond the limit the allocation fails, and so does the message.
 */
struct budget {
        struct arena *arena;
        size_t left;
};

static void *budget_alloc(void *data, size_t size)
{
        struct budget *budget = data;

        /* The arena's overhead for a small object counts, too. */
        if (size > budget->left || size + 16 > budget->left)
                return NULL;
        budget->left -= size + 16;
        return arena_alloc(budget->arena, 1, size);
}

static void budget_free(void *data UNUSED, void *pointer UNUSED)
{
}

ProtobufCMessage *protobuf_unpack(const ProtobufCMessageDescriptor *descriptor, struct arena *arena, size_t limit,
        const uint8_t *bytes, size_t size, struct error *err)
{
        struct budget budget = {.arena = arena, .left = limit};
        ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
        ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, size, bytes);

        if (!message)
                error_set(err, ERROR_INVALID, "%s of %zu bytes: cannot be decoded within %zu bytes of memory",
                        descriptor->short_name, size, limit);
        return message;
}

struct rpc_message *protobuf_pack(const ProtobufCMessage *source)
{
        struct rpc_message *message = rpc_message_new(protobuf_c_message_get_packed_size(source));

        protobuf_c_message_pack(source, rpc_message_payload(message));
        return message;
}
