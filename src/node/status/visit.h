/*
 * Access to the API server for a command: a loop and a client for all its requests, one after the other. A missing
 * client is part of the result, not an error of the command.
 */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "net/kube/client.h"

struct api_visit {
        uv_loop_t loop;
        struct kube_client *client; /* NULL: there is none */
        bool is_outside; /* no client, because no node name or no credentials are given; false: they cannot be used */
        struct error why;
};

void api_visit_begin(struct api_visit *visit, const struct config *config);

/* Runs the loop until a callback of a request sets |is_over|. */
void api_visit_wait(struct api_visit *visit, bool *is_over);

void api_visit_end(struct api_visit *visit);
