// SPDX-License-Identifier: Apache-2.0
/*
 * Converts between kubelet's protobuf messages and our structs, for device plugins. The only file that includes that
 * generated code.
 *
 * Requests are untrusted: one that cannot be decoded is ERROR_INVALID, and decoding one message takes at most
 * CONVERT_MEMORY_LIMIT of memory. Decoded strings live in the caller's arena.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/rpc/message.h"
#include "plan/allocate.h"
#include "plan/prefer.h"

/* 50,000 ids of 63 bytes, twice over. */
#define CONVERT_MEMORY_LIMIT ((size_t)16 * 1024 * 1024)

/* Containers per request. kubelet asks for one at a time; each needs memory of the size of the device list. */
#define CONVERT_MAX_CONTAINERS ((size_t)64)

/* The ids in one container's part of a request. */
struct container_ids {
        const char *const *ids;
        size_t n_ids;
};

struct rpc_message *convert_empty(void);
/* |asks_at_start|: kubelet must call PreStartContainer before each start of a container. */
struct rpc_message *convert_options(bool asks_at_start);
struct rpc_message *convert_register_request(const char *endpoint, const char *resource_name, bool asks_at_start);

/* An id that the resource does not have any more. */
struct convert_retired {
        char *id;
        bool usable; /* it is of a draining unit */
};

/* |usable| is by device; |retired| ids follow the resource's devices. */
struct rpc_message *convert_device_list(
        const struct resource *resource, const bool *usable, const struct convert_retired *retired, size_t n_retired);

int convert_allocate_request(struct container_ids **ret, size_t *ret_count, struct arena *arena, const uint8_t *bytes,
        size_t size, struct error *err) MUST_USE;
struct rpc_message *convert_allocate_response(
        const struct allocate_answer *answers, size_t count, struct arena *scratch);

/* The container's ids of the resource, in the order of the request. */
int convert_start_request(
        struct container_ids *ret, struct arena *arena, const uint8_t *bytes, size_t size, struct error *err) MUST_USE;

/*
 * Parses a container's answer from kubelet's record (base64): the allocation that it names, and the texts that may name
 * its unit, one per line. What the answer does not contain stays unchanged.
 */
void convert_read_answer(const char *base64, struct arena *arena, const char **ret_allocation, const char **ret_texts);

int convert_prefer_request(struct prefer_request **ret, size_t *ret_count, struct arena *arena, const uint8_t *bytes,
        size_t size, struct error *err) MUST_USE;
struct rpc_message *convert_prefer_response(
        const struct container_ids *containers, size_t count, struct arena *scratch);
