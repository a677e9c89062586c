// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for containerd and CRI-O: it makes a container from kubelet's options, as far as a device plugin can see.
 *
 * Variables are kubelet's, then the pod's own, then those of the edits of CDI devices; of several with the same name
 * the last is used. CDI devices are requested by name, in the options or in an annotation; every file of the folder is
 * read, and a device that is in two files cannot be used. As containerd and CRI-O do, it makes no container if a name
 * cannot be resolved, or if a device node or the source of a mount is missing on the node. It runs no hooks and starts
 * no process.
 */
#pragma once

#include <jansson.h>

#include <deviceplugin.pb-c.h>

#include "base/error.h"

/* Objects with texts as values, in the order in which they were added. */
struct container {
        json_t *variables; /* name: value */
        json_t *nodes;     /* path of a device node in the container: its path on the node */
        json_t *mounts;    /* path in the container: source on the node */
};

/* |own|: "NAME=value" of the pod itself, NULL-terminated; NULL: none. On success container_done() is needed. */
int container_make(struct container *ret, const V1beta1__ContainerAllocateResponse *options, const char *const *own,
        const char *cdi_root, struct error *err) MUST_USE;
void container_done(struct container *container); /* accepts a zeroed one */

/* The value of a variable, "" if the container does not have it. */
const char *container_variable(const struct container *container, const char *name);
