// SPDX-License-Identifier: Apache-2.0
/*
 * Requests as kubelet packs them.
 */
#pragma once

#include <stddef.h>

#include "net/rpc/message.h"

/* For one container. The caller holds a reference. */
struct rpc_message *request_allocate(const char *const *ids, size_t n_ids);
struct rpc_message *request_prefer(const char *const *available, size_t n_available, size_t wanted);
