// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the users of GPUs other than tenants, for nvidia-mig-manager: the GPU Operator's components, which its
 * DaemonSets start where a label of the node is true, and services of the host.
 *
 * A label that is "false", or not there, stays as it is: only "true" is paused, and only what is paused becomes "true"
 * again.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/strbuf.h"

#define MIG_CLIENTS_PAUSED "paused-for-mig-change"
#define MIG_CLIENTS_SERVICES_MAX ((size_t)64)

/*
 * A merge patch of the node that pauses its components, or lets them continue; a new reference. NULL: nothing is to be
 * changed.
 */
json_t *mig_clients_patch(const json_t *node, bool pause);

/* The pod is one of a component that is paused: its nodeSelector has such a label. One that has ended is not. */
bool mig_clients_has(const json_t *node, const json_t *pod);

/* Adds the names of those of |pods| that are. */
void mig_clients_name(struct names *names, const json_t *node, const json_t *pods);

/* The names in a file of NVIDIA's format ("version: v1", "systemd-services: […]"), in |arena|. */
int mig_clients_read(
        const char *const **ret, size_t *ret_count, struct arena *arena, const char *path, struct error *err) MUST_USE;

/*
 * Stops services of the host that have GPUs opened, and starts again those that it has stopped, by the host's
 * systemctl. Which these are is on disk before they are stopped, so that a later process starts them.
 */
struct mig_services;

struct mig_services_options {
        uv_loop_t *loop;
        const char *host_root;    /* where the host's root is mounted */
        const char *record;       /* file */
        const char *const *names; /* as the strings, borrowed to the end */
        size_t n_names;
        void (*done)(const struct error *err, void *data); /* |err| NULL: it is as asked for */
        void *data;
};

struct mig_services *mig_services_new(const struct mig_services_options *options);

/*
 * Each begins one action; |done| follows, from the loop or at once. An earlier action that has not ended is not
 * answered any more.
 */
void mig_services_stop(struct mig_services *services);
void mig_services_start(struct mig_services *services);
void mig_services_reboot(struct mig_services *services);

/* A child is killed, but systemd finishes what it was asked to do. Accepts NULL, returns NULL. */
struct mig_services *mig_services_close(struct mig_services *services);

/* Runs as the child, with "chroot ROOT PROGRAM ARGUMENT…". Does not return. */
void mig_services_enter(int argc, char **argv) __attribute__((noreturn));
