#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cmd/top/top.h"

static bool matches(const struct report_share *share, const char *filter)
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
static double weight(const struct top_row *row, enum top_sort sort)
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

/* What is no pod's stands last, whatever the order. */
static int compare_rows(const void *a, const void *b, void *data)
{
        const struct top_row *first = a;
        const struct top_row *second = b;
        const struct top_wish *wish = data;
        const double first_weight = weight(first, wish->sort);
        const double second_weight = weight(second, wish->sort);
        int result = 0;

        if (!first->other != !second->other)
                return first->other ? 1 : -1;
        if (first->other || wish->sort != TOP_BY_POD)
                result = (second_weight > first_weight) - (second_weight < first_weight);
        if (result == 0 && !first->other)
                result = compare_names(first->share, second->share);
        return wish->is_reversed && !first->other ? -result : result;
}

static void add_rows(struct top_unit *to, struct arena *arena, const struct top_wish *wish)
{
        const struct report_unit *unit = to->unit;
        struct top_row *rows = ARENA_ARRAY(arena, struct top_row, unit->n_shares + unit->n_others);

        for (size_t i = 0; i < unit->n_shares; i++)
                if (!*wish->filter || matches(&unit->shares[i], wish->filter))
                        rows[to->n_rows++].share = &unit->shares[i];
        for (size_t i = 0; i < unit->n_others && !*wish->filter; i++)
                rows[to->n_rows++].other = &unit->others[i];
        if (to->n_rows)
                qsort_r(rows, to->n_rows, sizeof(*rows), compare_rows, (void *)(uintptr_t)wish);
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
                        add_rows(&units[count], arena, wish);
                        count += units[count].n_rows || !*wish->filter;
                }
        *ret = (struct top){.page = page, .units = units, .n_units = count};
}
