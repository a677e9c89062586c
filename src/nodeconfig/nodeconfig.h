/*
 * The agent's configuration: where it comes from, which one is the node's, what became of it. It chooses and remembers; the agent
 * loads, builds and serves.
 *
 *   a file      --config-file: one configuration for every node that has it. Watched.
 *   by name     --config-dir or --config-map: several, of which nodeconfig/choice.h chooses by the node's label.
 *   none        neither: command line, environment and defaults.
 *
 * By name, the agent never waits for the API server with what it has: it begins with the last good configuration, which is on disk
 * (nodeconfig/record.h); the label counts when it is known. With no such record it waits for the label, since a node that begins with the
 * configuration of others and then changes is worse than one that begins a moment later; but for seconds only, then the default has to
 * do. With neither it waits, whatever failOnInitError says, since the file that could say it is what it waits for. While the label cannot
 * be read, what was chosen last stays chosen by its name, and a new content of that name is taken from folder or ConfigMap all the same.
 *
 *         waiting ──chosen──► wanted ──agent_config_load()──► loaded ──agent_config_in_force()──► in force
 *                                │                              │
 *                                └──cannot be read or parsed────┴──agent_config_refuse(): these GPUs cannot have it
 *                                   the one in force stays, the reason is told, and the next one wanted is tried
 *
 * What is in force, and what was refused and why, goes to the log, to annotations of the node (nodeconfig/report.h), to events, and by
 * agent_config_status() to the metrics. An agent that waits for its turn (kubelet/plugins.h) chooses, loads and builds all the same, so that
 * it takes over with the right one; but it tells the cluster nothing, records and counts nothing, and accepts nothing, until it serves.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "config/option.h"
#include "kube/client.h"
#include "nodeconfig/settings.h"
#include "nodeconfig/status.h"

struct agent_config;
struct node_events;
struct node_watch;

struct agent_config_options {
        uv_loop_t *loop;
        const struct option_set *options;
        void (*changed)(void *data); /* another one is wanted: load it */
        void *data;
};

/* Errors: of options that exclude each other, or cannot be. */
int agent_config_new(struct agent_config **ret, const struct agent_config_options *options, struct error *err) MUST_USE;

/*
 * From here on the cluster is listened to and told. All may be NULL, and must outlive the configuration: without a client the node has no
 * name, or there are no credentials.
 */
struct agent_config_cluster {
        struct kube_client *client;
        const char *node;         /* NULL without a client, and so is: */
        struct node_watch *watch; /* of that node */
        struct node_events *events;
        bool has_annotations; /* the node is to say what is in force: nodeconfig/report.h */
};
int agent_config_connect(
        struct agent_config *config, const struct agent_config_cluster *cluster, struct error *err) MUST_USE;

/*
 * False at first. True: reads what was recorded last on this node, by whomever, and tells what is in force and what was refused. To be
 * called when the cluster can be told, and |events| serve.
 */
void agent_config_serve(struct agent_config *config, bool is_serving);

/* Nothing is there yet to be served; what agent_config_load() gives is only for what is needed to wait. */
bool agent_config_is_waiting(const struct agent_config *config);

/* The label has had its say, or has none: what is loaded now is what the cluster wants. */
bool agent_config_is_settled(const struct agent_config *config);

/* Looks anew at files and folders, for who is asked to (SIGHUP). What is wanted then is not told, but loaded next. */
void agent_config_refresh(struct agent_config *config);

/* What is wanted now. Refused is what cannot be read or is wrong; the node's annotations tell it, log and event are the caller's. */
int agent_config_load(struct agent_config *config, struct settings **ret, struct error *err) MUST_USE;

/*
 * The same for the start: of several configurations by name one that is refused is no error, since the next one may be good; then it
 * waits. A file is the only one there is.
 */
int agent_config_begin(struct agent_config *config, struct settings **ret, struct error *err) MUST_USE;

/* What was loaded last serves; or cannot, and why. */
void agent_config_in_force(struct agent_config *config);
void agent_config_refuse(struct agent_config *config, const struct error *err);

/* False: there is no configuration but command line and environment. Valid until the loop goes on. */
bool agent_config_status(const struct agent_config *config, struct config_status *ret);

/* Nothing comes after it. Accepts NULL, returns NULL. */
struct agent_config *agent_config_close(struct agent_config *config);
