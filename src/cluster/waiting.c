// SPDX-License-Identifier: Apache-2.0
#include "cluster/waiting.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/kube/object.h"

/* An item of a sorted array begins with its key. */
struct pod_entry {
        char *key; /* "namespace/name" */
        struct arena arena;
        const struct cluster_pod *pod; /* NULL: it is left out */
};

static void pod_entry_free(struct pod_entry *entry)
{
        arena_done(&entry->arena);
        free(entry->key);
        free(entry);
}

/* ---- by namespace: keys are "namespace/name", and sorted ---- */

/* Where the first key behind those of the namespace of |key| is: '0' follows '/'. */
static size_t end_of_namespace(const struct sorted *sorted, const char *key)
{
        _free_ char *end = xasprintf("%.*s0", (int)strcspn(key, "/"), key);
        size_t at;

        sorted_find(sorted, end, &at);
        return at;
}

static size_t count_of_namespace(const struct sorted *sorted, const char *key)
{
        _free_ char *first = xasprintf("%.*s/", (int)strcspn(key, "/"), key);
        size_t at;

        sorted_find(sorted, first, &at);
        return end_of_namespace(sorted, key) - at;
}

static const char *key_at(const struct sorted *sorted, size_t at)
{
        return ((const struct pod_entry *)sorted->items[at])->key;
}

static bool waiting_has_room(const struct waiting_pods *waiting, const char *key)
{
        if (waiting->pods.count >= CLUSTER_PODS)
                return false;
        return waiting->is_one_namespace || count_of_namespace(&waiting->pods, key) < CLUSTER_PODS_OF_NAMESPACE;
}

const struct cluster_more *waiting_count_more(struct waiting_pods *waiting, size_t *ret_count)
{
        const struct sorted *more = &waiting->more;
        struct cluster_more *found;
        size_t count = 0;

        arena_done(&waiting->more_arena);
        found = ARENA_ARRAY(&waiting->more_arena, struct cluster_more, more->count);
        for (size_t at = 0, end; at < more->count; at = end) {
                const char *key = key_at(more, at);

                end = end_of_namespace(more, key);
                found[count++] = (struct cluster_more){
                        .namespace = arena_strndup(&waiting->more_arena, key, strcspn(key, "/")), .count = end - at};
        }
        *ret_count = count;
        return found;
}

/* ---- one that was left out comes in ---- */

static void waiting_stop_refill(struct waiting_pods *waiting)
{
        waiting->refill = kube_list_cancel(waiting->refill);
        free(waiting->refill_key);
        waiting->refill_key = NULL;
}

static void waiting_forget(struct waiting_pods *waiting, struct sorted *sorted, const char *key)
{
        struct pod_entry *entry = sorted_remove(sorted, key);

        if (!entry)
                return;
        pod_entry_free(entry);
        cluster_changes_count(waiting->changes);
}

static void waiting_refill(struct waiting_pods *waiting);
static void waiting_take(struct waiting_pods *waiting, enum kube_change change, const json_t *object);

static void on_refill(json_t *object, void *data)
{
        struct waiting_pods *waiting = data;

        free(waiting->refill_key);
        waiting->refill_key = NULL;
        waiting_take(waiting, KUBE_PRESENT, object);
}

/* A pod that does not exist or cannot be read is not asked for again; it is if the server could not answer. */
static void on_refill_end(const struct kube_answer *answer, const char *version UNUSED, void *data)
{
        struct waiting_pods *waiting = data;
        const bool has_failed = answer->error;

        waiting->refill = NULL;
        if (waiting->refill_key && (!has_failed || answer->error->kind == ERROR_INVALID))
                waiting_forget(waiting, &waiting->more, waiting->refill_key);
        waiting_stop_refill(waiting);
        if (!has_failed)
                waiting_refill(waiting);
}

static void waiting_read(struct waiting_pods *waiting, const char *key)
{
        const char *slash = strchr(key, '/');
        _free_ char *namespace = xasprintf("%.*s", (int)(slash - key), key);
        _free_ char *path = object_collection("/api/v1", namespace, "pods");
        _free_ char *selector = xasprintf("metadata.name=%s," CLUSTER_POD_SELECTOR, slash + 1);

        waiting->refill_key = xstrdup(key);
        waiting->refill = kube_list_new(waiting->client, &(struct kube_list_options){.path = path,
                                                                 .field_selector = selector,
                                                                 .on_object = on_refill,
                                                                 .on_end = on_refill_end,
                                                                 .data = waiting});
}

static void waiting_refill(struct waiting_pods *waiting)
{
        const struct sorted *more = &waiting->more;

        for (size_t at = 0; at < more->count && !waiting->refill; at = end_of_namespace(more, key_at(more, at)))
                if (waiting_has_room(waiting, key_at(more, at)))
                        waiting_read(waiting, key_at(more, at));
}

/* ---- as they come and go ---- */

static void waiting_add(struct waiting_pods *waiting, struct pod_entry *entry)
{
        struct sorted *to = &waiting->pods;
        size_t at;

        if (!waiting_has_room(waiting, entry->key)) {
                arena_done(&entry->arena);
                entry->pod = NULL;
                to = &waiting->more;
        }
        sorted_find(to, entry->key, &at);
        sorted_insert(to, at, entry);
        cluster_changes_count(waiting->changes);
}

static void waiting_take(struct waiting_pods *waiting, enum kube_change change, const json_t *object)
{
        struct pod_entry *entry;
        char *key = read_key(object);

        if (!key)
                return;
        entry = xcalloc(1, sizeof(*entry));
        entry->key = key;
        if (change == KUBE_PRESENT)
                entry->pod = cluster_pod_read(object, &entry->arena);
        waiting_forget(waiting, &waiting->pods, key);
        waiting_forget(waiting, &waiting->more, key);
        if (entry->pod && cluster_pod_has_trouble(entry->pod))
                waiting_add(waiting, entry);
        else
                pod_entry_free(entry);
}

/* The watch has a newer state than the pod that is being read. */
void waiting_on_pod(struct waiting_pods *waiting, enum kube_change change, const json_t *object)
{
        _free_ char *key = read_key(object);

        if (key && text_is_same(key, waiting->refill_key))
                waiting_stop_refill(waiting);
        waiting_take(waiting, change, object);
        waiting_refill(waiting);
}

const struct cluster_pod *waiting_at(const struct waiting_pods *waiting, size_t at)
{
        return ((const struct pod_entry *)waiting->pods.items[at])->pod;
}

static void free_entries(struct sorted *sorted)
{
        for (size_t i = 0; i < sorted->count; i++)
                pod_entry_free(sorted->items[i]);
        sorted_done(sorted);
}

void waiting_done(struct waiting_pods *waiting)
{
        waiting_stop_refill(waiting);
        free_entries(&waiting->pods);
        free_entries(&waiting->more);
        arena_done(&waiting->more_arena);
}
