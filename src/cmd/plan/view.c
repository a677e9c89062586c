#include "cmd/plan/view.h"

#include <string.h>

#include "base/text.h"
#include "plan/allocations.h"

static int view_read_count(struct plan_count *ret, const char *word, struct error *err)
{
        uint64_t number;

        if (strcmp(word, "half") == 0) {
                *ret = (struct plan_count){.kind = COUNT_HALF};
                return 0;
        }
        if (strcmp(word, "all") == 0) {
                *ret = (struct plan_count){.kind = COUNT_ALL};
                return 0;
        }
        if (!text_to_uint(word, CONFIG_MAX_REPLICAS, &number) || number == 0)
                return error_set(err, ERROR_INVALID,
                        "replicas: '%.40s' is neither a number from 1 to %u, nor half, nor all", word,
                        CONFIG_MAX_REPLICAS);
        *ret = (struct plan_count){.kind = COUNT_NUMBER, .number = (unsigned int)number};
        return 0;
}

int plan_counts_read(struct plan_view *view, const char *text, struct error *err)
{
        _free_ char *copy = xstrdup(text);
        char *rest = copy;
        const char *word;

        view->n_counts = 0;
        while ((word = strsep(&rest, ","))) {
                if (view->n_counts == PLAN_VIEW_COUNTS_MAX)
                        return error_set(err, ERROR_INVALID, "replicas: more than %u counts", PLAN_VIEW_COUNTS_MAX);
                if (view_read_count(&view->counts[view->n_counts++], word, err) < 0)
                        return -1;
        }
        return 0;
}

/* Inserts into the sorted list |counts|, unless it is there. */
static size_t insert(unsigned int *counts, size_t n_counts, unsigned int k)
{
        size_t at = n_counts;

        while (at > 0 && counts[at - 1] > k)
                at--;
        if (at > 0 && counts[at - 1] == k)
                return n_counts;
        memmove(&counts[at + 1], &counts[at], (n_counts - at) * sizeof(*counts));
        counts[at] = k;
        return n_counts + 1;
}

size_t plan_counts_of(const struct plan_view *view, const struct unit *unit, unsigned int *ret)
{
        size_t n = 0;

        for (size_t i = 0; i < view->n_counts; i++) {
                const struct plan_count *count = &view->counts[i];
                unsigned int k = count->kind == COUNT_ALL    ? unit->replicas
                                 : count->kind == COUNT_HALF ? unit->replicas / 2
                                                             : count->number;

                if (k >= 1 && k <= unit->replicas)
                        n = insert(ret, n, k);
        }
        return n;
}

const char *plan_refusal(const struct resource *resource, unsigned int k)
{
        if (k > 1 && resource->fail_requests_greater_than_one)
                return "failRequestsGreaterThanOne";
        if (resource->max_per_request && k > resource->max_per_request)
                return "maxPerRequest";
        return NULL;
}

size_t plan_advertised(const struct resource *resource)
{
        return allocations_capacity(resource, resource->max_per_request);
}
