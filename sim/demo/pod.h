/*
 * A pod of the demonstration: kubelet admits and starts it, the container runtime makes its container, and a program in it may ask the MPS
 * daemon for what it gets. What is known of it is known from there.
 */
#pragma once

#include "sim/demo/demo.h"
#include "sim/runtime/container.h"

struct demo_pod {
        const char *name;
        struct kubelet_request requests[2];
        size_t n_requests;
        const char *own[3]; /* "NAME=value" of its specification, NULL-terminated */
        /* What came of it, to be given to demo_pod_done(). */
        const struct demo *demo;
        struct container container; /* zeroed: it does not run */
        bool is_answered;
        struct error err;
};

/* False: it does not run, and that was shown. */
bool demo_pod_run(struct demo *demo, struct demo_pod *pod);
void demo_pod_done(struct demo_pod *pod);

/* What the MPS server says that a program of the pod may have: of the threads in percent, and of the memory of its first GPU. */
struct demo_limits {
        double threads;
        unsigned int memory_mib;
};

/* Zeroes where there is no connection, which is shown. */
struct demo_limits demo_pod_connect(struct demo *demo, const struct demo_pod *pod);
