/*
 * State that the two files of the agent's configuration share: nodeconfig.c chooses the configuration, outcome.c
 * reports whether it was accepted.
 */
#pragma once

#include "base/complaint.h"
#include "base/io/filewatch.h"
#include "node/events/node_events.h"
#include "node/status/apply.h"
#include "node/status/label.h"
#include "node/config/choice.h"
#include "node/config/nodeconfig.h"
#include "node/config/report.h"
#include "node/config/source.h"
#include "node/config/version.h"

struct agent_config {
        struct agent_config_options options;
        enum { BY_NOTHING, FROM_FILE, BY_NAME } kind;

        const char *path; /* of the file, "" without one */
        const char *map;  /* the ConfigMap, "" without one */
        struct filewatch *file;

        struct config_rules rules;
        char *record; /* path */
        struct kube_client *client;
        struct node_watch *watch; /* of: */
        char *node;
        bool has_annotations;
        bool is_connected;
        bool is_serving;
        struct config_source *source;
        struct node_label *label;
        uv_timer_t patience;
        bool is_late; /* the wait for the label is over */
        bool is_settled;
        bool is_stuck; /* |wanted| is an earlier one: none can be chosen now, or the chosen one cannot be read */

        struct config_version wanted;
        struct config_version loaded;
        struct config_version current;  /* without its content, like the next one */
        struct config_version recorded; /* the record on disk */
        uint64_t generation;            /* of |current|; counts while the agent serves */
        char tried[SHA256_HEX + 1];     /* hash of the configuration that the agent was last told to load */
        enum config_verdict verdict;
        char *why;

        struct node_apply *report;
        struct node_events *events;
        struct complaint waiting;
        struct complaint misled;
        struct complaint unread;
        struct complaint unrecorded;
};

/* ---- outcome.c ---- */

/* Nothing can be chosen: what is in force stays, and a refusal stays told. At the start that is only for a moment. */
void agent_config_report_waiting(struct agent_config *config, const char *why, bool is_start);

/* The label or the default names a missing configuration, and another one is chosen; or this is over. */
void agent_config_report_fallback(struct agent_config *config, const struct config_choice *choice);

/*
 * The chosen configuration cannot be read. For one that cannot be loaded the caller reports to the cluster
 * (node/status/report.h).
 */
void agent_config_report_unread(struct agent_config *config, const struct error *err);

/* Makes the last good configuration the wanted one, if there is a record and it can be loaded. */
void agent_config_begin_with_record(struct agent_config *config);
