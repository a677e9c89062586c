// SPDX-License-Identifier: Apache-2.0
/*
 * A source of named configurations: a folder (a mounted ConfigMap), or a ConfigMap read from the API server. It lists
 * the names, returns one by name, and reports when something may have changed. It knows no label and chooses nothing.
 *
 * Each entry of a folder that is a file, directly or through links, is a configuration with that name; folders are not,
 * nor names that begin with "..", which are kubelet's own. A folder is read for each question. The last state of a
 * ConfigMap is kept, so that it stays available while the API server is away. A deleted ConfigMap or a missing folder
 * counts as unknown, so that a configuration from it stays in use.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "net/kube/client.h"

/* After a change in a folder: wait until it has not changed for QUIET, but for PATIENCE at most. */
#define CONFIG_SOURCE_QUIET_MS UINT64_C(200)
#define CONFIG_SOURCE_PATIENCE_MS UINT64_C(1000)
/* Also reads the folder this often, in case inotify misses a change. */
#define CONFIG_SOURCE_POLL_MS UINT64_C(10000)

#define CONFIG_FOLDER_MAX ((size_t)256) /* configurations; more are an error */

struct config_names {
        const char **names; /* sorted */
        size_t count;
};

struct config_source;

struct config_source_options {
        uv_loop_t *loop;
        const char *folder; /* or ""; then the next two are used: */
        struct kube_client *client;
        const char *map; /* "namespace/name" */
        void (*changed)(void *data);
        /* The ConfigMap cannot be read from the API server; it is tried again. Called once per problem. */
        void (*trouble)(const struct error *error, void *data);
        void *data;
};

/* Checks "namespace/name", each a valid Kubernetes name. The error says what is expected. */
int config_source_check_map(const char *map, struct error *err) MUST_USE;

int config_source_new(
        struct config_source **ret, const struct config_source_options *options, struct error *err) MUST_USE;

/* "folder '/available-configs'" or "ConfigMap gpu/configs", for messages. */
const char *config_source_name(const struct config_source *source);

/* The names, sorted. ERROR_UNAVAILABLE: not known yet; ERROR_NOT_FOUND: the folder or ConfigMap does not exist. */
int config_source_list(
        const struct config_source *source, struct config_names *ret, struct arena *arena, struct error *err) MUST_USE;

/* Appends the configuration of that name. */
int config_source_read(
        const struct config_source *source, const char *name, struct strbuf *content, struct error *err) MUST_USE;

/* No callback after this. Accepts NULL, returns NULL. */
struct config_source *config_source_close(struct config_source *source);

/* ---- a folder, read once ---- */

int config_folder_list(struct config_names *ret, const char *folder, struct arena *arena, struct error *err) MUST_USE;

/* At most CONFIG_FILE_LIMIT bytes. */
int config_folder_read(const char *folder, const char *name, struct strbuf *content, struct error *err) MUST_USE;

/* ---- the place where the chosen configuration is stored for a component to read ---- */

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
