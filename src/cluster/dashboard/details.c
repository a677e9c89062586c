// SPDX-License-Identifier: Apache-2.0
#include "cluster/dashboard/details.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cluster/dashboard/viewer.h"
#include "cluster/why.h"

/* ---- pieces: what the node's page says, without what a viewer is not shown ---- */

static json_t *details_write_share(const struct report_share *share, const struct dashboard_scope *scope)
{
        const bool is_hidden = !dashboard_scope_sees(scope, share->pod_namespace);
        struct report_share shown = *share;
        json_t *object;

        if (is_hidden) {
                shown = report_share_unknown;
                shown.replicas = share->replicas;
                shown.memory_limit = share->memory_limit;
                shown.thread_percent = share->thread_percent;
                shown.memory_used = share->memory_used;
                shown.sm = share->sm;
        }
        shown.pod_uid = NULL;
        shown.memory_controller = NAN;
        shown.n_processes = shown.memory_history.n_values = 0;
        object = dashboard_object(&report_share_shape, &shown);
        dashboard_put_flag(object, "hidden", is_hidden);
        return object;
}

/* |scope| NULL: without its shares, other users and history. */
static json_t *details_write_unit(const struct report_unit *unit, const struct dashboard_scope *scope)
{
        struct report_unit shown = *unit;
        json_t *shares = json_array();
        json_t *object;

        shown.granted = report_unit_granted(unit);
        if (!unit->has_health || unit->healthy)
                shown.reason = NULL;
        shown.memory_history.n_values = shown.n_shares = 0;
        if (!scope)
                shown.sm_history.n_values = shown.n_others = 0;
        object = dashboard_object(&report_unit_shape, &shown);
        for (size_t i = 0; scope && i < unit->n_shares; i++)
                json_array_append_new(shares, details_write_share(&unit->shares[i], scope));
        json_object_set_new(object, "shares", shares);
        if (!scope)
                json_object_del(object, "shares");
        else if (unit->n_others == 0)
                json_object_set_new(object, "others", json_array());
        for (size_t i = 0; i < shown.n_others; i++)
                json_object_del(json_array_get(json_object_get(object, "others"), i), "processes");
        return object;
}

static json_t *details_write_gpu(const struct report_gpu *gpu, const struct dashboard_scope *scope)
{
        struct report_gpu shown = *gpu;
        json_t *units = json_array();
        json_t *object;

        shown.n_units = 0;
        object = dashboard_object(&report_gpu_shape, &shown);
        for (size_t i = 0; i < gpu->n_units; i++)
                json_array_append_new(units, details_write_unit(&gpu->units[i], scope));
        json_object_set_new(object, "units", units);
        return object;
}

static json_t *details_write_event(const struct cluster_node *node, const struct report_event *event)
{
        struct report_event shown = *event;
        json_t *object;

        shown.time = floor(event->time); /* whole seconds: a fraction would be written with six digits in all */
        object = dashboard_object(&report_event_shape, &shown);
        dashboard_put_text(object, "node", node->name);
        return object;
}

static bool gpu_has(const struct report_gpu *gpu, const char *uuid)
{
        bool is_same = text_is_same(gpu->uuid, uuid);

        for (size_t i = 0; !is_same && i < gpu->n_units; i++)
                is_same = text_is_same(gpu->units[i].uuid, uuid);
        return is_same;
}

/* The node's events, the newest first: only those of |gpu| and with |word| in their text, where these are not NULL. */
static json_t *write_events(const struct cluster_node *node, const struct report_gpu *gpu, const char *word,
        const struct dashboard_scope *scope)
{
        json_t *list = json_array();

        if (!node->page || !scope->sees_all)
                return list;
        for (size_t i = node->page->n_events; i-- > 0;) {
                const struct report_event *event = &node->page->events[i];

                if (gpu && !(event->unit && gpu_has(gpu, event->unit)))
                        continue;
                if (word && !(event->text && strstr(event->text, word)))
                        continue;
                json_array_append_new(list, details_write_event(node, event));
        }
        return list;
}

static void put_agent_state(json_t *object, const struct cluster_node *node)
{
        dashboard_put_text(object, "state", cluster_agent_state_name(node->state));
        dashboard_put_text(object, "reason", node->reason);
        dashboard_put_time(object, "pageTime", node->page_time);
}

/* ---- a node ---- */

static bool details_is_any(const char *text UNUSED)
{
        return true;
}

/* Texts of API objects are clean and cut already (cluster/node.h). */
static const struct json_text any = {details_is_any, CLUSTER_TEXT, "text of at most ", false};

static const struct json_field condition_fields[] = {
        JSON_TEXT("type", struct cluster_condition, type, any),
        JSON_TEXT("status", struct cluster_condition, status, any),
        JSON_TEXT("reason", struct cluster_condition, reason, any),
        JSON_TEXT("message", struct cluster_condition, message, any),
        JSON_ROW("since", INT, struct cluster_condition, since, .leaves_out = true),
};
static const struct json_shape condition_shape = JSON_SHAPE(struct cluster_condition, condition_fields);

static const struct json_field resource_fields[] = {
        JSON_TEXT("name", struct cluster_resource, name, any),
        JSON_UINT("capacity", struct cluster_resource, capacity, 0, UINT32_MAX),
        JSON_UINT("allocatable", struct cluster_resource, allocatable, 0, UINT32_MAX),
};
static const struct json_shape resource_shape = JSON_SHAPE(struct cluster_resource, resource_fields);

static const struct json_field object_fields[] = {
        JSON_BOOL("isReady", struct cluster_node_object, is_ready),
        JSON_BOOL("isCordoned", struct cluster_node_object, is_cordoned),
        JSON_TEXT("kubelet", struct cluster_node_object, kubelet, any),
        JSON_ITEMS(
                "resources", struct cluster_node_object, resources, n_resources, resource_shape, 0, CLUSTER_RESOURCES),
        JSON_ITEMS("conditions", struct cluster_node_object, conditions, n_conditions, condition_shape, 0,
                CLUSTER_CONDITIONS),
};
static const struct json_shape object_shape = JSON_SHAPE(struct cluster_node_object, object_fields);

static const struct json_field agent_fields[] = {
        JSON_TEXT("namespace", struct cluster_agent, namespace, any),
        JSON_TEXT("pod", struct cluster_agent, pod, any),
        JSON_TEXT("image", struct cluster_agent, image, any),
        JSON_UINT("restarts", struct cluster_agent, restarts, 0, INT64_MAX),
};
static const struct json_shape agent_shape = JSON_SHAPE(struct cluster_agent, agent_fields);

static json_t *write_taint(const struct cluster_taint *taint)
{
        _free_ char *text = xasprintf(
                "%s%s%s:%s", taint->key, *taint->value ? "=" : "", taint->value, taint->effect ? taint->effect : "");

        return json_string(text);
}

static void details_put_object(json_t *ret, const struct cluster_node_object *node)
{
        json_t *taints = json_array();

        json_fields_put(ret, &object_shape, node);
        for (size_t i = 0; i < node->n_taints; i++)
                json_array_append_new(taints, write_taint(&node->taints[i]));
        json_object_set_new(ret, "taints", taints);
}

static void put_agent(json_t *ret, const struct cluster_node *node)
{
        json_t *agent = dashboard_object(&agent_shape, node->agent);

        dashboard_put_text(agent, "version", node->page ? node->page->agent : NULL);
        json_object_set_new(ret, "agent", agent);
}

json_t *dashboard_node(const struct cluster_view *view, const struct dashboard_scope *scope, const char *name)
{
        const struct cluster_node *node = cluster_find_node(view, name);
        json_t *gpus;
        json_t *ret;

        if (!node)
                return NULL;
        ret = json_object();
        gpus = json_array();
        dashboard_put_text(ret, "name", node->name);
        put_agent_state(ret, node);
        if (node->agent)
                put_agent(ret, node);
        if (node->object)
                details_put_object(ret, node->object);
        dashboard_put_text(ret, "driver", node->page ? node->page->driver : NULL);
        dashboard_put_text(ret, "configuration", node->page ? node->page->configuration : NULL);
        dashboard_put_text(ret, "ownersUnknown", node->page ? node->page->owners_unknown : NULL);
        for (size_t i = 0; node->page && i < node->page->n_gpus; i++)
                json_array_append_new(gpus, details_write_gpu(&node->page->gpus[i], scope));
        json_object_set_new(ret, "gpus", gpus);
        json_object_set_new(ret, "events", write_events(node, NULL, NULL, scope));
        return ret;
}

/* ---- a GPU ---- */

static const struct report_gpu *details_find_gpu(const struct cluster_node *node, const char *uuid)
{
        for (size_t i = 0; node->page && i < node->page->n_gpus; i++)
                if (gpu_has(&node->page->gpus[i], uuid))
                        return &node->page->gpus[i];
        return NULL;
}

const struct cluster_node *dashboard_node_of_gpu(const struct cluster_view *view, const char *uuid)
{
        for (size_t i = 0; i < view->n_nodes; i++)
                if (details_find_gpu(view->nodes[i], uuid))
                        return view->nodes[i];
        return NULL;
}

json_t *dashboard_gpu(const struct cluster_view *view, const struct dashboard_scope *scope, const char *uuid)
{
        const struct cluster_node *node = dashboard_node_of_gpu(view, uuid);
        const struct report_gpu *gpu = node ? details_find_gpu(node, uuid) : NULL;
        json_t *ret;

        if (!gpu)
                return NULL;
        ret = json_pack("{s:s}", "node", node->name);
        put_agent_state(ret, node);
        json_object_set_new(ret, "gpu", details_write_gpu(gpu, scope));
        json_object_set_new(ret, "events", write_events(node, gpu, NULL, scope));
        return ret;
}

/* ---- a pod ---- */

static const struct json_field request_fields[] = {
        JSON_TEXT("resource", struct cluster_request, resource, any),
        JSON_UINT("count", struct cluster_request, count, 0, INT64_MAX),
};
static const struct json_shape request_shape = JSON_SHAPE(struct cluster_request, request_fields);

static const struct json_field pod_fields[] = {
        JSON_TEXT("namespace", struct cluster_pod, namespace, any),
        JSON_TEXT("name", struct cluster_pod, name, any),
        JSON_TEXT("phase", struct cluster_pod, phase, any),
        JSON_TEXT("node", struct cluster_pod, node, any),
        JSON_TEXT("reason", struct cluster_pod, reason, any),
        JSON_TEXT("message", struct cluster_pod, message, any),
        JSON_TEXT("owner", struct cluster_pod, owner, any),
        JSON_ROW("created", INT, struct cluster_pod, created, .leaves_out = true),
        JSON_ITEMS("requests", struct cluster_pod, requests, n_requests, request_shape, 0, CLUSTER_RESOURCES),
};
static const struct json_shape pod_shape = JSON_SHAPE(struct cluster_pod, pod_fields);

static json_t *write_waiting(const struct cluster_pod *pod)
{
        json_t *object = dashboard_object(&pod_shape, pod);
        json_t *claims = json_array();

        for (size_t i = 0; i < pod->n_claims; i++)
                json_array_append_new(claims, json_string(pod->claims[i].name ? pod->claims[i].name : ""));
        json_object_set_new(object, "claims", claims);
        return object;
}

static bool share_is_of(const struct report_share *share, const char *namespace, const char *name)
{
        return text_is_same(share->pod_namespace, namespace) && text_is_same(share->pod, name);
}

static void details_add_share(json_t *list, const struct cluster_node *node, const struct cluster_place *at,
        const struct dashboard_scope *scope)
{
        json_array_append_new(list, json_pack("{s:s, s:s*, s:s*, s:o, s:o}", "node", node->name, "gpu", at->gpu->uuid,
                                            "model", at->gpu->model, "unit", details_write_unit(at->unit, NULL),
                                            "share", details_write_share(at->share, scope)));
}

const struct cluster_node *dashboard_node_of_pod(
        const struct cluster_view *view, const char *namespace, const char *name)
{
        for (size_t i = 0; i < view->n_nodes; i++)
                for (struct cluster_place at = {0}; cluster_next_share(view->nodes[i]->page, &at);)
                        if (share_is_of(at.share, namespace, name))
                                return view->nodes[i];
        return NULL;
}

json_t *dashboard_pod(
        const struct cluster_view *view, const struct dashboard_scope *scope, const char *namespace, const char *name)
{
        const struct cluster_pod *waiting = cluster_find_pod(view, namespace, name);
        _free_ char *word = xasprintf("%s/%s", namespace, name);
        json_t *shares = json_array();
        json_t *events = json_array();
        json_t *ret = NULL;

        for (size_t i = 0; dashboard_scope_sees(scope, namespace) && i < view->n_nodes; i++) {
                const struct cluster_node *node = view->nodes[i];
                const size_t before = json_array_size(shares);
                json_t *of_node;

                for (struct cluster_place at = {0}; cluster_next_share(node->page, &at);)
                        if (share_is_of(at.share, namespace, name))
                                details_add_share(shares, node, &at, scope);
                of_node = json_array_size(shares) > before ? write_events(node, NULL, word, scope) : NULL;
                json_array_extend(events, of_node);
                json_decref(of_node);
        }
        if (dashboard_scope_sees(scope, namespace) && (waiting || json_array_size(shares) > 0)) {
                ret = json_pack("{s:s, s:s, s:O, s:O}", "namespace", namespace, "name", name, "shares", shares,
                        "events", events);
                if (waiting)
                        json_object_set_new(ret, "waiting", write_waiting(waiting));
        }
        json_decref(shares);
        json_decref(events);
        return ret;
}

void dashboard_add_why(
        json_t *ret, const struct cluster_view *view, const struct dashboard_scope *scope, const json_t *object)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct why_input input = {.pod = object, .view = view};
        const struct why_group *groups;
        json_t *nodes = json_array();
        struct why why;
        size_t n_groups;

        why_explain(&why, &arena, &input);
        n_groups = scope->sees_all ? why_groups(&why, &arena, &groups) : 0; /* reasons name others' pods */
        for (size_t i = 0; i < n_groups; i++)
                json_array_append_new(
                        nodes, json_pack("{s:s, s:s}", "names", groups[i].names, "reason", groups[i].reason));
        json_object_set_new(
                ret, "why", json_pack("{s:s, s:s*, s:o}", "sentence", why.sentence, "todo", why.todo, "nodes", nodes));
}

/* ---- all pods, and their namespaces ---- */

struct held {
        const struct cluster_node *node;
        struct cluster_place at;
};

/* The sum over the pods of a namespace. |granted| and so on are NaN as long as nothing is known of them. */
struct namespace_sum {
        const char *name;
        size_t pods;
        size_t waiting;
        double granted;
        double used;
        double sm;
        bool is_busy; /* one of its shares does something, or it is not known whether it does */
        double idle_since;
};

static int compare_pod_shares(const void *a, const void *b)
{
        const struct report_share *x = ((const struct held *)a)->at.share;
        const struct report_share *y = ((const struct held *)b)->at.share;
        const int order = strcmp(x->pod_namespace, y->pod_namespace);

        return order ? order : strcmp(x->pod, y->pod);
}

/* Finds the shares on all nodes whose pod the viewer may know, in the order of compare_pod_shares(). */
static size_t find_pod_shares(const struct cluster_view *view, const struct dashboard_scope *scope, struct arena *arena,
        const struct held **ret)
{
        struct held *list = NULL;
        size_t count = 0;

        for (int is_counted = 0; is_counted < 2; is_counted++) {
                list = is_counted ? ARENA_ARRAY(arena, struct held, count + 1) : NULL;
                count = 0;
                for (size_t i = 0; i < view->n_nodes; i++)
                        for (struct cluster_place at = {0}; cluster_next_share(view->nodes[i]->page, &at);) {
                                if (!at.share->pod_namespace || !at.share->pod ||
                                        !dashboard_scope_sees(scope, at.share->pod_namespace))
                                        continue;
                                if (list)
                                        list[count] = (struct held){view->nodes[i], at};
                                count++;
                        }
        }
        if (list)
                qsort(list, count, sizeof(*list), compare_pod_shares);
        *ret = list;
        return count;
}

static double granted_memory(const struct held *held)
{
        const struct report_share *share = held->at.share;
        const struct report_unit *unit = held->at.unit;

        return share->memory_limit > 0 ? share->memory_limit : unit->memory * share->replicas / unit->replicas;
}

static bool is_idle(const struct report_share *share)
{
        return !isnan(share->idle_since) || (share->memory_used <= 0 && share->seconds <= 0);
}

static void add_known(double *sum, double value)
{
        if (!isnan(value))
                *sum = (isnan(*sum) ? 0 : *sum) + value;
}

static void put_use(json_t *object, double granted, double used, double sm, bool is_idle, double idle_since)
{
        dashboard_put_count(object, "granted", granted);
        dashboard_put_count(object, "used", used);
        if (!isnan(sm))
                json_object_set_new(object, "sm", json_real(sm));
        dashboard_put_flag(object, "isIdle", is_idle);
        dashboard_put_count(object, "idleSince", idle_since);
}

static json_t *write_held(const struct held *held)
{
        const struct report_share *share = held->at.share;
        const struct report_unit *unit = held->at.unit;
        json_t *object = json_pack("{s:s, s:s, s:s*, s:s, s:s*, s:s*, s:s*}", "namespace", share->pod_namespace, "pod",
                share->pod, "container", share->container, "node", held->node->name, "gpu", held->at.gpu->uuid, "unit",
                unit->uuid, "index", unit->index);

        dashboard_put_count(object, "replicas", share->replicas);
        dashboard_put_count(object, "of", unit->replicas);
        put_use(object, granted_memory(held), share->memory_used, share->sm, is_idle(share), share->idle_since);
        return object;
}

static void add_to_namespace(struct namespace_sum *sum, const struct held *held)
{
        const struct report_share *share = held->at.share;

        add_known(&sum->granted, granted_memory(held));
        add_known(&sum->used, share->memory_used);
        add_known(&sum->sm, share->sm);
        sum->is_busy |= !is_idle(share);
        if (!isnan(share->idle_since) && !(share->idle_since <= sum->idle_since)) /* either may be missing */
                sum->idle_since = share->idle_since;
}

static void write_namespace(json_t *list, const struct namespace_sum *sum)
{
        json_t *object = json_pack("{s:s, s:I, s:I}", "name", sum->name, "pods", (json_int_t)sum->pods, "waiting",
                (json_int_t)sum->waiting);
        const bool is_idle = sum->pods > 0 && !sum->is_busy;

        put_use(object, sum->granted, sum->used, sum->sm, is_idle, is_idle ? sum->idle_since : NAN);
        json_array_append_new(list, object);
}

/* The next name in order, of the shares from |held| on and the pods that wait from |waiting| on; NULL: none is left. */
static const char *next_namespace(
        const struct cluster_view *view, const struct held *list, size_t count, size_t held, size_t waiting)
{
        const char *a = held < count ? list[held].at.share->pod_namespace : NULL;
        const char *b = waiting < view->n_pods ? view->pods[waiting]->namespace : NULL;

        return !a || (b && strcmp(b, a) < 0) ? b : a;
}

static json_t *write_namespaces(
        const struct cluster_view *view, const struct dashboard_scope *scope, const struct held *list, size_t count)
{
        json_t *namespaces = json_array();
        const char *name;

        for (size_t held = 0, waiting = 0; (name = next_namespace(view, list, count, held, waiting));) {
                struct namespace_sum sum = {.name = name, .granted = NAN, .used = NAN, .sm = NAN, .idle_since = NAN};
                const size_t first = held;

                for (; held < count && strcmp(list[held].at.share->pod_namespace, name) == 0; held++) {
                        sum.pods +=
                                held == first || strcmp(list[held].at.share->pod, list[held - 1].at.share->pod) != 0;
                        add_to_namespace(&sum, &list[held]);
                }
                for (; waiting < view->n_pods && strcmp(view->pods[waiting]->namespace, name) == 0; waiting++)
                        sum.waiting++;
                for (size_t i = 0; i < view->n_more; i++)
                        sum.waiting += strcmp(view->more[i].namespace, name) == 0 ? view->more[i].count : 0;
                if (dashboard_scope_sees(scope, name))
                        write_namespace(namespaces, &sum);
        }
        return namespaces;
}

json_t *dashboard_pods(const struct cluster_view *view, const struct dashboard_scope *scope, const char *namespace)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        json_t *pods = json_array();
        const struct held *list;
        const size_t count = find_pod_shares(view, scope, &arena, &list);
        size_t wanted = 0;

        for (size_t i = 0; i < count; i++) {
                if (namespace && strcmp(list[i].at.share->pod_namespace, namespace) != 0)
                        continue;
                if (wanted++ < DASHBOARD_PODS_MAX)
                        json_array_append_new(pods, write_held(&list[i]));
        }
        return json_pack("{s:o, s:o, s:b}", "namespaces", write_namespaces(view, scope, list, count), "pods", pods,
                "isCut", wanted > DASHBOARD_PODS_MAX);
}

/* ---- what happened ---- */

struct happened {
        const struct cluster_node *node;
        const struct report_event *event;
};

/* The newest first; those of one moment by node, and as the node has them. */
static int compare_happened(const void *a, const void *b)
{
        const struct happened *x = a;
        const struct happened *y = b;

        if (x->event->time > y->event->time || x->event->time < y->event->time)
                return x->event->time > y->event->time ? -1 : 1;
        if (x->node != y->node)
                return strcmp(x->node->name, y->node->name);
        return (x->event < y->event) - (x->event > y->event);
}

static json_t *write_happened(const struct cluster_view *view, bool *ret_is_cut)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        json_t *list = json_array();
        struct happened *all;
        size_t count = 0;

        for (size_t i = 0; i < view->n_nodes; i++)
                count += view->nodes[i]->page ? view->nodes[i]->page->n_events : 0;
        all = ARENA_ARRAY(&arena, struct happened, count + 1);
        count = 0;
        for (size_t i = 0; i < view->n_nodes; i++)
                for (size_t j = 0; view->nodes[i]->page && j < view->nodes[i]->page->n_events; j++)
                        all[count++] = (struct happened){view->nodes[i], &view->nodes[i]->page->events[j]};
        qsort(all, count, sizeof(*all), compare_happened);
        for (size_t i = 0; i < MIN(count, DASHBOARD_EVENTS_MAX); i++)
                json_array_append_new(list, details_write_event(all[i].node, all[i].event));
        *ret_is_cut = count > DASHBOARD_EVENTS_MAX;
        return list;
}

/* ---- who waits ---- */

/* The pods of one namespace, which stand together: |count| from |first| on. */
static size_t count_neighbours(const struct cluster_view *view, size_t first)
{
        size_t count = 1;

        while (first + count < view->n_pods &&
                strcmp(view->pods[first + count]->namespace, view->pods[first]->namespace) == 0)
                count++;
        return count;
}

/* How many of each namespace are written: all of them, or an equal part of DASHBOARD_WAITING_MAX. */
static size_t share_of_namespace(const struct cluster_view *view, const struct dashboard_scope *scope)
{
        size_t namespaces = 0;
        size_t pods = 0;

        for (size_t i = 0, count; i < view->n_pods; i += count) {
                count = count_neighbours(view, i);
                if (dashboard_scope_sees(scope, view->pods[i]->namespace)) {
                        namespaces++;
                        pods += count;
                }
        }
        return pods <= DASHBOARD_WAITING_MAX ? pods : MAX(DASHBOARD_WAITING_MAX / namespaces, (size_t)1);
}

static void write_all_waiting(json_t *ret, const struct cluster_view *view, const struct dashboard_scope *scope)
{
        const size_t share = share_of_namespace(view, scope);
        json_t *waiting = json_array();
        json_t *left_out = json_object();

        for (size_t i = 0, count; i < view->n_pods; i += count) {
                const char *namespace = view->pods[i]->namespace;
                const size_t room = DASHBOARD_WAITING_MAX - json_array_size(waiting);
                size_t shown;

                count = count_neighbours(view, i);
                if (!dashboard_scope_sees(scope, namespace))
                        continue;
                shown = MIN(MIN(count, share), room);
                for (size_t j = 0; j < shown; j++)
                        json_array_append_new(waiting, write_waiting(view->pods[i + j]));
                if (shown < count)
                        dashboard_put_count(left_out, namespace, (double)(count - shown));
        }
        for (size_t i = 0; i < view->n_more; i++) {
                const char *namespace = view->more[i].namespace;
                const json_int_t cut = json_integer_value(json_object_get(left_out, namespace));

                if (dashboard_scope_sees(scope, namespace))
                        dashboard_put_count(left_out, namespace, (double)cut + (double)view->more[i].count);
        }
        json_object_set_new(ret, "waiting", waiting);
        json_object_set_new(ret, "leftOut", left_out);
}

json_t *dashboard_events(const struct cluster_view *view, const struct dashboard_scope *scope)
{
        json_t *ret = json_object();
        bool is_cut = false;

        json_object_set_new(ret, "events", scope->sees_all ? write_happened(view, &is_cut) : json_array());
        write_all_waiting(ret, view, scope);
        json_object_set_new(ret, "isCut", json_boolean(is_cut));
        return ret;
}
