#include "cmd/cli/removal.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli/columns.h"

void removals_done(struct removals *removals)
{
        free(removals->rows);
        arena_done(&removals->arena);
}

void removals_add(struct removals *removals, enum removal_outcome outcome, const char *what, const char *where,
        const char *note, ...)
{
        va_list args;

        removals->rows = xrealloc(removals->rows, (removals->n_rows + 1) * sizeof(*removals->rows));
        va_start(args, note);
        removals->rows[removals->n_rows++] = (struct removal){
                .what = arena_strdup(&removals->arena, what),
                .where = arena_strdup(&removals->arena, where),
                .outcome = outcome,
                .note = arena_vprintf(&removals->arena, note, args),
        };
        va_end(args);
}

void removals_end(struct removals *removals, const char *what, const char *where, const struct error *err)
{
        removals_add(removals, err ? REMOVAL_LEFT : REMOVAL_DONE, what, where, "%s", err ? err->text : "");
}

void removals_unlink(struct removals *removals, const char *what, const char *path, const char *left)
{
        if (!left && !removals->is_dry && unlink(path) < 0)
                left = strerror(errno);
        removals_add(removals, left ? REMOVAL_LEFT : REMOVAL_DONE, what, path, "%s", left ? left : "");
}

size_t removals_count(const struct removals *removals, enum removal_outcome outcome)
{
        size_t count = 0;

        for (size_t i = 0; i < removals->n_rows; i++)
                count += removals->rows[i].outcome == outcome;
        return count;
}

static const char *word(const struct removals *removals, enum removal_outcome outcome)
{
        static const char *const words[] = {
                [REMOVAL_DONE] = "removed",
                [REMOVAL_LEFT] = "left",
                [REMOVAL_ABSENT] = "was not there",
                [REMOVAL_UNSEEN] = "not checked",
        };

        return outcome == REMOVAL_DONE && removals->is_dry ? "would be removed" : words[outcome];
}

void removals_print(const struct removals *removals, struct strbuf *text)
{
        static const struct column list[] = {
                {.head = "WHAT"}, {.head = "OUTCOME"}, {.head = "WHERE"}, {.head = "NOTE"}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < removals->n_rows; i++) {
                const struct removal *row = &removals->rows[i];

                columns_add(&columns, "%s", row->what);
                columns_add(&columns, "%s", word(removals, row->outcome));
                columns_add(&columns, "%s", *row->where ? row->where : "-");
                columns_add(&columns, "%s", *row->note ? row->note : "-");
        }
        columns_print(text, &columns, "", false);
        columns_done(&columns);
}
