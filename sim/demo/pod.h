// SPDX-License-Identifier: Apache-2.0
/*
 * A pod of the demonstration: kubelet admits and starts it, the container runtime makes its container, and a program in
 * it can connect to the MPS daemon to get its limits. All figures about a pod come from these three.
 */
#pragma once

#include "sim/demo/demo.h"
#include "sim/runtime/container.h"

struct demo_pod {
        const char *name;
        struct kubelet_request requests[2];
        size_t n_requests;
        const char *own[3]; /* "NAME=value" of its specification, NULL-terminated */
        /* What became of the pod; demo_pod_done() frees it. */
        const struct demo *demo;
        struct container container; /* zeroed: the pod does not run */
        bool is_answered;
        struct error err;
};

/* False: the pod does not run, and the demonstration has said so. */
bool demo_pod_run(struct demo *demo, struct demo_pod *pod);
void demo_pod_done(struct demo_pod *pod);

/* The limits that the MPS server gives to a program of the pod: threads in percent, and memory of its first GPU. */
struct demo_limits {
        double threads;
        unsigned int memory_mib;
};

/* All zero if the program cannot connect, which is shown. */
struct demo_limits demo_pod_connect(struct demo *demo, const struct demo_pod *pod);
