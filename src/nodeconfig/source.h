/*
 * Where named configurations come from: a folder (a mounted ConfigMap), or a ConfigMap read from the API server. It says which
 * there are, hands one out by its name, and hints when anything may have changed. It knows no label and chooses nothing.
 *
 * A folder is read when it is asked; a ConfigMap is kept as the watch told it last, so that it lasts while the API server is away. One
 * that is deleted, and a folder that is gone, count as not known: who has a configuration of it keeps that.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "kube/client.h"
#include "nodeconfig/folder.h"

/* After a change in a folder, until nothing more has happened; and how long that is waited for at most. */
#define CONFIG_SOURCE_QUIET_MS UINT64_C(200)
#define CONFIG_SOURCE_PATIENCE_MS UINT64_C(1000)
/* The folder is looked at as often, whatever inotify says. */
#define CONFIG_SOURCE_POLL_MS UINT64_C(10000)

struct config_source;

struct config_source_options {
        uv_loop_t *loop;
        const char *folder; /* or "", and then: */
        struct kube_client *client;
        const char *map; /* "namespace/name" */
        void (*changed)(void *data);
        /* The API server does not give the ConfigMap; it is tried again. Once for each trouble. */
        void (*trouble)(const struct error *error, void *data);
        void *data;
};

/* "namespace/name", both as Kubernetes has them? The error says how it must be. */
int config_source_check_map(const char *map, struct error *err) MUST_USE;

int config_source_new(
        struct config_source **ret, const struct config_source_options *options, struct error *err) MUST_USE;

/* "folder '/available-configs'" or "ConfigMap gpu/configs": for sentences. */
const char *config_source_name(const struct config_source *source);

/*
 * The names, sorted. An error where they are not known: ERROR_UNAVAILABLE, nobody has said yet; ERROR_NOT_FOUND, there is no such
 * folder or ConfigMap.
 */
int config_source_list(
        const struct config_source *source, struct config_names *ret, struct arena *arena, struct error *err) MUST_USE;

/* Appends the configuration of that name. */
int config_source_read(
        const struct config_source *source, const char *name, struct strbuf *content, struct error *err) MUST_USE;

/* Nothing comes after it. Accepts NULL, returns NULL. */
struct config_source *config_source_close(struct config_source *source);
