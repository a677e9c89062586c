// SPDX-License-Identifier: Apache-2.0
#include "cmd/cluster/session.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/go_value.h"
#include "base/io/loop.h"
#include "net/kube/list.h"
#include "net/kube/object.h"
#include "net/kube/kubeconfig.h"
#include "node/status/api.h"

#define EVENTS_LIMIT 500 /* an object has a few; kubelet and scheduler count repetitions up */
#define MOST_SILENT 5U   /* agents that are named, of those that do not answer */

int session_find_credentials(
        struct kube_credentials *ret, const struct command_call *call, size_t first, struct error *err)
{
        const char *const *values = call->values + first;
        const struct user_choice choice = {
                .kubeconfig = values[CONNECT_KUBECONFIG],
                .context = values[CONNECT_CONTEXT],
                .cluster = values[CONNECT_CLUSTER],
                .user = values[CONNECT_USER],
                .server = values[CONNECT_SERVER],
                .token = values[CONNECT_TOKEN],
                .authority = values[CONNECT_AUTHORITY],
                .certificate = values[CONNECT_CERTIFICATE],
                .key = values[CONNECT_KEY],
                .server_name = values[CONNECT_SERVER_NAME],
                .insecure = command_is_set(call, first + CONNECT_INSECURE),
                .as = values[CONNECT_AS],
                .as_groups = values[CONNECT_AS_GROUP],
        };

        return user_credentials_find(ret, &choice, getenv("HOME"), getenv("KUBECONFIG"), err);
}

static int read_timeout(const char *text, uint64_t *ret_ms, struct error *err)
{
        int64_t ns;

        if (!go_duration_parse(text, &ns) || ns < 1000000 || ns / 1000000 > 3600000)
                return command_refuse(err, "--request-timeout: '%.40s' is no time from 1ms to 1h, as 30s or 2m", text);
        *ret_ms = (uint64_t)ns / 1000000;
        return 0;
}

static void session_on_deadline(uv_timer_t *timer)
{
        container_of(timer, struct session, deadline)->is_late = true;
}

int session_open(struct session *session, const struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        struct kube_credentials credentials;

        *session = (struct session){.call = call};
        signal(SIGPIPE, SIG_IGN);
        log_setup(LOG_ERROR, LOG_TEXT);
        if (read_timeout(values[FLAG_TIMEOUT], &session->timeout_ms, err) < 0)
                return COMMAND_REFUSED;
        if (session_find_credentials(&credentials, call, FLAG_CONNECT, err) < 0)
                return COMMAND_FAILED;
        loop_init(&session->loop);
        uv_timer_init(&session->loop, &session->deadline);
        uv_timer_start(&session->deadline, session_on_deadline, session->timeout_ms, 0);
        session->client = kube_client_new(&session->loop);
        if (kube_client_equip(session->client, &credentials, err) < 0) {
                kube_credentials_done(&credentials);
                session_close(session);
                return COMMAND_FAILED;
        }
        session->given_scope = *values[FLAG_NAMESPACE] ? values[FLAG_NAMESPACE] : NULL;
        session->scope = session->given_scope ? session->given_scope : kube_client_scope(session->client);
        if (command_is_set(call, FLAG_ALL_NAMESPACES))
                session->scope = session->given_scope = NULL;
        return 0;
}

/* ---- one look ---- */

static bool session_is_seen(void *data)
{
        struct session *session = data;

        return session->is_late || cluster_view(session->cluster)->is_complete;
}

static void say_trouble(const struct session *session, const char *what, const struct error *trouble)
{
        if (trouble)
                fprintf(stderr, "%s: %s: %s\n", session->call->command->program, what, trouble->text);
}

static void say_left_out(const struct session *session, const struct cluster_view *view)
{
        for (size_t i = 0; i < view->n_too_large; i++)
                fprintf(stderr, "%s: %s\n", session->call->command->program, view->too_large[i]->text);
        for (size_t i = 0; i < MIN(view->n_more, (size_t)MOST_SILENT); i++)
                fprintf(stderr,
                        "%s: %zu more pods of the namespace '%s' are left out: --namespace shows up to %zu of one\n",
                        session->call->command->program, view->more[i].count, view->more[i].namespace, CLUSTER_PODS);
        if (view->n_more > MOST_SILENT)
                fprintf(stderr, "%s: and of %zu more namespaces\n", session->call->command->program,
                        view->n_more - MOST_SILENT);
}

static void say_silent(const struct session *session, const struct cluster_view *view)
{
        size_t count = 0;

        for (size_t i = 0; i < view->n_nodes; i++) {
                const struct cluster_node *node = view->nodes[i];
                const bool is_bad = node->state == CLUSTER_AGENT_SILENT || node->state == CLUSTER_AGENT_TOO_OLD ||
                                    node->state == CLUSTER_AGENT_ASKED;

                if (!is_bad)
                        continue;
                if (count++ < MOST_SILENT)
                        fprintf(stderr, "%s: the agent of %s: %s\n", session->call->command->program, node->name,
                                node->reason ? node->reason : "it has not answered in time");
        }
        if (count > MOST_SILENT)
                fprintf(stderr, "%s: and the agents of %zu more nodes\n", session->call->command->program,
                        count - MOST_SILENT);
}

const struct cluster_view *session_look(struct session *session, struct cluster_options options)
{
        const char *const *values = session->call->values;
        const struct cluster_view *view;

        options.client = session->client;
        options.agent_selector = values[FLAG_AGENTS];
        options.agent_namespace = *values[FLAG_AGENT_NAMESPACE] ? values[FLAG_AGENT_NAMESPACE] : NULL;
        options.deadline_ms = MIN(session->timeout_ms, CLUSTER_DEADLINE_MS);
        session->cluster = cluster_close(session->cluster);
        session->cluster = cluster_start(&options);
        loop_run_until(&session->loop, session_is_seen, session, 0);
        view = cluster_view(session->cluster);
        say_trouble(session, "nodes", view->nodes_trouble);
        say_trouble(session, "agents", view->agents_trouble);
        say_trouble(session, "pods", view->pods_trouble);
        say_left_out(session, view);
        if (session->is_late && !view->is_complete)
                fprintf(stderr, "%s: not everything has come within --request-timeout\n",
                        session->call->command->program);
        say_silent(session, view);
        return view;
}

/* ---- one request ---- */

struct get {
        struct session *session;
        struct api_answer answer;
        char *text;
};

static void on_got(const struct kube_answer *answer, void *data)
{
        struct get *get = data;

        if (answer->text)
                get->text = xstrdup(answer->text);
        api_answer_take(answer, &get->answer);
}

static bool is_got(void *data)
{
        const struct get *get = data;

        return get->answer.is_over || get->session->is_late;
}

/* |request|: without what is the same for all. */
static void session_run(struct get *get, struct kube_request request)
{
        struct kube_call *call;

        request.timeout_ms = get->session->timeout_ms;
        request.done = on_got;
        request.data = get;
        call = kube_client_send(get->session->client, &request);
        loop_run_until(&get->session->loop, is_got, get, 0);
        if (get->answer.is_over)
                return;
        kube_call_cancel(call);
        error_raise(&get->answer.error, ERROR_TIMEOUT, "%.200s: no answer within --request-timeout", request.path);
}

static int session_take(struct get *get, json_t **ret, struct error *err)
{
        free(get->text);
        *err = get->answer.error;
        if (err->kind != ERROR_NONE)
                return -1;
        *ret = get->answer.object;
        return 0;
}

int session_send(struct session *session, enum kube_method method, const char *path, const json_t *body, json_t **ret,
        struct error *err)
{
        struct get get = {.session = session};

        session_run(&get, (struct kube_request){.method = method, .path = path, .body = body});
        return session_take(&get, ret, err);
}

int session_get(struct session *session, const char *path, const char *query, json_t **ret, struct error *err)
{
        struct get get = {.session = session};

        session_run(&get, (struct kube_request){.method = KUBE_GET, .path = path, .query = query});
        return session_take(&get, ret, err);
}

int session_get_text(struct session *session, const char *path, unsigned int *ret_status, char **ret, struct error *err)
{
        struct get get = {.session = session};

        session_run(&get, (struct kube_request){.method = KUBE_GET, .path = path, .is_text = true});
        api_answer_done(&get.answer);
        *err = get.answer.error;
        if (!get.text)
                return -1;
        *ret_status = get.answer.status;
        *ret = get.text;
        return 0;
}

/* ---- events ---- */

static const char *time_of(const json_t *event)
{
        const char *last = object_text(event, "lastTimestamp", NULL);
        const char *time = last ? last : object_text(event, "eventTime", NULL);

        return time ? time : "";
}

static int compare_events(const void *a, const void *b)
{
        return strcmp(time_of(*(json_t *const *)a), time_of(*(json_t *const *)b));
}

json_t *session_events(struct session *session, const char *kind, const char *namespace, const char *name)
{
        _cleanup_(strbuf_done) struct strbuf query = STRBUF_INIT;
        _free_ char *selector = xasprintf("involvedObject.kind=%s,involvedObject.name=%s", kind, name);
        _free_ char *path = object_collection("/api/v1", namespace ? namespace : "default", "events");
        json_t *items[EVENTS_LIMIT];
        json_t *sorted = NULL;
        json_t *answer;
        json_t *list;
        struct error err;
        size_t count;

        strbuf_printf(&query, "limit=%d", EVENTS_LIMIT);
        kube_list_select(&query, selector, NULL);
        if (session_get(session, path, query.data, &answer, &err) < 0)
                return NULL;
        list = json_object_get(answer, "items");
        count = MIN(json_array_size(list), (size_t)EVENTS_LIMIT);
        for (size_t i = 0; i < count; i++)
                items[i] = json_array_get(list, i);
        if (count > 0)
                qsort(items, count, sizeof(*items), compare_events);
        sorted = json_array();
        for (size_t i = 0; i < count; i++)
                json_array_append(sorted, items[i]);
        json_decref(answer);
        return sorted;
}

void session_close(struct session *session)
{
        session->cluster = cluster_close(session->cluster);
        session->client = kube_client_close(session->client, NULL, NULL);
        uv_close((uv_handle_t *)&session->deadline, NULL);
        uv_run(&session->loop, UV_RUN_DEFAULT);
        uv_loop_close(&session->loop);
}
