// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/pod_source.h"

#include <assert.h>
#include <string.h>
#include <sys/un.h>

#include <pods.pb-c.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "net/rpc/client.h"
#include "net/rpc/message.h"

/* ---- kubelet's answer ---- */

/* False: the text is not UTF-8. */
static bool put_text(json_t *object, const char *key, const char *text)
{
        return !*text || json_object_set_new(object, key, json_string(text)) == 0;
}

/* An empty object or list of its own in |object|, borrowed. */
static json_t *put_new(json_t *object, const char *key, json_t *value)
{
        json_object_set_new(object, key, value);
        return value;
}

static json_t *append_object(json_t *list)
{
        json_t *object = json_object();

        json_array_append_new(list, object);
        return object;
}

static bool put_metadata(json_t *pod, const V1alpha1__ObjectMeta *metadata)
{
        json_t *object = put_new(pod, "metadata", json_object());
        json_t *annotations = put_new(object, "annotations", json_object());
        bool is_text = put_text(object, "name", metadata->name) &&
                       put_text(object, "namespace", metadata->namespace_) && put_text(object, "uid", metadata->uid);

        for (size_t i = 0; i < metadata->n_annotations; i++)
                is_text &= json_object_set_new(annotations, metadata->annotations[i]->key,
                                   json_string(metadata->annotations[i]->value)) == 0;
        return is_text;
}

static bool put_variables(json_t *container, const V1alpha1__Container *from)
{
        json_t *env = put_new(container, "env", json_array());
        json_t *sources = put_new(container, "envFrom", json_array());
        bool is_text = true;

        for (size_t i = 0; i < from->n_env; i++) {
                json_t *variable = append_object(env);

                is_text &= put_text(variable, "name", from->env[i]->name) &&
                           put_text(variable, "value", from->env[i]->value);
                if (from->env[i]->valuefrom)
                        put_new(variable, "valueFrom", json_object());
        }
        for (size_t i = 0; i < from->n_envfrom; i++)
                append_object(sources);
        return is_text;
}

static bool put_container(json_t *container, const V1alpha1__Container *from)
{
        json_t *mounts = put_new(container, "volumeMounts", json_array());
        json_t *resources = put_new(container, "resources", json_object());
        bool is_text = put_text(container, "name", from->name) && put_variables(container, from);

        for (size_t i = 0; i < from->n_volumemounts; i++)
                is_text &= put_text(append_object(mounts), "mountPath", from->volumemounts[i]->mountpath);
        if (from->resources && from->resources->n_limits) {
                json_t *limits = put_new(resources, "limits", json_object());

                for (size_t i = 0; i < from->resources->n_limits; i++)
                        is_text &= json_object_set_new(limits, from->resources->limits[i]->key, json_null()) == 0;
        }
        if (from->resources && from->resources->n_claims) {
                json_t *claims = put_new(resources, "claims", json_array());

                for (size_t i = 0; i < from->resources->n_claims; i++) {
                        json_t *claim = append_object(claims);

                        is_text &= put_text(claim, "name", from->resources->claims[i]->name) &&
                                   put_text(claim, "request", from->resources->claims[i]->request);
                }
        }
        return is_text;
}

static bool put_containers(json_t *spec, const char *key, V1alpha1__Container *const *from, size_t count)
{
        json_t *list = put_new(spec, key, json_array());
        bool is_text = true;

        for (size_t i = 0; i < count; i++)
                is_text &= put_container(append_object(list), from[i]);
        return is_text;
}

static bool put_spec(json_t *pod, const V1alpha1__PodSpec *from)
{
        json_t *spec = put_new(pod, "spec", json_object());
        json_t *claims = put_new(spec, "resourceClaims", json_array());
        bool is_text = put_containers(spec, "containers", from->containers, from->n_containers) &&
                       put_containers(spec, "initContainers", from->initcontainers, from->n_initcontainers);

        for (size_t i = 0; i < from->n_resourceclaims; i++) {
                const V1alpha1__PodResourceClaim *claim = from->resourceclaims[i];
                json_t *object = append_object(claims);

                is_text &= put_text(object, "name", claim->name) &&
                           put_text(object, "resourceClaimName", claim->resourceclaimname) &&
                           put_text(object, "resourceClaimTemplateName", claim->resourceclaimtemplatename);
        }
        return is_text;
}

static bool put_extended(json_t *status, const V1alpha1__PodExtendedResourceClaimStatus *from)
{
        json_t *object = put_new(status, "extendedResourceClaimStatus", json_object());
        json_t *mappings = put_new(object, "requestMappings", json_array());
        bool is_text = put_text(object, "resourceClaimName", from->resourceclaimname);

        for (size_t i = 0; i < from->n_requestmappings; i++) {
                json_t *mapping = append_object(mappings);

                is_text &= put_text(mapping, "containerName", from->requestmappings[i]->containername) &&
                           put_text(mapping, "resourceName", from->requestmappings[i]->resourcename) &&
                           put_text(mapping, "requestName", from->requestmappings[i]->requestname);
        }
        return is_text;
}

static bool put_status(json_t *pod, const V1alpha1__PodStatus *from)
{
        json_t *status = put_new(pod, "status", json_object());
        json_t *claims = put_new(status, "resourceClaimStatuses", json_array());
        bool is_text = !from->extendedresourceclaimstatus || put_extended(status, from->extendedresourceclaimstatus);

        for (size_t i = 0; i < from->n_resourceclaimstatuses; i++) {
                json_t *claim = append_object(claims);

                is_text &= put_text(claim, "name", from->resourceclaimstatuses[i]->name) &&
                           put_text(claim, "resourceClaimName", from->resourceclaimstatuses[i]->resourceclaimname);
        }
        return is_text;
}

json_t *pod_answer_read(const uint8_t *message, size_t size, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const V1alpha1__GetPodResponse *response = (const V1alpha1__GetPodResponse *)protobuf_unpack(
                &v1alpha1__get_pod_response__descriptor, &arena, POD_MEMORY_MAX, message, size, err);
        json_t *pod;

        if (!response)
                return NULL;
        if (!response->pod || !response->pod->metadata || !response->pod->spec) {
                error_raise(err, ERROR_INVALID, "the answer has no pod with metadata and a specification");
                return NULL;
        }
        pod = json_object();
        if (put_metadata(pod, response->pod->metadata) && put_spec(pod, response->pod->spec) &&
                (!response->pod->status || put_status(pod, response->pod->status)))
                return pod;
        json_decref(pod);
        error_raise(err, ERROR_INVALID, "a text of the pod is not UTF-8");
        return NULL;
}

/* ---- a question ---- */

struct pod_call {
        const struct pod_source *source;
        struct pod_question question; /* its texts are in |arena| */
        struct arena arena;
        struct rpc_client *kubelet; /* NULL: it is not asked any more */
        struct kube_call *call;     /* NULL: the API server is not asked yet */
        json_t *pod;                /* kubelet's */
        struct error failure;       /* of kubelet */
        bool is_cancelled;
};

static void free_call(struct pod_call *call)
{
        json_decref(call->pod);
        arena_done(&call->arena);
        free(call);
}

struct pod_call *pod_call_cancel(struct pod_call *call)
{
        if (!call)
                return NULL;
        call->is_cancelled = true; /* closing the client ends its call */
        kube_call_cancel(call->call);
        rpc_client_close(call->kubelet);
        free_call(call);
        return NULL;
}

static void pod_call_end(struct pod_call *call, const struct kube_answer *answer)
{
        call->question.done(answer, call->question.data);
        free_call(call);
}

static void on_server_answered(const struct kube_answer *answer, void *data)
{
        struct pod_call *call = data;
        struct kube_answer both = *answer;
        struct error err;

        if (answer->error && call->failure.kind) {
                error_raise(&err, answer->error->kind, "%s; and kubelet: %s", answer->error->text, call->failure.text);
                both.error = &err;
        }
        pod_call_end(call, &both);
}

static void ask_server(struct pod_call *call, uint64_t timeout_ms)
{
        const struct pod_question *question = &call->question;
        _free_ char *collection = object_collection("/api/v1", question->namespace, "pods");
        _free_ char *path = object_path(collection, question->name);

        call->call = kube_client_send(call->source->client, &(struct kube_request){.method = KUBE_GET,
                                                                    .path = path,
                                                                    .timeout_ms = timeout_ms,
                                                                    .done = on_server_answered,
                                                                    .data = call});
}

/* The scheduler may make a claim of such a resource, which no entry of the pod stands for. */
static bool has_extended_resource(const json_t *pod)
{
        static const char *const lists[] = {"initContainers", "containers"};
        const json_t *container;
        const json_t *limit;
        const char *name;
        size_t j;

        for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
                json_array_foreach(object_find(pod, "spec", lists[i], NULL), j, container)
                {
                        json_object_foreach(object_find(container, "resources", "limits", NULL), name, limit)
                        {
                                if (strchr(name, '/'))
                                        return true;
                        }
                }
        }
        return false;
}

/*
 * True: all claims of the pod have names now, and one is |claim|. A single entry without a name gets it (pod_source.h).
 */
static bool find_claim(json_t *pod, const char *claim)
{
        const json_t *statuses = object_find(pod, "status", "resourceClaimStatuses", NULL);
        bool is_named = text_is_same(
                object_text(pod, "status", "extendedResourceClaimStatus", "resourceClaimName", NULL), claim);
        json_t *unnamed = NULL;
        json_t *entry;
        const json_t *status;
        size_t i;
        size_t j;

        json_array_foreach(object_find(pod, "spec", "resourceClaims", NULL), i, entry)
        {
                const char *name = object_text(entry, "resourceClaimName", NULL);

                json_array_foreach(statuses, j, status)
                {
                        if (!name && text_is_same(object_text(status, "name", NULL), object_text(entry, "name", NULL)))
                                name = object_text(status, "resourceClaimName", NULL);
                }
                if (!name && unnamed)
                        return false;
                if (!name)
                        unnamed = entry;
                is_named |= text_is_same(name, claim);
        }
        if (!unnamed)
                return is_named;
        if (is_named || has_extended_resource(pod))
                return false;
        json_object_set_new(unnamed, "resourceClaimName", json_string(claim));
        return true;
}

static int pod_call_check(const struct pod_call *call, struct error *err)
{
        const struct pod_question *question = &call->question;

        if (!text_is_same(object_text(call->pod, "metadata", "uid", NULL), question->uid) ||
                !text_is_same(object_text(call->pod, "metadata", "namespace", NULL), question->namespace) ||
                !text_is_same(object_text(call->pod, "metadata", "name", NULL), question->name))
                return error_set(err, ERROR_INVALID, "the answer is another pod than %s/%s with the UID %s",
                        question->namespace, question->name, question->uid);
        if (question->claim && !find_claim(call->pod, question->claim))
                return error_set(err, ERROR_UNSUPPORTED, "the answer does not name the pod's claims");
        return 0;
}

static void on_kubelet_message(struct rpc_call *rpc UNUSED, const uint8_t *message, size_t size, void *data)
{
        struct pod_call *call = data;

        if (call->pod || call->failure.kind) {
                error_raise(&call->failure, ERROR_INVALID, "kubelet sent more than one answer");
                return;
        }
        call->pod = pod_answer_read(message, size, &call->failure);
}

static void on_kubelet_ended(struct rpc_call *rpc UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct pod_call *call = data;
        struct error *failure = &call->failure;
        struct error err;

        if (call->is_cancelled)
                return;
        call->kubelet = rpc_client_close(call->kubelet);
        if (status != RPC_OK)
                error_raise(failure, status == RPC_NOT_FOUND ? ERROR_NOT_FOUND : ERROR_UNAVAILABLE, "%s: %s",
                        rpc_status_name(status), text);
        else if (!failure->kind && !call->pod)
                error_raise(failure, ERROR_INVALID, "no answer");
        if (!failure->kind && pod_call_check(call, failure) == 0) {
                pod_call_end(call, &(struct kube_answer){.object = call->pod, .reason = ""});
                return;
        }
        error_raise_prefix(failure, "GetPod on '%s'", call->source->socket);
        log_debug("kubelet does not say what the pod is", LOG_STR("namespace", call->question.namespace),
                LOG_STR("pod", call->question.name), LOG_ERR(failure));
        if (call->source->client) {
                ask_server(call, call->question.timeout_ms - call->question.timeout_ms / 2);
                return;
        }
        error_raise(&err, failure->kind,
                "%s; and the agent does not use the API server, which it would ask then (--node-name, --kubeconfig)",
                failure->text);
        pod_call_end(call, &(struct kube_answer){.error = &err, .reason = ""});
}

static void pod_call_ask_kubelet(struct pod_call *call)
{
        static const struct rpc_handlers handlers = {.message = on_kubelet_message, .ended = on_kubelet_ended};
        const struct rpc_client_options options = {.limits = {.message = POD_ANSWER_MAX}};
        V1alpha1__GetPodRequest request = V1ALPHA1__GET_POD_REQUEST__INIT;
        _cleanup_(rpc_message_unrefp) struct rpc_message *message = NULL;

        int rc = rpc_client_new(&call->kubelet, call->source->loop, call->source->socket, &options, &call->failure);

        assert(rc == 0); /* fails only for an invalid path, which pod_source_init() has checked */
        request.poduid = arena_strdup(&call->arena, call->question.uid);
        message = protobuf_pack(&request.base);
        rpc_client_call(
                call->kubelet, NULL, "/v1alpha1.Pods/GetPod", message, call->question.timeout_ms / 2, &handlers, call);
}

static bool can_ask_kubelet(const struct pod_source *source, const char *uid)
{
        return *source->socket && uid;
}

bool pod_source_can_ask(const struct pod_source *source, const char *uid)
{
        return source->client || can_ask_kubelet(source, uid);
}

struct pod_call *pod_source_get(const struct pod_source *source, const struct pod_question *question)
{
        struct pod_call *call = xcalloc(1, sizeof(*call));

        assert(pod_source_can_ask(source, question->uid));
        call->source = source;
        call->question = *question;
        call->question.namespace = arena_strdup(&call->arena, question->namespace);
        call->question.name = arena_strdup(&call->arena, question->name);
        call->question.uid = question->uid ? arena_strdup(&call->arena, question->uid) : NULL;
        call->question.claim = question->claim ? arena_strdup(&call->arena, question->claim) : NULL;
        if (can_ask_kubelet(source, question->uid))
                pod_call_ask_kubelet(call);
        else
                ask_server(call, question->timeout_ms);
        return call;
}

int pod_source_init(
        struct pod_source *source, uv_loop_t *loop, const char *socket, struct kube_client *client, struct error *err)
{
        size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

        if (strlen(socket) > most)
                return error_set(err, ERROR_INVALID,
                        "socket '%s' of kubelet's pods: the path has %zu bytes, at most %zu are possible", socket,
                        strlen(socket), most);
        *source = (struct pod_source){.loop = loop, .socket = xstrdup(socket), .client = client};
        return 0;
}

void pod_source_done(struct pod_source *source)
{
        free(source->socket);
}
