/*
 * Finds the control device nodes of NVIDIA's driver that a container can get.
 *
 * A node counts when it is a character device below the machine's /dev as this process sees it, or below the driver
 * root's, if that has a /dev of its own: NVIDIA's plugin checks only its own /dev, and so misses the nodes of a driver
 * that runs in a container. Links do not count, since container runtimes get these exact paths.
 */
#pragma once

#include "gpu/inventory.h"
#include "gpu/paths.h"

/* A set of NODE_*. */
unsigned int nodes_find(const struct gpu_paths *paths);
