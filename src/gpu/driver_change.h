// SPDX-License-Identifier: Apache-2.0
/*
 * Finds out from files whether the driver was replaced and whether GPUs came or went. NVML reports neither: a loaded
 * library stays the same, and it counts GPUs only when it is initialised.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/error.h"
#include "base/file.h"
#include "gpu/nvml.h"

/*
 * Identifies the installed driver. Two values differ if the library's file or the kernel's driver is a different one.
 */
struct driver_mark {
        /* The library's file, after following symbolic links; without the time of |changed|. */
        struct file_mark library;
        char version[64]; /* version of the driver in the kernel; "": there is none, or it cannot be read */
};

/* |library|: a path, or NULL for none. The version is read from /sys/module and /proc/driver, below |system_root|. */
struct driver_mark driver_mark_take(const char *library, const char *system_root);
bool driver_mark_is_same(const struct driver_mark *a, const struct driver_mark *b);

/* The file from which a library was loaded, for the caller to free; NULL if the linker does not know. */
char *driver_library_path(const struct nvml *nvml);

/* The GPUs of the kernel's driver, from /sys/bus/pci/drivers/nvidia or /proc/driver/nvidia/gpus. */
struct driver_gpus {
        bool known; /* false: neither folder exists */
        unsigned int count;
        uint64_t digest; /* of their addresses, in any order */
};

struct driver_gpus driver_gpus_take(const char *system_root);
bool driver_gpus_are_same(const struct driver_gpus *a, const struct driver_gpus *b);

/* ---- uevent ---- */

/*
 * The kernel's announcements of devices and modules (netlink, NETLINK_KOBJECT_UEVENT), filtered for those about GPUs.
 * They are only a hint to read the inventory.
 *
 * Any process may send datagrams to such a socket, so only those of the kernel (port 0) are read, and their content is
 * treated as untrusted bytes. Containers receive them, too, unless they have a user namespace of their own.
 */
#define UEVENT_MAX 8192U /* the kernel's limit is 2 KiB of variables and a path */

/*
 * "add@/devices/…", NUL, "KEY=value", NUL, … True for an NVIDIA device on the PCI bus, for devices of its driver, and
 * for the driver's modules.
 */
bool uevent_is_about_gpus(const char *data, size_t size);

struct uevent_watch;

/*
 * |on_event| is called on the loop's thread, once per turn for all messages. Fails if the kernel does not allow such a
 * socket.
 */
int uevent_watch_new(struct uevent_watch **ret, uv_loop_t *loop, void (*on_event)(void *data), void *data,
        struct error *err) MUST_USE;

/* Stops at once; the memory is freed when the loop has closed the handle. Accepts NULL. */
struct uevent_watch *uevent_watch_close(struct uevent_watch *watch);
