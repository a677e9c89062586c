// SPDX-License-Identifier: Apache-2.0
/*
 * What a DRA driver says of the health of its devices, as kubelet hears it: NodeWatchResources is called whether the
 * driver has announced it or not, and again RETRY_MS after it has ended. What was said counts until the call ends, and
 * for each device as long as the driver said that it does.
 */
#pragma once

#include <uv.h>

#include "sim/kubelet/dra.h"

struct dra_health;

/* |endpoint|: the socket of the driver's service. */
struct dra_health *dra_health_new(uv_loop_t *loop, const char *endpoint);

/* The memory goes when the loop has closed the timer. Accepts NULL, returns NULL. */
struct dra_health *dra_health_close(struct dra_health *health);

/* The driver has not closed the connection, nor died. */
bool dra_health_is_connected(const struct dra_health *health);

/* KUBELET_DRA_UNKNOWN where |health| is NULL. */
enum kubelet_dra_health dra_health_of(const struct dra_health *health, const char *device);
