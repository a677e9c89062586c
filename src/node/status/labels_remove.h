/*
 * Removes this node's labels from all places where this program puts them: the file, the NodeFeature, the node. Labels
 * that NVIDIA's program made are left alone: only ours include our own labels (node/labels/labels.h). May be run again.
 */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "node/status/visit.h"

enum labels_removal {
        LABELS_REMOVED, /* it existed and was removed; in a dry run: it would be */
        LABELS_LEFT,    /* it exists and stays, for the stated reason */
        LABELS_ABSENT,  /* it did not exist */
        LABELS_UNSEEN,  /* it could not be checked, for the stated reason */
};

/*
 * |what|: "labels file", "NodeFeature", "node labels"; |where|: a path, or the name of an object; |note| "": nothing to
 * add.
 */
typedef void labels_removal_fn(
        enum labels_removal outcome, const char *what, const char *where, const char *note, void *data);

/*
 * Reports on each of the three. |scope|: namespace of the NodeFeature; "": that of the pod or of the kubeconfig. Blocks
 * while the API server answers, about a minute at most.
 */
void labels_remove(struct api_visit *visit, const struct config *config, const char *scope, bool is_dry,
        labels_removal_fn *report, void *data);
