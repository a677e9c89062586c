/*
 * This node's GPUs, read once: what the agent's monitor finds at its start.
 */
#pragma once

#include "config/config.h"
#include "gpu/inventory.h"
#include "gpu/platform.h"

/* As the configuration says it. */
enum platform_choice node_platform_choice(const struct config *config);

/* NVML may take its time, or never return: who cannot wait asks in a process of its own. */
int node_read(struct inventory **ret, const struct config *config, struct error *err) MUST_USE;
