// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by all functions of one cdi_publish(), on the stack of that call: for what it writes, and where the files are.
 *
 * Each file has three paths: for this process, on the host (from which the runtime mounts), and in the container.
 *
 *   what               here                               on the host
 *   driver's files     <driver_root_ctr>/usr/bin/x        <driver_root>/usr/bin/x
 *   device nodes       <driver_root_ctr>/dev/x, when the driver's tree has a dev/ and the node in it, then
 *                      <driver_root>/dev/x;
 *                      else <system_root>/dev/x           <dev_root>/dev/x
 *
 * So the specification names the same file on the host that was found here. (NVIDIA's plugin looks only for the folder
 * dev/, and finds no node if the driver's tree has an empty one.) In the container, files and nodes are at their path
 * below the root.
 *
 * Symbolic links in the driver's tree are resolved as if the tree were the root: an absolute link starts at the root of
 * the tree, and no link leads out of it.
 */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "node/cdi/files.h"
#include "node/cdi/spec.h"
#include "plan/plan.h"

/* None has a slash at the end: "" is the root itself. */
struct roots {
        const char *driver;      /* here */
        const char *driver_host; /* on the host */
        const char *dev_host;
        const char *system; /* here, the prefix of /dev, /proc and /sys */
};

struct cdi_context {
        struct arena *arena; /* freed when cdi_publish() returns */
        const struct plan *plan;
        const struct config *config;
        struct roots roots;
        struct cdi_files *files;
        const char *const *unknown_hooks; /* of the host's program, ends with NULL; may be NULL */
        bool *lacks_nodes;                /* set if a node is missing that CUDA needs */
        /*
         * The first error other than "not found": out of descriptors or memory, or a failing disk. A specification
         * written in spite of it could lack a file for good. NULL: the caller does not want it.
         */
        struct error *unseen;
        config_warn_fn *warn;
        void *warn_data;
};

/* With the roots; |plan| may be NULL. */
struct cdi_context cdi_context_of(const struct config *config, const struct plan *plan, struct arena *arena);

void cdi_warn(const struct cdi_context *context, const char *format, ...) PRINTF_LIKE(2, 3);

/* Is |word| in the list that ends with NULL? |list| may be NULL. */
bool cdi_lists(const char *const *list, const char *word);

/* Whether |name| has only letters, digits and "._+-@~", and at least one. */
bool cdi_is_plain(const char *name);

/* ---- files ---- */

/* Notes the error of a file that could not be read, or errno, unless it says that the file does not exist. */
void cdi_note(const struct cdi_context *context, const struct error *err);
void cdi_note_errno(const struct cdi_context *context, const char *path);

/*
 * |path| of the driver's tree with all links resolved, "/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08". NULL if it
 * does not exist, if links form a circle, or if the name has a character that no file of a driver has (a colon would
 * split lists).
 */
const char *cdi_resolve(const struct cdi_context *context, const char *path);

/* lstat() of |path| below |root|, one of the roots or "". */
bool cdi_look(const struct cdi_context *context, const char *root, const char *path, struct stat *ret);

/* The type (S_IF*) of |path| in the driver's tree, without following links; 0 if it does not exist. */
unsigned int cdi_type(const struct cdi_context *context, const char *path);

/*
 * The names in folder |path| below |root|, one of the roots, that match one of |patterns| (as in a shell; NULL ends the
 * list), sorted; at most CDI_MAX_NAMES, and only those that cdi_is_plain() accepts. Returns 0 if the folder does not
 * exist.
 */
#define CDI_MAX_NAMES ((size_t)1024)
size_t cdi_list(const struct cdi_context *context, const char *root, const char *path, const char *const *patterns,
        const char *const **ret);

/* Turns the path of the hook's program into its path on the host, if it is in the driver's tree. */
const char *cdi_to_host(const struct cdi_context *context, const char *path);

/* ---- device nodes ---- */

/* Adds the node |path| ("/dev/nvidia0") to |edits| if it is a character device here. */
bool cdi_add_node(const struct cdi_context *context, struct spec_edits *edits, const char *path);

/* True if cdi_add_node() would add it. */
bool cdi_has_node(const struct cdi_context *context, const char *path);
