/*
 * A source of named configurations: a folder (a mounted ConfigMap), or a ConfigMap read from the API server. It lists
 * the names, returns one by name, and reports when something may have changed. It knows no label and chooses nothing.
 *
 * A folder is read for each question. The last state of a ConfigMap is kept, so that it stays available while the API
 * server is away. A deleted ConfigMap or a missing folder counts as unknown, so that a configuration from it stays in
 * use.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "net/kube/client.h"
#include "node/config/folder.h"

/* After a change in a folder: wait until it has not changed for QUIET, but for PATIENCE at most. */
#define CONFIG_SOURCE_QUIET_MS UINT64_C(200)
#define CONFIG_SOURCE_PATIENCE_MS UINT64_C(1000)
/* Also reads the folder this often, in case inotify misses a change. */
#define CONFIG_SOURCE_POLL_MS UINT64_C(10000)

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
