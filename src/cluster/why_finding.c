// SPDX-License-Identifier: Apache-2.0
#include "cluster/why_finding.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/kube/object.h"

/* ---- taints ---- */

static bool tolerates(const json_t *toleration, const struct cluster_taint *taint)
{
        const char *key = object_text(toleration, "key", NULL);
        const char *effect = object_text(toleration, "effect", NULL);
        const char *how = object_text(toleration, "operator", NULL);
        const char *value = object_text(toleration, "value", NULL);

        if (effect && *effect && strcmp(effect, taint->effect) != 0)
                return false;
        if (key && *key ? strcmp(key, taint->key) != 0 : !text_is_same(how, "Exists"))
                return false;
        if (!how || !*how || strcmp(how, "Equal") == 0)
                return strcmp(value ? value : "", taint->value) == 0;
        return true; /* Exists, and what is not known here */
}

const struct cluster_taint *pod_fit_taint(const json_t *pod, const struct cluster_node *node)
{
        const json_t *tolerations = object_find(pod, "spec", "tolerations", NULL);

        for (size_t i = 0; node->object && i < node->object->n_taints; i++) {
                const struct cluster_taint *taint = &node->object->taints[i];
                bool is_tolerated = strcmp(taint->effect, "NoSchedule") != 0 && strcmp(taint->effect, "NoExecute") != 0;

                for (size_t k = 0; k < json_array_size(tolerations) && !is_tolerated; k++)
                        is_tolerated = tolerates(json_array_get(tolerations, k), taint);
                if (!is_tolerated)
                        return taint;
        }
        return NULL;
}

/* ---- labels ---- */

static bool has_value(const json_t *values, const char *value)
{
        for (size_t i = 0; value && i < json_array_size(values); i++)
                if (text_is_same(json_string_value(json_array_get(values, i)), value))
                        return true;
        return false;
}

static bool pod_fit_read_number(const char *text, long long *ret)
{
        char *end;

        if (!text || !*text)
                return false;
        errno = 0;
        *ret = strtoll(text, &end, 10);
        return errno == 0 && !*end;
}

static bool expression_fits(const json_t *expression, const char *value)
{
        const char *how = object_text(expression, "operator", NULL);
        const json_t *values = json_object_get(expression, "values");
        long long is;
        long long bound;

        if (text_is_same(how, "In"))
                return has_value(values, value);
        if (text_is_same(how, "NotIn"))
                return !has_value(values, value);
        if (text_is_same(how, "Exists"))
                return value != NULL;
        if (text_is_same(how, "DoesNotExist"))
                return value == NULL;
        if (!text_is_same(how, "Gt") && !text_is_same(how, "Lt"))
                return true;
        if (!pod_fit_read_number(value, &is) ||
                !pod_fit_read_number(json_string_value(json_array_get(values, 0)), &bound))
                return false;
        return *how == 'G' ? is > bound : is < bound;
}

/* All of its expressions; an empty term selects nothing. */
static bool term_fits(const json_t *term, const struct cluster_node *node)
{
        const json_t *labels = json_object_get(term, "matchExpressions");
        const json_t *fields = json_object_get(term, "matchFields");

        if (json_array_size(labels) + json_array_size(fields) == 0)
                return false;
        for (size_t i = 0; i < json_array_size(labels); i++) {
                const json_t *expression = json_array_get(labels, i);
                const char *key = object_text(expression, "key", NULL);

                if (!expression_fits(expression, cluster_node_label(node, key ? key : "")))
                        return false;
        }
        for (size_t i = 0; i < json_array_size(fields); i++)
                if (!expression_fits(json_array_get(fields, i), node->name)) /* metadata.name is the only field */
                        return false;
        return true;
}

bool pod_fit_is_selected(const json_t *pod, const struct cluster_node *node)
{
        json_t *selector = object_find(pod, "spec", "nodeSelector", NULL);
        const json_t *terms = object_find(pod, "spec", "affinity", "nodeAffinity",
                "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);
        const char *key;
        json_t *value;

        json_object_foreach(selector, key, value)
        {
                if (!text_is_same(cluster_node_label(node, key), json_string_value(value)))
                        return false;
        }
        for (size_t i = 0; i < json_array_size(terms); i++)
                if (term_fits(json_array_get(terms, i), node))
                        return true;
        return json_array_size(terms) == 0;
}

/* ---- what a node has of a resource ---- */

/* One resource of a node, as its agent reports it. */
struct supply {
        uint64_t largest; /* replicas of the unit that has most of them */
        uint64_t free;    /* replicas that no pod has, with those that are reserved */
        uint64_t reserved;
        size_t n_units;
        size_t n_unhealthy;
        const char *unhealthy_reason;
        bool is_by_unit; /* a share has to come from one unit */
};

static uint64_t number(double value)
{
        return value > 0 && value < (double)UINT32_MAX ? (uint64_t)value : 0;
}

static void why_finding_add_unit(struct supply *supply, const struct report_unit *unit)
{
        const uint64_t replicas = isnan(unit->replicas) ? 1 : number(unit->replicas);
        const uint64_t granted = number(report_unit_granted(unit));

        supply->n_units++;
        supply->reserved += number(unit->reserved);
        if (unit->has_health && !unit->healthy) {
                supply->n_unhealthy++;
                supply->unhealthy_reason = unit->reason;
                return;
        }
        if (unit->draining)
                return;
        supply->largest = MAX(supply->largest, replicas);
        supply->free += replicas > granted ? replicas - granted : 0;
        supply->is_by_unit |= text_is_same(unit->sharing, "mps");
}

static struct supply find_supply(const struct node_page *page, const char *resource)
{
        struct supply supply = {0};

        for (struct cluster_place at = {0}; cluster_next_unit(page, &at);)
                if (text_is_same(at.unit->resource, resource))
                        why_finding_add_unit(&supply, at.unit);
        return supply;
}

/* ---- who has it ---- */

struct holder {
        const char *name;
        uint64_t count;
};

static int compare_holders(const void *a, const void *b)
{
        const struct holder *x = a;
        const struct holder *y = b;

        if (x->count != y->count)
                return x->count < y->count ? 1 : -1;
        return strcmp(x->name, y->name);
}

static size_t why_finding_add_holder(struct holder *holders, size_t count, const char *name, uint64_t replicas)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(holders[i].name, name) == 0) {
                        holders[i].count += replicas;
                        return count;
                }
        holders[count] = (struct holder){name, replicas};
        return count + 1;
}

static size_t why_finding_find_holders(
        const struct node_page *page, const char *resource, struct arena *arena, const struct holder **ret)
{
        struct holder *holders;
        size_t count = 0;

        for (struct cluster_place at = {0}; cluster_next_share(page, &at);)
                count++;
        holders = ARENA_ARRAY(arena, struct holder, count);
        count = 0;
        for (struct cluster_place at = {0}; cluster_next_share(page, &at);) {
                const uint64_t replicas = isnan(at.share->replicas) ? 1 : number(at.share->replicas);
                const char *namespace = at.share->pod_namespace;

                if (replicas > 0 && text_is_same(at.unit->resource, resource))
                        count = why_finding_add_holder(holders, count,
                                arena_printf(arena, "%s/%s", namespace ? namespace : "?",
                                        at.share->pod ? at.share->pod : "?"),
                                replicas);
        }
        if (count > 0)
                qsort(holders, count, sizeof(*holders), compare_holders);
        *ret = holders;
        return count;
}

/* "a (3), b (2) and 4 others" */
static const char *name_holders(const struct node_page *page, const char *resource, struct arena *arena)
{
        const struct holder *holders;
        const size_t count = why_finding_find_holders(page, resource, arena, &holders);
        const size_t shown = MIN(count, (size_t)WHY_HOLDERS);
        const char *text = "";

        for (size_t i = 0; i < shown; i++)
                text = arena_printf(arena, "%s%s%s (%" PRIu64 ")", text,
                        i == 0           ? ""
                        : i + 1 == count ? " and "
                                         : ", ",
                        holders[i].name, holders[i].count);
        if (count > shown)
                text = arena_printf(arena, "%s and %zu other%s", text, count - shown, count - shown == 1 ? "" : "s");
        return text;
}

/* ---- one resource ---- */

static void why_finding_fail(
        struct why_finding *ret, enum why_class class, const struct cluster_request *request, const char *reason)
{
        ret->class = class;
        ret->request = request;
        ret->reason = reason;
}

static const char *name_unhealthy(const struct supply *supply, struct arena *arena)
{
        if (supply->n_unhealthy == 0)
                return "";
        return arena_printf(arena, "; %zu of %zu are unhealthy%s%s", supply->n_unhealthy, supply->n_units,
                supply->unhealthy_reason ? ": " : "", supply->unhealthy_reason ? supply->unhealthy_reason : "");
}

static void why_fail_taken(struct why_finding *ret, struct arena *arena, const struct cluster_request *request,
        const struct cluster_node *node, uint64_t free, uint64_t allocatable)
{
        const char *taken = name_holders(node->page, request->resource, arena);

        why_finding_fail(ret, WHY_TAKEN, request,
                arena_printf(arena, "%" PRIu64 " of %" PRIu64 " %s free%s%s", free, allocatable,
                        free == 1 ? "is" : "are", *taken ? "; taken by " : "", taken));
}

/* True: it does not fit. */
static bool why_check_request(struct why_finding *ret, struct arena *arena, const struct cluster_request *request,
        const struct cluster_node *node)
{
        const struct cluster_resource *resource = cluster_node_resource(node, request->resource);
        const struct supply supply = find_supply(node->page, request->resource);
        const uint64_t allocatable = resource ? resource->allocatable : 0;
        const uint64_t free = supply.free > supply.reserved ? supply.free - supply.reserved : 0;

        ret->reserved = supply.reserved;
        if (allocatable == 0) {
                why_finding_fail(ret, WHY_NOT_OFFERED, request,
                        supply.n_units == 0
                                ? "kubelet has none of it now"
                                : arena_printf(arena, "kubelet has none of it now, its agent has %zu unit%s of it%s",
                                          supply.n_units, supply.n_units == 1 ? "" : "s",
                                          name_unhealthy(&supply, arena)));
                return true;
        }
        if (supply.is_by_unit && request->largest > supply.largest) {
                ret->most = supply.largest;
                why_finding_fail(ret, WHY_SHARE_TOO_LARGE, request,
                        arena_printf(arena, "the largest share of one GPU is %" PRIu64, supply.largest));
                return true;
        }
        if (request->count > allocatable) {
                ret->most = allocatable;
                why_finding_fail(ret, WHY_NODE_TOO_SMALL, request,
                        arena_printf(arena, "has %" PRIu64 "%s%s", allocatable,
                                supply.reserved
                                        ? arena_printf(arena, ", and %" PRIu64 " more are reserved", supply.reserved)
                                        : "",
                                name_unhealthy(&supply, arena)));
                return true;
        }
        if (node->page && request->count > free) {
                why_fail_taken(ret, arena, request, node, free, allocatable);
                return true;
        }
        return false;
}

void why_find(struct why_finding *ret, struct arena *arena, const json_t *object, const struct cluster_pod *pod,
        const struct cluster_node *node)
{
        const struct cluster_taint *taint;

        *ret = (struct why_finding){.name = node->name, .class = WHY_HAS_ROOM, .reason = "has room for it"};
        if (node->object && !node->object->is_ready) {
                const struct cluster_condition *ready = cluster_node_condition(node, "Ready");

                why_finding_fail(ret, WHY_NOT_READY, NULL,
                        arena_printf(arena, "is not ready%s%s", ready ? ": " : "", ready ? ready->message : ""));
        } else if (node->object && node->object->is_cordoned) {
                why_finding_fail(ret, WHY_CORDONED, NULL, "is cordoned (kubectl uncordon)");
        } else if ((taint = pod_fit_taint(object, node))) {
                why_finding_fail(ret, WHY_TAINTED, NULL,
                        arena_printf(arena, "has a taint that the pod does not tolerate: %s%s%s:%s", taint->key,
                                *taint->value ? "=" : "", taint->value, taint->effect));
        } else if (!pod_fit_is_selected(object, node)) {
                why_finding_fail(ret, WHY_NOT_SELECTED, NULL, "is not selected by the pod's node selector or affinity");
        } else {
                for (size_t i = 0; i < pod->n_requests; i++)
                        if (why_check_request(ret, arena, &pod->requests[i], node))
                                return;
        }
}

bool why_has_any(const struct cluster_pod *pod, const struct cluster_node *node)
{
        for (size_t i = 0; i < pod->n_requests; i++) {
                const struct cluster_resource *resource = cluster_node_resource(node, pod->requests[i].resource);

                if ((resource && resource->capacity > 0) ||
                        find_supply(node->page, pod->requests[i].resource).n_units > 0)
                        return true;
        }
        return false;
}
