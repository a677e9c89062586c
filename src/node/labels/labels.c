#include "node/labels/labels.h"

#include <stdlib.h>
#include <string.h>

#include "node/labels/label_set.h"

/* ---- values ---- */

static bool is_legal(char c)
{
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
               c == '.';
}

static bool is_end(char c)
{
        return is_legal(c) && c != '-' && c != '_' && c != '.';
}

const char *label_clean(struct arena *arena, const char *text)
{
        char *clean = arena_alloc(arena, strlen(text) + 1, 1);
        bool is_between = false;
        size_t size = 0;

        for (; *text; text++) {
                if (*text == ' ') {
                        is_between = size > 0;
                } else if (is_legal(*text)) {
                        if (is_between)
                                clean[size++] = '-';
                        clean[size++] = *text;
                        is_between = false;
                }
        }
        clean[size] = '\0';
        return clean;
}

/* Works in place. Our own values are legal, but texts of drivers and files may have any characters. */
static const char *make_legal(char *value)
{
        size_t size = 0;
        char *begin = value;

        for (const char *c = value; *c; c++)
                if (is_legal(*c))
                        value[size++] = *c;
        value[size] = '\0';
        while (*begin && !is_end(*begin))
                begin++;
        size = MIN(strlen(begin), LABELS_MAX_VALUE);
        while (size && !is_end(begin[size - 1]))
                size--;
        begin[size] = '\0';
        return begin;
}

size_t label_leading(const char *const *texts, size_t count)
{
        size_t leading = 0;
        size_t most = 0;

        for (size_t i = 0; i < count; i++) {
                size_t same = 0;

                for (size_t j = 0; j < count; j++)
                        same += strcmp(texts[i], texts[j]) == 0;
                if (same > most) {
                        most = same;
                        leading = i;
                }
        }
        return leading;
}

/* ---- the set ---- */

void label_set_warn(const struct label_set *set, const char *format, ...)
{
        va_list args;

        if (!set->warn)
                return;
        va_start(args, format);
        set->warn(arena_vprintf(set->arena, format, args), set->warn_data);
        va_end(args);
}

static void labels_grow(struct label_set *set)
{
        size_t capacity = set->capacity ? set->capacity * 2 : 64;
        struct label *items = ARENA_ARRAY(set->arena, struct label, capacity);

        if (set->count)
                memcpy(items, set->items, set->count * sizeof(*items));
        set->items = items;
        set->capacity = capacity;
}

static void labels_put(struct label_set *set, const char *key, char *value)
{
        const char *slash = strchr(key, '/');
        size_t at = 0;

        if (strlen(slash ? slash + 1 : key) > LABELS_MAX_NAME) {
                label_set_warn(set, "no label '%s': its name has more than %zu characters", key, LABELS_MAX_NAME);
                return;
        }
        while (at < set->count && strcmp(set->items[at].key, key) != 0)
                at++;
        if (at == set->capacity)
                labels_grow(set);
        set->items[at] = (struct label){key, make_legal(value)};
        set->count = MAX(set->count, at + 1);
}

void label_set_put(struct label_set *set, const char *key, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        labels_put(set, arena_strdup(set->arena, key), arena_vprintf(set->arena, format, args));
        va_end(args);
}

void label_set_put_of(struct label_set *set, const char *resource, const char *what, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        labels_put(set, arena_printf(set->arena, "%s.%s", resource, what), arena_vprintf(set->arena, format, args));
        va_end(args);
}

static int labels_compare(const void *a, const void *b)
{
        return strcmp(((const struct label *)a)->key, ((const struct label *)b)->key);
}

/* ---- the whole ---- */

bool labels_counts_gpu(const struct inventory *inventory, const struct gpu *gpu)
{
        return *gpu->name || inventory->platform != PLATFORM_NVML;
}

bool labels_has_gpus(const struct inventory *inventory)
{
        for (size_t i = 0; inventory && i < inventory->n_gpus; i++)
                if (labels_counts_gpu(inventory, &inventory->gpus[i]))
                        return true;
        return false;
}

void labels_build(struct labels *ret, struct arena *arena, const struct labels_input *input, config_warn_fn *warn,
        void *warn_data)
{
        struct label_set set = {.arena = arena, .input = input, .warn = warn, .warn_data = warn_data};

        labels_put_node(&set);
        if (labels_has_gpus(input->inventory)) {
                labels_put_gpus(&set);
                labels_put_shares(&set);
        }
        if (set.count)
                qsort(set.items, set.count, sizeof(*set.items), labels_compare);
        *ret = (struct labels){set.items, set.count};
}

void labels_print(const struct labels *labels, struct strbuf *text)
{
        for (size_t i = 0; i < labels->count; i++)
                strbuf_printf(text, "%s=%s\n", labels->items[i].key, labels->items[i].value);
}
