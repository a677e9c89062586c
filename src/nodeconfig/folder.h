/*
 * A folder of named configurations, as a ConfigMap is mounted: each entry that is a file, directly or through links, is one, by its
 * name; folders are none, nor what begins with "..", which is kubelet's own. And the one place where a chosen one lies for a component
 * to read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#define CONFIG_FOLDER_MAX ((size_t)256) /* configurations; more is an error */

struct config_names {
        const char *const *names; /* sorted */
        size_t count;
};

int config_folder_list(struct config_names *ret, const char *folder, struct arena *arena, struct error *err) MUST_USE;

/* At most CONFIG_FILE_LIMIT bytes. */
int config_folder_read(const char *folder, const char *name, struct strbuf *content, struct error *err) MUST_USE;

/*
 * The place: a link that leads to a copy beside it, "<folder>/.<place>.d/<name>". A link to the ConfigMap itself, which is
 * what NVIDIA's config manager makes, would hand every edit to the component before anybody looked at it; the copy stays as it was
 * judged. The empty configuration is a link to /dev/null, as there. A reader finds the old content or the new one, at any moment.
 */
enum { CONFIG_PLACE_NOTHING = 1 };

/* What a reader of the place gets; CONFIG_PLACE_NOTHING: there is nothing yet, or the link leads nowhere. */
int config_place_read(const char *place, struct strbuf *content, struct error *err) MUST_USE;

/* |name| NULL: the empty configuration. Copies that nothing leads to any more are removed. */
int config_place_put(const char *place, const char *name, const struct strbuf *content, struct error *err) MUST_USE;
