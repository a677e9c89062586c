// SPDX-License-Identifier: Apache-2.0
/* Parses texts of the kernel and the system for doctor's checks. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FACTS_VERSION_MAX ((size_t)32)

/*
 * The driver's version in /proc/driver/nvidia/version, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  …"
 * or "… Open Kernel Module for x86_64  580.105.08 …". False: none found.
 */
bool facts_driver_version(const char *text, char ret[static FACTS_VERSION_MAX]);

/* How many mounts are stacked on |path|, according to /proc/self/mountinfo. */
size_t facts_count_mounts(const char *mountinfo, const char *path);

/* True if containers may write files of this type: "system_u:object_r:container_file_t:s0". */
bool facts_is_container_label(const char *label);

/* The name of an NVIDIA plugin's socket in kubelet's directory: neither kubelet's own nor Warpshare's. */
bool facts_is_nvidia_socket(const char *name);
