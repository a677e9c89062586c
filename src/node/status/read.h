// SPDX-License-Identifier: Apache-2.0
/* Reads the GPUs of this node once, as the agent's monitor does at its start. */
#pragma once

#include "config/config.h"
#include "gpu/inventory.h"
#include "gpu/platform.h"

/* The platform that the configuration chooses. */
enum platform_choice node_platform_choice(const struct config *config);

/* NVML may never return: only a process that may be killed calls this (gpu/apart.h). */
int node_read(struct inventory **ret, const struct config *config, struct error *err) MUST_USE;
