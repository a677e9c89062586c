/*
 * What requests, edits, lists and watches share below client.h.
 */
#pragma once

#include "base/list.h"
#include "kube/client.h"
#include "kube/transport.h"

/*
 * A call: one request after the other, until none follows.
 *
 *     sending ──answer──► ended
 *      ▲   └──"later"──► waiting ──┐
 *      └───────────────────────────┘
 */
struct kube_call {
        struct list link;
        struct kube_client *client;
        struct transfer *transfer; /* NULL: waiting */
        uv_timer_t timer;          /* of the wait */
        uint64_t timeout_ms;
        uint64_t until; /* on the loop's clock; means nothing while the client has no credentials */
        bool is_identity_renewed;
        struct error failure; /* of a request that could not even be sent; kind ERROR_NONE: none */

        /* The request, owned. */
        enum kube_method method;
        char *path;
        char *query;
        char *body;

        struct call_edit *edit; /* NULL: no edit */
        kube_done_fn *done;
        void *data;
};

/* Puts another request into |call|. Takes over |query| and |body|. */
void call_set(struct kube_call *call, enum kube_method method, const char *path, char *query, char *body);

/*
 * What follows |answer| in an edit: true when call_set() was called, false when |call| is to end, with |answer| or, where *ret_answer is
 * filled (status not 0), with that.
 */
bool edit_step(struct kube_call *call, const struct kube_answer *answer, struct kube_answer *ret_answer);
struct call_edit *edit_free(struct call_edit *edit); /* accepts NULL, returns NULL */

/* A new call with its place in the client's list; call_begin() sends what call_set() put into it. */
struct kube_call *call_new(struct kube_client *client, uint64_t timeout_ms, kube_done_fn *done, void *data);
void call_begin(struct kube_call *call);

/* The query of a change; NULL where there is nothing in it. */
char *call_query(const char *query, enum kube_method method, const char *field_manager, bool force);

struct transport *kube_client_transport(struct kube_client *client);
uint32_t kube_client_random(void);

/* What an answer says, out of what came: for requests and for watches that were not accepted. |object| is a new reference. */
struct reply {
        json_t *object;
        const char *reason;
        struct error error; /* kind ERROR_NONE: a 2xx */
};
void reply_read(struct reply *ret, const char *method, const char *path, const struct transfer_end *end);
void reply_done(struct reply *reply);

/* The error of a Status object, or of a bare |status| where it is none. */
void status_error(struct error *err, unsigned int status, const json_t *object);
