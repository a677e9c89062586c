/*
 * A folder of named configurations, such as a mounted ConfigMap. Each entry that is a file, directly or through links,
 * is a configuration with that name; folders are not, nor names that begin with "..", which are kubelet's own. Also the
 * one place where the chosen configuration is stored for a component to read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#define CONFIG_FOLDER_MAX ((size_t)256) /* configurations; more are an error */

struct config_names {
        const char *const *names; /* sorted */
        size_t count;
};

int config_folder_list(struct config_names *ret, const char *folder, struct arena *arena, struct error *err) MUST_USE;

/* At most CONFIG_FILE_LIMIT bytes. */
int config_folder_read(const char *folder, const char *name, struct strbuf *content, struct error *err) MUST_USE;

/*
 * The place is a link to a copy beside it, "<folder>/.<place>.d/<name>". NVIDIA's config manager makes a link to the
 * ConfigMap itself, so every edit would reach the component before it is validated; the copy stays as it was validated.
 * The empty configuration is a link to /dev/null, as in NVIDIA's. A reader always finds either the complete old content
 * or the complete new one.
 */
enum { CONFIG_PLACE_NOTHING = 1 };

/* Reads the content as a component sees it. CONFIG_PLACE_NOTHING: |place| does not exist yet, or its link is broken. */
int config_place_read(const char *place, struct strbuf *content, struct error *err) MUST_USE;

/* |name| NULL: the empty configuration. Unused copies are removed. */
int config_place_put(const char *place, const char *name, const struct strbuf *content, struct error *err) MUST_USE;
