/*
 * All objects of a collection, once: page after page, so that no answer is large. What it tells is as it was at one moment, the
 * resourceVersion of the list, as long as the server still knows that moment; when it does not (410), the list fails and the caller
 * begins again. It knows no kind. (Items of a list have neither kind nor apiVersion, unlike single objects.)
 */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "kube/client.h"

#define KUBE_LIST_PAGE 100U   /* objects asked for at a time */
#define KUBE_LIST_PAGES 1000U /* more is an error */

struct kube_list;

struct kube_list_options {
        const char *path;           /* of the collection */
        const char *field_selector; /* not escaped; may be NULL, and so may the next */
        const char *label_selector;
        void (*on_object)(json_t *object, void *data); /* borrowed; may cancel */
        /* Comes once, after the last object. NULL for |error|: all have been told. */
        void (*on_end)(const struct kube_answer *answer, const char *resource_version, void *data);
        void *data;
};

/* Calls back from the loop only. */
struct kube_list *kube_list_new(struct kube_client *client, const struct kube_list_options *options);

/* Not after |on_end|. Accepts NULL, returns NULL. */
struct kube_list *kube_list_cancel(struct kube_list *list);

/* "fieldSelector=…&labelSelector=…" of what is not NULL, escaped, appended to |query| with what joins it. */
void kube_list_select(struct strbuf *query, const char *field_selector, const char *label_selector);
