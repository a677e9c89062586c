/*
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
#include "base/error.h"
#include "config/config.h"

/* None has a slash at the end: "" is the root itself. */
struct roots {
        const char *driver;      /* here */
        const char *driver_host; /* on the host */
        const char *dev_host;
        const char *system; /* here, the prefix of /dev, /proc and /sys */
        /*
         * The first error other than "not found": out of descriptors or memory, or a failing disk. A specification
         * written in spite of it could lack a file for good. NULL: the caller does not want it.
         */
        struct error *unseen;
};

/* Notes the error of a file that could not be read, or errno, unless it says that the file does not exist. */
void roots_note(const struct roots *roots, const struct error *err);
void roots_note_errno(const struct roots *roots, const char *path);

struct roots roots_of(const struct config *config, struct arena *arena);

/*
 * |path| of the driver's tree with all links resolved, "/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08". NULL if it
 * does not exist, if links form a circle, or if the name has a character that no file of a driver has (a colon would
 * split lists).
 */
const char *roots_resolve(const struct roots *roots, struct arena *arena, const char *path);

/* lstat(), of a path that is whole. */
bool roots_look(const struct roots *roots, const char *path, struct stat *ret);

/* The type (S_IF*) of |path| in the driver's tree, without following links; 0 if it does not exist. */
unsigned int roots_type(const struct roots *roots, const char *path);

/*
 * The names in folder |path| below |root|, one of |roots|, that |is_wanted| accepts, sorted; at most ROOTS_MAX_NAMES,
 * and only those that roots_is_plain() accepts. Returns 0 if the folder does not exist.
 */
#define ROOTS_MAX_NAMES ((size_t)1024)
typedef bool roots_filter_fn(const char *name, const void *data);
size_t roots_list(const struct roots *roots, const char *root, const char *path, struct arena *arena,
        const char *const **ret, roots_filter_fn *is_wanted, const void *data);

/* Turns the path of the hook's program into its path on the host, if it is in the driver's tree. */
const char *roots_to_host(const struct roots *roots, struct arena *arena, const char *path);

/* Whether |name| has only letters, digits and "._+-@~", and at least one. */
bool roots_is_plain(const char *name);
