/*
 * Chooses the file of MIG configurations for nvidia-mig-manager: the one that is given; else none, since `warpshare
 * mig` generates one for each profile of the GPUs; else, where the driver lists no profiles, the default one. What is
 * generated is written to the ConfigMap <node>-mig-config, as NVIDIA's component does it, for people to read.
 */
#pragma once

#include <uv.h>

#include "net/kube/client.h"

struct mig_configurations;

struct mig_configurations_options {
        uv_loop_t *loop;
        struct kube_client *client;
        const char *node_name;
        const char *config_namespace; /* of the ConfigMap; "": none is written */
        const char *program;          /* called as PROGRAM mig generate */
        const char *const *reading;   /* mig_run_reading() */
        const char *file;             /* "": not given */
        const char *fallback;         /* "": none */
        /* Once, perhaps before mig_configurations_find() returns. |file|: "" for those that are generated. */
        void (*found)(const char *file, void *data);
        void *data;
};

/* Copies |options|; what it points to outlives the call of |found|. */
int mig_configurations_find(
        struct mig_configurations **ret, const struct mig_configurations_options *options, struct error *err) MUST_USE;

/* No callback after this. Accepts NULL, returns NULL. */
struct mig_configurations *mig_configurations_close(struct mig_configurations *configurations);
