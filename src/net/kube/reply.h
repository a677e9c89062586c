/* Reads the API server's answers: those to requests, and to watches that were refused. Pure; private to net/kube. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "net/kube/transport.h"

struct reply {
        json_t *object; /* a new reference; NULL: none */
        const char *reason;
        struct error error; /* kind ERROR_NONE: a 2xx */
        bool is_too_large;  /* for KUBE_ANSWER_LIMIT or KUBE_ANSWER_VALUES; |error| says so */
};

void reply_read(struct reply *ret, const char *method, const char *path, const struct transfer_end *end);
/* Like reply_read(), but a 2xx need not be a JSON object; |object| is NULL then. */
void reply_read_text(struct reply *ret, const char *method, const char *path, const struct transfer_end *end);
void reply_done(struct reply *reply);

/* The error of a Status object; if |object| is not one, of |status| alone. */
void status_error(struct error *err, unsigned int status, const json_t *object);
