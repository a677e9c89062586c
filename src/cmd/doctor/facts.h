/*
 * Texts of the kernel and the system → facts, for the checks of the doctor. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define FACTS_VERSION_MAX ((size_t)32)

/*
 * The driver's version in /proc/driver/nvidia/version, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  …" or
 * "… Open Kernel Module for x86_64  580.105.08 …". False: none is there.
 */
bool facts_driver_version(const char *text, char ret[static FACTS_VERSION_MAX]);

/* How many mounts lie on |path|, one over the other, by /proc/self/mountinfo. */
size_t facts_count_mounts(const char *mountinfo, const char *path);

/* "pid:[4026531836]", as /proc/self/ns/pid reads, is the first of all PID namespaces: that of the host. */
bool facts_is_host_pid(const char *link);

/* "system_u:object_r:container_file_t:s0" is of a type that containers may write to. */
bool facts_is_container_label(const char *label);

/* The name of a socket in kubelet's directory that is neither kubelet's nor ours, but a plugin's of NVIDIA. */
bool facts_is_nvidia_socket(const char *name);
