/*
 * What a container runtime makes of kubelet's options: the stand-in of containerd and CRI-O, as far as a device plugin can see.
 *
 * Variables are kubelet's, then the pod's own, then the edits of the CDI devices: of the same name the last counts. CDI devices are asked
 * for by name, in the options or in an annotation; every file of the folder is read, and a device that two files have is none. As the real
 * ones do, it makes no container of which a name cannot be resolved, a device node is missing on the node, or the source of a mount. It
 * runs no hooks and starts no process.
 */
#pragma once

#include <jansson.h>

#include <deviceplugin.pb-c.h>

#include "base/error.h"

/* Objects of texts, in the order in which they came. */
struct container {
        json_t *variables; /* name: value */
        json_t *nodes;     /* path of a device node in the container: its path on the node */
        json_t *mounts;    /* the same of what is mounted */
};

/* |own|: "NAME=value" of the pod itself, NULL-terminated; NULL: none. On success to be given to container_done(). */
int container_make(struct container *ret, const V1beta1__ContainerAllocateResponse *options, const char *const *own,
        const char *cdi_root, struct error *err) MUST_USE;
void container_done(struct container *container); /* accepts a zeroed one */

/* "" where it has none. */
const char *container_variable(const struct container *container, const char *name);
