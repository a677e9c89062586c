// SPDX-License-Identifier: Apache-2.0
#include "node/pages/pod_labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "config/kube_name.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"

struct labelled_pod {
        char *pod_namespace;
        char *pod;
        char *values[POD_LABELS_MAX];
};

/* Pods without these labels are not kept. */
struct node_pod_labels {
        struct arena arena; /* of the next two */
        const char *const *keys;
        const char *const *names;
        struct kube_watch *watch;
        struct labelled_pod *pods; /* by namespace and name */
        size_t n_pods;
};

static int pod_labels_compare_pods(const void *a, const void *b)
{
        const struct labelled_pod *first = a;
        const struct labelled_pod *second = b;
        const int result = strcmp(first->pod_namespace, second->pod_namespace);

        return result ? result : strcmp(first->pod, second->pod);
}

static struct labelled_pod *pod_labels_find(
        const struct node_pod_labels *labels, const char *pod_namespace, const char *pod)
{
        const struct labelled_pod key = {
                .pod_namespace = (char *)(uintptr_t)pod_namespace, .pod = (char *)(uintptr_t)pod};

        return labels->n_pods ? bsearch(&key, labels->pods, labels->n_pods, sizeof(key), pod_labels_compare_pods)
                              : NULL;
}

static void pod_labels_forget(struct node_pod_labels *labels, struct labelled_pod *pod)
{
        free(pod->pod_namespace);
        free(pod->pod);
        for (size_t i = 0; i < POD_LABELS_MAX; i++)
                free(pod->values[i]);
        memmove(pod, pod + 1, (size_t)(labels->pods + labels->n_pods - (pod + 1)) * sizeof(*pod));
        labels->n_pods--;
}

static void pod_labels_remember(
        struct node_pod_labels *labels, const char *pod_namespace, const char *name, json_t *object)
{
        struct labelled_pod pod = {.pod_namespace = NULL};
        bool has_some = false;

        for (size_t i = 0; labels->keys[i]; i++) {
                const char *value = object_text(object, "metadata", "labels", labels->keys[i], NULL);

                pod.values[i] = value ? xstrdup(value) : NULL;
                has_some |= value != NULL;
        }
        if (!has_some)
                return;
        pod.pod_namespace = xstrdup(pod_namespace);
        pod.pod = xstrdup(name);
        labels->pods = xrealloc(labels->pods, (labels->n_pods + 1) * sizeof(*labels->pods));
        labels->pods[labels->n_pods++] = pod;
        qsort(labels->pods, labels->n_pods, sizeof(*labels->pods), pod_labels_compare_pods);
}

static void pod_labels_on_pod(enum kube_change change, json_t *object, void *data)
{
        struct node_pod_labels *labels = data;
        const char *pod_namespace = object_text(object, "metadata", "namespace", NULL);
        const char *name = object_text(object, "metadata", "name", NULL);
        struct labelled_pod *known;

        if (!pod_namespace || !name)
                return;
        known = pod_labels_find(labels, pod_namespace, name);
        if (known)
                pod_labels_forget(labels, known);
        if (change == KUBE_PRESENT)
                pod_labels_remember(labels, pod_namespace, name, object);
}

static void on_pods_trouble(const struct error *error, void *data UNUSED)
{
        log_warn("metrics have no labels of pods: the pods of this node cannot be read", LOG_ERR(error));
}

static const char *const *copy_words(struct arena *arena, const char *const *words)
{
        const char **copies = ARENA_ARRAY(arena, const char *, POD_LABELS_MAX + 1);

        for (size_t i = 0; words[i]; i++)
                copies[i] = arena_strdup(arena, words[i]);
        return copies;
}

struct node_pod_labels *node_pod_labels_new(
        struct kube_client *client, const char *node, const char *const *keys, const char *const *names)
{
        struct node_pod_labels *labels = xcalloc(1, sizeof(*labels));
        _free_ char *selector = xasprintf("spec.nodeName=%s", node);
        const struct kube_watch_options options = {.path = "/api/v1/pods",
                .field_selector = selector,
                .is_metadata = true,
                .on_object = pod_labels_on_pod,
                .on_trouble = on_pods_trouble,
                .objects = NODE_POD_LABELS_MAX,
                .data = labels};

        labels->keys = copy_words(&labels->arena, keys);
        labels->names = copy_words(&labels->arena, names);
        labels->watch = kube_watch_new(client, &options);
        return labels;
}

const char *const *node_pod_labels_names(const struct node_pod_labels *labels)
{
        static const char *const none[] = {NULL};

        return labels ? labels->names : none;
}

const char *const *node_pod_labels_find(
        const struct node_pod_labels *labels, const char *pod_namespace, const char *pod)
{
        const struct labelled_pod *found =
                labels && pod_namespace && pod ? pod_labels_find(labels, pod_namespace, pod) : NULL;

        return found ? (const char *const *)found->values : NULL;
}

struct node_pod_labels *node_pod_labels_close(struct node_pod_labels *labels)
{
        if (!labels)
                return NULL;
        kube_watch_close(labels->watch);
        while (labels->n_pods)
                pod_labels_forget(labels, &labels->pods[labels->n_pods - 1]);
        free(labels->pods);
        arena_done(&labels->arena);
        free(labels);
        return NULL;
}
