// SPDX-License-Identifier: Apache-2.0
/*
 * The files of the driver that a container needs: libraries of the running version, the symbolic links to them, and
 * configuration, firmware, programs and sockets. They are searched in folders below the driver's root; nothing is
 * executed or loaded, and a file that does not exist is not in the result.
 *
 * The names of files and folders are those of NVIDIA's container toolkit 1.20 (as in NVIDIA's k8s-device-plugin v0.20),
 * with the EGL platforms for X11 that came after it, and folders of distributions that it finds by ld.so.cache only.
 * Two things are different. Configuration and programs have the path at which they were found, even if that is a
 * symbolic link: so nvidia-smi is in the container's PATH if Debian's alternatives manage it. And /tmp/nvidia-mps is
 * never mounted, because an MPS daemon with its sockets there is none of ours.
 */
#pragma once

#include "node/cdi/context.h"

#define DRIVER_MAX_FILES ((size_t)2048)
#define DRIVER_MAX_LINKS ((size_t)4096)
#define DRIVER_MAX_FOLDERS ((size_t)64)
#define DRIVER_MAX_NODES ((size_t)512)

/* Both paths are below the driver's root. */
struct driver_file {
        const char *source; /* with links resolved: what to mount */
        const char *target; /* its path in the container */
        bool is_socket;     /* to be mounted writable */
};

/* A symbolic link to create in the container: |link| is its path, |target| its content. */
struct driver_link {
        const char *target;
        const char *link;
};

struct driver {
        struct driver_file *files; /* each target once */
        size_t n_files;
        struct driver_link *links;
        size_t n_links;
        const char **cuda_folders; /* folders with files lib*.so.<version> */
        size_t n_cuda_folders;
        const char **library_folders; /* of every mounted library, for ldconfig */
        size_t n_library_folders;
        const char **nodes; /* of WSL and Tegra: device nodes of the only unit */
        size_t n_nodes;
};

/*
 * Fails if the libraries of the running version are missing: with ERROR_UNAVAILABLE if there are libraries of another
 * version (the driver was upgraded, and the old one still runs), else with ERROR_NOT_FOUND. The result is in the
 * context's arena.
 */
int driver_find(struct driver *ret, const struct cdi_context *context, struct error *err) MUST_USE;

/* An empty result to fill, for drivers that are found in another way (WSL, Tegra). */
void driver_init(struct driver *driver, struct arena *arena);
void driver_add_file(struct driver *driver, const char *source, const char *target, bool is_socket);
void driver_add_link(struct driver *driver, const char *target, const char *link);
void driver_add_library_folder(struct driver *driver, struct arena *arena, const char *library);
