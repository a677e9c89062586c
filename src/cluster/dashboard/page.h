/* The files of the page, which are in the program: src/cluster/dashboard/page, by tools/embed. */
#pragma once

#include <stddef.h>

struct embedded_file {
        const char *name; /* NULL ends the table */
        const unsigned char *data;
        size_t size;
};

extern const struct embedded_file dashboard_page[];

/* "text/html; charset=utf-8" and so on. */
const char *dashboard_page_type(const char *name);

/* |name| without a slash in front; "" is index.html. NULL: the page has no such file. */
const struct embedded_file *dashboard_page_find(const char *name);
