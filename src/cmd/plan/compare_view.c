// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "cmd/cli/columns.h"
#include "cmd/plan/compare.h"

static const struct column heads[] = {{"CONFIGURATION", false}, {"UNFIT", true}, {"REFUSED", true}, {"NO MEMORY", true},
        {"SLOW", true}, {"WAITED", true}, {"MEAN", true}, {"P95", true}, {"MAX", true}, {"GPUS", true},
        {"IN USE", true}, {"STRANDED", true}, {"RESERVED", true}};

/* "45 s", "12 min", "3.5 h". */
static void add_seconds(struct columns *columns, double seconds)
{
        if (seconds < 120)
                columns_add(columns, "%.0f s", seconds);
        else if (seconds < 7200)
                columns_add(columns, "%.0f min", seconds / 60);
        else
                columns_add(columns, "%.1f h", seconds / 3600);
}

static void compare_add_row(struct columns *columns, const struct replay_candidate *candidate)
{
        const struct replay_result *result = &candidate->result;

        columns_add(columns, "%s", candidate->name);
        columns_add(columns, "%zu", result->n_unfit);
        columns_add(columns, "%zu", result->n_refused);
        columns_add(columns, "%zu", result->n_memory_short);
        columns_add(columns, "%zu", result->n_threads_short);
        columns_add(columns, "%zu", result->n_waited);
        add_seconds(columns, result->wait_mean);
        add_seconds(columns, (double)result->wait_p95);
        add_seconds(columns, (double)result->wait_max);
        columns_add(columns, "%zu", result->gpus_peak);
        columns_add(columns, "%.1f %%", result->given_percent);
        columns_add(columns, "%.1f %%", result->stranded_percent);
        columns_add(columns, "%.1f %%", result->reserved_percent);
}

void replay_print(struct strbuf *text, const struct replay_view *view, bool has_colours)
{
        const struct trace *trace = &view->requests;
        struct columns columns;

        strbuf_printf(text, "%zu requests of %zu rows (%s), %u node%s with %s, seed %" PRIu64 "\n", trace->n_requests,
                trace->n_rows, trace->form, view->nodes, view->nodes == 1 ? "" : "s", view->hardware, view->seed);
        if (trace->n_without_gpu)
                strbuf_printf(text, "rows that ask for no GPU: %zu\n", trace->n_without_gpu);
        if (trace->n_bad)
                strbuf_printf(text, "rows that were left out: %zu; the first: %s\n", trace->n_bad, trace->first_bad);
        strbuf_putc(text, '\n');
        columns_init(&columns, heads, ARRAY_SIZE(heads));
        columns.keeps_idle = true;
        for (size_t i = 0; i < view->n_candidates; i++)
                if (!view->candidates[i].failure)
                        compare_add_row(&columns, &view->candidates[i]);
        columns_print(text, &columns, "", has_colours);
        columns_done(&columns);
        for (size_t i = 0; i < view->n_candidates; i++)
                if (view->candidates[i].failure)
                        strbuf_printf(text, "not possible here: %s: %s\n", view->candidates[i].name,
                                view->candidates[i].failure);
}

static json_t *candidate_json(const struct replay_candidate *candidate)
{
        const struct replay_result *result = &candidate->result;

        if (candidate->failure)
                return json_pack("{s:s, s:s, s:s}", "name", candidate->name, "config", candidate->text, "failure",
                        candidate->failure);
        return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:f}",
                "name", candidate->name, "config", candidate->text, "requests", (json_int_t)result->n_requests, "ran",
                (json_int_t)result->n_ran, "unfit", (json_int_t)result->n_unfit, "refused",
                (json_int_t)result->n_refused, "memoryShort", (json_int_t)result->n_memory_short, "threadsShort",
                (json_int_t)result->n_threads_short, "waited", (json_int_t)result->n_waited, "waitMeanSeconds",
                result->wait_mean, "waitP95Seconds", (json_int_t)result->wait_p95, "waitMaxSeconds",
                (json_int_t)result->wait_max, "gpus", (json_int_t)result->gpus, "gpusPeak",
                (json_int_t)result->gpus_peak, "inUsePercent", result->given_percent, "strandedPercent",
                result->stranded_percent, "reservedPercent", result->reserved_percent);
}

json_t *replay_json(const struct replay_view *view)
{
        const struct trace *trace = &view->requests;
        json_t *list = json_array();

        for (size_t i = 0; i < view->n_candidates; i++)
                json_array_append_new(list, candidate_json(&view->candidates[i]));
        return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:o}", "trace", view->trace, "form",
                trace->form, "rows", (json_int_t)trace->n_rows, "requests", (json_int_t)trace->n_requests,
                "rowsWithoutGpu", (json_int_t)trace->n_without_gpu, "rowsLeftOut", (json_int_t)trace->n_bad, "nodes",
                (json_int_t)view->nodes, "hardware", view->hardware, "seed", (json_int_t)view->seed, "configurations",
                list);
}

/* ---- the picture: a row for each configuration, and three bars in it ---- */

#define ROW 22
#define TOP 58
#define NAMES 330
#define BAR 150
#define GAP 80

static const char *const titles[] = {"lost or without memory", "mean wait, s", "GPUs in use at once"};

static double figure_of(const struct replay_result *result, size_t which)
{
        switch (which) {
        case 0:
                return (double)(result->n_unfit + result->n_refused + result->n_memory_short);
        case 1:
                return result->wait_mean;
        default:
                return (double)result->gpus_peak;
        }
}

static void draw_escaped(struct strbuf *text, const char *word)
{
        for (; *word; word++)
                switch (*word) {
                case '<':
                        strbuf_puts(text, "&lt;");
                        break;
                case '&':
                        strbuf_puts(text, "&amp;");
                        break;
                default:
                        if ((unsigned char)*word >= ' ')
                                strbuf_putc(text, *word);
                }
}

static void draw_row(struct strbuf *text, const struct replay_candidate *candidate, size_t row, const double *most)
{
        size_t y = TOP + row * ROW;

        strbuf_printf(text, "<text x=\"12\" y=\"%zu\">", y + 14);
        draw_escaped(text, candidate->name);
        strbuf_puts(text, "</text>\n");
        for (size_t i = 0; i < ARRAY_SIZE(titles); i++) {
                double value = figure_of(&candidate->result, i);
                size_t x = NAMES + i * (BAR + GAP);
                double width = most[i] > 0 ? BAR * value / most[i] : 0;

                strbuf_printf(text,
                        "<rect class=\"c%zu\" x=\"%zu\" y=\"%zu\" width=\"%.1f\" height=\"14\"/>"
                        "<text class=\"dim\" x=\"%.1f\" y=\"%zu\">%.0f</text>\n",
                        i, x, y + 3, width, (double)x + width + 5, y + 14, value);
        }
}

void replay_draw(struct strbuf *text, const struct replay_view *view)
{
        double most[ARRAY_SIZE(titles)] = {0};
        size_t rows = 0;

        for (size_t i = 0; i < view->n_candidates && !view->candidates[i].failure; i++, rows++)
                for (size_t which = 0; which < ARRAY_SIZE(titles); which++)
                        most[which] = MAX(most[which], figure_of(&view->candidates[i].result, which));
        strbuf_printf(text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\">\n<style>\n"
                "text { font: 12px system-ui, sans-serif; fill: #24292f } .head { font-weight: 600 }\n"
                ".page { fill: #ffffff } .dim { fill: #57606a }\n"
                ".c0 { fill: #bc4c00 } .c1 { fill: #0969da } .c2 { fill: #1a7f37 }\n"
                "@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .page { fill: #0d1117 } .dim { fill: #9198a1 } }\n"
                "</style>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n<text class=\"head\" x=\"12\" y=\"22\">",
                (size_t)NAMES + ARRAY_SIZE(titles) * (BAR + GAP), TOP + (rows + 1) * ROW);
        draw_escaped(text, view->trace);
        strbuf_printf(text, ": %zu requests, %u nodes with ", view->requests.n_requests, view->nodes);
        draw_escaped(text, view->hardware);
        strbuf_puts(text, "</text>\n");
        for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
                strbuf_printf(text, "<text class=\"head\" x=\"%zu\" y=\"46\">%s</text>\n", NAMES + i * (BAR + GAP),
                        titles[i]);
        for (size_t i = 0; i < rows; i++)
                draw_row(text, &view->candidates[i], i, most);
        strbuf_puts(text, "</svg>\n");
}
