// SPDX-License-Identifier: Apache-2.0
#include "node/status/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text.h"
#include "net/kube/client.h"
#include "net/kube/object.h"
#include "node/status/reconcile.h"

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
        json_t *writing;    /* the fields of a condition; {}: neither condition nor taint is configured */
        bool taint_changes;
        struct node_reconcile *reconcile;
};

static bool has_condition_or_taint(const struct node_state *state)
{
        return *state->condition || *state->taint_text;
}

static bool is_not_ready(const json_t *condition)
{
        return text_is_same(object_text(condition, "status", NULL), "False");
}

/* ---- the taint ---- */

static bool has_text(const json_t *taint, const char *key, const char *text)
{
        const char *value = object_text(taint, key, NULL);

        return strcmp(value ? value : "", text) == 0;
}

static bool is_same_place(const json_t *entry, const struct node_taint *taint)
{
        return has_text(entry, "key", taint->key) && has_text(entry, "effect", taint->effect);
}

static json_t *taint_taints_of(const json_t *node)
{
        json_t *taints = object_find(node, "spec", "taints", NULL);

        return json_is_array(taints) ? taints : NULL;
}

/* The index of the taint, or -1. If |taint| has a value, the value must match, too. */
static ssize_t taint_find(const json_t *taints, const struct node_taint *taint, bool with_value)
{
        for (size_t i = 0; i < json_array_size(taints); i++) {
                const json_t *entry = json_array_get(taints, i);

                if (is_same_place(entry, taint) && (!with_value || has_text(entry, "value", taint->value)))
                        return (ssize_t)i;
        }
        return -1;
}

static void taint_append(json_t *node, const struct node_taint *taint)
{
        json_t *spec = object_make(node, "spec", NULL);
        json_t *taints = taint_taints_of(node);
        json_t *entry = json_pack("{s:s, s:s}", "key", taint->key, "effect", taint->effect);

        if (*taint->value)
                json_object_set_new(entry, "value", json_string(taint->value));
        if (!taints) {
                taints = json_array();
                json_object_set_new(spec, "taints", taints);
        }
        json_array_append_new(taints, entry);
}

static void write_annotation(json_t *node, struct arena *scratch, const struct node_taint *taint)
{
        const char *text =
                arena_printf(scratch, "%s%s%s:%s", taint->key, *taint->value ? "=" : "", taint->value, taint->effect);

        json_object_set_new(
                object_make(node, "metadata", "annotations", NULL), NODE_TAINT_ANNOTATION, json_string(text));
}

const char *node_taint_of(const json_t *node)
{
        return object_text(node, "metadata", "annotations", NODE_TAINT_ANNOTATION, NULL);
}

static bool taint_is_same(const struct node_taint *a, const struct node_taint *b)
{
        return strcmp(a->key, b->key) == 0 && strcmp(a->value, b->value) == 0 && strcmp(a->effect, b->effect) == 0;
}

/* An annotation that cannot be parsed is removed, and no taint with it. */
static void remove_ours(json_t *node, const struct node_taint *ours)
{
        ssize_t at = ours ? taint_find(taint_taints_of(node), ours, true) : -1;

        if (at >= 0)
                json_array_remove(taint_taints_of(node), (size_t)at);
        json_object_del(object_find(node, "metadata", "annotations", NULL), NODE_TAINT_ANNOTATION);
}

bool node_taint_merge(json_t *node, const struct node_taint *wanted)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const char *annotation = node_taint_of(node);
        struct node_taint ours;
        struct error err;
        bool has_ours = annotation && node_taint_parse(&ours, &scratch, annotation, &err) == 0;
        bool is_changed = false;

        if (annotation && !(wanted && has_ours && taint_is_same(&ours, wanted) &&
                                  taint_find(taint_taints_of(node), &ours, true) >= 0)) {
                remove_ours(node, has_ours ? &ours : NULL);
                annotation = NULL;
                is_changed = true;
        }
        if (wanted && !annotation && taint_find(taint_taints_of(node), wanted, false) < 0) {
                taint_append(node, wanted);
                write_annotation(node, &scratch, wanted);
                is_changed = true;
        }
        return is_changed;
}

/* ---- writing ---- */

static void state_finish(struct node_state *state, const struct kube_answer *answer)
{
        bool is_denied = answer->error && answer->error->kind == ERROR_DENIED;

        if (is_denied && !has_condition_or_taint(state)) {
                log_debug("whether an earlier agent left a condition or taint on the node cannot be checked",
                        LOG_ERR(answer->error));
                node_reconcile_done(state->reconcile, NULL, 0); /* so the right to set them may be missing */
                return;
        }
        node_reconcile_answered(answer, state->reconcile);
}

static bool state_is_ours(const json_t *entry)
{
        return text_is_same(object_text(entry, "manager", NULL), NODE_STATE_MANAGER);
}

bool node_state_has_condition(const json_t *node)
{
        const json_t *managers = object_find(node, "metadata", "managedFields", NULL);

        for (size_t i = 0; i < json_array_size(managers); i++)
                if (state_is_ours(json_array_get(managers, i)))
                        return true;
        return false;
}

json_t *node_state_status(const char *node, json_t *condition)
{
        json_t *body = object_node(node);

        if (condition)
                json_object_set_new(body, "status", json_pack("{s:[o]}", "conditions", condition));
        return body;
}

/* NULL: the node has no condition of that type. */
static const json_t *state_find_condition(const json_t *node, const char *type)
{
        const json_t *conditions = object_find(node, "status", "conditions", NULL);

        for (size_t i = 0; i < json_array_size(conditions); i++) {
                const json_t *condition = json_array_get(conditions, i);

                if (text_is_same(object_text(condition, "type", NULL), type))
                        return condition;
        }
        return NULL;
}

/* The time since which the condition has its present status. */
static json_t *transition_time(const json_t *node, const char *type, const char *status, const char *now)
{
        const json_t *condition = state_find_condition(node, type);
        const char *since = object_text(condition, "lastTransitionTime", NULL);

        return json_string(since && text_is_same(object_text(condition, "status", NULL), status) ? since : now);
}

static json_t *make_condition(const struct node_state *state, const json_t *node)
{
        _free_ char *now = object_time((int64_t)time(NULL) * 1000000);
        json_t *condition = json_copy(state->writing);

        json_object_set_new(condition, "type", json_string(state->condition));
        json_object_set_new(condition, "lastHeartbeatTime", json_string(now));
        json_object_set_new(condition, "lastTransitionTime",
                transition_time(node, state->condition, object_text(state->writing, "status", NULL), now));
        return condition;
}

static void write_condition(struct node_state *state, const json_t *node)
{
        json_t *condition = *state->condition ? make_condition(state, node) : NULL;
        json_t *body = node_state_status(state->node, condition);
        const struct kube_request request = {
                .method = KUBE_APPLY,
                .path = state->status_path,
                .body = body,
                .field_manager = NODE_STATE_MANAGER,
                .force = true,
                .done = node_reconcile_answered,
                .data = state->reconcile,
        };

        node_reconcile_go_on(state->reconcile, kube_client_send(state->client, &request));
        json_decref(body);
}

static bool merge_taint(json_t *node, const struct node_state *state, const json_t *condition)
{
        return node_taint_merge(node, *state->taint_text && is_not_ready(condition) ? &state->taint : NULL);
}

static bool edit_taint(json_t *node, void *data)
{
        struct node_state *state = data;

        state->taint_changes = merge_taint(node, state, state->writing);
        return state->taint_changes;
}

static void on_taint_written(const struct kube_answer *answer, void *data)
{
        struct node_state *state = data;
        const char *reason = object_text(state->writing, "reason", NULL);

        if (!answer->error && state->taint_changes)
                log_info("the taints of the node changed", LOG_STR("ours", node_taint_of(answer->object)),
                        LOG_STR("reason", reason ? reason : ""));
        if (!answer->error && (*state->condition || node_state_has_condition(answer->object)))
                write_condition(state, answer->object);
        else
                state_finish(state, answer);
}

/* The taint first, which needs to read the node. */
static struct kube_call *state_write(json_t *wanted, void *data)
{
        struct node_state *state = data;
        const struct kube_edit edit = {.path = state->path,
                .edit = edit_taint,
                .field_manager = "warpshare",
                .done = on_taint_written,
                .data = state};

        state->writing = wanted;
        return kube_client_edit(state->client, &edit);
}

/* ---- what a node must have ---- */

static bool has_taint(const json_t *node, const struct node_state *state, const json_t *condition)
{
        json_t *copy = json_deep_copy(node);
        bool is_changed = merge_taint(copy, state, condition);

        json_decref(copy);
        return !is_changed;
}

static bool state_is_right(const json_t *node, const json_t *written, void *data)
{
        const struct node_state *state = data;

        return has_taint(node, state, written) &&
               (!*state->condition || object_covers(state_find_condition(node, state->condition), written));
}

static uint64_t settle_ms(const json_t *accepted, const json_t *wanted, void *data UNUSED)
{
        return is_not_ready(wanted) && !is_not_ready(accepted) ? NODE_STATE_SETTLE_MS : 0;
}

/* ---- public ---- */

struct node_state *node_state_new(const struct node_state_options *options)
{
        struct node_state *state;
        struct node_reconcile_options reconcile = {
                .loop = options->loop,
                .retry_ms = RETRY_MS,
                .retry_limit_ms = RETRY_MAX_MS,
                .what = "condition and taint",
                .failed = "the condition and taint of the node cannot be set, will try again",
                .succeeded = "the condition and taint of the node are set",
                .write = state_write,
                .is_right = state_is_right,
                .settle_ms = settle_ms,
        };
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
        if (has_condition_or_taint(state)) {
                reconcile.watch = options->watch;
                reconcile.refresh_ms = NODE_STATE_REFRESH_MS;
        }
        reconcile.data = state;
        state->reconcile = node_reconcile_new(&reconcile);
        return state;
}

static json_t *make_wanted(const struct node_state *state, struct node_condition condition)
{
        if (!has_condition_or_taint(state))
                return json_object();
        text_clean(condition.message);
        return json_pack("{s:s, s:s, s:s}", "status", condition.status == NODE_READY ? "True" : "False", "reason",
                condition.reason, "message", condition.message);
}

void node_state_set(struct node_state *state, const struct node_condition *condition)
{
        if (state && condition->status != NODE_UNKNOWN)
                node_reconcile_put(state->reconcile, make_wanted(state, *condition));
}

void node_state_serve(struct node_state *state, bool is_serving)
{
        if (state)
                node_reconcile_serve(state->reconcile, is_serving);
}

void node_state_close(struct node_state *state)
{
        if (!state)
                return;
        node_reconcile_close(state->reconcile);
        free(state->node);
        free(state->path);
        free(state->status_path);
        free(state->condition);
        free(state->taint_text);
        arena_done(&state->arena);
        free(state);
}
