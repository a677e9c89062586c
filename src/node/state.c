#include "node/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/complaint.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/backoff.h"
#include "kube/client.h"
#include "kube/object.h"
#include "node/reconcile.h"
#include "node/taint.h"

#define RETRY_MS UINT64_C(1000)
#define RETRY_MAX_MS UINT64_C(60000)

struct node_state {
        struct kube_client *client;
        char *node;
        char *path;
        char *status_path;
        char *condition; /* "": none */
        char *taint_text;
        struct node_taint taint;
        struct arena arena; /* of |taint| */
        uint64_t settle_ms;
        bool is_serving;
        struct node_verdict verdict; /* the newest */
        struct node_verdict sending; /* the last one sent, or being sent */
        bool is_sent;                /* all of |sending| was sent */
        struct kube_call *call;
        bool taint_changes;
        bool is_falling;  /* the timer runs until a ready node is marked as not ready */
        uv_timer_t timer; /* until the next sending */
        struct backoff backoff;
        struct complaint trouble;
        struct node_watch *watch;
        struct node_reconcile *reconcile; /* NULL: not serving, or neither condition nor taint is configured */
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- scheduling ---- */

static bool has_condition_or_taint(const struct node_state *state)
{
        return *state->condition || *state->taint_text;
}

static bool is_same(const struct node_verdict *a, const struct node_verdict *b)
{
        return a->status == b->status && strcmp(a->reason, b->reason) == 0 && strcmp(a->message, b->message) == 0;
}

static bool is_up_to_date(const struct node_state *state)
{
        return state->is_sent && (!has_condition_or_taint(state) || is_same(&state->verdict, &state->sending));
}

static void on_state_timer(uv_timer_t *timer);

/* Schedules the next sending; also called when a call ends. */
static void plan_next(struct node_state *state)
{
        bool falls = state->verdict.status == NODE_NOT_READY && has_condition_or_taint(state) &&
                     !(state->is_sent && state->sending.status == NODE_NOT_READY);

        if (!state->is_serving || state->call || state->backoff.failures > 0 || (falls && state->is_falling))
                return;
        state->is_falling = falls;
        if (!is_up_to_date(state))
                uv_timer_start(&state->timer, on_state_timer, falls ? state->settle_ms : 0, 0);
        else if (has_condition_or_taint(state))
                uv_timer_start(&state->timer, on_state_timer, NODE_STATE_REFRESH_MS, 0);
}

/* ---- sending ---- */

static void state_finish(struct node_state *state, const struct kube_answer *answer)
{
        bool is_denied = answer->error && answer->error->kind == ERROR_DENIED;

        state->call = NULL;
        state->is_sent = !answer->error;
        if (!answer->error) {
                complaint_settle(&state->trouble);
                state->backoff.failures = 0;
                plan_next(state);
        } else if (is_denied && !has_condition_or_taint(state)) {
                log_debug("whether an earlier agent left a condition or taint on the node cannot be checked",
                        LOG_ERR(answer->error));
                state->is_sent = true; /* neither is configured, so the right to set them may be missing */
        } else {
                complain(&state->trouble, "the condition and taint of the node cannot be set, will try again",
                        answer->error);
                uv_timer_start(&state->timer, on_state_timer,
                        backoff_next(&state->backoff, answer->retry_after_ms, (uint32_t)uv_hrtime()), 0);
        }
}

static void on_condition_sent(const struct kube_answer *answer, void *data)
{
        state_finish(data, answer);
}

static bool is_ours(const json_t *entry)
{
        const char *manager = object_text(entry, "manager", NULL);

        return manager && strcmp(manager, NODE_STATE_MANAGER) == 0;
}

bool node_state_has_condition(const json_t *node)
{
        const json_t *managers = object_find(node, "metadata", "managedFields", NULL);

        for (size_t i = 0; i < json_array_size(managers); i++)
                if (is_ours(json_array_get(managers, i)))
                        return true;
        return false;
}

json_t *node_state_status(const char *node, json_t *condition)
{
        json_t *body = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", node);

        if (condition)
                json_object_set_new(body, "status", json_pack("{s:[o]}", "conditions", condition));
        return body;
}

/* NULL: the node has no condition of that type. */
static const json_t *find_condition(const json_t *node, const char *type)
{
        const json_t *conditions = object_find(node, "status", "conditions", NULL);

        for (size_t i = 0; i < json_array_size(conditions); i++) {
                const json_t *condition = json_array_get(conditions, i);

                if (text_is_same(object_text(condition, "type", NULL), type))
                        return condition;
        }
        return NULL;
}

static const char *status_of(const struct node_verdict *verdict)
{
        return verdict->status == NODE_READY ? "True" : "False";
}

/* The time since which the condition has its present status. */
static json_t *transition_time(const json_t *node, const char *type, const char *status, const char *now)
{
        const json_t *condition = find_condition(node, type);
        const char *since = object_text(condition, "lastTransitionTime", NULL);

        return json_string(since && text_is_same(object_text(condition, "status", NULL), status) ? since : now);
}

static json_t *write_condition(const struct node_state *state, const json_t *node)
{
        _free_ char *now = object_time((int64_t)time(NULL) * 1000000);
        const char *status = status_of(&state->sending);
        json_t *since = transition_time(node, state->condition, status, now);

        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "type", state->condition, "status", status, "reason",
                state->sending.reason, "message", state->sending.message, "lastHeartbeatTime", now,
                "lastTransitionTime", since);
}

static void send_condition(struct node_state *state, const json_t *node)
{
        json_t *condition = *state->condition ? write_condition(state, node) : NULL;
        json_t *body = node_state_status(state->node, condition);
        const struct kube_request request = {
                .method = KUBE_APPLY,
                .path = state->status_path,
                .body = body,
                .field_manager = NODE_STATE_MANAGER,
                .force = true,
                .done = on_condition_sent,
                .data = state,
        };

        state->call = kube_client_send(state->client, &request);
        json_decref(body);
}

static bool merge_taint(json_t *node, const struct node_state *state)
{
        bool is_wanted = *state->taint_text && state->sending.status == NODE_NOT_READY;

        return node_taint_merge(node, is_wanted ? &state->taint : NULL);
}

static bool edit_taint(json_t *node, void *data)
{
        struct node_state *state = data;

        state->taint_changes = merge_taint(node, state);
        return state->taint_changes;
}

static void on_taint_sent(const struct kube_answer *answer, void *data)
{
        struct node_state *state = data;

        state->call = NULL;
        if (!answer->error && state->taint_changes)
                log_info("the taints of the node changed", LOG_STR("ours", node_taint_of(answer->object)),
                        LOG_STR("reason", state->sending.reason));
        if (!answer->error && (*state->condition || node_state_has_condition(answer->object)))
                send_condition(state, answer->object);
        else
                state_finish(state, answer);
}

/* Sends the taint first, which needs to read the node. */
static void on_state_timer(uv_timer_t *timer)
{
        struct node_state *state = timer->data;
        const struct kube_edit edit = {.path = state->path,
                .edit = edit_taint,
                .field_manager = "warpshare",
                .done = on_taint_sent,
                .data = state};

        state->sending = state->verdict;
        state->is_sent = false;
        state->is_falling = false;
        state->call = kube_client_edit(state->client, &edit);
}

/* ---- reconciling ---- */

static bool has_condition(const json_t *node, const char *type, const struct node_verdict *verdict)
{
        const json_t *condition = find_condition(node, type);

        return condition && text_is_same(object_text(condition, "status", NULL), status_of(verdict)) &&
               text_is_same(object_text(condition, "reason", NULL), verdict->reason) &&
               text_is_same(object_text(condition, "message", NULL), verdict->message);
}

static bool has_taint(const json_t *node, const struct node_state *state)
{
        json_t *copy = json_deep_copy(node);
        bool is_changed = merge_taint(copy, state);

        json_decref(copy);
        return !is_changed;
}

/* Compares with what was sent last, or is being sent. */
static bool is_right(const json_t *node, void *data)
{
        const struct node_state *state = data;

        return state->sending.status == NODE_UNKNOWN ||
               (has_taint(node, state) &&
                       (!*state->condition || has_condition(node, state->condition, &state->sending)));
}

/* A node that is about to be marked as not ready is sent soon anyway. */
static bool state_reconcile(void *data)
{
        struct node_state *state = data;

        if (state->call || state->is_falling)
                return false;
        uv_timer_start(&state->timer, on_state_timer, 0, 0);
        return true;
}

/* ---- public ---- */

struct node_state *node_state_new(const struct node_state_options *options)
{
        struct node_state *state;
        struct error err;

        if (!options->client)
                return NULL;
        state = xcalloc(1, sizeof(*state));
        state->path = object_path("/api/v1/nodes", options->node);
        state->status_path = xasprintf("%s/status", state->path);
        state->client = options->client;
        state->node = xstrdup(options->node);
        state->condition = xstrdup(options->condition);
        state->taint_text = xstrdup(options->taint);
        if (*state->taint_text && node_taint_parse(&state->taint, &state->arena, state->taint_text, &err) < 0)
                assert(!"checked by the configuration");
        state->settle_ms = options->settle_ms ? options->settle_ms : NODE_STATE_SETTLE_MS;
        state->verdict.reason = state->sending.reason = "";
        state->backoff = (struct backoff){.least_ms = RETRY_MS, .most_ms = RETRY_MAX_MS};
        uv_timer_init(options->loop, &state->timer);
        state->timer.data = state;
        state->watch = options->watch;
        return state;
}

void node_state_set(struct node_state *state, const struct node_verdict *verdict)
{
        if (!state || verdict->status == NODE_UNKNOWN || is_same(&state->verdict, verdict))
                return;
        state->verdict = *verdict;
        plan_next(state);
}

static struct node_reconcile *start_mending(struct node_state *state)
{
        const struct node_reconcile_options options = {
                .loop = state->timer.loop,
                .watch = has_condition_or_taint(state) ? state->watch : NULL,
                .what = "condition and taint",
                .is_right = is_right,
                .reconcile = state_reconcile,
                .data = state,
        };

        return node_reconcile_new(&options);
}

void node_state_serve(struct node_state *state, bool is_serving)
{
        if (!state)
                return;
        state->is_serving = is_serving;
        state->reconcile = node_reconcile_close(state->reconcile);
        if (is_serving)
                state->reconcile = start_mending(state);
        state->sending = (struct node_verdict){.reason = ""};
        state->is_sent = false;
        state->is_falling = false;
        state->backoff.failures = 0;
        state->call = kube_call_cancel(state->call);
        uv_timer_stop(&state->timer);
        if (state->verdict.status != NODE_UNKNOWN)
                plan_next(state);
}

static void on_state_closed(uv_handle_t *handle)
{
        struct node_state *state = container_of(handle, struct node_state, timer);
        void (*closed)(void *) = state->closed;
        void *data = state->closed_data;

        free(state->node);
        free(state->path);
        free(state->status_path);
        free(state->condition);
        free(state->taint_text);
        arena_done(&state->arena);
        free(state);
        if (closed)
                closed(data);
}

void node_state_close(struct node_state *state, void (*closed)(void *data), void *data)
{
        if (!state)
                return;
        state->closed = closed;
        state->closed_data = data;
        state->reconcile = node_reconcile_close(state->reconcile);
        state->call = kube_call_cancel(state->call);
        uv_close((uv_handle_t *)&state->timer, on_state_closed);
}
