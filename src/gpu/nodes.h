/*
 * Which of NVIDIA's control nodes a container can be given.
 *
 * A node counts when it is a character device below the machine's /dev as this process sees it, or below the driver root's,
 * if that has a /dev of its own: NVIDIA's plugin looks at its own /dev only, and so misses the nodes of a driver that runs in
 * a container. Links do not count: runtimes are told these very paths.
 */
#pragma once

#include "gpu/inventory.h"
#include "gpu/paths.h"

/* A set of NODE_*. */
unsigned int nodes_find(const struct gpu_paths *paths);
