/*
 * What is mounted where, by the text of /proc/<pid>/mountinfo (proc(5)). Pure. A line:
 * "id parent major:minor root point options [optional field…] - type source options". What the kernel escapes in paths stays so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mountinfo_line {
        dev_t device;
        const char *point; /* in the text, of that length, with a blank behind it */
        size_t length;
        bool is_shared; /* what is mounted below it is seen in other mount namespaces */
};

/* The line at |*at|, which goes on to the next; what is none is left out. False: there is no more. */
bool mountinfo_next(const char **at, struct mountinfo_line *ret);

/* It is mounted at |path|, not above or below. */
bool mountinfo_is_at(const struct mountinfo_line *mount, const char *path);
