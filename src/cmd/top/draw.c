// SPDX-License-Identifier: Apache-2.0
/* Units with bars, shares below them as a table, and what else is asked for: as lines of tinted text. */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cmd/cli/columns.h"
#include "cmd/top/top.h"

#define GIB (1024.0 * 1024 * 1024)
#define MIB (1024.0 * 1024)
#define BAR 20U
#define NARROW 100U /* columns; below, a GPU has a short bar */
#define HIGH 0.75   /* of what there is: yellow, and red from the next on */
#define FULL 0.90
#define LEVELS 8U

struct drawing {
        struct top_lines *to;
        const struct top_wish *wish;
        unsigned int width;
        bool is_utf8;
        size_t name_columns;  /* of the longest name and model of a unit, so that all bars begin in one column */
        size_t model_columns; /* with the gap behind it; 0: unknown, or too wide */
        size_t bar_columns;   /* the same */
        struct strbuf table;  /* the lines of all shares, so that they have the same columns; the first is the head */
        const char *at;       /* the next line of it */
};

/* ---- lines ---- */

struct top_line *top_line_add(struct top_lines *lines)
{
        if (lines->n_lines == lines->capacity) {
                const size_t capacity = MAX(2 * lines->capacity, (size_t)64);
                struct top_line *more = ARENA_ARRAY(lines->arena, struct top_line, capacity);

                if (lines->n_lines)
                        memcpy(more, lines->lines, lines->n_lines * sizeof(*more));
                lines->lines = more;
                lines->capacity = capacity;
        }
        return &lines->lines[lines->n_lines++];
}

void top_span_add(struct top_lines *lines, struct top_line *line, enum top_tint tint, const char *format, ...)
{
        va_list arguments;
        const char *text;

        va_start(arguments, format);
        text = arena_vprintf(lines->arena, format, arguments);
        va_end(arguments);
        if (line->n_spans == TOP_SPANS_MAX)
                line->spans[TOP_SPANS_MAX - 1].text =
                        arena_printf(lines->arena, "%s%s", line->spans[TOP_SPANS_MAX - 1].text, text);
        else
                line->spans[line->n_spans++] = (struct top_span){tint, text};
}

static size_t columns_of(const char *text)
{
        size_t columns = 0;

        for (; *text; text++)
                columns += ((unsigned char)*text & 0xc0) != 0x80;
        return columns;
}

/* Counts the bytes of the first |width| characters of |text|; |*ret_columns|: how many characters these are. */
static size_t cut(const char *text, unsigned int width, unsigned int *ret_columns)
{
        unsigned int columns = 0;
        size_t at = 0;

        while (text[at] && columns < width) {
                columns++;
                for (at++; ((unsigned char)text[at] & 0xc0) == 0x80;)
                        at++;
        }
        *ret_columns = columns;
        return at;
}

void top_lines_cut(struct top_lines *lines, unsigned int width)
{
        for (size_t i = 0; width && i < lines->n_lines; i++) {
                struct top_line *line = &lines->lines[i];
                unsigned int left = width;

                for (size_t j = 0; j < line->n_spans; j++) {
                        unsigned int columns;
                        const size_t kept = cut(line->spans[j].text, left, &columns);

                        if (line->spans[j].text[kept])
                                line->spans[j].text = arena_strndup(lines->arena, line->spans[j].text, kept);
                        left -= columns;
                }
        }
}

/* ---- amounts ---- */

struct amount {
        char text[32];
};

static struct amount bytes(const struct drawing *drawing, double value)
{
        const enum top_amounts amounts = drawing->wish->amounts;
        struct amount amount = {"-"};

        if (isnan(value))
                return amount;
        if (amounts == TOP_GIB || (amounts == TOP_AUTO && value >= GIB))
                snprintf(amount.text, sizeof(amount.text), "%.1f GiB", value / GIB);
        else
                snprintf(amount.text, sizeof(amount.text), "%.0f MiB", value / MIB);
        return amount;
}

/* "8.0 of 10.0 GiB": the unit once, if it is the same. */
static struct amount part_of_whole(const struct drawing *drawing, double part, double whole)
{
        const struct amount first = bytes(drawing, part);
        const struct amount second = bytes(drawing, whole);
        const char *unit = strchr(first.text, ' ');
        const char *other = strchr(second.text, ' ');
        const bool is_same = unit && other && text_is_same(unit, other);
        struct amount amount;

        snprintf(amount.text, sizeof(amount.text), "%.*s of %.12s", is_same ? (int)(unit - first.text) : 12, first.text,
                second.text);
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

static struct amount draw_percent(double part)
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

static enum top_tint tint_of(double part, enum top_tint low)
{
        if (part >= FULL)
                return TOP_RED;
        return part >= HIGH ? TOP_YELLOW : low;
}

/* ---- the last hour ---- */

/*
 * The newest |count| times |minutes| values, the highest of each; blanks where nothing is known. Ratios, or parts of
 * |whole|.
 */
static const char *sparkline(
        const struct drawing *drawing, const struct report_history *history, double whole, size_t count, size_t minutes)
{
        static const char *const blocks[LEVELS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
        static const char *const letters[LEVELS] = {"_", ".", "-", "~", "=", "+", "*", "#"};
        struct strbuf text = STRBUF_INIT;
        const char *line;

        for (size_t i = count; i-- > 0;) {
                double highest = NAN;

                for (size_t j = i * minutes; j < (i + 1) * minutes && j < history->n_values; j++) {
                        const double value = history->values[history->n_values - 1 - j];

                        if (!(value <= highest)) /* either may be missing */
                                highest = isnan(value) ? highest : value;
                }
                if (isnan(highest / whole))
                        strbuf_putc(&text, ' ');
                else
                        strbuf_puts(&text,
                                (drawing->is_utf8 ? blocks
                                                  : letters)[(unsigned int)(MIN(highest / whole, 0.999) * LEVELS)]);
        }
        line = arena_strdup(drawing->to->arena, text.data);
        strbuf_done(&text);
        return line;
}

static void draw_hour(const struct drawing *drawing, const struct report_unit *unit)
{
        const unsigned int room = drawing->width > 15 ? drawing->width - 15 : 1;
        const size_t count = drawing->width ? MIN((size_t)room, (size_t)REPORT_HISTORY_MAX) : REPORT_HISTORY_MAX;
        const struct {
                const char *name;
                const struct report_history *history;
                double whole;
        } rows[] = {{"busy", &unit->sm_history, 1}, {"memory", &unit->memory_history, unit->memory}};

        for (size_t i = 0; i < ARRAY_SIZE(rows) && drawing->wish->has_history; i++) {
                struct top_line *line;

                if (rows[i].history->n_values == 0)
                        continue;
                line = top_line_add(drawing->to);
                top_span_add(drawing->to, line, TOP_DIM, "  %-6s |", rows[i].name);
                top_span_add(drawing->to, line, TOP_GREEN, "%s",
                        sparkline(drawing, rows[i].history, rows[i].whole, count, 1));
                top_span_add(drawing->to, line, TOP_DIM, "| now");
        }
}

/* ---- units ---- */

/* Behind its "[", if there is one. */
static void draw_bar(const struct drawing *drawing, struct top_line *line, double part)
{
        const unsigned int length = drawing->bar_columns ? (unsigned int)(drawing->bar_columns - strlen("[] ")) : 0;
        const unsigned int filled = isnan(part) ? 0 : (unsigned int)(MIN(MAX(part, 0.0), 1.0) * length + 0.5);

        top_span_add(drawing->to, line, tint_of(part, TOP_GREEN), "%.*s", (int)filled, "####################");
        top_span_add(drawing->to, line, TOP_PLAIN, "%.*s%s", (int)(length - filled), "....................",
                length ? "] " : "");
}

/* "H100 80GB" of "NVIDIA H100 80GB HBM3", as on the dashboard. */
static const char *short_model(const struct drawing *drawing, const char *model)
{
        const char *kept = text_starts_with(model, "NVIDIA ") ? model + strlen("NVIDIA ") : model;
        const char *memory = strstr(kept, " HBM");

        return memory && !strchr(memory + 1, ' ') ? arena_strndup(drawing->to->arena, kept, (size_t)(memory - kept))
                                                  : kept;
}

static bool is_gpu(const struct top_unit *top)
{
        return text_is_same(top->unit->uuid, top->gpu->uuid);
}

static const char *name_of_unit(const struct drawing *drawing, const struct top_unit *top)
{
        return arena_printf(drawing->to->arena, "%s %s", is_gpu(top) ? "GPU" : "MIG",
                top->unit->index ? top->unit->index : top->unit->uuid);
}

/* A MIG device has its profile, since the model stands in the line of its GPU. */
static const char *model_of_unit(const struct drawing *drawing, const struct top_unit *top)
{
        if (!is_gpu(top))
                return top->unit->profile ? top->unit->profile : "";
        return top->gpu->model ? short_model(drawing, top->gpu->model) : "";
}

static const char *sensors_of(const struct drawing *drawing, const struct report_gpu *gpu)
{
        const char *text = "";

        if (!isnan(gpu->temperature))
                text = arena_printf(drawing->to->arena, ", %.0f C", gpu->temperature);
        if (!isnan(gpu->power))
                text = arena_printf(drawing->to->arena, "%s, %.0f of %s W", text, gpu->power,
                        known(gpu->power_limit, "%.0f", gpu->power_limit).text);
        return text;
}

/* A GPU that is shared by its MIG devices. */
static void draw_gpu(const struct drawing *drawing, const struct report_gpu *gpu)
{
        struct top_line *line = top_line_add(drawing->to);

        top_span_add(drawing->to, line, TOP_BOLD, "GPU %s  ", gpu->index ? gpu->index : gpu->uuid);
        top_span_add(drawing->to, line, TOP_PLAIN, "%s%s%zu MIG device%s%s",
                gpu->model ? short_model(drawing, gpu->model) : "", gpu->model ? ", " : "", gpu->n_units,
                gpu->n_units == 1 ? "" : "s", sensors_of(drawing, gpu));
        top_span_add(drawing->to, line, TOP_DIM, "  %s", gpu->uuid);
}

/* The parts that a unit's line has if there is room, in its order. */
enum part { GRANTED, RESERVED, BUSY, SENSORS, ID, N_PARTS };

/* The first goes first. */
static const enum part spare[] = {ID, SENSORS, RESERVED, BUSY, GRANTED};

static void make_parts(const struct drawing *drawing, const struct top_unit *top, const char **parts)
{
        const struct report_unit *unit = top->unit;
        struct arena *arena = drawing->to->arena;
        const double granted = report_unit_granted(unit);

        for (size_t i = 0; i < N_PARTS; i++)
                parts[i] = "";
        if (!isnan(granted) && unit->replicas > 1)
                parts[GRANTED] = arena_printf(arena, ", %.0f of %.0f granted", granted, unit->replicas);
        if (unit->draining)
                parts[GRANTED] = arena_printf(arena, "%s, draining", parts[GRANTED]);
        if (unit->reserved > 0)
                parts[RESERVED] = arena_printf(arena, ", %.0f reserved", unit->reserved);
        if (!isnan(unit->utilization))
                parts[BUSY] = arena_printf(arena, ", busy %s", draw_percent(unit->utilization).text);
        if (is_gpu(top))
                parts[SENSORS] = sensors_of(drawing, top->gpu);
        parts[ID] = arena_printf(arena, "  %s", unit->uuid);
}

static void drop_parts(const struct drawing *drawing, size_t columns, const char **parts)
{
        for (size_t i = 0; i < N_PARTS; i++)
                columns += columns_of(parts[i]);
        for (size_t i = 0; drawing->width && columns > drawing->width && i < ARRAY_SIZE(spare); i++) {
                columns -= columns_of(parts[spare[i]]);
                parts[spare[i]] = "";
        }
}

static void draw_unit(const struct drawing *drawing, const struct top_unit *top)
{
        const struct report_unit *unit = top->unit;
        const char *name = name_of_unit(drawing, top);
        const char *model = drawing->model_columns ? model_of_unit(drawing, top) : "";
        const struct amount memory = part_of_whole(drawing, unit->memory_used, unit->memory);
        const char *unhealthy = unit->has_health && !unit->healthy
                                        ? arena_printf(drawing->to->arena, ", unhealthy%s%s", unit->reason ? ": " : "",
                                                  unit->reason ? unit->reason : "")
                                        : "";
        struct top_line *line = top_line_add(drawing->to);
        const char *parts[N_PARTS];

        make_parts(drawing, top, parts);
        drop_parts(drawing,
                drawing->name_columns + 2 + drawing->model_columns + drawing->bar_columns + strlen(memory.text) +
                        columns_of(unhealthy),
                parts);
        top_span_add(drawing->to, line, TOP_BOLD, "%s%*s  ", name, (int)(drawing->name_columns - columns_of(name)), "");
        top_span_add(drawing->to, line, TOP_PLAIN, "%s%*s%s", model, (int)(drawing->model_columns - columns_of(model)),
                "", drawing->bar_columns ? "[" : "");
        draw_bar(drawing, line, unit->memory_used / unit->memory);
        top_span_add(drawing->to, line, TOP_PLAIN, "%s", memory.text);
        top_span_add(drawing->to, line, TOP_RED, "%s", unhealthy);
        top_span_add(drawing->to, line, TOP_PLAIN, "%s%s%s%s%s", parts[GRANTED], parts[RESERVED], parts[BUSY],
                parts[SENSORS], parts[ID]);
}

/* Columns of a unit's line without its model and its bar, as far as they are worth more than these. */
static size_t columns_of_rest(const struct drawing *drawing, const struct top_unit *top)
{
        const char *parts[N_PARTS];

        make_parts(drawing, top, parts);
        return drawing->name_columns + 2 +
               strlen(part_of_whole(drawing, top->unit->memory_used, top->unit->memory).text) +
               columns_of(parts[GRANTED]) + columns_of(parts[RESERVED]) + columns_of(parts[BUSY]);
}

/* Where a terminal is narrow the model is worth more than the bar, which says the same as the numbers beside it. */
static void measure_units(struct drawing *drawing, const struct top *top)
{
        const unsigned int width = drawing->width;
        size_t rest = 0;

        for (size_t i = 0; i < top->n_units; i++) {
                drawing->name_columns = MAX(drawing->name_columns, columns_of(name_of_unit(drawing, &top->units[i])));
                drawing->model_columns =
                        MAX(drawing->model_columns, columns_of(model_of_unit(drawing, &top->units[i])));
        }
        for (size_t i = 0; i < top->n_units; i++)
                rest = MAX(rest, columns_of_rest(drawing, &top->units[i]));
        drawing->bar_columns = (width && width < NARROW ? BAR / 2 : BAR) + strlen("[] ");
        if (drawing->model_columns)
                drawing->model_columns += 2;
        if (!width || drawing->model_columns == 0 || rest + drawing->model_columns + drawing->bar_columns <= width)
                return;
        if (rest + drawing->model_columns <= width)
                drawing->bar_columns = 0;
        else
                drawing->model_columns = 0;
}

/* ---- shares ---- */

/* In the order of add_row(). */
enum cell {
        POD,
        CONTAINER,
        REPLICAS,
        MEMORY,
        LIMIT,
        OF_LIMIT,
        PEAK,
        SM,
        THREADS,
        MEM_BUSY,
        TIME,
        ENERGY,
        HOUR,
        N_CELLS
};

static const struct column heads[N_CELLS] = {[POD] = {"POD"},
        [CONTAINER] = {"CONTAINER"},
        [REPLICAS] = {"REPLICAS", true},
        [MEMORY] = {"MEMORY", true},
        [LIMIT] = {"LIMIT", true},
        [OF_LIMIT] = {"OF LIMIT", true},
        [PEAK] = {"PEAK", true},
        [SM] = {"SM", true},
        [THREADS] = {"THREADS", true},
        [MEM_BUSY] = {"MEM BUSY", true},
        [TIME] = {"TIME", true},
        [ENERGY] = {"ENERGY", true},
        [HOUR] = {"LAST HOUR"}};

/* The first goes first where a terminal is narrow. */
static const enum cell dispensable[] = {ENERGY, MEM_BUSY, TIME, HOUR, CONTAINER, PEAK, REPLICAS, THREADS, OF_LIMIT};

static const char *draw_name_of(const struct top_row *row, struct arena *arena)
{
        const struct report_share *share = row->share;
        const char *pod_namespace;

        if (row->other)
                return arena_printf(arena, "(%s)", row->other->by);
        assert(share); /* a row is of a share or of another holder */
        pod_namespace = share->pod_namespace ? share->pod_namespace : "";
        if (share->pod)
                return arena_printf(arena, "%s/%s", pod_namespace, share->pod);
        if (share->claim)
                return arena_printf(arena, "claim %s/%s", pod_namespace, share->claim);
        return share->pod_uid ? arena_printf(arena, "pod %s", share->pod_uid) : "(not known yet)";
}

static void add_row(struct columns *table, const struct drawing *drawing, const struct top_row *row)
{
        const struct report_share none = report_share_unknown;
        const struct report_share *share = row->share ? row->share : &none;

        columns_add_row(table, draw_name_of(row, drawing->to->arena), share->container,
                known(share->replicas, "%.0f", share->replicas).text,
                bytes(drawing, row->other ? row->other->memory_used : share->memory_used).text,
                bytes(drawing, share->memory_limit).text, draw_percent(share->memory_used / share->memory_limit).text,
                bytes(drawing, share->memory_peak).text, draw_percent(row->other ? row->other->sm : share->sm).text,
                known(share->thread_percent, "%.0f %%", share->thread_percent).text,
                draw_percent(share->memory_controller).text, duration(share->seconds).text,
                known(share->energy, "~%.0f J", share->energy).text,
                share->sm_history.n_values ? sparkline(drawing, &share->sm_history, 1, 12, 5) : NULL);
}

static bool draw_fits(const char *text, unsigned int width)
{
        size_t columns = 0;

        for (; *text && columns <= width; text++)
                columns = *text == '\n' ? 0 : columns + (((unsigned char)*text & 0xc0) != 0x80);
        return columns <= width;
}

/* A row of memory that is not used is left out. */
static bool is_shown(const struct top_row *row)
{
        return !row->other || row->other->memory_used > 0;
}

/* The table of all units, a head and a line for each row; columns are dropped until it fits, as far as they can be. */
static void lay_out(struct drawing *drawing, const struct top *top)
{
        struct strbuf *text = &drawing->table;
        struct columns table;

        columns_init(&table, heads, N_CELLS);
        for (size_t i = 0; i < top->n_units; i++)
                for (size_t j = 0; j < top->units[i].n_rows; j++)
                        if (is_shown(&top->units[i].rows[j]))
                                add_row(&table, drawing, &top->units[i].rows[j]);
        if (!drawing->wish->has_history)
                table.hidden = 1U << HOUR;
        columns_print(text, &table, "  ", false);
        for (size_t i = 0; i < ARRAY_SIZE(dispensable) && drawing->width && !draw_fits(text->data, drawing->width);
                i++) {
                table.hidden |= 1U << dispensable[i];
                strbuf_clear(text);
                columns_print(text, &table, "  ", false);
        }
        columns_done(&table);
        drawing->at = text->data + strcspn(text->data, "\n") + 1;
}

static void draw_processes(const struct drawing *drawing, const struct report_process *processes, size_t count)
{
        for (size_t i = 0; i < count && drawing->wish->has_processes; i++) {
                struct top_line *line = top_line_add(drawing->to);

                top_span_add(drawing->to, line, TOP_DIM, "    %8.0f  %-16s  %9s  %5s", processes[i].pid,
                        processes[i].name ? processes[i].name : "-", bytes(drawing, processes[i].memory_used).text,
                        draw_percent(processes[i].sm).text);
        }
}

/* Draws the line of the table at |at|, and returns the next one. */
static const char *draw_table_line(const struct drawing *drawing, const char *at, enum top_tint tint)
{
        const size_t length = strcspn(at, "\n");

        top_span_add(drawing->to, top_line_add(drawing->to), tint, "%.*s", (int)length, at);
        return at + length + (at[length] == '\n');
}

static void draw_shares(struct drawing *drawing, const struct top_unit *unit)
{
        bool has_head = false;

        for (size_t i = 0; i < unit->n_rows; i++) {
                const struct top_row *row = &unit->rows[i];
                const struct report_share *share = row->share;
                enum top_tint tint = TOP_PLAIN;

                if (!is_shown(row))
                        continue;
                if (!has_head)
                        draw_table_line(drawing, drawing->table.data, TOP_DIM);
                has_head = true;
                if (share)
                        tint = tint_of(share->memory_used / share->memory_limit, TOP_PLAIN);
                drawing->at = draw_table_line(drawing, drawing->at, tint);
                if (share)
                        draw_processes(drawing, share->processes, share->n_processes);
                if (row->other)
                        draw_processes(drawing, row->other->processes, row->other->n_processes);
        }
}

void top_draw(
        struct top_lines *to, const struct top *top, const struct top_wish *wish, unsigned int width, bool is_utf8)
{
        struct drawing drawing = {.to = to, .wish = wish, .width = width, .is_utf8 = is_utf8, .table = STRBUF_INIT};

        measure_units(&drawing, top);
        lay_out(&drawing, top);
        for (size_t i = 0; i < top->n_units; i++) {
                const struct top_unit *unit = &top->units[i];

                if (!text_is_same(unit->unit->uuid, unit->gpu->uuid) && (i == 0 || top->units[i - 1].gpu != unit->gpu))
                        draw_gpu(&drawing, unit->gpu);
                draw_unit(&drawing, unit);
                draw_hour(&drawing, unit->unit);
                draw_shares(&drawing, unit);
        }
        strbuf_done(&drawing.table);
        top_lines_cut(to, width);
}
