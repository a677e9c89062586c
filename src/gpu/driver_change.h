/*
 * What tells, from files alone, that the driver was replaced or that GPUs came and went. NVML says neither: a library stays the
 * one that was loaded, and counts GPUs when it is initialised.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpu/nvml.h"

/* Which driver is installed. Two of them differ as soon as the library's file or the kernel's driver is another one. */
struct driver_mark {
        dev_t device; /* of the library's file, symbolic links followed */
        ino_t inode;  /* 0: there is none */
        off_t size;
        int64_t modified_ns;
        char version[64]; /* of the driver in the kernel; "": there is none, or it cannot be seen */
};

/* |library|: a path, or NULL for none. The version is looked up in /sys/module and /proc/driver, below |system_root|. */
struct driver_mark driver_mark_take(const char *library, const char *system_root);
bool driver_mark_is_same(const struct driver_mark *a, const struct driver_mark *b);

/* The file that a loaded library came from, for the caller to free; NULL when the linker does not say. */
char *driver_library_path(const struct nvml *nvml);

/*
 * The library of that path is in this process, whoever loaded it. A library may stay after dlclose (thread-local data, symbols
 * that are unique in the process, another user), and then the next dlopen returns the old one, whatever the file is by now.
 */
bool driver_library_is_loaded(const char *path);

/* The GPUs that the kernel's driver has, by /sys/bus/pci/drivers/nvidia or else /proc/driver/nvidia/gpus. */
struct driver_gpus {
        bool known; /* false: neither folder is there */
        unsigned int count;
        uint64_t digest; /* of their addresses, in any order */
};

struct driver_gpus driver_gpus_take(const char *system_root);
bool driver_gpus_are_same(const struct driver_gpus *a, const struct driver_gpus *b);
