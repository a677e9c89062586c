/*
 * protobuf → struct in an arena, within a limit of memory however the message is made; and struct → message. Private to kubelet/ and dra/:
 * with it come the types of generated code.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/alloc.h"
#include "base/error.h"
#include "rpc/message.h"

/* NULL on failure, and |err| says ERROR_INVALID. Strings and all else live in |arena|. */
ProtobufCMessage *protobuf_unpack(const ProtobufCMessageDescriptor *descriptor, struct arena *arena, size_t limit,
        const uint8_t *bytes, size_t size, struct error *err);

/* For the caller to unref. */
struct rpc_message *protobuf_pack(const ProtobufCMessage *source);
