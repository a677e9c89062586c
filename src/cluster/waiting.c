/*
 * Pods that wait, or were refused. Those of one namespace must not hide the others', so of each there are so many and
 * no more; of the rest only the names are known. When there is room again, the first of them is read by its name.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cluster/parts.h"
#include "net/kube/object.h"

void cluster_pod_entry_free(struct cluster_pod_entry *entry)
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
        return ((const struct cluster_pod_entry *)sorted->items[at])->key;
}

static bool has_room(const struct cluster *cluster, const char *key)
{
        if (cluster->pods.count >= CLUSTER_PODS)
                return false;
        return cluster->options.pod_namespace || count_of_namespace(&cluster->pods, key) < CLUSTER_PODS_OF_NAMESPACE;
}

const struct cluster_more *cluster_count_more(struct cluster *cluster, size_t *ret_count)
{
        const struct sorted *more = &cluster->more;
        struct cluster_more *found;
        size_t count = 0;

        arena_done(&cluster->more_arena);
        for (size_t at = 0; at < more->count; at = end_of_namespace(more, key_at(more, at)))
                count++;
        found = ARENA_ARRAY(&cluster->more_arena, struct cluster_more, count);
        count = 0;
        for (size_t at = 0, end; at < more->count; at = end) {
                const char *key = key_at(more, at);

                end = end_of_namespace(more, key);
                found[count++] = (struct cluster_more){
                        .namespace = arena_strndup(&cluster->more_arena, key, strcspn(key, "/")), .count = end - at};
        }
        *ret_count = count;
        return found;
}

/* ---- one that was left out comes in ---- */

void cluster_stop_refill(struct cluster *cluster)
{
        cluster->refill = kube_list_cancel(cluster->refill);
        free(cluster->refill_key);
        cluster->refill_key = NULL;
}

static void forget(struct cluster *cluster, struct sorted *sorted, const char *key)
{
        struct cluster_pod_entry *entry = sorted_remove(sorted, key);

        if (!entry)
                return;
        cluster_pod_entry_free(entry);
        cluster_changed(cluster);
}

static void refill(struct cluster *cluster);
static void take_in(struct cluster *cluster, enum kube_change change, json_t *object);

static void on_refill(json_t *object, void *data)
{
        struct cluster *cluster = data;

        free(cluster->refill_key);
        cluster->refill_key = NULL;
        take_in(cluster, KUBE_PRESENT, object);
}

/* One that is not there, or cannot be read, is not asked for again, unless the server could not answer. */
static void on_refill_end(const struct kube_answer *answer, const char *version UNUSED, void *data)
{
        struct cluster *cluster = data;
        const bool has_failed = answer->error;

        cluster->refill = NULL;
        if (cluster->refill_key && (!has_failed || answer->error->kind == ERROR_INVALID))
                forget(cluster, &cluster->more, cluster->refill_key);
        cluster_stop_refill(cluster);
        if (!has_failed)
                refill(cluster);
}

static void ask_for(struct cluster *cluster, const char *key)
{
        const char *slash = strchr(key, '/');
        _free_ char *namespace = xasprintf("%.*s", (int)(slash - key), key);
        _free_ char *path = object_collection("/api/v1", namespace, "pods");
        _free_ char *selector = xasprintf("metadata.name=%s," CLUSTER_POD_SELECTOR, slash + 1);

        cluster->refill_key = xstrdup(key);
        cluster->refill = kube_list_new(cluster->options.client, &(struct kube_list_options){.path = path,
                                                                         .field_selector = selector,
                                                                         .on_object = on_refill,
                                                                         .on_end = on_refill_end,
                                                                         .data = cluster});
}

static void refill(struct cluster *cluster)
{
        const struct sorted *more = &cluster->more;

        for (size_t at = 0; at < more->count && !cluster->refill; at = end_of_namespace(more, key_at(more, at)))
                if (has_room(cluster, key_at(more, at)))
                        ask_for(cluster, key_at(more, at));
}

/* ---- as they come and go ---- */

static void add(struct cluster *cluster, struct cluster_pod_entry *entry)
{
        struct sorted *to = &cluster->pods;
        size_t at;

        if (!has_room(cluster, entry->key)) {
                arena_done(&entry->arena);
                entry->pod = NULL;
                to = &cluster->more;
        }
        sorted_find(to, entry->key, &at);
        sorted_insert(to, at, entry);
        cluster_changed(cluster);
}

static void take_in(struct cluster *cluster, enum kube_change change, json_t *object)
{
        struct cluster_pod_entry *entry;
        char *key = cluster_pod_key(object);

        if (!key)
                return;
        entry = xcalloc(1, sizeof(*entry));
        entry->key = key;
        if (change == KUBE_PRESENT)
                entry->pod = cluster_pod_read(object, &entry->arena);
        forget(cluster, &cluster->pods, key);
        forget(cluster, &cluster->more, key);
        if (entry->pod && cluster_pod_has_trouble(entry->pod))
                add(cluster, entry);
        else
                cluster_pod_entry_free(entry);
}

/* What the watch says is newer than what is being read. */
void cluster_on_pod(enum kube_change change, json_t *object, struct cluster *cluster)
{
        _free_ char *key = cluster_pod_key(object);

        if (key && text_is_same(key, cluster->refill_key))
                cluster_stop_refill(cluster);
        take_in(cluster, change, object);
        refill(cluster);
}
