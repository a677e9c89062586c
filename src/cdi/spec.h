/*
 * A CDI specification as a document: devices with edits, edits that all of them share, and the rules of the format. Pure.
 *
 * The rules are those of the Container Device Interface specification, 0.3.0 to 0.7.0: runtimes refuse a whole file for one
 * unknown field, for a version that is less than its fields need, and for a version that they do not know yet. So nothing is
 * written that is not needed, and the version is the least that has it. What the document holds is a set: the same edit twice
 * is there once, and an edit that is common to all devices is not repeated in one of them.
 *
 * It knows nothing of GPUs, and owns its strings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

/* More than a node can have: 16 GPUs of 8 MIG devices by two names each, and as many from an earlier specification. */
#define SPEC_MAX_DEVICES ((size_t)1024)

struct spec;
struct spec_edits; /* of one device, or the common ones */

/*
 * Without type, major and minor: the runtime looks at |host_path| when it makes the container, so a major number that the
 * kernel gave out anew (nvidia-uvm, nvidia-caps after a reload of the module) cannot be stale here.
 */
struct spec_node {
        const char *path; /* in the container */
        const char *host_path;
        unsigned int mode; /* permission bits; older runtimes take 0666 where they are missing */
        gid_t gid;         /* 0: not written */
        bool needs_group;  /* the container's process is to be a member of |gid| */
};

struct spec *spec_new(const char *vendor, const char *class_name);
struct spec *spec_free(struct spec *spec); /* accepts NULL, returns NULL */

static inline void spec_freep(struct spec **spec)
{
        spec_free(*spec);
}

/* The format's rule: letters and digits at both ends, "_.:-" between; no '/', which the UUIDs of early MIG devices have. */
bool spec_is_name(const char *name);

struct spec_edits *spec_common(struct spec *spec);

/* The edits of device |name|, made when it is not there yet; NULL for what is no name, and beyond SPEC_MAX_DEVICES. */
struct spec_edits *spec_device(struct spec *spec, const char *name);
bool spec_has(const struct spec *spec, const char *name);
size_t spec_count(const struct spec *spec);

/* A remark on a device, for who reads the file: runtimes do not hand it on. */
void spec_annotate(struct spec_edits *device, const char *name, const char *value);

/* |options| and |args| end with NULL. */
void spec_add_env(struct spec_edits *edits, const char *assignment);
void spec_add_node(struct spec_edits *edits, const struct spec_node *node);
void spec_add_mount(
        struct spec_edits *edits, const char *host_path, const char *container_path, const char *const *options);
void spec_add_hook(struct spec_edits *edits, const char *path, const char *const *args, const char *env);

/* The document as JSON; the same content gives the same bytes. Fails when a string was not UTF-8, or without a device. */
int spec_print(const struct spec *spec, struct strbuf *ret, struct error *err) MUST_USE;
