// SPDX-License-Identifier: Apache-2.0
/* The model of `warpshare top`, and what programs and a plain terminal get of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/cli/columns.h"
#include "cmd/top/top.h"

static bool model_matches(const struct report_share *share, const char *filter)
{
        _free_ char *name = xasprintf("%s/%s/%s", share->pod_namespace ? share->pod_namespace : "",
                share->pod ? share->pod : "", share->container ? share->container : "");

        return strstr(name, filter);
}

static const char *or_empty(const char *text)
{
        return text ? text : "";
}

static int compare_names(const struct report_share *a, const struct report_share *b)
{
        int result = strcmp(or_empty(a->pod_namespace), or_empty(b->pod_namespace));

        if (result == 0)
                result = strcmp(or_empty(a->pod), or_empty(b->pod));
        return result ? result : strcmp(or_empty(a->pod_uid), or_empty(b->pod_uid));
}

/* Unknown numbers are below all others. */
static double model_weight(const struct top_row *row, enum top_sort sort)
{
        double value;

        if (row->other)
                value = row->other->memory_used;
        else if (sort == TOP_BY_SM)
                value = row->share->sm;
        else
                value = sort == TOP_BY_PEAK ? row->share->memory_peak : row->share->memory_used;
        return isnan(value) ? -1 : value;
}

/* Rows of processes that belong to no pod stand last in any order. */
static int model_compare_rows(const void *a, const void *b, void *data)
{
        const struct top_row *first = a;
        const struct top_row *second = b;
        const struct top_wish *wish = data;
        const double first_weight = model_weight(first, wish->sort);
        const double second_weight = model_weight(second, wish->sort);
        int result = 0;

        if (!first->other != !second->other)
                return first->other ? 1 : -1;
        if (first->other || wish->sort != TOP_BY_POD)
                result = (second_weight > first_weight) - (second_weight < first_weight);
        if (result == 0 && !first->other)
                result = compare_names(first->share, second->share);
        return wish->is_reversed && !first->other ? -result : result;
}

static void model_add_rows(struct top_unit *to, struct arena *arena, const struct top_wish *wish)
{
        const struct report_unit *unit = to->unit;
        struct top_row *rows = ARENA_ARRAY(arena, struct top_row, unit->n_shares + unit->n_others);

        for (size_t i = 0; i < unit->n_shares; i++)
                if (!*wish->filter || model_matches(&unit->shares[i], wish->filter))
                        rows[to->n_rows++].share = &unit->shares[i];
        for (size_t i = 0; i < unit->n_others && !*wish->filter; i++)
                rows[to->n_rows++].other = &unit->others[i];
        if (to->n_rows)
                qsort_r(rows, to->n_rows, sizeof(*rows), model_compare_rows, (void *)(uintptr_t)wish);
        to->rows = rows;
}

void top_make(struct top *ret, struct arena *arena, const struct node_page *page, const struct top_wish *wish)
{
        struct top_unit *units;
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < page->n_gpus; i++)
                most += page->gpus[i].n_units;
        units = ARENA_ARRAY(arena, struct top_unit, most);
        for (size_t i = 0; i < page->n_gpus; i++)
                for (size_t j = 0; j < page->gpus[i].n_units; j++) {
                        units[count] = (struct top_unit){.gpu = &page->gpus[i], .unit = &page->gpus[i].units[j]};
                        model_add_rows(&units[count], arena, wish);
                        count += units[count].n_rows || !*wish->filter;
                }
        *ret = (struct top){.page = page, .units = units, .n_units = count};
}

/* ---- lines ---- */

static const char *const codes[] = {[TOP_PLAIN] = NULL,
        [TOP_BOLD] = "\033[1m",
        [TOP_DIM] = "\033[2m",
        [TOP_GREEN] = "\033[32m",
        [TOP_YELLOW] = "\033[33m",
        [TOP_RED] = "\033[31m",
        [TOP_REVERSE] = "\033[7m"};

void top_lines_print(struct strbuf *text, const struct top_lines *lines, bool has_colours)
{
        for (size_t i = 0; i < lines->n_lines; i++) {
                const struct top_line *line = &lines->lines[i];

                for (size_t j = 0; j < line->n_spans; j++) {
                        const char *code = has_colours && *line->spans[j].text ? codes[line->spans[j].tint] : NULL;

                        strbuf_printf(text, "%s%s%s", code ? code : "", line->spans[j].text, code ? "\033[0m" : "");
                }
                strbuf_putc(text, '\n');
        }
}

/* ---- JSON ---- */

/* A page of what is left of |top|, in its order. */
char *top_print_json(const struct top *top, const struct top_wish *wish)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_page page = *top->page;
        struct report_gpu *gpus = ARENA_ARRAY(&arena, struct report_gpu, top->n_units);
        struct report_unit *units = ARENA_ARRAY(&arena, struct report_unit, top->n_units);

        page.gpus = gpus;
        page.n_gpus = 0;
        for (size_t i = 0; i < top->n_units; i++) {
                const struct top_unit *from = &top->units[i];
                struct report_share *shares = ARENA_ARRAY(&arena, struct report_share, from->n_rows);

                if (i == 0 || top->units[i - 1].gpu != from->gpu) {
                        gpus[page.n_gpus] = *from->gpu;
                        gpus[page.n_gpus].units = &units[i];
                        gpus[page.n_gpus++].n_units = 0;
                }
                gpus[page.n_gpus - 1].n_units++;
                units[i] = *from->unit;
                units[i].shares = shares;
                units[i].n_shares = 0;
                for (size_t j = 0; j < from->n_rows; j++)
                        if (from->rows[j].share)
                                shares[units[i].n_shares++] = *from->rows[j].share;
                if (*wish->filter)
                        units[i].n_others = 0;
        }
        return node_page_write(&page, true);
}

/* ---- CSV ---- */

static void model_put_row(struct strbuf *text, const struct report_unit *unit, const struct top_row *row)
{
        const struct report_share none = report_share_unknown;
        const struct report_share *share = row->share ? row->share : &none;
        const char *const texts[] = {unit->index, unit->uuid, row->other ? row->other->by : NULL, share->pod_namespace,
                share->pod, share->container, share->claim, share->pod_uid};
        const double numbers[] = {share->memory_limit, row->other ? row->other->memory_used : share->memory_used,
                share->memory_peak, row->other ? row->other->sm : share->sm, share->memory_controller, share->seconds,
                share->sm_seconds, share->energy, share->replicas, share->thread_percent};

        for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
                csv_put(text, texts[k], ',');
        for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
                csv_put_number(text, numbers[k], k + 1 == ARRAY_SIZE(numbers) ? '\n' : ',');
}

char *top_print_csv(const struct top *top)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "index,unit,by,namespace,pod,container,claim,pod_uid,memory_limit_bytes,memory_used_bytes,"
                           "memory_peak_bytes,sm_ratio,memory_controller_ratio,gpu_seconds,sm_seconds,"
                           "energy_estimated_joules,replicas,thread_percent\n");
        for (size_t i = 0; i < top->n_units; i++)
                for (size_t j = 0; j < top->units[i].n_rows; j++)
                        model_put_row(&text, top->units[i].unit, &top->units[i].rows[j]);
        return strbuf_take(&text);
}
