/*
 * One file, three names: as this process sees it, as the host does (where the runtime mounts from), and in the container.
 *
 *   what               here                               on the host
 *   driver's files     <driver_root_ctr>/usr/bin/x        <driver_root>/usr/bin/x
 *   device nodes       <driver_root_ctr>/dev/x, when the driver's tree has a dev/ and the node in it, then <driver_root>/dev/x;
 *                      else <system_root>/dev/x           <dev_root>/dev/x
 *
 * So what is written names the file that was looked at. (NVIDIA's plugin decides by the folder alone, and finds no node where
 * the driver's tree has an empty dev/.) In the container both are at their path below the root.
 *
 * Symbolic links of the driver's tree mean what they mean on the host: an absolute one starts again at the root of the tree,
 * and none leads out of it.
 */
#pragma once

#include <stdbool.h>

#include "base/alloc.h"
#include "config/config.h"

/* All without a slash at the end: "" is the root itself. */
struct roots {
        const char *driver;      /* here */
        const char *driver_host; /* on the host */
        const char *dev_host;
        const char *system; /* before /dev, /proc and /sys, here */
};

struct roots roots_of(const struct config *config, struct arena *arena);

/*
 * Below the driver's tree: |path| with every link followed, "/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08"; NULL when it does
 * not exist, leads in a circle, or has a character in its name that no file of a driver has (a colon would split lists).
 */
const char *roots_resolve(const struct roots *roots, struct arena *arena, const char *path);

/* What is at |path| of the driver's tree, links not followed: an S_IF* bit, 0 for nothing. */
unsigned int roots_type(const struct roots *roots, const char *path);

/*
 * The names in folder |path| of the tree that |is_wanted| likes, sorted; at most ROOTS_MAX_NAMES of them, and only of plain
 * characters. None when there is no such folder.
 */
#define ROOTS_MAX_NAMES ((size_t)1024)
typedef bool roots_filter_fn(const char *name, const void *data);
size_t roots_list(const char *root, const char *path, struct arena *arena, const char *const **ret,
        roots_filter_fn *is_wanted, const void *data);

/* Rewrites a path of here into one of the host, when it lies in the driver's tree; for the path of the hook. */
const char *roots_to_host(const struct roots *roots, struct arena *arena, const char *path);

/* Letters, digits and "._+-@~", and at least one. */
bool roots_is_plain(const char *name);
