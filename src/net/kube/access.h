// SPDX-License-Identifier: Apache-2.0
/*
 * Who sends a bearer token, and what may they do? The API server answers: a TokenReview says whose token it is, and a
 * SubjectAccessReview whether that user has a right. So a server of pages needs no user accounts of its own; its
 * service account needs the right to create both kinds.
 *
 * Answers are kept for KUBE_ACCESS_KEEP_MS, also those that say no, by the SHA-256 of the token: a right that is taken
 * away ends after that time. At most KUBE_ACCESS_PARALLEL tokens are reviewed at a time, since strangers can send as
 * many as they like, and KUBE_ACCESS_SUSPECTS beside them of those who have sent wrong ones lately, so that these do
 * not take the place of clients that come for the first time; more are refused with ERROR_EXHAUSTED. A token is neither
 * logged nor kept.
 *
 * A token that was good for something in the last KUBE_ACCESS_REMEMBER_MS is never behind those of strangers: when its
 * answers have to be had again, as many again are reviewed beside theirs, and its answers give way to no others. That
 * gives it no right.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "net/kube/client.h"

#define KUBE_ACCESS_KEEP_MS UINT64_C(60000)
#define KUBE_ACCESS_REMEMBER_MS UINT64_C(3600000)
#define KUBE_ACCESS_PARALLEL 12U
#define KUBE_ACCESS_SUSPECTS 4U
#define KUBE_ACCESS_USERS 256U  /* whose answers are kept; those without a right give way first, then the oldest */
#define KUBE_ACCESS_WISHES 512U /* of a question */

struct kube_access;
struct kube_question;

/* A right: of a resource, or with |path| of a page of the server ("/metrics"). Members that do not matter are NULL. */
struct kube_wish {
        const char *verb; /* "list", "get" */
        const char *group;
        const char *resource;
        const char *namespace; /* NULL: in all of them */
        const char *path;
};

struct kube_verdict {
        const struct error *error; /* ERROR_DENIED: the token is invalid. Other kinds: it could not be reviewed */
        const char *user;          /* NULL with |error| */
        const bool *allowed;       /* of each wish, in their order */
};
typedef void kube_verdict_fn(const struct kube_verdict *verdict, void *data);

/* |client| is borrowed. */
struct kube_access *kube_access_new(struct kube_client *client);

struct kube_asker {
        const char *token;
        bool is_suspect; /* who has sent wrong ones lately */
};

/*
 * Ends with |done|, from the loop only, or with kube_access_cancel(). The token and |wishes| are copied; |n_wishes| is
 * at most KUBE_ACCESS_WISHES.
 */
struct kube_question *kube_access_ask(struct kube_access *access, const struct kube_asker *asker,
        const struct kube_wish *wishes, size_t n_wishes, kube_verdict_fn *done, void *data);
struct kube_question *kube_access_cancel(struct kube_question *question); /* accepts NULL, returns NULL */

/* The token of a header "Bearer …", or NULL: it is none that could be reviewed. Points into |header|. */
const char *kube_access_bearer(const char *header);

/* Open questions end without |done|. Accepts NULL, returns NULL. */
struct kube_access *kube_access_close(struct kube_access *access);
