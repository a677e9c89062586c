// SPDX-License-Identifier: Apache-2.0
/*
 * Lists all objects of a collection once, page by page, so that no answer is large. All pages show the same moment, the
 * resourceVersion of the list, as long as the server still has it; if not (410), the list fails and the caller starts
 * again. It knows no kind. (Items of a list have neither kind nor apiVersion, unlike single objects.)
 *
 * A page that is too large (KUBE_ANSWER_LIMIT, KUBE_ANSWER_VALUES) is asked for again with half as many objects, down
 * to one; after pages that were small it grows again. Objects in etcd end at 1.5 MiB, but as JSON they may have six
 * times as many bytes ('<' becomes "\u003c"), so one alone may be too large. Then the server is asked for its metadata
 * only, which has the object's name and the token of the next page. The object is left out if the caller allows that;
 * else the list fails and names the object. (Of the first page it may be another one by then: the moment of the list is
 * only known with an answer.)
 *
 *     page of N ──fits──► the next page, of up to 2 N, at most KUBE_LIST_PAGE
 *      ▲   │ too large
 *      └───┴─ N > 1: N / 2 ─ N = 1: metadata of this one ──► left out, or the list fails
 */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "net/kube/client.h"

#define KUBE_LIST_PAGE 100U                /* objects per page, the most */
#define KUBE_LIST_OBJECTS ((size_t)100000) /* more are an error */

struct kube_list;

struct kube_list_options {
        const char *path;           /* path of the collection */
        const char *field_selector; /* not escaped; may be NULL, like the next one */
        const char *label_selector;
        bool is_metadata;                              /* of each object only the metadata is needed */
        void (*on_object)(json_t *object, void *data); /* borrowed; may cancel */
        /*
         * An object alone is too large: |object| has its metadata, without the rest. Borrowed; may
         * cancel. NULL: the list fails then.
         */
        void (*on_left_out)(json_t *object, void *data);
        /* Called once, after the last object. |error| NULL: the list is complete but for what was left out. */
        void (*on_end)(const struct kube_answer *answer, const char *resource_version, void *data);
        void *data;
};

/* Callbacks come from the loop only. */
struct kube_list *kube_list_new(struct kube_client *client, const struct kube_list_options *options);

/* Not after |on_end|. Accepts NULL, returns NULL. */
struct kube_list *kube_list_cancel(struct kube_list *list);

/* Appends "fieldSelector=…&labelSelector=…" to |query|, escaped, for the selectors that are not NULL. */
void kube_list_select(struct strbuf *query, const char *field_selector, const char *label_selector);
