/*
 * Mounts in the text of /proc/<pid>/mountinfo (proc(5)). Pure. A line: "id parent major:minor root point options
 * [optional field…] - type source options". Characters that the kernel escapes in paths stay escaped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mountinfo_line {
        dev_t device;
        const char *point; /* points into the text; a blank follows it */
        size_t length;
        bool is_shared; /* other mount namespaces see what is mounted below it */
};

/* Reads the line at |*at|, and moves |*at| to the next one; invalid lines are skipped. False: no line is left. */
bool mountinfo_next(const char **at, struct mountinfo_line *ret);

/* Whether the mount point is |path| itself, not a folder above or below. */
bool mountinfo_is_at(const struct mountinfo_line *mount, const char *path);
