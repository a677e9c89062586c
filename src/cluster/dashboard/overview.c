// SPDX-License-Identifier: Apache-2.0
/*
 * The text of each node is kept, with the version at which it changed last. A node that is asked again and says the
 * same changes nothing, since what it uses is rounded. A viewer who does not see all gets texts of their own, which are
 * not kept; the list of changed nodes is the same for all.
 */
#include "cluster/dashboard/overview.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cluster/dashboard/viewer.h"

#define GONE_MAX ((size_t)1024) /* names; a viewer who has missed more is sent all */

struct overview_node {
        char *name;
        uint64_t seen;    /* the cluster's version of it */
        uint64_t version; /* ours */
        char *text;
};

struct overview_gone {
        char *name;
        uint64_t version;
};

struct dashboard_overview {
        uint64_t boot;
        uint64_t seen; /* the view's version */
        uint64_t version;
        struct overview_node *nodes; /* by name */
        size_t n_nodes;
        struct overview_gone gone[GONE_MAX]; /* a ring */
        size_t n_gone;
        uint64_t forgotten; /* the newest version whose gone nodes are not in the ring any more */
        size_t size;        /* of all texts */
        struct http_text
                *full; /* the newest answer with all nodes, for those who see all; NULL: the view has changed since */
};

/* ---- the text of a node ---- */

/* Positions of namespaces in the node's list. */
static json_t *namespace_index(json_t *names, const char *namespace)
{
        size_t i = 0;

        for (; i < json_array_size(names); i++)
                if (strcmp(json_string_value(json_array_get(names, i)), namespace) == 0)
                        return json_integer((json_int_t)i);
        json_array_append_new(names, json_string(namespace));
        return json_integer((json_int_t)i);
}

static json_t *share_width(const struct report_unit *unit, const struct report_share *share)
{
        if (share->replicas > 0 && unit->replicas > 0)
                return dashboard_ratio(share->replicas, unit->replicas, 1000);
        if (share->memory_limit > 0)
                return dashboard_ratio(share->memory_limit, unit->memory, 1000);
        return json_null();
}

static json_t *overview_write_share(const struct report_unit *unit, const struct report_share *share, json_t *names,
        const struct dashboard_scope *scope)
{
        const double limit = share->memory_limit > 0 ? share->memory_limit : unit->memory;
        const bool is_seen = share->pod_namespace && dashboard_scope_sees(scope, share->pod_namespace);

        return json_pack("[o, o, o, o]", share_width(unit, share), dashboard_ratio(share->memory_used, limit, 100),
                dashboard_ratio(share->sm, 1, 100),
                is_seen ? namespace_index(names, share->pod_namespace) : json_null());
}

static json_t *overview_write_unit(const struct report_unit *unit, json_t *names, const struct dashboard_scope *scope)
{
        json_t *object = json_pack("{s:s*, s:s*, s:s*, s:s*, s:s*}", "uuid", unit->uuid, "index", unit->index,
                "profile", unit->profile, "sharing", unit->sharing, "by", unit->by);
        json_t *shares = json_array();

        dashboard_put_flag(object, "draining", unit->draining);
        dashboard_put_count(object, "replicas", unit->replicas);
        dashboard_put_count(object, "granted", report_unit_granted(unit));
        dashboard_put_count(object, "reserved", unit->reserved);
        if (unit->has_health && !unit->healthy)
                dashboard_put_text(object, "unhealthy", unit->reason ? unit->reason : "");
        for (size_t i = 0; i < unit->n_shares; i++)
                json_array_append_new(shares, overview_write_share(unit, &unit->shares[i], names, scope));
        json_object_set_new(object, "shares", shares);
        return object;
}

static void overview_put_percent(json_t *object, const char *key, double part, double whole)
{
        json_t *ratio = dashboard_ratio(part, whole, 100);

        if (json_is_integer(ratio))
                json_object_set(object, key, ratio);
        json_decref(ratio);
}

static json_t *overview_write_gpu(const struct report_gpu *gpu, json_t *names, const struct dashboard_scope *scope)
{
        json_t *object = json_pack("{s:s*, s:s*, s:s*}", "uuid", gpu->uuid, "index", gpu->index, "model", gpu->model);
        json_t *units = json_array();

        dashboard_put_count(object, "memory", gpu->memory);
        overview_put_percent(object, "used", gpu->memory_used, gpu->memory);
        overview_put_percent(object, "sm", gpu->utilization, 1);
        for (size_t i = 0; i < gpu->n_units; i++)
                json_array_append_new(units, overview_write_unit(&gpu->units[i], names, scope));
        json_object_set_new(object, "units", units);
        return object;
}

static char *overview_write_node(const struct cluster_node *node, const struct dashboard_scope *scope)
{
        json_t *object = json_pack("{s:s, s:s, s:s*}", "name", node->name, "state",
                cluster_agent_state_name(node->state), "reason", node->reason);
        json_t *names = json_array();
        json_t *gpus = json_array();
        char *text;

        if (node->state != CLUSTER_AGENT_ANSWERS)
                dashboard_put_time(object, "pageTime", node->page_time);
        if (node->object) {
                json_object_set_new(object, "isReady", json_boolean(node->object->is_ready));
                dashboard_put_flag(object, "isCordoned", node->object->is_cordoned);
        }
        for (size_t i = 0; node->page && i < node->page->n_gpus; i++)
                json_array_append_new(gpus, overview_write_gpu(&node->page->gpus[i], names, scope));
        json_object_set_new(object, "namespaces", names);
        json_object_set_new(object, "gpus", gpus);
        text = json_dumps(object, DASHBOARD_JSON_FLAGS);
        json_decref(object);
        return text;
}

bool dashboard_overview_shows(const struct cluster_node *node)
{
        if (node->page || node->state != CLUSTER_AGENT_NONE)
                return true;
        for (size_t i = 0; node->object && i < node->object->n_resources; i++)
                if (text_starts_with(node->object->resources[i].name, "nvidia.com/") &&
                        node->object->resources[i].capacity > 0)
                        return true;
        return cluster_node_label(node, "nvidia.com/gpu.present") != NULL;
}

/* ---- what has changed ---- */

/* |kept| is gone: its name is remembered. */
static void drop_node(struct dashboard_overview *overview, struct overview_node *kept)
{
        struct overview_gone *gone = &overview->gone[overview->n_gone++ % GONE_MAX];

        if (gone->name)
                overview->forgotten = gone->version;
        free(gone->name);
        free(kept->text);
        *gone = (struct overview_gone){.name = kept->name, .version = overview->version};
}

static void update_node(
        struct dashboard_overview *overview, struct overview_node *kept, const struct cluster_node *node)
{
        char *text;

        if (kept->text && kept->seen == node->version)
                return;
        kept->seen = node->version;
        text = overview_write_node(node, &(const struct dashboard_scope){.sees_all = true});
        if (kept->text && strcmp(kept->text, text) == 0) {
                free(text);
                return;
        }
        free(kept->text);
        kept->text = text;
        kept->version = overview->version;
}

/* Both lists are by name. */
static void overview_update(struct dashboard_overview *overview, const struct cluster_view *view)
{
        struct overview_node *nodes = xcalloc(view->n_nodes + 1, sizeof(*nodes));
        size_t n_nodes = 0;
        size_t old = 0;

        overview->full = http_text_unref(overview->full);
        overview->seen = view->version;
        overview->version++;
        overview->size = 0;
        for (size_t i = 0; i < view->n_nodes; i++) {
                const struct cluster_node *node = view->nodes[i];
                int order = -1;

                if (!dashboard_overview_shows(node))
                        continue;
                while (old < overview->n_nodes && (order = strcmp(overview->nodes[old].name, node->name)) < 0)
                        drop_node(overview, &overview->nodes[old++]);
                if (old < overview->n_nodes && order == 0)
                        nodes[n_nodes] = overview->nodes[old++];
                else
                        nodes[n_nodes].name = xstrdup(node->name);
                update_node(overview, &nodes[n_nodes], node);
                overview->size += strlen(nodes[n_nodes++].text) + 1;
        }
        while (old < overview->n_nodes)
                drop_node(overview, &overview->nodes[old++]);
        free(overview->nodes);
        overview->nodes = nodes;
        overview->n_nodes = n_nodes;
}

/* ---- the answer ---- */

/* A hash of the namespaces that the viewer sees: when they change, everything is sent again. */
static uint32_t scope_hash(const struct dashboard_scope *scope)
{
        uint64_t hash = HASH_INIT;

        if (scope->sees_all)
                return 0;
        for (size_t i = 0; i < scope->n_namespaces; i++)
                hash_add(&hash, scope->namespaces[i], strlen(scope->namespaces[i]) + 1);
        return (uint32_t)(hash ^ hash >> 32) | 1U;
}

/* 0: all has to be sent. */
static uint64_t read_since(const struct dashboard_overview *overview, const char *prefix, const char *since)
{
        uint64_t version;

        if (!since || !text_starts_with(since, prefix) ||
                !text_to_uint(since + strlen(prefix), overview->version, &version) || version < overview->forgotten)
                return 0;
        return version;
}

static size_t count_waiting(const struct cluster_view *view, const struct dashboard_scope *scope)
{
        size_t count = 0;

        for (size_t i = 0; i < view->n_pods; i++)
                count += dashboard_scope_sees(scope, view->pods[i]->namespace);
        for (size_t i = 0; i < view->n_more; i++)
                if (dashboard_scope_sees(scope, view->more[i].namespace))
                        count += view->more[i].count;
        return count;
}

/* The text about an object that is too large names it, so only a viewer who sees all gets it. */
static json_t *write_troubles(const struct cluster_view *view, const struct dashboard_scope *scope)
{
        const struct error *const troubles[] = {view->nodes_trouble, view->agents_trouble, view->pods_trouble};
        json_t *list = json_array();

        for (size_t i = 0; i < ARRAY_SIZE(troubles); i++)
                if (troubles[i])
                        json_array_append_new(list, json_string(troubles[i]->text));
        for (size_t i = 0; scope->sees_all && i < view->n_too_large; i++)
                json_array_append_new(list, json_string(view->too_large[i]->text));
        return list;
}

static void write_head(struct strbuf *text, const struct dashboard_overview *overview, const struct cluster_view *view,
        const struct dashboard_scope *scope, const char *version, uint64_t since, int64_t now)
{
        json_t *head = json_pack("{s:s, s:b, s:I, s:b, s:b, s:o}", "version", version, "full", since == 0, "time",
                (json_int_t)now, "seesAll", scope->sees_all, "isComplete", view->is_complete, "troubles",
                write_troubles(view, scope));
        json_t *gone = json_array();
        char *written;

        dashboard_put_count(head, "waiting", (double)count_waiting(view, scope));
        for (size_t i = 0; since > 0 && i < MIN(overview->n_gone, GONE_MAX); i++)
                if (overview->gone[i].version > since)
                        json_array_append_new(gone, json_string(overview->gone[i].name));
        json_object_set_new(head, "gone", gone);
        written = json_dumps(head, DASHBOARD_JSON_FLAGS);
        json_decref(head);
        strbuf_append(text, written, strlen(written) - 1); /* without "}" */
        free(written);
}

static void write_nodes(struct strbuf *text, const struct dashboard_overview *overview, const struct cluster_view *view,
        const struct dashboard_scope *scope, uint64_t since)
{
        bool is_first = true;

        strbuf_puts(text, ",\"nodes\":[");
        for (size_t i = 0; i < overview->n_nodes; i++) {
                const struct overview_node *kept = &overview->nodes[i];
                const struct cluster_node *node = scope->sees_all ? NULL : cluster_find_node(view, kept->name);
                _free_ char *own = NULL;

                if (kept->version <= since)
                        continue;
                if (!is_first)
                        strbuf_putc(text, ',');
                is_first = false;
                own = node ? overview_write_node(node, scope) : NULL;
                strbuf_puts(text, own ? own : kept->text);
        }
        strbuf_puts(text, "]}\n");
}

struct http_text *dashboard_overview_write(struct dashboard_overview *overview, const struct cluster_view *view,
        const struct dashboard_scope *scope, const char *since, int64_t now)
{
        struct strbuf text = STRBUF_INIT;
        struct http_text *ret;
        char prefix[48];
        char version[80];
        uint64_t from;
        size_t size;

        if (overview->version == 0 || overview->seen != view->version)
                overview_update(overview, view);
        snprintf(prefix, sizeof(prefix), "%016" PRIx64 "-%08" PRIx32 "-", overview->boot, scope_hash(scope));
        snprintf(version, sizeof(version), "%s%" PRIu64, prefix, overview->version);
        from = read_since(overview, prefix, since);
        if (from == 0 && scope->sees_all && overview->full)
                return http_text_ref(overview->full);
        if (from == 0)
                strbuf_reserve(&text, overview->size + 4096);
        write_head(&text, overview, view, scope, version, from, now);
        write_nodes(&text, overview, view, scope, from);
        size = text.size;
        ret = http_text_new(strbuf_take(&text), size);
        if (from == 0 && scope->sees_all)
                overview->full = http_text_ref(ret);
        return ret;
}

struct dashboard_overview *dashboard_overview_new(uint64_t boot)
{
        struct dashboard_overview *overview = xcalloc(1, sizeof(*overview));

        overview->boot = boot;
        return overview;
}

struct dashboard_overview *dashboard_overview_free(struct dashboard_overview *overview)
{
        if (!overview)
                return NULL;
        for (size_t i = 0; i < overview->n_nodes; i++) {
                free(overview->nodes[i].name);
                free(overview->nodes[i].text);
        }
        for (size_t i = 0; i < MIN(overview->n_gone, GONE_MAX); i++)
                free(overview->gone[i].name);
        http_text_unref(overview->full);
        free(overview->nodes);
        free(overview);
        return NULL;
}
