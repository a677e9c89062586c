// SPDX-License-Identifier: Apache-2.0
#include "agent/evict.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/kube/object.h"

struct eviction {
        struct evictions *owner;
        char *pod_namespace;
        char *pod;
        char *uid;
        struct kube_call *call; /* NULL: it has its answer */
        uint64_t asked_ms;
};

struct evictions {
        struct kube_client *client;
        struct eviction *items[EVICT_PODS_MAX];
        size_t count;
        char *refusal;
};

static struct eviction *eviction_free(struct eviction *eviction)
{
        kube_call_cancel(eviction->call);
        free(eviction->pod_namespace);
        free(eviction->pod);
        free(eviction->uid);
        free(eviction);
        return NULL;
}

static void on_evicted(const struct kube_answer *answer, void *data)
{
        struct eviction *eviction = data;
        struct evictions *evictions = eviction->owner;

        eviction->call = NULL;
        free(TAKE_PTR(evictions->refusal));
        if (!answer->error)
                log_info("pod evicted event=MIGPodEvicted", LOG_STR("namespace", eviction->pod_namespace),
                        LOG_STR("pod", eviction->pod));
        else if (answer->status != 404 && answer->status != 409) /* 409: the pod has another UID now */
                evictions->refusal = xasprintf(
                        "%s/%s cannot be evicted: %s", eviction->pod_namespace, eviction->pod, answer->error->text);
}

static void evict(struct evictions *evictions, struct eviction *eviction)
{
        _free_ char *collection = object_collection("/api/v1", eviction->pod_namespace, "pods");
        _free_ char *pod = object_path(collection, eviction->pod);
        _free_ char *path = xasprintf("%s/eviction", pod);
        json_t *body = json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:{s:s}}}", "apiVersion", "policy/v1", "kind", "Eviction",
                "metadata", "name", eviction->pod, "namespace", eviction->pod_namespace, "deleteOptions",
                "preconditions", "uid", eviction->uid);

        eviction->asked_ms = uv_now(kube_client_loop(evictions->client));
        eviction->call = kube_client_send(evictions->client,
                &(struct kube_request){
                        .method = KUBE_CREATE, .path = path, .body = body, .done = on_evicted, .data = eviction});
        json_decref(body);
}

static struct eviction *find_eviction(const struct evictions *evictions, const char *uid)
{
        for (size_t i = 0; i < evictions->count; i++)
                if (strcmp(evictions->items[i]->uid, uid) == 0)
                        return evictions->items[i];
        return NULL;
}

void evictions_ask(struct evictions *evictions, const char *pod_namespace, const char *pod, const char *uid)
{
        struct eviction *eviction = uid ? find_eviction(evictions, uid) : NULL;

        if (!uid) {
                free(evictions->refusal);
                evictions->refusal = xasprintf(
                        "%s/%s cannot be evicted: kubelet's record does not have its UID", pod_namespace, pod);
                return;
        }
        if (!eviction && evictions->count < EVICT_PODS_MAX) {
                eviction = xcalloc(1, sizeof(*eviction));
                *eviction = (struct eviction){.owner = evictions,
                        .pod_namespace = xstrdup(pod_namespace),
                        .pod = xstrdup(pod),
                        .uid = xstrdup(uid)};
                evictions->items[evictions->count++] = eviction;
                evict(evictions, eviction);
        } else if (eviction && !eviction->call &&
                   uv_now(kube_client_loop(evictions->client)) - eviction->asked_ms >= EVICT_AGAIN_MS) {
                evict(evictions, eviction);
        }
}

const char *evictions_refusal(const struct evictions *evictions)
{
        return evictions->refusal ? evictions->refusal : "";
}

struct evictions *evictions_new(struct kube_client *client)
{
        struct evictions *evictions = xcalloc(1, sizeof(*evictions));

        evictions->client = client;
        return evictions;
}

struct evictions *evictions_close(struct evictions *evictions)
{
        if (!evictions)
                return NULL;
        while (evictions->count)
                eviction_free(evictions->items[--evictions->count]);
        free(evictions->refusal);
        free(evictions);
        return NULL;
}
