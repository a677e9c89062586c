// SPDX-License-Identifier: Apache-2.0
/*
 * man(7) knows lines that begin with a dot, and backslashes. Every hyphen is written as a minus, so that what is copied
 * from a page can be run.
 */
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "tools/manual/manual.h"

static void put_escaped(struct strbuf *text, const char *from, size_t length)
{
        for (size_t i = 0; i < length; i++) {
                if (i == 0 && (from[i] == '.' || from[i] == '\''))
                        strbuf_puts(text, "\\&");
                if (from[i] == '\\')
                        strbuf_puts(text, "\\e");
                else if (from[i] == '-')
                        strbuf_puts(text, "\\-");
                else
                        strbuf_putc(text, from[i]);
        }
}

static void put_text(struct strbuf *text, const char *from)
{
        put_escaped(text, from, strlen(from));
}

static size_t line_length(const char *from)
{
        return strcspn(from, "\n");
}

static const char *next_line(const char *from)
{
        from += line_length(from);
        return *from ? from + 1 : from;
}

/* Lines that stay as they are, up to an empty one or one of another kind. */
static const char *put_verbatim(struct strbuf *text, const char *from)
{
        strbuf_puts(text, ".RS 2\n.EX\n");
        for (; *from == ' '; from = next_line(from)) {
                size_t indent = MIN(strspn(from, " "), 2);

                put_escaped(text, from + indent, line_length(from) - indent);
                strbuf_putc(text, '\n');
        }
        strbuf_puts(text, ".EE\n.RE\n");
        return from;
}

static void put_paragraphs(struct strbuf *text, const char *from)
{
        bool is_first = true;

        while (*from) {
                if (*from == '\n') {
                        from++;
                        continue;
                }
                if (!is_first)
                        strbuf_puts(text, ".PP\n");
                is_first = false;
                if (*from == ' ') {
                        from = put_verbatim(text, from);
                        continue;
                }
                for (; *from && *from != '\n' && *from != ' '; from = next_line(from)) {
                        put_escaped(text, from, line_length(from));
                        strbuf_putc(text, '\n');
                }
        }
}

/* Returns what follows: the description. */
static const char *put_synopsis(struct strbuf *text, const char *help)
{
        strbuf_puts(text, ".SH SYNOPSIS\n.EX\n");
        for (; *help && *help != '\n'; help = next_line(help)) {
                size_t indent = MIN(strlen("usage: "), line_length(help));

                put_escaped(text, help + indent, line_length(help) - indent);
                strbuf_putc(text, '\n');
        }
        strbuf_puts(text, ".EE\n");
        return help;
}

static void put_commands(struct strbuf *text, const struct command *const *below)
{
        strbuf_puts(text, ".SH COMMANDS\n");
        for (; *below; below++) {
                strbuf_puts(text, ".TP\n.B ");
                put_text(text, (*below)->name);
                strbuf_putc(text, '\n');
                put_text(text, (*below)->summary);
                strbuf_putc(text, '\n');
        }
}

static void put_names(struct strbuf *text, const char *what, const char *const *names, size_t count, const char *before)
{
        for (size_t i = 0; i < count && names[i]; i++) {
                strbuf_puts(text, i ? ", " : what);
                put_text(text, before);
                put_text(text, names[i]);
        }
        if (count && names[0])
                strbuf_puts(text, ".\n");
}

static void put_option(struct strbuf *text, const struct option *option)
{
        size_t n_letters = option_has_letter(option) ? 1 : 0;

        strbuf_puts(text, ".TP\n.BR ");
        if (n_letters)
                strbuf_printf(text, "\\-%s \", \" ", option->aliases[0]);
        strbuf_puts(text, "\\-\\-");
        put_text(text, option->flag);
        if (option->argument) {
                strbuf_puts(text, " \" ");
                put_text(text, option->argument);
                strbuf_putc(text, '"');
        }
        strbuf_putc(text, '\n');
        put_text(text, option->help);
        strbuf_puts(text, ".\n");
        if (!option->fallback)
                return;
        if (option->type != OPTION_BOOL || strcmp(option->fallback, "false") != 0) {
                strbuf_puts(text, "Default: ");
                put_text(text, *option->fallback ? option->fallback : "empty");
                strbuf_puts(text, ".\n");
        }
        put_names(text, "Environment: ", option->environment, ARRAY_SIZE(option->environment), "");
        put_names(text, "In the file: ", &option->key, option->key ? 1 : 0, "");
        put_names(text, "Also: ", option->aliases + n_letters, ARRAY_SIZE(option->aliases) - n_letters, "--");
}

static void put_options(struct strbuf *text, const struct command *command)
{
        const struct option *option;

        strbuf_puts(text, ".SH OPTIONS\n");
        for (size_t i = 0; (option = command_option(command, i)); i++) {
                put_option(text, option);
                if (option == &option_switches[OPTION_VERSION])
                        break; /* those that the agent's page has follow */
        }
}

/* A page's name is the program's, with hyphens for blanks. */
static void put_page(struct strbuf *text, const char *program)
{
        for (; *program; program++)
                if (*program == ' ' || *program == '-')
                        strbuf_puts(text, "\\-");
                else
                        strbuf_putc(text, *program);
}

/* As the head of a page has it, in capitals. */
static void put_title(struct strbuf *text, const char *program)
{
        for (; *program; program++)
                if (*program == ' ' || *program == '-')
                        strbuf_puts(text, "\\-");
                else
                        strbuf_putc(text, (char)toupper((unsigned char)*program));
}

/* Every other page, each once. */
static void put_others(
        struct strbuf *text, const struct command *page, const struct command *const *table, bool *is_first)
{
        for (; *table; table++) {
                const struct command *command = *table;

                if (command != page) {
                        strbuf_puts(text, *is_first ? ".BR " : ",\n.BR ");
                        put_page(text, command->program);
                        strbuf_puts(text, " (1)");
                        *is_first = false;
                }
                if (command->below)
                        put_others(text, page, command->below, is_first);
        }
}

void manual_page(struct strbuf *text, const struct command *command, const char *date)
{
        bool is_first = true;
        const char *description;

        strbuf_puts(text, ".\\\" Made from the tables of commands and options.\n.TH ");
        put_title(text, command->program);
        strbuf_printf(text, " 1 \"%s\" \"Warpshare " WARPSHARE_VERSION "\" \"User Commands\"\n.SH NAME\n", date);
        put_page(text, command->program);
        strbuf_puts(text, " \\- ");
        put_text(text, command->summary);
        strbuf_putc(text, '\n');
        description = put_synopsis(text, command->help);
        strbuf_puts(text, ".SH DESCRIPTION\n");
        put_paragraphs(text, description);
        if (command->below)
                put_commands(text, command->below);
        put_options(text, command);
        if (command->more_help) {
                strbuf_puts(text, ".SH NOTES\n");
                put_paragraphs(text, command->more_help);
        }
        strbuf_puts(text, ".SH SEE ALSO\n");
        if (command != &command_main) {
                strbuf_puts(text, ".BR warpshare (1)");
                is_first = false;
        }
        put_others(text, command, command_table, &is_first);
        strbuf_putc(text, '\n');
}
