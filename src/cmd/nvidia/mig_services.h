/*
 * Stops services of the host that have GPUs opened, and starts again those that it has stopped, by the host's
 * systemctl. Which these are is on disk before they are stopped, so that a later process starts them.
 */
#pragma once

#include <uv.h>

#include "base/error.h"

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
