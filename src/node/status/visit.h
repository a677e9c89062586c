/*
 * Access to the API server for a command: a loop and a client for all its requests, one after the other. A missing
 * client is part of the result, not an error of the command.
 */
#pragma once

#include <jansson.h>
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

struct api_answer {
        unsigned int status; /* of HTTP; 0: none came */
        struct error error;  /* kind ERROR_NONE: it has succeeded */
        json_t *object;      /* of a success, for api_answer_done(); NULL: none */
        bool is_over;
};

void api_answer_done(struct api_answer *answer);

/* A kube_done_fn, with an api_answer as |data|, which api_visit_wait() waits for. */
void api_answer_take(const struct kube_answer *answer, void *data);

/* Sends |request|, whose |done| and |data| are set here. */
void api_ask(struct api_visit *visit, struct kube_request request, struct api_answer *ret);

void api_visit_end(struct api_visit *visit);
