// SPDX-License-Identifier: Apache-2.0
#include "net/metrics/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"

void exposition_family(struct exposition *exposition, const char *name, enum exposition_type type, const char *help)
{
        exposition->family = name;
        strbuf_printf(&exposition->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
                type == EXPOSITION_COUNTER ? "counter" : "gauge");
}

/* Short ASCII without anything to escape, as nearly every value is. */
static bool exposition_is_plain(const char *value)
{
        const char *c = value;

        while (*c >= ' ' && *c < 0x7f && *c != '\\' && *c != '"')
                c++;
        return !*c && (size_t)(c - value) <= EXPOSITION_LABEL_MAX;
}

/* Backslash, quote and newline are all that the format escapes, and the last is not in a clean text. */
static void put_value(struct strbuf *text, const char *value)
{
        char kept[EXPOSITION_LABEL_MAX + 1];

        if (exposition_is_plain(value)) {
                strbuf_puts(text, value);
                return;
        }
        /* Cut before cleaning: a cut character is not valid UTF-8 any more. */
        snprintf(kept, sizeof(kept), "%s", value);
        text_clean(kept);
        for (const char *c = kept; *c; c++) {
                if (*c == '\\' || *c == '"')
                        strbuf_putc(text, '\\');
                strbuf_putc(text, *c);
        }
}

static void exposition_put_labels(struct strbuf *text, const struct exposition_label *labels)
{
        char before = '{';

        for (; labels->name; labels++) {
                if (!labels->value)
                        continue;
                strbuf_putc(text, before);
                strbuf_puts(text, labels->name);
                strbuf_puts(text, "=\"");
                put_value(text, labels->value);
                strbuf_putc(text, '"');
                before = ',';
        }
        if (before == ',')
                strbuf_putc(text, '}');
}

/* Writes a number as Go does, since Prometheus is a Go program. */
static void exposition_put_number(struct strbuf *text, double value)
{
        if (isnan(value))
                strbuf_puts(text, "NaN");
        else if (isinf(value))
                strbuf_puts(text, value > 0 ? "+Inf" : "-Inf");
        else
                strbuf_printf(text, "%.15g", value);
}

void exposition_sample(struct exposition *exposition, const struct exposition_label *labels, double value)
{
        if (exposition->text.size >= EXPOSITION_MAX) {
                exposition->dropped++;
                return;
        }
        strbuf_puts(&exposition->text, exposition->family);
        exposition_put_labels(&exposition->text, labels);
        strbuf_putc(&exposition->text, ' ');
        exposition_put_number(&exposition->text, value);
        strbuf_putc(&exposition->text, '\n');
}

char *exposition_take(struct exposition *exposition)
{
        static const char name[] = "warpshare_exposition_dropped_samples";

        if (exposition->dropped) {
                exposition_family(exposition, name, EXPOSITION_GAUGE, "Samples that this page had no room for.");
                strbuf_printf(&exposition->text, "%s %" PRIu64 "\n", name, exposition->dropped);
        }
        exposition->family = NULL;
        exposition->dropped = 0;
        return strbuf_take(&exposition->text);
}

/* ---- OpenMetrics ---- */

#define HELP "# HELP "
#define TYPE "# TYPE "
#define COUNTER " counter"
#define TOTAL "_total"

/* How much a range of the header is wanted, 0 to 1: "text/plain;version=0.0.4;q=0.3". */
static double exposition_weight_of(const char *range, size_t length)
{
        const char *at = range;

        while ((at = memchr(at, ';', length - (size_t)(at - range)))) {
                for (at++; *at == ' '; at++)
                        ;
                if (strncasecmp(at, "q=", 2) == 0)
                        return strtod(at + 2, NULL);
        }
        return 1;
}

static bool is_type(const char *range, size_t length, const char *type)
{
        const size_t size = strlen(type);

        return length >= size && strncasecmp(range, type, size) == 0 &&
               (length == size || range[size] == ';' || range[size] == ' ');
}

bool openmetrics_is_wanted(const char *accept)
{
        double open = 0;
        double plain = 0;

        while (accept && *accept) {
                const size_t length = strcspn(accept, ",");
                const char *range = accept + strspn(accept, " ");
                const size_t left = length - MIN((size_t)(range - accept), length);
                const double weight = exposition_weight_of(range, left);

                if (is_type(range, left, "application/openmetrics-text"))
                        open = MAX(open, weight);
                else if (is_type(range, left, "text/plain"))
                        plain = MAX(plain, weight);
                accept += length + (accept[length] == ',');
        }
        return open > 0 && open >= plain;
}

static bool openmetrics_ends_with(const char *text, size_t length, const char *end)
{
        const size_t size = strlen(end);

        return length >= size && memcmp(text + length - size, end, size) == 0;
}

/* Backslash, quote and newline are escaped; the page has escaped the last. */
static void put_help(struct strbuf *text, const char *help, size_t length)
{
        for (size_t i = 0; i < length; i++) {
                if (help[i] == '"')
                        strbuf_putc(text, '\\');
                strbuf_putc(text, help[i]);
        }
}

/* The names of all families, a line each, after an empty one. */
static void list_families(struct strbuf *names, const char *page)
{
        strbuf_putc(names, '\n');
        for (const char *at = page; (at = strstr(at, TYPE)); at++)
                if (at == page || at[-1] == '\n') {
                        strbuf_append(names, at + strlen(TYPE), strcspn(at + strlen(TYPE), " \n"));
                        strbuf_putc(names, '\n');
                }
}

static bool is_family(const struct strbuf *names, const char *name, size_t length)
{
        _free_ char *line = xasprintf("\n%.*s\n", (int)length, name);

        return strstr(names->data, line) != NULL;
}

/* The two lines of a head, which begins at |help|; returns what follows them. */
static const char *put_head(struct strbuf *text, const struct strbuf *names, const char *help)
{
        const char *name = help + strlen(HELP);
        const size_t name_length = strcspn(name, " \n");
        const size_t help_length = strcspn(name + name_length, "\n");
        const char *type = name + name_length + help_length + 1;
        const size_t type_length = strcspn(type, "\n");
        const bool is_counter = openmetrics_ends_with(type, type_length, COUNTER);
        const bool is_total = is_counter && openmetrics_ends_with(name, name_length, TOTAL) &&
                              !is_family(names, name, name_length - strlen(TOTAL));
        const int length = (int)(name_length - (is_total ? strlen(TOTAL) : 0));

        strbuf_printf(text, HELP "%.*s", length, name);
        put_help(text, name + name_length, help_length);
        strbuf_printf(text, "\n" TYPE "%.*s %s\n", length, name,
                is_total     ? "counter"
                : is_counter ? "unknown"
                             : "gauge");
        return type + type_length + (type[type_length] == '\n');
}

char *openmetrics_of(char *page)
{
        _cleanup_(strbuf_done) struct strbuf names = STRBUF_INIT;
        struct strbuf text = STRBUF_INIT;

        list_families(&names, page);
        for (const char *line = page; *line;) {
                const size_t length = strcspn(line, "\n");

                if (strncmp(line, HELP, strlen(HELP)) == 0) {
                        line = put_head(&text, &names, line);
                } else {
                        strbuf_append(&text, line, length);
                        strbuf_putc(&text, '\n');
                        line += length + (line[length] == '\n');
                }
        }
        strbuf_puts(&text, "# EOF\n");
        free(page);
        return strbuf_take(&text);
}
