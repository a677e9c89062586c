// SPDX-License-Identifier: Apache-2.0
/*
 * A CDI specification as a document: devices with edits, edits that all devices share, and the rules of the format.
 * Pure.
 *
 * The rules are those of the Container Device Interface specification, 0.3.0 to 0.7.0. A runtime refuses the whole file
 * if it has an unknown field, a version that is lower than its fields need, or a version that the runtime does not know
 * yet. So only fields that are needed are written, with the lowest version that has them. Edits are a set: an edit that
 * is added twice is there once, and a common edit is not repeated in a device.
 *
 * It knows nothing of GPUs, and copies the strings that it is given.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

/* More than a node can have: 16 GPUs with 8 MIG devices, two names each, and as many of an earlier specification. */
#define SPEC_MAX_DEVICES ((size_t)1024)

struct spec;
struct spec_edits; /* of one device, or the common ones */

/*
 * Type, major and minor number are not written: the runtime reads them from |host_path| when it creates a container. So
 * they are right even after the kernel has changed a major number (of nvidia-uvm or nvidia-caps, after the module was
 * loaded again).
 */
struct spec_node {
        const char *path; /* in the container */
        const char *host_path;
        unsigned int mode; /* permission bits; older runtimes use 0666 if there are none */
        gid_t gid;         /* 0: not written */
        bool needs_group;  /* the container's process must be a member of |gid| */
};

struct spec *spec_new(const char *vendor, const char *class_name);
struct spec *spec_free(struct spec *spec); /* accepts NULL, returns NULL */

static inline void spec_freep(struct spec **spec)
{
        spec_free(*spec);
}

/*
 * The format's rule for names: letters and digits at both ends, also "_.:-" between; no '/', which old UUIDs of MIG
 * devices have.
 */
bool spec_is_name(const char *name);

struct spec_edits *spec_common(struct spec *spec);

/*
 * The edits of device |name|, which is added if it is new. NULL: spec_is_name() is false, or there are SPEC_MAX_DEVICES
 * already.
 */
struct spec_edits *spec_device(struct spec *spec, const char *name);
bool spec_has(const struct spec *spec, const char *name);
size_t spec_count(const struct spec *spec);

/* Annotates a device, for people who read the file: runtimes ignore annotations. */
void spec_annotate(struct spec_edits *device, const char *name, const char *value);

/* |options| and |args| end with NULL. */
void spec_add_env(struct spec_edits *edits, const char *assignment);
void spec_add_node(struct spec_edits *edits, const struct spec_node *node);
void spec_add_mount(
        struct spec_edits *edits, const char *host_path, const char *container_path, const char *const *options);
void spec_add_hook(struct spec_edits *edits, const char *path, const char *const *args, const char *env);

/*
 * The document as JSON; the same content gives the same bytes. Fails if a string was not UTF-8, or if there is no
 * device.
 */
int spec_print(const struct spec *spec, struct strbuf *ret, struct error *err) MUST_USE;
