/* What requests, edits, lists and watches share, private to the client. */
#pragma once

#include "base/list.h"
#include "net/kube/client.h"
#include "net/kube/transport.h"

/*
 * A call: requests, one after the other.
 *
 *     sending ──answer──► ended
 *      ▲   └──"later"──► waiting ──┐
 *      └───────────────────────────┘
 */
struct kube_call {
        struct list link;
        struct kube_client *client;
        struct transfer *transfer; /* NULL: waiting */
        uv_timer_t timer;          /* for the wait */
        uint64_t timeout_ms;
        uint64_t until;         /* on the loop's clock; not valid while the client has no credentials */
        struct backoff backoff; /* between refusals of a busy server */
        bool is_identity_renewed;
        bool is_text;         /* kube_request's */
        const char *as;       /* the same */
        struct error failure; /* of a request that could not be sent; kind ERROR_NONE: none */

        /* The request, owned. */
        enum kube_method method;
        char *path;
        char *query;
        char *body;

        struct call_edit *edit; /* NULL: no edit */
        kube_done_fn *done;
        void *data;
};

/* Puts the next request into |call|. Takes over |query| and |body|. */
void call_set(struct kube_call *call, enum kube_method method, const char *path, char *query, char *body);

/*
 * What follows after |answer| in an edit. True: call_set() was called for the next request. False: the call ends, with
 * *ret_answer if its status is not 0, otherwise with |answer|.
 */
bool edit_step(struct kube_call *call, const struct kube_answer *answer, struct kube_answer *ret_answer);
struct call_edit *edit_free(struct call_edit *edit); /* accepts NULL, returns NULL */

/* A new call in the client's list; call_begin() sends the request that call_set() put into it. */
struct kube_call *call_new(struct kube_client *client, uint64_t timeout_ms, kube_done_fn *done, void *data);
void call_begin(struct kube_call *call);

/* The query of a change; NULL if it is empty. */
char *call_query(const char *query, enum kube_method method, const char *field_manager, bool force);

struct transport *kube_client_transport(struct kube_client *client);
uint32_t kube_client_random(void);

/* Parses a reply, for requests and for watches that were refused. |object| is a new reference. */
struct reply {
        json_t *object;
        const char *reason;
        struct error error; /* kind ERROR_NONE: a 2xx */
        bool is_too_large;  /* for KUBE_ANSWER_LIMIT or KUBE_ANSWER_VALUES; |error| says so */
};
void reply_read(struct reply *ret, const char *method, const char *path, const struct transfer_end *end);
/* The same where a 2xx need not be a JSON object; |object| is NULL then. */
void reply_read_text(struct reply *ret, const char *method, const char *path, const struct transfer_end *end);
void reply_done(struct reply *reply);

/* The error of a Status object; if |object| is not one, of |status| alone. */
void status_error(struct error *err, unsigned int status, const json_t *object);
