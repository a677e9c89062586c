/*
 * What of the driver a container needs: libraries of the running version, what belongs to them (configuration, firmware,
 * programs, sockets), and the symbolic links that go with the libraries. Found by looking into folders below the driver's root;
 * nothing is executed or loaded, and what is not there is just not in the result.
 *
 * Which files and folders count is what NVIDIA's container toolkit 1.20 knows (reference: NVIDIA's k8s-device-plugin v0.20, CDI).
 * Different here: configuration and programs keep the path at which they were found, also when that is a symbolic link, so that
 * nvidia-smi is in the container's PATH where alternatives manage it; and /tmp/nvidia-mps is never given away, since a socket
 * folder of MPS there belongs to whoever started that daemon.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "cdi/roots.h"

#define DRIVER_MAX_FILES ((size_t)2048)
#define DRIVER_MAX_LINKS ((size_t)4096)
#define DRIVER_MAX_FOLDERS ((size_t)64)

/* Both paths are below the driver's root. */
struct driver_file {
        const char *source; /* links followed: what to mount */
        const char *target; /* where in the container */
        bool is_socket;     /* to be mounted writable */
};

/* A symbolic link to make in the container: |link| is a path, |target| is what it says. */
struct driver_link {
        const char *target;
        const char *link;
};

struct driver {
        struct driver_file *files; /* each target once */
        size_t n_files;
        struct driver_link *links;
        size_t n_links;
        const char **cuda_folders; /* where lib*.so.<version> are */
        size_t n_cuda_folders;
        const char **library_folders; /* of every mounted library, for ldconfig */
        size_t n_library_folders;
};

struct driver_search {
        const struct roots *roots;
        const char *version;     /* of the driver that runs: "580.105.08" */
        bool explicit_libraries; /* also the vendor-neutral ones: libGL, libEGL, libOpenCL, … */
        bool no_sockets;
};

/*
 * Fails when the libraries of |version| are not there: ERROR_NOT_FOUND without any, ERROR_UNAVAILABLE when those of another
 * version are (the driver was upgraded, and the old one still runs). Everything lives in |arena|.
 */
int driver_find(
        struct driver *ret, struct arena *arena, const struct driver_search *search, struct error *err) MUST_USE;

/* For drivers that are found in another way (WSL, Tegra): an empty one to fill. */
void driver_init(struct driver *driver, struct arena *arena);
void driver_add_file(struct driver *driver, const char *source, const char *target, bool is_socket);
void driver_add_link(struct driver *driver, const char *target, const char *link);
void driver_add_library_folder(struct driver *driver, struct arena *arena, const char *library);
