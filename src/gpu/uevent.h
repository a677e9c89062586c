/*
 * The kernel's announcements of devices and modules (netlink, NETLINK_KOBJECT_UEVENT), filtered for those about GPUs.
 * They are only a hint to read the inventory.
 *
 * Any process may send datagrams to such a socket, so only those of the kernel (port 0) are read, and their content is
 * treated as untrusted bytes. Containers receive them, too, unless they have a user namespace of their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

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
