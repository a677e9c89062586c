// SPDX-License-Identifier: Apache-2.0
#include "net/kube/list.h"

#include "base/alloc.h"
#include "net/kube/object.h"

struct kube_list {
        struct kube_client *client;
        struct kube_list_options options;
        struct arena arena; /* texts of |options| */
        struct kube_call *call;
        char *from;        /* the server's word for where this page begins; NULL: at the first object */
        unsigned int size; /* objects that this page may have */
        size_t n_asked;    /* objects that all pages until now might have had */
        bool is_naming;    /* the page is one object that is too large, and only its metadata is asked for */
        bool is_reporting;
        bool is_cancelled; /* in a callback; the list is freed after it returns */
};

static void list_free(struct kube_list *list)
{
        kube_call_cancel(list->call);
        arena_done(&list->arena);
        free(list->from);
        free(list);
}

static void select_by(struct strbuf *query, const char *key, const char *selector)
{
        if (!selector)
                return;
        strbuf_printf(query, "%s%s=", query->size ? "&" : "", key);
        object_escape(query, selector);
}

void kube_list_select(struct strbuf *query, const char *field_selector, const char *label_selector)
{
        select_by(query, "fieldSelector", field_selector);
        select_by(query, "labelSelector", label_selector);
}

static void on_page(const struct kube_answer *answer, void *data);

static void list_ask(struct kube_list *list)
{
        _cleanup_(strbuf_done) struct strbuf query = STRBUF_INIT;

        strbuf_printf(&query, "limit=%u", list->size);
        kube_list_select(&query, list->options.field_selector, list->options.label_selector);
        select_by(&query, "continue", list->from);
        list->n_asked += list->size;
        list->call = kube_client_send(
                list->client, &(struct kube_request){.method = KUBE_GET,
                                      .path = list->options.path,
                                      .query = query.data,
                                      .as = list->options.is_metadata || list->is_naming ? KUBE_AS_METADATA_LIST : NULL,
                                      .done = on_page,
                                      .data = list});
}

static void list_end(struct kube_list *list, const struct kube_answer *answer, const char *resource_version)
{
        void (*on_end)(const struct kube_answer *, const char *, void *) = list->options.on_end;
        void *data = list->options.data;

        list_free(list);
        on_end(answer, resource_version, data);
}

static void list_fail(struct kube_list *list, const struct kube_answer *answer, const char *text)
{
        struct kube_answer failed = *answer;
        struct error err;

        error_raise(&err, ERROR_INVALID, "list %.200s: %s", list->options.path, text);
        failed.error = &err;
        list_end(list, &failed, NULL);
}

/* ---- pages ---- */

/* False if a callback has cancelled the list. */
static bool list_report(struct kube_list *list, json_t *items)
{
        void (*report)(json_t *, void *) = list->is_naming ? list->options.on_left_out : list->options.on_object;

        list->is_reporting = true;
        for (size_t i = 0; i < json_array_size(items) && !list->is_cancelled; i++)
                report(json_array_get(items, i), list->options.data);
        list->is_reporting = false;
        if (!list->is_cancelled)
                return true;
        list_free(list);
        return false;
}

static void list_shrink_page(struct kube_list *list, const struct kube_answer *answer)
{
        if (list->size > 1) {
                list->size /= 2;
        } else if (!list->is_naming && !list->options.is_metadata) {
                list->is_naming = true;
        } else {
                list_end(list, answer, NULL);
                return;
        }
        list_ask(list);
}

static void refuse_object(struct kube_list *list, const struct kube_answer *answer, const json_t *object)
{
        const char *namespace = object_text(object, "metadata", "namespace", NULL);
        const char *name = object_text(object, "metadata", "name", NULL);
        _free_ char *text = xasprintf("the object '%.253s%s%.253s' alone has more than %zu bytes or %zu values",
                namespace ? namespace : "", namespace ? "/" : "", name ? name : "", KUBE_ANSWER_LIMIT,
                KUBE_ANSWER_VALUES);

        list_fail(list, answer, text);
}

/* If twice as much would have come, would it have fitted? */
static void list_grow_page(struct kube_list *list, size_t bytes)
{
        list->is_naming = false;
        if (bytes <= KUBE_ANSWER_LIMIT / 2)
                list->size = MIN(2 * list->size, KUBE_LIST_PAGE);
}

static void list_continue(struct kube_list *list, const struct kube_answer *answer, const char *from)
{
        free(list->from);
        list->from = xstrdup(from);
        list_grow_page(list, answer->size);
        if (list->n_asked >= KUBE_LIST_OBJECTS)
                list_fail(list, answer, "too many pages; a selector is missing");
        else
                list_ask(list);
}

static void on_page(const struct kube_answer *answer, void *data)
{
        const char *version = object_text(answer->object, "metadata", "resourceVersion", NULL);
        const char *more = object_text(answer->object, "metadata", "continue", NULL);
        json_t *items = object_find(answer->object, "items", NULL);
        struct kube_list *list = data;

        list->call = NULL;
        if (answer->is_too_large) {
                list_shrink_page(list, answer);
                return;
        }
        if (answer->error) {
                list_end(list, answer, NULL);
                return;
        }
        /* Go encodes a nil slice as null. */
        if (!version || (items && !json_is_array(items) && !json_is_null(items))) {
                list_fail(list, answer, "the answer is no list with a resourceVersion");
                return;
        }
        if (list->is_naming && json_array_size(items) > 0 && !list->options.on_left_out) {
                refuse_object(list, answer, json_array_get(items, 0));
                return;
        }
        if (!list_report(list, items))
                return;
        if (more && *more)
                list_continue(list, answer, more);
        else
                list_end(list, answer, version);
}

/* ---- start and end ---- */

struct kube_list *kube_list_new(struct kube_client *client, const struct kube_list_options *options)
{
        struct kube_list *list = xcalloc(1, sizeof(*list));

        list->client = client;
        list->options = *options;
        list->options.path = arena_strdup(&list->arena, options->path);
        list->options.field_selector = arena_strdup(&list->arena, options->field_selector);
        list->options.label_selector = arena_strdup(&list->arena, options->label_selector);
        list->size = KUBE_LIST_PAGE;
        list_ask(list);
        return list;
}

struct kube_list *kube_list_cancel(struct kube_list *list)
{
        if (!list)
                return NULL;
        if (list->is_reporting)
                list->is_cancelled = true;
        else
                list_free(list);
        return NULL;
}
