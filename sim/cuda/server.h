// SPDX-License-Identifier: Apache-2.0
/*
 * The simulated CUDA as a client of the simulated MPS programs (sim/mps): which limits the server grants, and which
 * errors it reports.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct server {
        int fd; /* -1: no MPS */
        unsigned int sms;
        uint64_t limit_mib; /* 0: none */
};

/*
 * Connects to the control daemon of CUDA_MPS_PIPE_DIRECTORY as NVIDIA's library does in cuInit, and waits for its
 * server as long as it takes. Returns 0, also if no daemon answers and the program runs without MPS; else the number of
 * the CUDA error.
 */
int server_connect(struct server *server);

/* The error that the server has reported since, or 0. */
int server_poll_error(struct server *server);

/* Reports to the server that we have caused a fault; it reports that to all clients. */
void server_report_fault(const struct server *server);

void server_leave(struct server *server);
