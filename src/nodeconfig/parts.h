/*
 * What the two files of the agent's configuration share: nodeconfig.c, where it comes from and which one it is; outcome.c,
 * what became of it.
 */
#pragma once

#include "base/complaint.h"
#include "io/filewatch.h"
#include "kube/node_events.h"
#include "node/label.h"
#include "nodeconfig/choice.h"
#include "nodeconfig/nodeconfig.h"
#include "nodeconfig/report.h"
#include "nodeconfig/source.h"
#include "nodeconfig/version.h"

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
        bool is_late; /* the label could not be had in time */
        bool is_settled;
        bool is_stuck; /* what is wanted is that of before: none can be chosen now, or the chosen one cannot be read */

        struct config_version wanted;
        struct config_version loaded;
        struct config_version current;  /* without its content, and so is: */
        struct config_version recorded; /* what lies on disk */
        uint64_t generation;            /* of |current|; counts while it serves */
        char tried[SHA256_HEX + 1];     /* hash of what was told to be wanted last */
        enum config_verdict verdict;
        char *why;

        struct config_report *report;
        struct node_events *events;
        struct complaint waiting;
        struct complaint misled;
        struct complaint unread;
        struct complaint unrecorded;
};

/* ---- outcome.c ---- */

/* Nothing can be chosen: what is in force stays, and a refusal stays told. At the start that is only for a moment. */
void agent_config_report_waiting(struct agent_config *config, const char *why, bool is_start);

/* The label or the default misleads, and another one is chosen; or not any more. */
void agent_config_report_fallback(struct agent_config *config, const struct config_choice *choice);

/* The chosen one cannot even be read. What cannot be loaded is told to the cluster by who asked for it (node/report.h). */
void agent_config_report_unread(struct agent_config *config, const struct error *err);

/* The last good configuration becomes the wanted one, if it is there and can be loaded. */
void agent_config_begin_with_record(struct agent_config *config);
