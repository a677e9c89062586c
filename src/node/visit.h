/*
 * A command's visit to the API server: a loop and a client for all that it asks there, one thing after the other. That there is no client is
 * part of the answer, not the end of the command.
 */
#pragma once

#include <stdbool.h>

#include "config/config.h"
#include "kube/client.h"

struct api_visit {
        uv_loop_t loop;
        struct kube_client *client; /* NULL: there is none, and */
        bool is_outside; /* nothing was given to have one: no name of the node, no credentials; else it is wrong */
        struct error why;
};

void api_visit_begin(struct api_visit *visit, const struct config *config);

/* Lets requests go on until one of their callbacks sets |is_over|. */
void api_visit_wait(struct api_visit *visit, bool *is_over);

void api_visit_end(struct api_visit *visit);
