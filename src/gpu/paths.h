/*
 * Where this process sees the machine: the folders /dev, /proc and /sys, and the driver's files.
 */
#pragma once

struct gpu_paths {
        const char *system_root; /* "" for the machine itself; tests set a folder with /dev, /proc and /sys */
        const char *driver_root; /* the root of the driver's files as seen in this container; "" or "/": its own root */
};
