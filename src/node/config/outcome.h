// SPDX-License-Identifier: Apache-2.0
/*
 * The configuration that this node has accepted, and why the newest one is refused or waited for. It is reported in the
 * log, in annotations of the node, for users who have only kubectl, and in events, and recorded on disk
 * (node/config/version.h). This module does not know how a configuration is chosen or loaded; node/config/nodeconfig.h
 * calls it.
 *
 * Only a serving agent reports to the cluster, counts and records. One that does not serve yet remembers what it would
 * report, and config_outcome_serve() does so.
 *
 *   warpshare.dev/config              its name
 *   warpshare.dev/config-source       "ConfigMap gpu/configs, by label"
 *   warpshare.dev/config-generation   how many there have been on this node
 *   warpshare.dev/config-hash         the first 16 digits of its SHA-256
 *   warpshare.dev/config-status       "accepted"; "refused: <reason>"; "waiting: <for what>"
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "node/config/choice.h"
#include "node/config/nodeconfig.h"
#include "node/config/version.h"
#include "node/status/reconcile.h"

#define CONFIG_REPORT_MANAGER "warpshare-config"

struct config_outcome {
        char *record; /* the path; NULL: configurations are not chosen by name, so none is recorded */
        struct agent_config_cluster cluster;
        char *node;
        bool is_serving;

        struct config_version *current;  /* accepted; NULL: none is */
        struct config_version *recorded; /* on disk; NULL: none is */
        uint64_t generation;             /* of |current|; counts while the agent serves */
        enum config_state state;         /* of the newest one */
        char *why;

        struct node_reconcile *report; /* NULL: not serving, or without annotations */
        struct complaint waiting;
        struct complaint misled;
        struct complaint unread;
        struct complaint unrecorded;
};

/* |record| is owned from here on. */
void config_outcome_init(struct config_outcome *outcome, char *record);
void config_outcome_done(struct config_outcome *outcome);
void config_outcome_connect(struct config_outcome *outcome, const struct agent_config_cluster *cluster);

/* A configuration cannot be chosen, so |wanted| stays, even if it is refused. |is_start|: normal for a moment. */
void config_outcome_wait(
        struct config_outcome *outcome, const struct config_version *wanted, const char *why, bool is_start);

/*
 * A configuration is chosen. |choice| says whether the label or the default names one that does not exist; NULL: the
 * name was kept.
 */
void config_outcome_choose(struct config_outcome *outcome, const struct config_choice *choice);

/* The chosen configuration was read, |err| is NULL; or it cannot be read. */
void config_outcome_read(struct config_outcome *outcome, const struct error *err);

/* The newest configuration cannot be used. The caller reports that to log and events (node/status/report.h). */
void config_outcome_refuse(struct config_outcome *outcome, const char *why);

/* |loaded| is in use. |is_newest|: no newer one is wanted. */
void config_outcome_accept(struct config_outcome *outcome, struct config_version *loaded, bool is_newest);

/*
 * Serving begins: |loaded| was loaded last, |wanted| is wanted, and |is_refused| says whether |wanted| could not be
 * loaded. Reads the record of this node, whichever agent wrote it, to continue its count.
 */
void config_outcome_serve(struct config_outcome *outcome, struct config_version *loaded,
        const struct config_version *wanted, bool is_refused);
void config_outcome_stop(struct config_outcome *outcome);

/* After SIGHUP: what still is wrong is logged again. */
void config_outcome_forget_complaints(struct config_outcome *outcome);

/* Valid until the next change. */
struct config_status config_outcome_status(const struct config_outcome *outcome);

/* The Node object that reports |status|, as CONFIG_REPORT_MANAGER applies it. Pure; a new reference. */
json_t *config_report_node(const char *node, const struct config_status *status);
