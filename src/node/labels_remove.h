/*
 * Takes labels of this node away wherever this program has put them: the file, the NodeFeature, the node. What NVIDIA's program made is
 * left alone: ours has labels of ours in it (labels/labels.h). May be run again.
 */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "node/visit.h"

enum labels_removal {
        LABELS_REMOVED, /* it was there, and is gone; in a dry run: it would be */
        LABELS_LEFT,    /* it is there and stays, for a reason that is said */
        LABELS_ABSENT,  /* it was not there */
        LABELS_UNSEEN,  /* it could not be looked for, for a reason that is said */
};

/* |what|: "labels file", "NodeFeature", "node labels"; |where|: a path, or the name of an object; |note| "": nothing to add. */
typedef void labels_removal_fn(
        enum labels_removal outcome, const char *what, const char *where, const char *note, void *data);

/*
 * Tells of each of the three. |scope|: namespace of the NodeFeature; "": that of the pod or of the kubeconfig. It takes as long as the API
 * server needs, at most a minute or so.
 */
void labels_remove(struct api_visit *visit, const struct config *config, const char *scope, bool is_dry,
        labels_removal_fn *report, void *data);
