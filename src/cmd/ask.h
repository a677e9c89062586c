/* Questions of a command to the API server: each returns when its answer is there. */
#pragma once

#include <jansson.h>

#include "net/kube/list.h"
#include "node/status/visit.h"

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
