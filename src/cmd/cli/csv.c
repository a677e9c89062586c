#include "cmd/cli/csv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
