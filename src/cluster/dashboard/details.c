#include "cluster/dashboard/details.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cluster/dashboard/json.h"

/* ---- pieces ---- */

static void put_history(json_t *object, const struct report_history *history)
{
        json_t *list;

        if (history->n_values == 0)
                return;
        list = json_array();
        for (size_t i = 0; i < history->n_values; i++)
                json_array_append_new(list, isfinite(history->values[i]) ? json_real(history->values[i]) : json_null());
        json_object_set_new(object, "history", list);
}

static json_t *write_share(const struct report_share *share, const struct dashboard_scope *scope)
{
        json_t *object = json_object();

        dashboard_put_count(object, "replicas", share->replicas);
        dashboard_put_count(object, "memoryLimit", share->memory_limit);
        dashboard_put_number(object, "threadPercent", share->thread_percent);
        dashboard_put_count(object, "memoryUsed", share->memory_used);
        dashboard_put_number(object, "sm", share->sm);
        if (!dashboard_scope_sees(scope, share->pod_namespace)) {
                dashboard_put_flag(object, "hidden", true);
                return object;
        }
        dashboard_put_text(object, "namespace", share->pod_namespace);
        dashboard_put_text(object, "pod", share->pod);
        dashboard_put_text(object, "container", share->container);
        dashboard_put_text(object, "claim", share->claim);
        dashboard_put_count(object, "memoryPeak", share->memory_peak);
        dashboard_put_number(object, "seconds", share->seconds);
        dashboard_put_number(object, "smSeconds", share->sm_seconds);
        dashboard_put_number(object, "energy", share->energy);
        put_history(object, &share->sm_history);
        return object;
}

static json_t *write_other(const struct report_other *other)
{
        json_t *object = json_object();

        dashboard_put_text(object, "by", other->by);
        dashboard_put_count(object, "memoryUsed", other->memory_used);
        dashboard_put_number(object, "sm", other->sm);
        return object;
}

/* Without its shares. */
static json_t *write_unit_head(const struct report_unit *unit)
{
        json_t *object = json_object();

        dashboard_put_text(object, "uuid", unit->uuid);
        dashboard_put_text(object, "index", unit->index);
        dashboard_put_text(object, "profile", unit->profile);
        dashboard_put_text(object, "resource", unit->resource);
        dashboard_put_text(object, "sharing", unit->sharing);
        dashboard_put_text(object, "by", unit->by);
        dashboard_put_count(object, "replicas", unit->replicas);
        dashboard_put_count(object, "granted", report_unit_granted(unit));
        dashboard_put_count(object, "reserved", unit->reserved);
        dashboard_put_count(object, "memory", unit->memory);
        dashboard_put_count(object, "memoryUsed", unit->memory_used);
        dashboard_put_number(object, "utilization", unit->utilization);
        if (unit->has_health)
                json_object_set_new(object, "healthy", json_boolean(unit->healthy));
        if (unit->has_health && !unit->healthy)
                dashboard_put_text(object, "reason", unit->reason);
        return object;
}

static json_t *write_unit(const struct report_unit *unit, const struct dashboard_scope *scope)
{
        json_t *object = write_unit_head(unit);
        json_t *shares = json_array();
        json_t *others = json_array();

        put_history(object, &unit->sm_history);
        for (size_t i = 0; i < unit->n_shares; i++)
                json_array_append_new(shares, write_share(&unit->shares[i], scope));
        for (size_t i = 0; i < unit->n_others; i++)
                json_array_append_new(others, write_other(&unit->others[i]));
        json_object_set_new(object, "shares", shares);
        json_object_set_new(object, "others", others);
        return object;
}

static json_t *write_gpu(const struct report_gpu *gpu, const struct dashboard_scope *scope)
{
        json_t *object = json_object();
        json_t *units = json_array();

        dashboard_put_text(object, "uuid", gpu->uuid);
        dashboard_put_text(object, "index", gpu->index);
        dashboard_put_text(object, "model", gpu->model);
        dashboard_put_count(object, "memory", gpu->memory);
        dashboard_put_count(object, "memoryUsed", gpu->memory_used);
        dashboard_put_number(object, "utilization", gpu->utilization);
        dashboard_put_count(object, "temperature", gpu->temperature);
        dashboard_put_number(object, "power", gpu->power);
        dashboard_put_number(object, "powerLimit", gpu->power_limit);
        for (size_t i = 0; i < gpu->n_units; i++)
                json_array_append_new(units, write_unit(&gpu->units[i], scope));
        json_object_set_new(object, "units", units);
        return object;
}

static json_t *write_event(const struct cluster_node *node, const struct report_event *event)
{
        json_t *object = json_object();

        dashboard_put_text(object, "node", node->name);
        dashboard_put_count(object, "time", event->time);
        dashboard_put_text(object, "kind", event->kind);
        dashboard_put_text(object, "reason", event->reason);
        dashboard_put_text(object, "unit", event->unit);
        dashboard_put_text(object, "text", event->text);
        return object;
}

static bool gpu_has(const struct report_gpu *gpu, const char *uuid)
{
        bool is_same = text_is_same(gpu->uuid, uuid);

        for (size_t i = 0; !is_same && i < gpu->n_units; i++)
                is_same = text_is_same(gpu->units[i].uuid, uuid);
        return is_same;
}

/* Of the node, of the GPU if it is not NULL, those with |word| in their text if that is not NULL; the newest first. */
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
                json_array_append_new(list, write_event(node, event));
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

static json_t *write_condition(const struct cluster_condition *condition)
{
        json_t *object = json_object();

        dashboard_put_text(object, "type", condition->type);
        dashboard_put_text(object, "status", condition->status);
        dashboard_put_text(object, "reason", condition->reason);
        dashboard_put_text(object, "message", condition->message);
        dashboard_put_time(object, "since", condition->since);
        return object;
}

static json_t *write_taint(const struct cluster_taint *taint)
{
        _free_ char *text = xasprintf(
                "%s%s%s:%s", taint->key, *taint->value ? "=" : "", taint->value, taint->effect ? taint->effect : "");

        return json_string(text);
}

static void put_object(json_t *ret, const struct cluster_node_object *node)
{
        json_t *resources = json_array();
        json_t *taints = json_array();
        json_t *conditions = json_array();

        json_object_set_new(ret, "isReady", json_boolean(node->is_ready));
        json_object_set_new(ret, "isCordoned", json_boolean(node->is_cordoned));
        dashboard_put_text(ret, "kubelet", node->kubelet);
        for (size_t i = 0; i < node->n_resources; i++) {
                json_t *resource = json_object();

                dashboard_put_text(resource, "name", node->resources[i].name);
                dashboard_put_count(resource, "capacity", (double)node->resources[i].capacity);
                dashboard_put_count(resource, "allocatable", (double)node->resources[i].allocatable);
                json_array_append_new(resources, resource);
        }
        for (size_t i = 0; i < node->n_taints; i++)
                json_array_append_new(taints, write_taint(&node->taints[i]));
        for (size_t i = 0; i < node->n_conditions; i++)
                json_array_append_new(conditions, write_condition(&node->conditions[i]));
        json_object_set_new(ret, "resources", resources);
        json_object_set_new(ret, "taints", taints);
        json_object_set_new(ret, "conditions", conditions);
}

static void put_agent(json_t *ret, const struct cluster_node *node)
{
        json_t *agent = json_object();

        dashboard_put_text(agent, "namespace", node->agent->namespace);
        dashboard_put_text(agent, "pod", node->agent->pod);
        dashboard_put_text(agent, "image", node->agent->image);
        dashboard_put_count(agent, "restarts", (double)node->agent->restarts);
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
                put_object(ret, node->object);
        dashboard_put_text(ret, "driver", node->page ? node->page->driver : NULL);
        dashboard_put_text(ret, "configuration", node->page ? node->page->configuration : NULL);
        for (size_t i = 0; node->page && i < node->page->n_gpus; i++)
                json_array_append_new(gpus, write_gpu(&node->page->gpus[i], scope));
        json_object_set_new(ret, "gpus", gpus);
        json_object_set_new(ret, "events", write_events(node, NULL, NULL, scope));
        return ret;
}

/* ---- a GPU ---- */

static const struct report_gpu *find_gpu(const struct cluster_node *node, const char *uuid)
{
        for (size_t i = 0; node->page && i < node->page->n_gpus; i++)
                if (gpu_has(&node->page->gpus[i], uuid))
                        return &node->page->gpus[i];
        return NULL;
}

const struct cluster_node *dashboard_node_of_gpu(const struct cluster_view *view, const char *uuid)
{
        for (size_t i = 0; i < view->n_nodes; i++)
                if (find_gpu(view->nodes[i], uuid))
                        return view->nodes[i];
        return NULL;
}

json_t *dashboard_gpu(const struct cluster_view *view, const struct dashboard_scope *scope, const char *uuid)
{
        const struct cluster_node *node = dashboard_node_of_gpu(view, uuid);
        const struct report_gpu *gpu = node ? find_gpu(node, uuid) : NULL;
        json_t *ret;

        if (!gpu)
                return NULL;
        ret = json_object();
        dashboard_put_text(ret, "node", node->name);
        put_agent_state(ret, node);
        json_object_set_new(ret, "gpu", write_gpu(gpu, scope));
        json_object_set_new(ret, "events", write_events(node, gpu, NULL, scope));
        return ret;
}

/* ---- a pod ---- */

static json_t *write_waiting(const struct cluster_pod *pod)
{
        json_t *object = json_object();
        json_t *requests = json_array();
        json_t *claims = json_array();

        dashboard_put_text(object, "namespace", pod->namespace);
        dashboard_put_text(object, "name", pod->name);
        dashboard_put_text(object, "phase", pod->phase);
        dashboard_put_text(object, "node", pod->node);
        dashboard_put_text(object, "reason", pod->reason);
        dashboard_put_text(object, "message", pod->message);
        dashboard_put_text(object, "owner", pod->owner);
        dashboard_put_time(object, "created", pod->created);
        for (size_t i = 0; i < pod->n_requests; i++) {
                json_t *request = json_object();

                dashboard_put_text(request, "resource", pod->requests[i].resource);
                dashboard_put_count(request, "count", (double)pod->requests[i].count);
                json_array_append_new(requests, request);
        }
        for (size_t i = 0; i < pod->n_claims; i++)
                json_array_append_new(claims, json_string(pod->claims[i].name ? pod->claims[i].name : ""));
        json_object_set_new(object, "requests", requests);
        json_object_set_new(object, "claims", claims);
        return object;
}

static bool share_is_of(const struct report_share *share, const char *namespace, const char *name)
{
        return text_is_same(share->pod_namespace, namespace) && text_is_same(share->pod, name);
}

static void add_shares(json_t *list, const struct cluster_node *node, const struct report_gpu *gpu,
        const struct dashboard_scope *scope, const char *namespace, const char *name)
{
        for (size_t i = 0; i < gpu->n_units; i++) {
                const struct report_unit *unit = &gpu->units[i];

                for (size_t j = 0; j < unit->n_shares; j++) {
                        json_t *row;

                        if (!share_is_of(&unit->shares[j], namespace, name))
                                continue;
                        row = json_object();
                        dashboard_put_text(row, "node", node->name);
                        dashboard_put_text(row, "gpu", gpu->uuid);
                        dashboard_put_text(row, "model", gpu->model);
                        json_object_set_new(row, "unit", write_unit_head(unit));
                        json_object_set_new(row, "share", write_share(&unit->shares[j], scope));
                        json_array_append_new(list, row);
                }
        }
}

static bool gpu_is_shared_by(const struct report_gpu *gpu, const char *namespace, const char *name)
{
        for (size_t i = 0; i < gpu->n_units; i++)
                for (size_t j = 0; j < gpu->units[i].n_shares; j++)
                        if (share_is_of(&gpu->units[i].shares[j], namespace, name))
                                return true;
        return false;
}

const struct cluster_node *dashboard_node_of_pod(
        const struct cluster_view *view, const char *namespace, const char *name)
{
        for (size_t i = 0; i < view->n_nodes; i++)
                for (size_t j = 0; view->nodes[i]->page && j < view->nodes[i]->page->n_gpus; j++)
                        if (gpu_is_shared_by(&view->nodes[i]->page->gpus[j], namespace, name))
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

                for (size_t j = 0; node->page && j < node->page->n_gpus; j++)
                        add_shares(shares, node, &node->page->gpus[j], scope, namespace, name);
                of_node = json_array_size(shares) > before ? write_events(node, NULL, word, scope) : NULL;
                json_array_extend(events, of_node);
                json_decref(of_node);
        }
        if (dashboard_scope_sees(scope, namespace) && (waiting || json_array_size(shares) > 0)) {
                ret = json_object();
                dashboard_put_text(ret, "namespace", namespace);
                dashboard_put_text(ret, "name", name);
                json_object_set(ret, "shares", shares);
                json_object_set(ret, "events", events);
                if (waiting)
                        json_object_set_new(ret, "waiting", write_waiting(waiting));
        }
        json_decref(shares);
        json_decref(events);
        return ret;
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
                json_array_append_new(list, write_event(all[i].node, all[i].event));
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
