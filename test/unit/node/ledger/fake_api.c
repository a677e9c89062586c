// SPDX-License-Identifier: Apache-2.0
#include "fake_api.h"

#include <stdio.h>
#include <string.h>

#define PATH "/api/v1/namespaces/team/pods/"
#define MAX_PODS 8
#define MAX_CALLS 8

struct kube_client {
        int unused;
};

struct kube_call {
        char path[96];
        kube_done_fn *done; /* NULL: this place is free */
        void *data;
};

struct fake_api api;
static struct kube_client the_client;
static struct fake_pod pods[MAX_PODS];
static struct kube_call calls[MAX_CALLS];
static struct arena texts;

/* ---- net/kube/client.h ---- */

struct kube_call *kube_client_send(struct kube_client *client, const struct kube_request *request)
{
        struct kube_call *call = calls;

        assert_ptr_equal(client, &the_client);
        assert_int_equal(request->method, KUBE_GET);
        while (call->done)
                assert_true(++call < calls + MAX_CALLS);
        snprintf(call->path, sizeof(call->path), "%s", request->path);
        call->done = request->done;
        call->data = request->data;
        api.n_calls++;
        api.n_asked++;
        return call;
}

struct kube_call *kube_call_cancel(struct kube_call *call)
{
        if (call) {
                call->done = NULL;
                api.n_calls--;
        }
        return NULL;
}

/* ---- pods ---- */

static struct fake_pod *find_pod(const char *name)
{
        for (size_t i = 0; i < MAX_PODS && pods[i].name; i++)
                if (strcmp(pods[i].name, name) == 0)
                        return &pods[i];
        return NULL;
}

struct fake_pod *fake_api_pod(const char *name, const char *annotations, const char *env)
{
        struct fake_pod *pod = find_pod(name);

        for (size_t i = 0; !pod; i++)
                if (!pods[i].name)
                        pod = &pods[i];
        assert_true(pod < pods + MAX_PODS);
        *pod = (struct fake_pod){.name = arena_strdup(&texts, name),
                .uid = arena_printf(&texts, "uid-%s", name),
                .annotations = annotations,
                .env = env};
        return pod;
}

static json_t *object_of(const struct fake_pod *pod)
{
        char *text = arena_printf(&texts,
                "{'metadata': {'uid': '%s', 'annotations': {%s}}, 'spec': {'initContainers': [{'name': 'prepare', "
                "'env': [%s]}], 'containers': [{'name': 'main', 'env': [%s], 'volumeMounts': [%s]}]}}",
                pod->uid, pod->annotations, pod->env, pod->env, pod->has_own_shm ? "{'mountPath': '/dev/shm'}" : "");
        json_t *object;

        for (char *at = text; *at; at++)
                if (*at == '\'')
                        *at = '"';
        object = json_loads(text, 0, NULL);
        assert_non_null(object);
        return object;
}

/* ---- answers ---- */

/* NULL: there is none. */
static struct kube_call *find_call(void)
{
        for (size_t i = 0; i < MAX_CALLS; i++)
                if (calls[i].done)
                        return &calls[i];
        return NULL;
}

static void end_call(struct kube_call *place, const struct kube_answer *answer)
{
        struct kube_call call = *place;

        place->done = NULL;
        api.n_calls--;
        call.done(answer, call.data);
}

static void fail_call(struct kube_call *call, unsigned int status, const char *text)
{
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "%s", text);
        end_call(call, &(struct kube_answer){.status = status, .error = &err, .reason = ""});
}

bool fake_api_answer(void)
{
        bool is_any = false;
        struct kube_call *call;

        while ((call = find_call())) {
                const struct fake_pod *pod;
                json_t *object;

                is_any = true;
                assert_memory_equal(call->path, PATH, strlen(PATH));
                pod = find_pod(call->path + strlen(PATH));
                if (!pod) {
                        fail_call(call, 404, "there is no such pod");
                        continue;
                }
                object = object_of(pod);
                end_call(call, &(struct kube_answer){.status = 200, .object = object, .reason = ""});
                json_decref(object);
        }
        return is_any;
}

bool fake_api_refuse(void)
{
        bool is_any = false;
        struct kube_call *call;

        for (; (call = find_call()); is_any = true)
                fail_call(call, 403, "the API server says no");
        return is_any;
}

/* ---- begin and end ---- */

struct kube_client *fake_api_client(void)
{
        return api.is_absent ? NULL : &the_client;
}

void fake_api_end(void)
{
        assert_int_equal(api.n_calls, 0);
        api = (struct fake_api){0};
        memset(pods, 0, sizeof(pods));
        arena_done(&texts);
}
