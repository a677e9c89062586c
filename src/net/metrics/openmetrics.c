#include "net/metrics/openmetrics.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/strbuf.h"

#define HELP "# HELP "
#define TYPE "# TYPE "
#define COUNTER " counter"
#define TOTAL "_total"

/* ---- who wants it ---- */

/* How much a range of the header is wanted, 0 to 1: "text/plain;version=0.0.4;q=0.3". */
static double weight_of(const char *range, size_t length)
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
                const double weight = weight_of(range, left);

                if (is_type(range, left, "application/openmetrics-text"))
                        open = MAX(open, weight);
                else if (is_type(range, left, "text/plain"))
                        plain = MAX(plain, weight);
                accept += length + (accept[length] == ',');
        }
        return open > 0 && open >= plain;
}

/* ---- the page ---- */

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
