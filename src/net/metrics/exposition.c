#include "net/metrics/exposition.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

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
