#include "metrics/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct reader {
        struct arena *arena;
        const char *at;
        size_t line;
        struct page_sample *samples;
        size_t n_samples;
        size_t capacity;
};

static int page_fail(const struct reader *reader, const char *what, struct error *err)
{
        return error_set(err, ERROR_INVALID, "line %zu of the metrics: %s", reader->line, what);
}

static bool is_name(char c, bool is_first)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
               (!is_first && c >= '0' && c <= '9');
}

static void skip_blanks(struct reader *reader)
{
        reader->at += strspn(reader->at, " \t");
}

/* NULL: there is none. */
static const char *read_name(struct reader *reader)
{
        const char *start = reader->at;

        while (is_name(*reader->at, reader->at == start))
                reader->at++;
        return reader->at == start ? NULL : arena_strndup(reader->arena, start, (size_t)(reader->at - start));
}

/* "…" with the format's three escapes; NULL: it has no end. */
static const char *read_value(struct reader *reader)
{
        const char *start = ++reader->at;
        char *value;
        char *to;

        while (*reader->at != '"' && *reader->at != '\n' && *reader->at)
                reader->at += reader->at[0] == '\\' && reader->at[1] && reader->at[1] != '\n' ? 2 : 1;
        if (*reader->at != '"')
                return NULL;
        value = to = arena_strndup(reader->arena, start, (size_t)(reader->at++ - start));
        for (const char *from = value; *from; from++) {
                if (*from == '\\' && from[1])
                        *to++ = *++from == 'n' ? '\n' : *from;
                else
                        *to++ = *from;
        }
        *to = '\0';
        return value;
}

static int read_labels(struct reader *reader, struct page_sample *sample, struct error *err)
{
        struct page_label labels[PAGE_LABELS_MAX];
        struct page_label *copy;

        for (reader->at++, skip_blanks(reader); *reader->at != '}'; skip_blanks(reader)) {
                struct page_label label = {.name = read_name(reader)};

                skip_blanks(reader);
                if (!label.name || *reader->at != '=')
                        return page_fail(reader, "a label has no name, or no value", err);
                reader->at++;
                skip_blanks(reader);
                label.value = *reader->at == '"' ? read_value(reader) : NULL;
                if (!label.value)
                        return page_fail(reader, "the value of a label does not stand between quotes", err);
                if (sample->n_labels == PAGE_LABELS_MAX)
                        return page_fail(reader, "it has more than 64 labels", err);
                labels[sample->n_labels++] = label;
                skip_blanks(reader);
                if (*reader->at == ',')
                        reader->at++;
                else if (*reader->at != '}')
                        return page_fail(reader, "a label has no end", err);
        }
        reader->at++;
        copy = ARENA_ARRAY(reader->arena, struct page_label, sample->n_labels);
        for (size_t i = 0; i < sample->n_labels; i++)
                copy[i] = labels[i];
        sample->labels = copy;
        return 0;
}

static void page_add(struct reader *reader, const struct page_sample *sample)
{
        if (reader->n_samples == reader->capacity) {
                const size_t capacity = MAX(2 * reader->capacity, (size_t)256);
                struct page_sample *more = ARENA_ARRAY(reader->arena, struct page_sample, capacity);

                if (reader->n_samples)
                        memcpy(more, reader->samples, reader->n_samples * sizeof(*more));
                reader->samples = more;
                reader->capacity = capacity;
        }
        reader->samples[reader->n_samples++] = *sample;
}

static int read_sample(struct reader *reader, struct error *err)
{
        struct page_sample sample = {.name = read_name(reader)};
        char *end;

        if (!sample.name)
                return page_fail(reader, "it begins with no name", err);
        skip_blanks(reader);
        if (*reader->at == '{' && read_labels(reader, &sample, err) < 0)
                return -1;
        skip_blanks(reader);
        sample.value = strtod(reader->at, &end);
        if (end == reader->at || !strchr(" \t\n", *end))
                return page_fail(reader, "it has no number", err);
        page_add(reader, &sample);
        return 0;
}

int page_read(struct page *ret, struct arena *arena, const char *text, size_t size, struct error *err)
{
        struct reader reader = {.arena = arena, .at = text};

        if (size > PAGE_MAX || strlen(text) != size)
                return error_set(err, ERROR_INVALID, "the metrics are no text of at most 16 MiB");
        while (*reader.at) {
                reader.line++;
                skip_blanks(&reader);
                if (*reader.at != '#' && *reader.at != '\n' && *reader.at && read_sample(&reader, err) < 0)
                        return -1;
                reader.at += strcspn(reader.at, "\n");
                reader.at += *reader.at == '\n';
        }
        *ret = (struct page){.samples = reader.samples, .n_samples = reader.n_samples};
        return 0;
}

const char *page_label(const struct page_sample *sample, const char *name)
{
        for (size_t i = 0; i < sample->n_labels; i++)
                if (strcmp(sample->labels[i].name, name) == 0)
                        return sample->labels[i].value;
        return NULL;
}
