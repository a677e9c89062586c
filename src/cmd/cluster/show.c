// SPDX-License-Identifier: Apache-2.0
#include "cmd/cluster/show.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cmd/cli/columns.h"
#include "node/report/node_page.h"

/* ---- cells ---- */

struct cell {
        char text[40];
};

/* "-" for what is not known. */
static struct cell number_cell(const char *format, double value)
{
        struct cell cell = {"-"};

        if (!isnan(value)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(cell.text, sizeof(cell.text), format, value);
#pragma GCC diagnostic pop
        }
        return cell;
}

static struct cell memory_cell(double bytes)
{
        return number_cell("%.1fGi", bytes / (1 << 30));
}

static struct cell ratio_cell(double ratio)
{
        return number_cell("%.0f%%", 100 * ratio);
}

static const char *or_dash(const char *text)
{
        return text && *text ? text : "-";
}

static void add_double(double *sum, double value)
{
        if (!isnan(value))
                *sum = isnan(*sum) ? value : *sum + value;
}

static void show_table(struct strbuf *text, struct columns *columns, const struct show *show)
{
        struct strbuf table = STRBUF_INIT;
        const char *start;

        columns_print(&table, columns, "", show->has_colours);
        start = show->has_headers ? table.data : strchr(table.data, '\n');
        if (start)
                strbuf_puts(text, start + (show->has_headers ? 0 : 1));
        strbuf_done(&table);
        columns_done(columns);
}

static bool show_has_node(const struct show *show, const struct cluster_node *node)
{
        for (size_t i = 0; i < show->n_names; i++)
                if (strcmp(show->names[i], node->name) == 0)
                        return true;
        return show->n_names == 0;
}

/* ---- nodes ---- */

struct node_sums {
        double memory;
        double used;
        double replicas;
        double granted;
        double reserved;
        double busy; /* sum of utilisations */
        size_t n_busy;
        size_t n_units;
        size_t n_unhealthy;
        size_t n_shares;
        const char *resource; /* "several" */
};

static void sum_unit(struct node_sums *sums, const struct report_unit *unit)
{
        sums->n_units++;
        sums->n_unhealthy += unit->has_health && !unit->healthy ? 1 : 0;
        sums->n_shares += unit->n_shares;
        add_double(&sums->replicas, unit->replicas);
        add_double(&sums->granted, report_unit_granted(unit));
        add_double(&sums->reserved, unit->reserved);
        if (unit->resource && !sums->resource)
                sums->resource = unit->resource;
        else if (unit->resource && strcmp(unit->resource, sums->resource) != 0)
                sums->resource = "several";
}

static struct node_sums sum_node(const struct cluster_node *node)
{
        struct node_sums sums = {
                .memory = NAN, .used = NAN, .replicas = NAN, .granted = NAN, .reserved = NAN, .busy = NAN};

        for (size_t i = 0; node->page && i < node->page->n_gpus; i++) {
                const struct report_gpu *gpu = &node->page->gpus[i];

                add_double(&sums.memory, gpu->memory);
                add_double(&sums.used, gpu->memory_used);
                add_double(&sums.busy, gpu->utilization);
                sums.n_busy += isnan(gpu->utilization) ? 0 : 1;
                for (size_t j = 0; j < gpu->n_units; j++)
                        sum_unit(&sums, &gpu->units[j]);
        }
        return sums;
}

static const char *node_status(const struct cluster_node *node)
{
        if (!node->object)
                return "-";
        if (node->object->is_cordoned)
                return node->object->is_ready ? "Ready,cordoned" : "NotReady,cordoned";
        return node->object->is_ready ? "Ready" : "NotReady";
}

/* "NVIDIA H100 80GB HBM3", or "several". */
static const char *node_model(const struct cluster_node *node)
{
        const char *model = NULL;

        for (size_t i = 0; node->page && i < node->page->n_gpus; i++) {
                const char *here = node->page->gpus[i].model;

                if (here && !model)
                        model = here;
                else if (here && strcmp(here, model) != 0)
                        return "several";
        }
        return model;
}

static void show_add_node(struct columns *columns, const struct cluster_node *node)
{
        const struct node_sums sums = sum_node(node);
        const struct node_page *page = node->page;

        columns_add_row(columns, node->name, node_status(node), cluster_agent_state_name(node->state),
                page ? number_cell("%.0f", (double)page->n_gpus).text : NULL, or_dash(node_model(node)),
                or_dash(sums.resource), number_cell("%.0f", sums.replicas).text, number_cell("%.0f", sums.granted).text,
                sums.reserved > 0 ? number_cell("%.0f", sums.reserved).text : NULL,
                page ? number_cell("%.0f", (double)sums.n_shares).text : NULL, memory_cell(sums.used).text,
                memory_cell(sums.memory).text, ratio_cell(sums.n_busy ? sums.busy / (double)sums.n_busy : NAN).text,
                sums.n_unhealthy ? number_cell("%.0f", (double)sums.n_unhealthy).text : NULL,
                or_dash(page ? page->agent : NULL), or_dash(page ? page->driver : NULL),
                or_dash(page ? page->configuration : NULL), or_dash(node->agent ? node->agent->pod : NULL));
}

void show_nodes(struct strbuf *text, const struct cluster_view *view, const struct show *show)
{
        static const struct column list[] = {{"NAME"}, {"STATUS"}, {"AGENT"}, {"GPUS", true}, {"MODEL"}, {"RESOURCE"},
                {"REPLICAS", true}, {"GRANTED", true}, {"RESERVED", true}, {"PODS", true}, {"USED", true},
                {"MEMORY", true}, {"UTIL", true}, {"UNHEALTHY", true}, {"VERSION"}, {"DRIVER"}, {"CONFIGURATION"},
                {"AGENT POD"}};
        struct columns columns;

        columns_init(&columns, list, show->is_wide ? ARRAY_SIZE(list) : 14);
        for (size_t i = 0; i < view->n_nodes; i++)
                if (show_has_node(show, view->nodes[i]))
                        show_add_node(&columns, view->nodes[i]);
        show_table(text, &columns, show);
}

/* ---- shares ---- */

struct row {
        const struct cluster_node *node;
        const struct report_gpu *gpu;
        const struct report_unit *unit;
        const struct report_share *share;
};

struct rows {
        struct row *items;
        size_t count;
        size_t capacity;
};

static void show_add_rows(struct rows *rows, const struct row *of, const struct show *show)
{
        for (size_t i = 0; i < of->unit->n_shares; i++) {
                struct row row = *of;

                row.share = &of->unit->shares[i];
                if (show->scope && !text_is_same(show->scope, row.share->pod_namespace))
                        continue;
                if (rows->count == rows->capacity) {
                        rows->capacity = MAX(2 * rows->capacity, (size_t)64);
                        rows->items = xrealloc(rows->items, rows->capacity * sizeof(*rows->items));
                }
                rows->items[rows->count++] = row;
        }
}

static int compare_numbers(double a, double b) /* greatest first, unknown last */
{
        if (isnan(a) || isnan(b))
                return isnan(a) - isnan(b);
        return a < b ? 1 : a > b ? -1 : 0;
}

static int compare_texts(const char *a, const char *b)
{
        return strcmp(a ? a : "", b ? b : "");
}

static int show_compare_pods(const struct row *a, const struct row *b)
{
        int order = compare_texts(a->share->pod_namespace, b->share->pod_namespace);

        if (order == 0)
                order = compare_texts(a->share->pod, b->share->pod);
        return order ? order : compare_texts(a->share->container, b->share->container);
}

static double show_weight_of(const struct row *row, enum show_sort sort)
{
        return sort == SHOW_BY_SM ? row->share->sm : row->share->memory_used;
}

static int compare_rows(const void *a, const void *b, void *data)
{
        const enum show_sort sort = *(const enum show_sort *)data;
        const int order = sort == SHOW_BY_POD ? 0 : compare_numbers(show_weight_of(a, sort), show_weight_of(b, sort));

        return order ? order : show_compare_pods(a, b);
}

static void sort_rows(struct rows *rows, const struct show *show)
{
        if (rows->count > 0)
                qsort_r(rows->items, rows->count, sizeof(*rows->items), compare_rows, (void *)(uintptr_t)&show->sort);
}

static struct rows find_rows(const struct cluster_view *view, const struct show *show)
{
        struct rows rows = {0};

        for (size_t i = 0; i < view->n_nodes; i++) {
                const struct node_page *page = show_has_node(show, view->nodes[i]) ? view->nodes[i]->page : NULL;

                for (size_t j = 0; page && j < page->n_gpus; j++)
                        for (size_t k = 0; k < page->gpus[j].n_units; k++)
                                show_add_rows(&rows,
                                        &(struct row){view->nodes[i], &page->gpus[j], &page->gpus[j].units[k]}, show);
        }
        sort_rows(&rows, show);
        return rows;
}

static const char *pod_name(const struct report_share *share)
{
        return share->pod ? share->pod : share->pod_uid ? share->pod_uid : "?";
}

/* Says below the table why some use is not known; |show| without heads is for programs. */
static void show_owners_unknown(struct strbuf *text, const struct cluster_view *view, const struct show *show)
{
        const struct cluster_node *first = NULL;
        size_t count = 0;

        for (size_t i = 0; i < view->n_nodes && show->has_headers; i++) {
                const struct cluster_node *node = view->nodes[i];

                if (!show_has_node(show, node) || !node->page || !node->page->owners_unknown)
                        continue;
                first = first ? first : node;
                count++;
        }
        if (count > 1)
                strbuf_printf(text, "\n%s and %zu more: %s\n", first->name, count - 1, first->page->owners_unknown);
        else if (first)
                strbuf_printf(text, "\n%s: %s\n", first->name, first->page->owners_unknown);
}

void show_shares(struct strbuf *text, const struct cluster_view *view, const struct show *show)
{
        static const struct column list[] = {{"NAMESPACE"}, {"POD"}, {"CONTAINER"}, {"NODE"}, {"GPU"},
                {"REPLICAS", true}, {"USED", true}, {"LIMIT", true}, {"PEAK", true}, {"SM", true}, {"THREADS", true},
                {"RESOURCE"}, {"SHARING"}, {"CLAIM"}, {"UNIT"}};
        struct rows rows = find_rows(view, show);
        struct columns columns;

        columns_init(&columns, list, show->is_wide ? ARRAY_SIZE(list) : 10);
        for (size_t i = 0; i < rows.count; i++) {
                const struct report_share *share = rows.items[i].share;
                const struct report_unit *unit = rows.items[i].unit;

                columns_add_row(&columns, or_dash(share->pod_namespace), pod_name(share), or_dash(share->container),
                        rows.items[i].node->name, or_dash(unit->index), number_cell("%.0f", share->replicas).text,
                        memory_cell(share->memory_used).text, memory_cell(share->memory_limit).text,
                        memory_cell(share->memory_peak).text, ratio_cell(share->sm).text,
                        number_cell("%.0f%%", share->thread_percent).text, or_dash(unit->resource),
                        or_dash(unit->sharing), or_dash(share->claim), or_dash(unit->uuid));
        }
        show_table(text, &columns, show);
        show_owners_unknown(text, view, show);
        free(rows.items);
}

void show_shares_csv(struct strbuf *text, const struct cluster_view *view, const struct show *show)
{
        struct rows rows = find_rows(view, show);

        if (show->has_headers)
                strbuf_puts(text,
                        "namespace,pod,container,pod_uid,node,gpu,unit,resource,sharing,claim,replicas,thread_percent,"
                        "memory_used_bytes,memory_limit_bytes,memory_peak_bytes,sm_ratio,memory_controller_ratio,"
                        "gpu_seconds,sm_seconds,energy_estimated_joules\n");
        for (size_t i = 0; i < rows.count; i++) {
                const struct report_share *share = rows.items[i].share;
                const struct report_unit *unit = rows.items[i].unit;
                const char *const texts[] = {share->pod_namespace, share->pod, share->container, share->pod_uid,
                        rows.items[i].node->name, unit->index, unit->uuid, unit->resource, unit->sharing, share->claim};
                const double numbers[] = {share->replicas, share->thread_percent, share->memory_used,
                        share->memory_limit, share->memory_peak, share->sm, share->memory_controller, share->seconds,
                        share->sm_seconds, share->energy};

                for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
                        csv_put(text, texts[k], ',');
                for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
                        csv_put_number(text, numbers[k], k + 1 == ARRAY_SIZE(numbers) ? '\n' : ',');
        }
        free(rows.items);
}

/* ---- GPUs with their pods ---- */

static void show_add_unit(struct columns *columns, const struct row *row, bool is_whole)
{
        const struct report_unit *unit = row->unit;
        _free_ char *what = xasprintf("%s%s%s%s%s%s", or_dash(unit->profile ? unit->profile : row->gpu->model),
                unit->sharing ? ", " : "", unit->sharing ? unit->sharing : "",
                unit->has_health && !unit->healthy ? ", unhealthy" : "", unit->draining ? ", draining" : "",
                unit->reserved > 0 ? ", some reserved" : "");
        _free_ char *granted =
                xasprintf("%s/%.0f", number_cell("%.0f", report_unit_granted(unit)).text, unit->replicas);

        columns_add_row(columns, row->node->name, or_dash(unit->index), what, isnan(unit->replicas) ? NULL : granted,
                memory_cell(unit->memory_used).text, memory_cell(unit->memory).text, ratio_cell(unit->utilization).text,
                is_whole ? number_cell("%.0fC", row->gpu->temperature).text : NULL,
                is_whole ? number_cell("%.0fW", row->gpu->power).text : NULL);
}

static void show_add_share(struct columns *columns, const struct report_share *share)
{
        _free_ char *name = xasprintf("  %s%s%s%s%s", share->pod_namespace ? share->pod_namespace : "",
                share->pod_namespace ? "/" : "", pod_name(share), share->container ? "/" : "",
                share->container ? share->container : "");

        columns_add_row(columns, "", "", name, number_cell("%.0f", share->replicas).text,
                memory_cell(share->memory_used).text, memory_cell(share->memory_limit).text, ratio_cell(share->sm).text,
                "", "");
}

/* Where only one namespace is shown, units without a pod of it are left out. */
static void show_add_gpu(struct columns *columns, const struct row *of, const struct show *show)
{
        for (size_t i = 0; i < of->gpu->n_units; i++) {
                const struct row row = {of->node, of->gpu, &of->gpu->units[i]};
                struct rows rows = {0};

                show_add_rows(&rows, &row, show);
                sort_rows(&rows, show);
                if (rows.count > 0 || !show->scope) {
                        show_add_unit(columns, &row, of->gpu->n_units == 1);
                        for (size_t j = 0; j < rows.count; j++)
                                show_add_share(columns, rows.items[j].share);
                }
                free(rows.items);
        }
}

void show_gpus(struct strbuf *text, const struct cluster_view *view, const struct show *show)
{
        static const struct column list[] = {{"NODE"}, {"GPU"}, {"MODEL / POD"}, {"REPLICAS", true}, {"USED", true},
                {"OF", true}, {"SM", true}, {"TEMP", true}, {"POWER", true}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < view->n_nodes; i++) {
                const struct node_page *page = show_has_node(show, view->nodes[i]) ? view->nodes[i]->page : NULL;

                for (size_t j = 0; page && j < page->n_gpus; j++)
                        show_add_gpu(&columns, &(struct row){view->nodes[i], &page->gpus[j]}, show);
        }
        show_table(text, &columns, show);
        show_owners_unknown(text, view, show);
}

/* ---- JSON ---- */

static json_t *node_json(const struct cluster_node *node)
{
        json_t *json = json_pack("{s:s, s:{s:s, s:s*}}", "name", node->name, "agent", "state",
                cluster_agent_state_name(node->state), "reason", node->reason);
        json_t *agent = json_object_get(json, "agent");
        json_t *resources;

        if (node->agent)
                json_object_update_new(agent,
                        json_pack("{s:s, s:s, s:b, s:I}", "namespace", node->agent->namespace, "pod", node->agent->pod,
                                "ready", node->agent->is_ready, "restarts", (json_int_t)node->agent->restarts));
        if (node->object) {
                json_object_set_new(json, "ready", json_boolean(node->object->is_ready));
                json_object_set_new(json, "cordoned", json_boolean(node->object->is_cordoned));
                resources = json_object();
                for (size_t i = 0; i < node->object->n_resources; i++)
                        json_object_set_new(resources, node->object->resources[i].name,
                                json_pack("{s:I, s:I}", "capacity", (json_int_t)node->object->resources[i].capacity,
                                        "allocatable", (json_int_t)node->object->resources[i].allocatable));
                json_object_set_new(json, "resources", resources);
        }
        if (node->page) {
                _free_ char *page = node_page_write(node->page, false);

                json_object_set_new(json, "page", json_loads(page, 0, NULL));
        }
        return json;
}

json_t *show_json(const struct cluster_view *view, const struct show *show)
{
        json_t *nodes = json_array();

        for (size_t i = 0; i < view->n_nodes; i++)
                if (show_has_node(show, view->nodes[i]))
                        json_array_append_new(nodes, node_json(view->nodes[i]));
        return json_pack("{s:o}", "nodes", nodes);
}
