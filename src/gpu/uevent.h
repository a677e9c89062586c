/*
 * The kernel's own announcements of devices and modules (netlink, NETLINK_KOBJECT_UEVENT), for those that concern GPUs. They
 * only hint that it is time to look.
 *
 * Any process may send datagrams to such a socket, so only those of the kernel (port 0) are read, and their content is taken
 * for arbitrary bytes. Containers get them, too, unless they have a user namespace of their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

#define UEVENT_MAX 8192U /* the kernel's own limit is 2 KiB of variables and a path */

/*
 * "add@/devices/…", NUL, "KEY=value", NUL, … True for a device of NVIDIA's on the PCI bus, what the driver makes, and the
 * driver's modules.
 */
bool uevent_is_about_gpus(const char *data, size_t size);

struct uevent_watch;

/* |heard| is called on the loop's thread, once a turn for all that came. Fails where the kernel allows no such socket. */
int uevent_watch_new(
        struct uevent_watch **ret, uv_loop_t *loop, void (*heard)(void *data), void *data, struct error *err) MUST_USE;

/* Stops at once; the memory goes when the loop has closed the handle. Accepts NULL. */
struct uevent_watch *uevent_watch_close(struct uevent_watch *watch);
