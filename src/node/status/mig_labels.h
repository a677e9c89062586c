// SPDX-License-Identifier: Apache-2.0
/*
 * The node's labels about MIG (mig/manager.h): reads the wanted configuration, and reports the state. It decides
 * nothing.
 *
 * State and reason are restored on the node if another client changes them. Until the first state is reported, the
 * state label stays as it is.
 */
#pragma once

#include "net/kube/client.h"
#include "mig/manager.h"

#define MIG_LABELS_MANAGER "warpshare-mig"
/* GPUs are kept back until the labels are known (agent/undecided.h), so they are read soon again. */
#define MIG_LABELS_RETRY_MS UINT64_C(1000)
#define MIG_LABELS_RETRY_MAX_MS UINT64_C(15000)

struct mig_labels;
struct node_watch;

struct mig_labels_value {
        bool is_known;
        char config[MIG_CONFIG_NAME_SIZE]; /* "": the node has no such label */
        bool evict;
        enum mig_state first_state; /* when they became known */
};

struct mig_labels_options {
        struct kube_client *client; /* must outlive the mig_labels */
        struct node_watch *watch;   /* of that node; must outlive the mig_labels */
        const char *node;
        void (*changed)(void *data); /* a label has changed, or they are known now */
        void *data;
};

struct mig_labels *mig_labels_new(const struct mig_labels_options *options);

/* The present value of the labels. */
const struct mig_labels_value *mig_labels_value(const struct mig_labels *labels);

/* |reason|: "" for none. */
void mig_labels_put(struct mig_labels *labels, enum mig_state state, const char *reason);

/* No callback after this. Accepts NULL, returns NULL. */
struct mig_labels *mig_labels_close(struct mig_labels *labels);
