#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/columns.h"
#include "cmd/top/top.h"

#define GIB (1024.0 * 1024 * 1024)
#define MIB (1024.0 * 1024)
#define BAR 20U
#define HIGH 0.75 /* of what there is: yellow, and red from the next on */
#define FULL 0.90

/* ---- for people ---- */

struct amount {
        char text[32];
};

static struct amount bytes(double value)
{
        struct amount amount = {"-"};

        if (!isnan(value) && value >= GIB)
                snprintf(amount.text, sizeof(amount.text), "%.1f GiB", value / GIB);
        else if (!isnan(value))
                snprintf(amount.text, sizeof(amount.text), "%.0f MiB", value / MIB);
        return amount;
}

/* "-" if |value| is not known. */
static PRINTF_LIKE(2, 3) struct amount known(double value, const char *format, ...)
{
        struct amount amount = {"-"};
        va_list arguments;

        va_start(arguments, format);
        if (!isnan(value))
                vsnprintf(amount.text, sizeof(amount.text), format, arguments);
        va_end(arguments);
        return amount;
}

static struct amount percent(double part)
{
        return known(part, "%.0f %%", part * 100);
}

/* "12 s", "3 min", "5.2 h" */
static struct amount duration(double seconds)
{
        if (seconds >= 5400)
                return known(seconds, "%.1f h", seconds / 3600);
        return seconds >= 90 ? known(seconds, "%.0f min", seconds / 60) : known(seconds, "%.0f s", seconds);
}

static void put_bar(struct strbuf *text, double part, bool has_colours)
{
        const unsigned int filled = isnan(part) ? 0 : (unsigned int)(MIN(MAX(part, 0.0), 1.0) * BAR + 0.5);

        strbuf_putc(text, '[');
        if (has_colours && filled)
                strbuf_puts(text, part >= FULL ? "\033[31m" : part >= HIGH ? "\033[33m" : "\033[32m");
        for (unsigned int i = 0; i < filled; i++)
                strbuf_putc(text, '#');
        if (has_colours && filled)
                strbuf_puts(text, "\033[0m");
        for (unsigned int i = filled; i < BAR; i++)
                strbuf_putc(text, '.');
        strbuf_putc(text, ']');
}

static void put_unit(struct strbuf *text, const struct top_unit *unit, bool has_colours)
{
        const double part = unit->used / unit->capacity;

        strbuf_printf(text, "%s %s  ", unit->index && strchr(unit->index, ':') ? "MIG" : "GPU",
                unit->index ? unit->index : unit->uuid);
        put_bar(text, part, has_colours);
        strbuf_printf(text, " %s of %s", bytes(unit->used).text, bytes(unit->capacity).text);
        if (!isnan(unit->utilization))
                strbuf_printf(text, ", busy %s", percent(unit->utilization).text);
        if (!isnan(unit->temperature))
                strbuf_printf(text, ", %.0f C", unit->temperature);
        if (!isnan(unit->power))
                strbuf_printf(
                        text, ", %.0f of %s W", unit->power, known(unit->power_limit, "%.0f", unit->power_limit).text);
        strbuf_printf(text, "  %s\n", unit->uuid);
}

static void put_shares(struct strbuf *text, const struct top_unit *unit, bool has_colours)
{
        static const struct column columns[] = {{"POD"}, {"CONTAINER"}, {"MEMORY", true}, {"LIMIT", true},
                {"OF LIMIT", true}, {"PEAK", true}, {"SM", true}, {"MEM BUSY", true}, {"TIME", true}, {"ENERGY", true}};
        struct arena arena = ARENA_INIT;
        struct columns table;

        columns_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < unit->n_shares; i++) {
                const struct top_share *share = unit->shares[i];

                if (share->by && !(share->used > 0))
                        continue;
                columns_add(&table, "%s", top_share_name(share, &arena));
                columns_add(&table, "%s", share->container ? share->container : "-");
                columns_add(&table, "%s", bytes(share->used).text);
                columns_add(&table, "%s", bytes(share->limit).text);
                columns_add(&table, "%s", percent(share->used / share->limit).text);
                columns_add(&table, "%s", bytes(share->peak).text);
                columns_add(&table, "%s", percent(share->sm).text);
                columns_add(&table, "%s", percent(share->memory_controller).text);
                columns_add(&table, "%s", duration(share->seconds).text);
                columns_add(&table, "%s", known(share->energy, "~%.0f J", share->energy).text);
        }
        if (table.n_cells)
                columns_print(text, &table, "  ", has_colours);
        columns_done(&table);
        arena_done(&arena);
}

/* Of |line|, which has |length| bytes: as many as |width| columns take, escape sequences for nothing. */
static size_t cut(const char *line, size_t length, unsigned int width)
{
        unsigned int columns = 0;
        size_t at = 0;

        while (at < length) {
                if (line[at] == '\033') {
                        at += strcspn(line + at, "m") + 1;
                        continue;
                }
                if (columns == width)
                        break;
                columns++;
                for (at++; at < length && ((unsigned char)line[at] & 0xc0) == 0x80;)
                        at++;
        }
        return MIN(at, length);
}

void top_print_table(struct strbuf *text, const struct top *top, bool has_colours, unsigned int width)
{
        struct strbuf whole = STRBUF_INIT;

        for (size_t i = 0; i < top->n_units; i++) {
                put_unit(&whole, &top->units[i], has_colours);
                put_shares(&whole, &top->units[i], has_colours);
        }
        for (const char *line = whole.data; line && *line;) {
                const size_t length = strcspn(line, "\n");
                const size_t kept = width ? cut(line, length, width) : length;

                strbuf_printf(text, "%.*s%s\n", (int)kept, line, kept < length && has_colours ? "\033[0m" : "");
                line += length + (line[length] == '\n');
        }
        strbuf_done(&whole);
}

/* ---- for programs ---- */

static void set_number(json_t *object, const char *key, double value)
{
        if (isnan(value))
                return;
        if (value == floor(value) && fabs(value) < 9e15)
                json_object_set_new(object, key, json_integer((json_int_t)value));
        else
                json_object_set_new(object, key, json_real(value));
}

static void set_text(json_t *object, const char *key, const char *text)
{
        if (text)
                json_object_set_new(object, key, json_string(text));
}

static json_t *make_share(const struct top_share *share)
{
        json_t *object = json_object();

        set_text(object, "by", share->by);
        set_text(object, "namespace", share->pod_namespace);
        set_text(object, "pod", share->pod);
        set_text(object, "container", share->container);
        set_text(object, "claim", share->claim);
        set_text(object, "podUID", share->pod_uid);
        set_number(object, "memoryLimitBytes", share->limit);
        set_number(object, "memoryUsedBytes", share->used);
        set_number(object, "memoryPeakBytes", share->peak);
        set_number(object, "smRatio", share->sm);
        set_number(object, "memoryControllerRatio", share->memory_controller);
        set_number(object, "gpuSeconds", share->seconds);
        set_number(object, "smSeconds", share->sm_seconds);
        set_number(object, "energyEstimatedJoules", share->energy);
        return object;
}

char *top_print_json(const struct top *top)
{
        json_t *units = json_array();
        json_t *whole = json_object();
        char *text;

        for (size_t i = 0; i < top->n_units; i++) {
                const struct top_unit *unit = &top->units[i];
                json_t *object = json_object();
                json_t *shares = json_array();

                set_text(object, "index", unit->index);
                set_text(object, "uuid", unit->uuid);
                set_number(object, "memoryCapacityBytes", unit->capacity);
                set_number(object, "memoryUsedBytes", unit->used);
                set_number(object, "utilizationRatio", unit->utilization);
                set_number(object, "temperatureCelsius", unit->temperature);
                set_number(object, "powerWatts", unit->power);
                set_number(object, "powerLimitWatts", unit->power_limit);
                for (size_t j = 0; j < unit->n_shares; j++)
                        json_array_append_new(shares, make_share(unit->shares[j]));
                json_object_set_new(object, "shares", shares);
                json_array_append_new(units, object);
        }
        json_object_set_new(whole, "units", units);
        text = json_dumps(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        json_decref(whole);
        return text;
}

static void put_cell(struct strbuf *text, const char *cell, bool is_last)
{
        if (cell && strpbrk(cell, ",\"\r\n")) {
                strbuf_putc(text, '"');
                for (; *cell; cell++) {
                        if (*cell == '"')
                                strbuf_putc(text, '"');
                        strbuf_putc(text, *cell);
                }
                strbuf_putc(text, '"');
        } else if (cell) {
                strbuf_puts(text, cell);
        }
        strbuf_putc(text, is_last ? '\n' : ',');
}

static void put_cell_number(struct strbuf *text, double value, bool is_last)
{
        put_cell(text, isnan(value) ? NULL : known(value, "%.15g", value).text, is_last);
}

char *top_print_csv(const struct top *top)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, "index,unit,by,namespace,pod,container,claim,pod_uid,memory_limit_bytes,memory_used_bytes,"
                           "memory_peak_bytes,sm_ratio,memory_controller_ratio,gpu_seconds,sm_seconds,"
                           "energy_estimated_joules\n");
        for (size_t i = 0; i < top->n_units; i++)
                for (size_t j = 0; j < top->units[i].n_shares; j++) {
                        const struct top_share *share = top->units[i].shares[j];
                        const char *const texts[] = {top->units[i].index, top->units[i].uuid, share->by,
                                share->pod_namespace, share->pod, share->container, share->claim, share->pod_uid};
                        const double numbers[] = {share->limit, share->used, share->peak, share->sm,
                                share->memory_controller, share->seconds, share->sm_seconds, share->energy};

                        for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
                                put_cell(&text, texts[k], false);
                        for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
                                put_cell_number(&text, numbers[k], k + 1 == ARRAY_SIZE(numbers));
                }
        return strbuf_take(&text);
}
