// SPDX-License-Identifier: Apache-2.0
/*
 * The agent's configuration: where it comes from, which one this node uses, and whether it was accepted. This module
 * chooses and records; the agent loads, builds and serves.
 *
 *   a file      --config-file: one configuration for every node that has it. Watched.
 *   by name     --config-dir or --config-map: several, of which node/config/choice.h chooses by the node's label.
 *   none        neither: command line, environment and defaults.
 *
 * By name, the agent does not wait for the API server if it has a record: it starts with the last good configuration,
 * which is on disk (node/config/version.h), and uses the label when that is known. Without a record it waits some
 * seconds for the label, since it is better to start a little later than to start with a wrong configuration and change
 * it; then it uses the default. Without a default it keeps waiting, also with failOnInitError, since the file that
 * would contain that setting is what it waits for. While the label cannot be read, the last chosen name stays, and new
 * content of that name is used.
 *
 *         waiting ──chosen──► wanted ──agent_config_load()──► loaded ──agent_config_in_force()──► in force
 *                                │                              │
 *                                └──cannot be read or parsed────┴──agent_config_refuse(): these GPUs cannot have it
 *                                   the one in force stays, the reason is logged, and the next one wanted is tried
 *
 * The accepted configuration, and a refused one with the reason, are reported in the log, in annotations of the node
 * (node/config/outcome.h), in events, and through agent_config_status() in the metrics. An agent that does not serve
 * yet (node/kubelet/plugins.h) also chooses, loads and builds, so that it takes over with the right configuration. But
 * until it serves, it reports nothing to the cluster, and records and counts nothing.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "config/option.h"
#include "net/kube/client.h"
#include "node/config/settings.h"
#include "node/config/version.h"

struct agent_config;
struct node_events;
struct node_watch;

struct agent_config_options {
        uv_loop_t *loop;
        const struct option_set *options;
        void (*changed)(void *data); /* another configuration is wanted: load it */
        void *data;
};

/* Errors: options that exclude each other, or are invalid. */
int agent_config_new(struct agent_config **ret, const struct agent_config_options *options, struct error *err) MUST_USE;

/*
 * Connects to the cluster: from here on the label is followed and the state is reported. Every field may be NULL, and
 * must outlive the configuration. |client| is NULL without a node name or credentials.
 */
struct agent_config_cluster {
        struct kube_client *client;
        const char *node;         /* NULL without a client, like the next one */
        struct node_watch *watch; /* the watch of that node */
        struct node_events *events;
        bool has_annotations; /* report the accepted configuration on the node: node/config/outcome.h */
};
int agent_config_connect(
        struct agent_config *config, const struct agent_config_cluster *cluster, struct error *err) MUST_USE;

/*
 * False at first. True: reads the last record of this node, whichever agent wrote it, and reports the accepted and the
 * refused configuration. Call it when |events| serve already.
 */
void agent_config_serve(struct agent_config *config, bool is_serving);

/* A configuration to serve is not known yet; until then agent_config_load() gives only what is needed while waiting. */
bool agent_config_is_waiting(const struct agent_config *config);

/* The label is known, or the wait for it is over: the loaded configuration is the one that the cluster wants. */
bool agent_config_is_settled(const struct agent_config *config);

/* Reads files and folders again, on SIGHUP. A new wanted configuration is not announced, but loaded next. */
void agent_config_refresh(struct agent_config *config);

/*
 * Loads the wanted configuration. An error if it cannot be read or is invalid; it is reported in the node's
 * annotations, while log and event are up to the caller.
 */
int agent_config_load(struct agent_config *config, struct settings **ret, struct error *err) MUST_USE;

/*
 * Like agent_config_load(), at the start. A refused configuration is an error only if it is a single file, which has no
 * alternative. If it was chosen by name, the agent waits, since the next one may be valid.
 */
int agent_config_begin(struct agent_config *config, struct settings **ret, struct error *err) MUST_USE;

/* Reports that the configuration that was loaded last is in force, or is refused for the reason |err|. */
void agent_config_in_force(struct agent_config *config);
void agent_config_refuse(struct agent_config *config, const struct error *err);

/* False: the configuration consists of command line and environment only. Valid until the next turn of the loop. */
bool agent_config_status(const struct agent_config *config, struct config_status *ret);

/* No callback after this. Accepts NULL, returns NULL. */
struct agent_config *agent_config_close(struct agent_config *config);
