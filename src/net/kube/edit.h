/*
 * An edit of an object: read it, change it, send it back, and start again if another client has changed it first. It
 * says which request is next, and sends nothing. Private to net/kube; for users, kube_client_edit().
 */
#pragma once

#include "net/kube/client.h"

struct call_edit;

/* The next request. The texts are the edit's, but for |body|, which is the receiver's. */
struct call_step {
        enum kube_method method;
        const char *path;
        const char *query; /* NULL: none */
        char *body;        /* NULL: none */
};

/* |query|, which is taken, is that of the change. *ret_first reads the object. */
struct call_edit *edit_new(const struct kube_edit *edit, char *query, struct call_step *ret_first);
struct call_edit *edit_free(struct call_edit *edit); /* accepts NULL, returns NULL */

/*
 * Takes the answer to the last request. True: *ret_next is the next one. False: the edit is over, with *ret_answer if
 * its status is not 0, otherwise with |answer|.
 */
bool edit_step(struct call_edit *edit, const struct kube_answer *answer, struct call_step *ret_next,
        struct kube_answer *ret_answer);
