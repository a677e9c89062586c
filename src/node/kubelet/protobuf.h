/*
 * Protobuf → struct in an arena, with a memory limit for any message; and struct → message. Private to kubelet/ and
 * dra/, since it includes the types of generated code.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/alloc.h"
#include "base/error.h"
#include "net/rpc/message.h"

/* NULL on failure, with ERROR_INVALID in |err|. Strings and everything else live in |arena|. */
ProtobufCMessage *protobuf_unpack(const ProtobufCMessageDescriptor *descriptor, struct arena *arena, size_t limit,
        const uint8_t *bytes, size_t size, struct error *err);

/* The caller must unref the message. */
struct rpc_message *protobuf_pack(const ProtobufCMessage *source);
