// SPDX-License-Identifier: Apache-2.0
/*
 * |known| maps "namespace/name" to the resourceVersion. A list marks each object with the number of its round; at the
 * end of the list, objects with an older number are gone.
 */
#include "net/kube/watch.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/clock.h"
#include "net/kube/body.h"
#include "net/kube/list.h"
#include "net/kube/object.h"
#include "net/kube/watch_lines.h"

#define KEY_LIMIT ((size_t)512) /* Kubernetes names have at most 253 bytes */
#define VERSION_LIMIT ((size_t)256)

struct kube_watch {
        struct kube_client *client;
        struct kube_watch_options options;
        struct arena arena; /* texts of |options| */
        struct kube_list *list;
        struct kube_call *call; /* the watch itself */
        struct watch_lines lines;
        uv_timer_t timer;
        struct backoff backoff;
        uint64_t begun_ms; /* start of this watch, on the loop's clock */
        uint64_t asked_ms; /* how long it was to be */
        char *version;     /* where to continue; NULL: list first */
        json_t *known;     /* → [resourceVersion, round] */
        json_t *left_out;  /* keys of objects that are too large → true */
        json_int_t round;
        struct error trouble; /* the last one that was reported; kind ERROR_NONE: none */
        bool is_standing;     /* the server accepted this watch */
        bool was_cut;         /* the last one that stood ended before its time */
        bool is_closed;       /* freed when the timer is closed, since callbacks need it until then */
};

static void kube_watch_begin(struct kube_watch *watch);

/* ---- reporting ---- */

/* False if the owner closed the watch in the callback; then return at once. */
static bool watch_report(struct kube_watch *watch, enum kube_change change, json_t *object)
{
        watch->options.on_object(change, object, watch->options.data);
        return !watch->is_closed;
}

/* Reports that objects are left out, naming the first by name, or that none is any more. */
static bool report_left_out(struct kube_watch *watch)
{
        const size_t count = json_object_size(watch->left_out);
        const char *first = NULL;
        char more[40] = "";
        struct error err;
        const char *key;
        json_t *value;

        json_object_foreach(watch->left_out, key, value)
        {
                if (!first || strcmp(key, first) < 0)
                        first = key;
        }
        if (count > 1)
                snprintf(more, sizeof(more), " and %zu more", count - 1);
        if (first)
                error_raise(&err, ERROR_INVALID,
                        "list %.100s: left out, for more than %zu bytes or %zu values: %.300s%s", watch->options.path,
                        KUBE_ANSWER_LIMIT, KUBE_ANSWER_VALUES, first + (*first == '/'), more);
        watch->options.on_left_out(first ? &err : NULL, watch->options.data);
        return !watch->is_closed;
}

/* An object that was too large is so no more, or is gone. */
static bool watch_readmit(struct kube_watch *watch, const char *key)
{
        return json_object_del(watch->left_out, key) < 0 || report_left_out(watch);
}

static bool report_synced(struct kube_watch *watch)
{
        watch->trouble = (struct error){.kind = ERROR_NONE};
        if (watch->options.on_synced)
                watch->options.on_synced(watch->options.data);
        return !watch->is_closed && (json_object_size(watch->left_out) == 0 || report_left_out(watch));
}

/* Ignores numbers: "after 3 ms" and "after 4 ms" are the same trouble. */
static bool is_same_text(const char *a, const char *b)
{
        for (;; a++, b++) {
                a += strspn(a, "0123456789");
                b += strspn(b, "0123456789");
                if (*a != *b)
                        return false;
                if (!*a)
                        return true;
        }
}

static bool report_trouble(struct kube_watch *watch, const struct error *err)
{
        bool is_new = err->kind != watch->trouble.kind || !is_same_text(err->text, watch->trouble.text);

        watch->trouble = *err;
        if (is_new && watch->options.on_trouble)
                watch->options.on_trouble(&watch->trouble, watch->options.data);
        return !watch->is_closed;
}

/* ---- waiting ---- */

static void on_watch_timer(uv_timer_t *timer)
{
        kube_watch_begin(container_of(timer, struct kube_watch, timer));
}

static void stop_activity(struct kube_watch *watch)
{
        watch->list = kube_list_cancel(watch->list);
        watch->call = kube_call_cancel(watch->call);
        watch_lines_done(&watch->lines);
        watch_lines_init(&watch->lines, KUBE_WATCH_LINE_LIMIT);
}

static void watch_rest(struct kube_watch *watch, uint64_t ms)
{
        stop_activity(watch);
        uv_update_time(kube_client_loop(watch->client));
        uv_timer_start(&watch->timer, on_watch_timer, ms + 1, 0); /* the loop's clock is cut to milliseconds */
}

static void watch_wait(struct kube_watch *watch, uint64_t asked_ms)
{
        watch_rest(watch, backoff_next(&watch->backoff, asked_ms, backoff_random()));
}

static void watch_fail(struct kube_watch *watch, const struct error *err, uint64_t asked_ms)
{
        watch_wait(watch, asked_ms);
        report_trouble(watch, err);
}

static void watch_list_again(struct kube_watch *watch)
{
        free(watch->version);
        watch->version = NULL;
}

/* An event that cannot be parsed may have been a change, so list again. */
static void watch_list_after_failure(struct kube_watch *watch, struct error *err)
{
        error_prefix(err, "watch %.200s", watch->options.path);
        watch_list_again(watch);
        watch_fail(watch, err, 0);
}

/* ---- the known objects ---- */

/* Bounds the memory for names: no API server has such an object, or there are too many. */
static int check_bounds(const struct kube_watch *watch, const char *key, const char *version, struct error *err)
{
        if (strlen(key) > KEY_LIMIT || (version && strlen(version) > VERSION_LIMIT))
                return error_set(err, ERROR_INVALID, "an object whose name or resourceVersion is longer than %zu bytes",
                        strlen(key) > KEY_LIMIT ? KEY_LIMIT : VERSION_LIMIT);
        if (json_object_size(watch->known) >= watch->options.objects && !json_object_get(watch->known, key))
                return error_set(
                        err, ERROR_INVALID, "more than %zu objects; a selector is missing", watch->options.objects);
        return 0;
}

/* NULL if it has no name. */
static char *watch_key_of(const json_t *object)
{
        const char *name = object_text(object, "metadata", "name", NULL);
        const char *namespace = object_text(object, "metadata", "namespace", NULL);

        return name ? xasprintf("%s/%s", namespace ? namespace : "", name) : NULL;
}

static bool watch_forget(struct kube_watch *watch, json_t *object)
{
        _free_ char *key = watch_key_of(object);

        if (!key)
                return true;
        if (!watch_readmit(watch, key))
                return false;
        if (json_object_del(watch->known, key) < 0)
                return true;
        return watch_report(watch, KUBE_GONE, object);
}

/* Only its name is left. */
static json_t *make_ghost(const char *key)
{
        const char *name = strchr(key, '/') + 1;
        json_t *object = json_pack("{s: {s: s}}", "metadata", "name", name);

        if (name > key + 1)
                json_object_set_new(
                        json_object_get(object, "metadata"), "namespace", json_stringn(key, (size_t)(name - 1 - key)));
        return object;
}

/* The objects that the last list did not contain are gone. False if the owner closed the watch. */
static bool forget_vanished(struct kube_watch *watch)
{
        bool is_open = true;
        const char *key;
        json_t *entry;
        void *next;

        json_object_foreach_safe(watch->known, next, key, entry)
        {
                json_t *ghost;

                if (!is_open || json_integer_value(json_array_get(entry, 1)) == watch->round)
                        continue;
                ghost = make_ghost(key);
                is_open = watch_forget(watch, ghost);
                json_decref(ghost);
        }
        return is_open;
}

/* False if the watch failed, or its owner closed it. */
static bool watch_see(struct kube_watch *watch, json_t *object)
{
        _free_ char *key = watch_key_of(object);
        const char *version = object_text(object, "metadata", "resourceVersion", NULL);
        json_t *entry = key ? json_object_get(watch->known, key) : NULL;
        bool is_same = version && text_is_same(json_string_value(json_array_get(entry, 0)), version);
        struct error err;

        if (!key)
                return true;
        if (check_bounds(watch, key, version, &err) < 0) {
                watch->round++; /* an object that can no longer be followed counts as gone, since its deletion would
                                 * not be noticed */
                if (forget_vanished(watch))
                        watch_list_after_failure(watch, &err);
                return false;
        }
        json_object_set_new(watch->known, key, json_pack("[s, I]", version ? version : "", watch->round));
        return watch_readmit(watch, key) && (is_same || watch_report(watch, KUBE_PRESENT, object));
}

/* ---- listing ---- */

static void on_listed_object(json_t *object, void *data)
{
        watch_see(data, object);
}

/* If it is known, then as it was: it counts as seen. */
static void on_listed_left_out(json_t *object, void *data)
{
        struct kube_watch *watch = data;
        _free_ char *key = watch_key_of(object);
        json_t *entry = key ? json_object_get(watch->known, key) : NULL;

        if (entry)
                json_array_set_new(entry, 1, json_integer(watch->round));
        if (key && strlen(key) <= KEY_LIMIT && json_object_size(watch->left_out) < watch->options.objects)
                json_object_set_new(watch->left_out, key, json_true());
}

static void on_watch_listed(const struct kube_answer *answer, const char *version, void *data)
{
        struct kube_watch *watch = data;

        watch->list = NULL;
        if (answer->error) {
                watch_fail(watch, answer->error, answer->retry_after_ms);
                return;
        }
        free(watch->version);
        watch->version = xstrdup(version);
        if (forget_vanished(watch) && report_synced(watch))
                kube_watch_begin(watch);
}

static void begin_list(struct kube_watch *watch)
{
        watch->round++;
        json_object_clear(watch->left_out);
        watch->list = kube_list_new(
                watch->client, &(struct kube_list_options){
                                       .path = watch->options.path,
                                       .field_selector = watch->options.field_selector,
                                       .label_selector = watch->options.label_selector,
                                       .is_metadata = watch->options.is_metadata,
                                       .on_object = on_listed_object,
                                       .on_left_out = watch->options.on_left_out ? on_listed_left_out : NULL,
                                       .on_end = on_watch_listed,
                                       .data = watch,
                               });
}

/* ---- watching ---- */

static void set_version(struct kube_watch *watch, const json_t *object)
{
        const char *version = object_text(object, "metadata", "resourceVersion", NULL);

        if (!version || text_is_same(version, watch->version))
                return;
        free(watch->version);
        watch->version = xstrdup(version);
}

/* Ends the stream. 410: the server does not have the changes since |version| any more. */
static void on_error_event(struct kube_watch *watch, const json_t *status)
{
        json_int_t code = json_integer_value(json_object_get(status, "code"));
        struct error err;

        if (code == 410) {
                watch_list_again(watch);
                watch_wait(watch, 0);
                return;
        }
        body_status_error(&err, code > 0 && code < 1000 ? (unsigned int)code : 500, status);
        error_prefix(&err, "watch %.200s", watch->options.path);
        watch_fail(watch, &err, 0);
}

/* False if no more events must be read: the watch has ended, or its owner closed it. */
static bool on_watch_event(struct kube_watch *watch, const struct watch_event *event)
{
        switch (event->type) {
        case WATCH_ADDED:
        case WATCH_MODIFIED:
                set_version(watch, event->object);
                return watch_see(watch, event->object);
        case WATCH_DELETED:
                set_version(watch, event->object);
                return watch_forget(watch, event->object);
        case WATCH_BOOKMARK:
                set_version(watch, event->object);
                return true;
        case WATCH_ERROR:
        default:
                on_error_event(watch, event->object);
                return false;
        }
}

static void on_head(void *data)
{
        struct kube_watch *watch = data;
        bool was_cut = watch->was_cut;

        watch->is_standing = true;
        watch->was_cut = false;
        if (watch->trouble.kind != ERROR_NONE)
                report_synced(watch);
        else if (was_cut && watch->options.on_resumed)
                watch->options.on_resumed(watch->options.data);
}

static void on_body(const char *bytes, size_t size, void *data)
{
        struct kube_watch *watch = data;
        struct watch_event event;
        bool goes_on = true;
        struct error err;
        int rc = 0;

        watch_lines_add(&watch->lines, bytes, size);
        while (goes_on && (rc = watch_lines_next(&watch->lines, &event, &err)) > 0) {
                goes_on = on_watch_event(watch, &event);
                json_decref(event.object);
        }
        if (rc < 0)
                watch_list_after_failure(watch, &err);
}

/* The end of an accepted watch is not a failure, whichever its cause; only a failure of the next watch is reported. */
static void on_stood(struct kube_watch *watch)
{
        uint64_t stood_ms;

        uv_update_time(kube_client_loop(watch->client));
        stood_ms = uv_now(kube_client_loop(watch->client)) - watch->begun_ms;
        watch->was_cut = stood_ms < watch->asked_ms;
        if (stood_ms >= watch->asked_ms) {
                watch->backoff.failures = 0;
                kube_watch_begin(watch);
        } else if (stood_ms < watch->backoff.least_ms) {
                /* Without a pause a server that ends each watch at once would be asked all the time. */
                watch_wait(watch, 0);
        } else {
                watch->backoff.failures = 0;
                watch_rest(watch, backoff_random() % (watch->backoff.least_ms * KUBE_WATCH_SPREAD));
        }
}

static void on_watch_end(const struct kube_answer *answer, void *data)
{
        struct kube_watch *watch = data;
        const bool is_refused = !watch->is_standing && answer->error;
        const bool is_too_old = is_refused && answer->status == 410;
        const bool is_unread = watch->is_standing && answer->error && answer->error->kind == ERROR_INVALID;

        watch->call = NULL;
        if (is_too_old || is_unread)
                watch_list_again(watch);
        if (is_too_old)
                watch_wait(watch, 0);
        else if (is_refused || is_unread)
                watch_fail(watch, answer->error, is_refused ? answer->retry_after_ms : 0);
        else
                on_stood(watch);
}

static void watch_begin_watch(struct kube_watch *watch)
{
        _cleanup_(strbuf_done) struct strbuf query = STRBUF_INIT;
        unsigned int seconds = watch->options.seconds + backoff_random() % watch->options.seconds;

        strbuf_printf(&query, "watch=1&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=", seconds);
        object_escape(&query, watch->version);
        kube_list_select(&query, watch->options.field_selector, watch->options.label_selector);
        watch->is_standing = false;
        watch->asked_ms = seconds * UINT64_C(1000);
        watch->begun_ms = uv_now(kube_client_loop(watch->client));
        watch->call =
                kube_client_send(watch->client, &(struct kube_request){.method = KUBE_GET,
                                                        .path = watch->options.path,
                                                        .query = query.data,
                                                        .as = watch->options.is_metadata ? KUBE_AS_METADATA : NULL,
                                                        .timeout_ms = watch->asked_ms + watch->options.margin_ms,
                                                        .on_head = on_head,
                                                        .on_body = on_body,
                                                        .done = on_watch_end,
                                                        .data = watch});
}

static void kube_watch_begin(struct kube_watch *watch)
{
        stop_activity(watch);
        if (watch->version)
                watch_begin_watch(watch);
        else
                begin_list(watch);
}

/* ---- start and end ---- */

struct kube_watch *kube_watch_new(struct kube_client *client, const struct kube_watch_options *options)
{
        struct kube_watch *watch = xcalloc(1, sizeof(*watch));

        watch->client = client;
        watch->options = *options;
        watch->options.path = arena_strdup(&watch->arena, options->path);
        watch->options.field_selector = arena_strdup(&watch->arena, options->field_selector);
        watch->options.label_selector = arena_strdup(&watch->arena, options->label_selector);
        if (!options->objects)
                watch->options.objects = KUBE_WATCH_OBJECTS;
        if (!options->seconds)
                watch->options.seconds = KUBE_WATCH_SECONDS;
        if (!options->margin_ms)
                watch->options.margin_ms = KUBE_WATCH_MARGIN_MS;
        watch->backoff.least_ms = options->wait_ms ? options->wait_ms : KUBE_WATCH_WAIT_MS;
        watch->backoff.most_ms = KUBE_WATCH_WAIT_LIMIT_MS;
        watch->known = json_object();
        watch->left_out = json_object();
        watch_lines_init(&watch->lines, KUBE_WATCH_LINE_LIMIT);
        uv_timer_init(kube_client_loop(client), &watch->timer);
        kube_watch_begin(watch);
        return watch;
}

static void on_watch_closed(uv_handle_t *handle)
{
        struct kube_watch *watch = container_of(handle, struct kube_watch, timer);

        json_decref(watch->known);
        json_decref(watch->left_out);
        free(watch->version);
        arena_done(&watch->arena);
        watch_lines_done(&watch->lines);
        free(watch);
}

struct kube_watch *kube_watch_close(struct kube_watch *watch)
{
        if (!watch)
                return NULL;
        watch->is_closed = true;
        stop_activity(watch);
        uv_close((uv_handle_t *)&watch->timer, on_watch_closed);
        return NULL;
}
