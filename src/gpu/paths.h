/*
 * Where this process sees the machine: the folders /dev, /proc and /sys, and the driver's files.
 */
#pragma once

struct gpu_paths {
        const char *
                system_root; /* "" for the machine itself; tests and demonstrations put a folder before /dev, /proc, /sys */
        const char *driver_root; /* the driver's files as this container sees them; "" or "/": its own */
};
