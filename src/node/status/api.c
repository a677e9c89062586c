// SPDX-License-Identifier: Apache-2.0
#include "node/status/api.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/io/loop.h"
#include "net/kube/object.h"

struct agent_api {
        struct kube_client *client;
        char *kubeconfig;
        char *node;
        bool is_connected;
        struct complaint trouble;
        struct backoff backoff;
        uv_timer_t timer;
        void (*connected)(void *data);
        void *data;
};

static int api_check_node(const struct config *config, struct error *err)
{
        if (!*config->node.name) {
                error_raise(err, ERROR_NOT_FOUND, "no node name: --node-name, NODE_NAME");
                return AGENT_API_NONE;
        }
        if (!object_is_name(config->node.name))
                return error_set(err, ERROR_INVALID,
                        "node name '%.80s': must be lower-case letters, digits, '-' and '.', as Kubernetes names nodes",
                        config->node.name);
        return 0;
}

/* ---- for the agent ---- */

static int connect_client(struct agent_api *api, struct error *err)
{
        struct kube_credentials credentials;
        const char *server;
        const char *origin;

        if (kube_credentials_find(&credentials, api->kubeconfig, err) != 0)
                return -1;
        server = credentials.server; /* the client has taken them over */
        origin = credentials.origin;
        if (kube_client_equip(api->client, &credentials, err) < 0) {
                kube_credentials_done(&credentials);
                return -1;
        }
        api->is_connected = true;
        log_info("API server", LOG_STR("server", server), LOG_STR("as", origin), LOG_STR("node", api->node));
        return 0;
}

static void on_api_timer(uv_timer_t *timer)
{
        struct agent_api *api = timer->data;
        struct error err;

        if (connect_client(api, &err) == 0) {
                uv_timer_stop(timer);
                api->connected(api->data);
                return;
        }
        complain(&api->trouble, "cannot use the API server, will try again", &err);
        uv_timer_start(timer, on_api_timer, backoff_next(&api->backoff, 0, (uint32_t)uv_hrtime()), 0);
}

struct agent_api *agent_api_new(const struct agent_api_options *options)
{
        const struct config *config = options->config;
        struct kube_credentials credentials = {0};
        struct agent_api *api;
        struct error err;
        int rc = api_check_node(config, &err);

        if (rc < 0) {
                log_error("cannot use the API server", LOG_ERR(&err));
                return NULL;
        }
        if (rc == 0)
                rc = kube_credentials_find(&credentials, config->node.kubeconfig, &err);
        kube_credentials_done(&credentials);
        if (rc > 0) {
                log_text(LOG_INFO, "the API server is not used: %s", err.text);
                return NULL;
        }
        api = xcalloc(1, sizeof(*api));
        api->client = kube_client_new(options->loop);
        api->kubeconfig = xstrdup(config->node.kubeconfig);
        api->node = xstrdup(config->node.name);
        api->backoff = (struct backoff){AGENT_API_RETRY_MS, AGENT_API_RETRY_MAX_MS, 0};
        api->connected = options->connected;
        api->data = options->data;
        uv_timer_init(options->loop, &api->timer);
        api->timer.data = api;
        uv_timer_start(&api->timer, on_api_timer, AGENT_API_BEGIN_MS, 0);
        return api;
}

struct kube_client *agent_api_client(struct agent_api *api)
{
        return api ? api->client : NULL;
}

void agent_api_refresh(struct agent_api *api)
{
        if (!api || api->is_connected)
                return;
        complaint_settle(&api->trouble);
        on_api_timer(&api->timer);
}

static void free_api(uv_handle_t *handle)
{
        struct agent_api *api = handle->data;

        free(api->kubeconfig);
        free(api->node);
        free(api);
}

struct agent_api *agent_api_close(struct agent_api *api)
{
        if (!api)
                return NULL;
        api->client = kube_client_close(api->client, NULL, NULL);
        uv_close((uv_handle_t *)&api->timer, free_api);
        return NULL;
}

/* ---- for commands ---- */

int agent_api_open(struct kube_client **ret, uv_loop_t *loop, const struct config *config, struct error *err)
{
        int rc = api_check_node(config, err);

        return rc == 0 ? kube_client_open(ret, loop, config->node.kubeconfig, err) : rc;
}

void api_visit_begin(struct api_visit *visit, const struct config *config)
{
        *visit = (struct api_visit){0};
        loop_init(&visit->loop);
        visit->is_outside = agent_api_open(&visit->client, &visit->loop, config, &visit->why) == AGENT_API_NONE;
}

static bool visit_is_set(void *flag)
{
        return *(const bool *)flag;
}

void api_visit_wait(struct api_visit *visit, bool *is_over)
{
        loop_run_until(&visit->loop, visit_is_set, is_over, 0);
}

void api_visit_end(struct api_visit *visit)
{
        visit->client = kube_client_close(visit->client, NULL, NULL);
        uv_run(&visit->loop, UV_RUN_DEFAULT);
        uv_loop_close(&visit->loop);
}

void api_answer_done(struct api_answer *answer)
{
        json_decref(answer->object);
}

void api_answer_take(const struct kube_answer *answer, void *data)
{
        struct api_answer *ret = data;

        ret->status = answer->status;
        if (answer->error)
                ret->error = *answer->error;
        else
                ret->object = json_incref(answer->object);
        ret->is_over = true;
}

void api_ask(struct api_visit *visit, struct kube_request request, struct api_answer *ret)
{
        *ret = (struct api_answer){0};
        request.done = api_answer_take;
        request.data = ret;
        kube_client_send(visit->client, &request);
        api_visit_wait(visit, &ret->is_over);
}
