// SPDX-License-Identifier: Apache-2.0
/*
 * The resources that the stand-in has, and what a path means:
 *
 *     /apis/GROUP/VERSION[/namespaces/NAMESPACE]/RESOURCE[/NAME[/status]]
 */
#pragma once

#include <stdbool.h>

struct resource {
        const char *prefix; /* of its paths */
        const char *name;   /* in paths: "nodes" */
        const char *api_version;
        const char *kind;
        bool is_namespaced;
        bool has_status; /* which is written through the subresource, and only there */
};

struct address {
        const struct resource *resource;
        char collection[512]; /* the path as far as RESOURCE */
        char namespace[64];   /* "" for none */
        char name[256];       /* "" for none */
        bool is_status;
};

/* False: an API server has nothing there. */
bool address_read(struct address *ret, const char *path);
