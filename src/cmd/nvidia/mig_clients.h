/*
 * Finds the users of GPUs other than tenants, for nvidia-mig-manager: the GPU Operator's components, which its
 * DaemonSets start where a label of the node is true, and services of the host. Pure.
 *
 * A label that is "false", or not there, stays as it is: only "true" is paused, and only what is paused becomes "true"
 * again.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#define MIG_CLIENTS_PAUSED "paused-for-mig-change"
#define MIG_CLIENTS_SERVICES_MAX ((size_t)64)

/*
 * A merge patch of the node that pauses its components, or lets them continue; a new reference. NULL: nothing is to be
 * changed.
 */
json_t *mig_clients_patch(const json_t *node, bool pause);

/* The pod is one of a component that is paused: its nodeSelector has such a label. One that has ended is not. */
bool mig_clients_has(const json_t *node, const json_t *pod);

/* Adds the names of those of |pods| that are. */
void mig_clients_name(struct names *names, const json_t *node, const json_t *pods);

/* The names in a file of NVIDIA's format ("version: v1", "systemd-services: […]"), in |arena|. */
int mig_clients_read(
        const char *const **ret, size_t *ret_count, struct arena *arena, const char *path, struct error *err) MUST_USE;
