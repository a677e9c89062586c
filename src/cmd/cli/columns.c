// SPDX-License-Identifier: Apache-2.0
#include "cmd/cli/columns.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define GAP "  "
#define IDLE (-1)

struct columns_cell {
        char *text;
        const char *colour; /* NULL: none */
};

void columns_init(struct columns *columns, const struct column *list, size_t n_columns)
{
        *columns = (struct columns){.columns = list, .n_columns = n_columns};
}

void columns_done(struct columns *columns)
{
        for (size_t i = 0; i < columns->n_cells; i++)
                free(columns->cells[i].text);
        free(columns->cells);
}

void columns_add(struct columns *columns, const char *format, ...)
{
        struct strbuf text = STRBUF_INIT;
        va_list args;

        if (columns->n_cells == columns->capacity) {
                columns->capacity = MAX(2 * columns->capacity, (size_t)64);
                columns->cells = xrealloc(columns->cells, columns->capacity * sizeof(*columns->cells));
        }
        va_start(args, format);
        strbuf_vprintf(&text, format, args);
        va_end(args);
        text_clean(text.data);
        columns->cells[columns->n_cells++] = (struct columns_cell){.text = strbuf_take(&text)};
}

void columns_add_row(struct columns *columns, ...)
{
        va_list args;

        va_start(args, columns);
        for (size_t i = 0; i < columns->n_columns; i++) {
                const char *text = va_arg(args, const char *);

                columns_add(columns, "%s", text ? text : "-");
        }
        va_end(args);
}

void columns_tint(struct columns *columns, const char *colour)
{
        columns->cells[columns->n_cells - 1].colour = colour;
}

/* It is hidden, or no cell says anything. */
static bool columns_is_idle(const struct columns *columns, size_t column)
{
        if (columns->hidden & (1U << column))
                return true;
        for (size_t i = column; i < columns->n_cells; i += columns->n_columns)
                if (*columns->cells[i].text && strcmp(columns->cells[i].text, "-") != 0)
                        return false;
        return !columns->keeps_idle;
}

static size_t width_of(const struct columns *columns, size_t column)
{
        size_t width = strlen(columns->columns[column].head);

        for (size_t i = column; i < columns->n_cells; i += columns->n_columns)
                width = MAX(width, strlen(columns->cells[i].text));
        return width;
}

/* |row| is a multiple of the number of columns, or NULL for the heads. */
static void columns_put_row(
        struct strbuf *text, const struct columns *columns, const struct columns_cell *row, const int *widths)
{
        const char *gap = "";

        for (size_t i = 0; i < columns->n_columns; i++) {
                const char *cell = row ? row[i].text : columns->columns[i].head;
                const char *colour = row ? row[i].colour : NULL;
                int padding = widths[i] - (int)strlen(cell);

                if (widths[i] == IDLE)
                        continue;
                strbuf_printf(text, "%s%*s%s%s%s%*s", gap, columns->columns[i].is_number ? padding : 0, "",
                        colour ? colour : "", cell, colour ? "\033[0m" : "",
                        columns->columns[i].is_number ? 0 : padding, "");
                gap = GAP;
        }
        while (text->size && text->data[text->size - 1] == ' ')
                text->data[--text->size] = '\0';
}

void columns_print(struct strbuf *text, const struct columns *columns, const char *indent, bool has_colours)
{
        int *widths = xcalloc(columns->n_columns, sizeof(*widths));

        assert(columns->n_cells % columns->n_columns == 0);
        for (size_t i = 0; i < columns->n_columns; i++)
                widths[i] = columns_is_idle(columns, i) ? IDLE : (int)width_of(columns, i);
        strbuf_printf(text, "%s%s", indent, has_colours ? "\033[2m" : "");
        columns_put_row(text, columns, NULL, widths);
        strbuf_printf(text, "%s\n", has_colours ? "\033[0m" : "");
        for (size_t i = 0; i < columns->n_cells; i += columns->n_columns) {
                strbuf_puts(text, indent);
                columns_put_row(text, columns, &columns->cells[i], widths);
                strbuf_putc(text, '\n');
        }
        free(widths);
}

/* ---- for programs ---- */

void csv_put(struct strbuf *text, const char *cell, char end)
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
        strbuf_putc(text, end);
}

void csv_put_number(struct strbuf *text, double number, char end)
{
        char cell[32] = "";

        if (!isnan(number))
                snprintf(cell, sizeof(cell), "%.15g", number);
        csv_put(text, cell, end);
}
