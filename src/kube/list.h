/*
 * Lists all objects of a collection once, page by page, so that no answer is large. All pages show the same moment, the
 * resourceVersion of the list, as long as the server still has it; if not (410), the list fails and the caller starts
 * again. It knows no kind. (Items of a list have neither kind nor apiVersion, unlike single objects.)
 */
#pragma once

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "kube/client.h"

#define KUBE_LIST_PAGE 100U   /* objects per page */
#define KUBE_LIST_PAGES 1000U /* more objects are an error */

struct kube_list;

struct kube_list_options {
        const char *path;           /* path of the collection */
        const char *field_selector; /* not escaped; may be NULL, like the next one */
        const char *label_selector;
        void (*on_object)(json_t *object, void *data); /* borrowed; may cancel */
        /* Called once, after the last object. |error| NULL: the list is complete. */
        void (*on_end)(const struct kube_answer *answer, const char *resource_version, void *data);
        void *data;
};

/* Callbacks come from the loop only. */
struct kube_list *kube_list_new(struct kube_client *client, const struct kube_list_options *options);

/* Not after |on_end|. Accepts NULL, returns NULL. */
struct kube_list *kube_list_cancel(struct kube_list *list);

/* Appends "fieldSelector=…&labelSelector=…" to |query|, escaped, for the selectors that are not NULL. */
void kube_list_select(struct strbuf *query, const char *field_selector, const char *label_selector);
