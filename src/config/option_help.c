/*
 * The option part of --help: the flag at the left, its meaning and its other names at the right.
 */
#include <string.h>

#include "config/option.h"

#define HELP_INDENT ((size_t)32)
#define HELP_WIDTH ((size_t)100)

/* Appends the words of |text| from column |*column| on, in lines that begin at HELP_INDENT. */
static void put_words(struct strbuf *help, size_t *column, const char *text)
{
        while (*text) {
                size_t length = strcspn(text, " ");

                if (*column > HELP_INDENT && *column + 1 + length > HELP_WIDTH) {
                        strbuf_printf(help, "\n%*s", (int)HELP_INDENT, "");
                        *column = HELP_INDENT;
                } else if (*column > HELP_INDENT) {
                        strbuf_putc(help, ' ');
                        (*column)++;
                }
                strbuf_append(help, text, length);
                *column += length;
                text += length;
                text += strspn(text, " ");
        }
}

static void put_flag(struct strbuf *help, const char *flag)
{
        size_t length = strlen(flag);

        /* A flag that is too long has a line of its own. */
        if (length + 4 > HELP_INDENT) /* two spaces at least, so that eye and program see where the help begins */
                strbuf_printf(help, "  %s\n%*s", flag, (int)HELP_INDENT, "");
        else
                strbuf_printf(help, "  %s%*s", flag, (int)(HELP_INDENT - 2 - length), "");
}

bool option_has_letter(const struct option *option)
{
        return option->aliases[0] && !option->aliases[0][1];
}

void option_print_one(struct strbuf *help, const struct option *option)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t column = HELP_INDENT;
        size_t n_letters = option_has_letter(option) ? 1 : 0;

        if (n_letters)
                strbuf_printf(&text, "-%s, ", option->aliases[0]);
        strbuf_printf(
                &text, "--%s%s%s", option->flag, option->argument ? " " : "", option->argument ? option->argument : "");
        put_flag(help, text.data);
        put_words(help, &column, option->help);
        if (option->fallback) {
                strbuf_clear(&text);
                strbuf_printf(&text, "(default %s", *option->fallback ? option->fallback : "empty");
                for (size_t i = 0; i < ARRAY_SIZE(option->environment) && option->environment[i]; i++)
                        strbuf_printf(&text, "%s %s", i ? " or" : "; env", option->environment[i]);
                if (option->key)
                        strbuf_printf(&text, "; key %s", option->key);
                for (size_t i = n_letters; i < ARRAY_SIZE(option->aliases) && option->aliases[i]; i++)
                        strbuf_printf(&text, "; also --%s", option->aliases[i]);
                strbuf_puts(&text, ")");
                put_words(help, &column, text.data);
        }
        strbuf_putc(help, '\n');
}
