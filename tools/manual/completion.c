// SPDX-License-Identifier: Apache-2.0
/*
 * The three files have one form: the words on the line so far lead to a place among the commands, "mps status", and for
 * each place there are the commands below and the options, and for each option that takes a value the values, or files.
 *
 * What comes from the tables goes into single quotes.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "tools/manual/manual.h"

enum value { VALUE_NONE, VALUE_CHOICE, VALUE_FILE, VALUE_ANY };

static enum value value_of(const struct option *option)
{
        if (option->type == OPTION_BOOL)
                return VALUE_NONE;
        if (option->choices)
                return VALUE_CHOICE;
        if (text_is_same(option->argument, "PATH") || text_is_same(option->argument, "PROGRAM"))
                return VALUE_FILE;
        return VALUE_ANY;
}

/* A function's name. */
static void put_identifier(struct strbuf *text, const char *name)
{
        for (; *name; name++)
                strbuf_putc(text, *name == '-' ? '_' : *name);
}

/* The inside of single quotes; |special| gets a backslash. */
static void put_quoted(struct strbuf *text, const char *from, const char *special)
{
        for (; *from; from++) {
                if (*from == '\'')
                        strbuf_puts(text, "'\\''");
                else if (strchr(special, *from))
                        strbuf_printf(text, "\\%c", *from);
                else
                        strbuf_putc(text, *from);
        }
}

static void put_choices(struct strbuf *text, const struct option *option)
{
        for (size_t i = 0; option->choices[i]; i++) {
                strbuf_puts(text, i ? " " : "");
                put_quoted(text, option->choices[i], "");
        }
}

typedef void place_fn(
        struct strbuf *text, const struct command *program, const char *place, const struct command *command);

/* |place|: the words after the program's, "" for none. */
static void each_place_below(struct strbuf *text, const struct command *program, const char *place,
        const struct command *command, place_fn *visit)
{
        visit(text, program, place, command);
        for (const struct command *const *below = command->below; below && *below; below++) {
                _free_ char *longer = xasprintf("%s%s%s", place, *place ? " " : "", (*below)->name);

                each_place_below(text, program, longer, *below, visit);
        }
}

static void each_place(struct strbuf *text, const struct command *program, place_fn *visit)
{
        each_place_below(text, program, "", program, visit);
}

/* ---- bash ---- */

static void put_bash_place(struct strbuf *text, const struct command *program UNUSED, const char *place,
        const struct command *command UNUSED)
{
        if (*place)
                strbuf_printf(text, " | '%s'", place);
}

static void put_bash_values(
        struct strbuf *text, const struct command *program UNUSED, const char *place, const struct command *command)
{
        const struct option *option;

        for (size_t i = 0; (option = command_option(command, i)); i++) {
                if (value_of(option) == VALUE_NONE)
                        continue;
                strbuf_printf(text, "        '%s --%s'", place, option->flag);
                for (size_t j = 0; j < ARRAY_SIZE(option->aliases) && option->aliases[j]; j++)
                        strbuf_printf(text, " | '%s --%s'", place, option->aliases[j]);
                strbuf_puts(text, ")\n");
                if (value_of(option) == VALUE_CHOICE) {
                        strbuf_puts(text, "                values='");
                        put_choices(text, option);
                        strbuf_puts(text, "' ;;\n");
                } else {
                        strbuf_puts(text, value_of(option) == VALUE_FILE ? "                values=/ ;;\n"
                                                                         : "                return ;;\n");
                }
        }
}

static void put_bash_words(
        struct strbuf *text, const struct command *program UNUSED, const char *place, const struct command *command)
{
        const struct option *option;
        const char *blank = "";

        strbuf_printf(text, "        '%s')\n                values='", place);
        for (const struct command *const *below = command->below; below && *below; below++, blank = " ")
                strbuf_printf(text, "%s%s", blank, (*below)->name);
        for (size_t i = 0; (option = command_option(command, i)); i++, blank = " ")
                strbuf_printf(text, "%s--%s", blank, option->flag);
        strbuf_puts(text, "' ;;\n");
}

void manual_bash(struct strbuf *text, const struct command *program)
{
        strbuf_printf(text,
                "# shellcheck shell=bash\n"
                "# Completion of %s for bash, made from its tables of commands and options.\n_",
                program->name);
        put_identifier(text, program->name);
        strbuf_puts(text, "()\n"
                          "{\n"
                          "        local place='' longer='' values='' before='' i\n"
                          "        local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]}\n"
                          "\n"
                          "        COMPREPLY=()\n"
                          "        for ((i = 1; i < COMP_CWORD; i++)); do\n"
                          "                longer=${place:+$place }${COMP_WORDS[i]}\n"
                          "                case $longer in\n"
                          "                ''");
        each_place(text, program, put_bash_place);
        strbuf_puts(text, ") place=$longer ;;\n"
                          "                *)\n"
                          "                        [[ $place || $longer == -* ]] || return # no command of ours\n"
                          "                        break\n"
                          "                        ;;\n"
                          "                esac\n"
                          "        done\n"
                          "        if [[ $word == -*=* ]]; then # where '=' breaks no words\n"
                          "                before=${word%%=*}=\n"
                          "                flag=${word%%=*}\n"
                          "                word=${word#*=}\n"
                          "        elif [[ $word == '=' ]]; then\n"
                          "                word=''\n"
                          "        elif [[ $flag == '=' && $COMP_CWORD -gt 2 ]]; then\n"
                          "                flag=${COMP_WORDS[COMP_CWORD - 2]}\n"
                          "        fi\n"
                          "        [[ $flag == -[!-]* ]] && flag=-$flag\n"
                          "        case \"$place $flag\" in\n");
        each_place(text, program, put_bash_values);
        strbuf_puts(text, "        esac\n"
                          "        if [[ $values == / ]]; then\n"
                          "                compopt -o filenames 2>/dev/null\n"
                          "                mapfile -t COMPREPLY < <(compgen -f -P \"$before\" -- \"$word\")\n"
                          "                return\n"
                          "        fi\n"
                          "        if [[ $values && $word == *,* ]]; then\n"
                          "                before+=${word%,*},\n"
                          "                word=${word##*,}\n"
                          "        fi\n"
                          "        [[ $values ]] || case $place in\n");
        each_place(text, program, put_bash_words);
        strbuf_puts(text, "        esac\n"
                          "        mapfile -t COMPREPLY < <(compgen -P \"$before\" -W \"$values\" -- \"$word\")\n"
                          "}\n"
                          "complete -F _");
        put_identifier(text, program->name);
        strbuf_printf(text, " %s\n", program->name);
}

/* ---- zsh ---- */

static void put_zsh_place(struct strbuf *text, const struct command *program UNUSED, const char *place,
        const struct command *command UNUSED)
{
        if (*place)
                strbuf_printf(text, "|'%s'", place);
}

static void put_zsh_option(struct strbuf *text, const char *flag, const struct option *option)
{
        enum value value = value_of(option);

        strbuf_printf(text, " \\\n                        '%s%s%s[", strlen(flag) == 1 ? "-" : "--", flag,
                value == VALUE_NONE ? "" : "=");
        put_quoted(text, option->help, "[]\\");
        strbuf_putc(text, ']');
        if (value != VALUE_NONE)
                strbuf_printf(text, ":%s:", option->argument ? option->argument : "");
        if (value == VALUE_CHOICE) {
                strbuf_putc(text, '(');
                put_choices(text, option);
                strbuf_putc(text, ')');
        } else if (value == VALUE_FILE) {
                strbuf_puts(text, "_files");
        }
        strbuf_putc(text, '\'');
}

static void put_zsh_words(
        struct strbuf *text, const struct command *program UNUSED, const char *place, const struct command *command)
{
        const struct option *option;

        strbuf_printf(text, "        '%s')\n", place);
        if (command->below) {
                strbuf_puts(text, "                commands=(");
                for (const struct command *const *below = command->below; *below; below++) {
                        strbuf_printf(text, "\n                        '%s:", (*below)->name);
                        put_quoted(text, (*below)->summary, ":\\");
                        strbuf_putc(text, '\'');
                }
                strbuf_puts(text, ")\n"
                                  "                (( CURRENT == 2 )) && _describe -t commands command commands\n");
        }
        strbuf_puts(text, "                _arguments -S");
        for (size_t i = 0; (option = command_option(command, i)); i++)
                put_zsh_option(text, option->flag, option);
        strbuf_puts(text, " ;;\n");
}

void manual_zsh(struct strbuf *text, const struct command *program)
{
        strbuf_printf(text,
                "#compdef %s\n"
                "# Completion of %s for zsh, made from its tables of commands and options.\n_",
                program->name, program->name);
        put_identifier(text, program->name);
        strbuf_puts(text, "()\n"
                          "{\n"
                          "        local place='' longer\n"
                          "        local -a commands\n"
                          "        integer at=2\n"
                          "\n"
                          "        while (( at < CURRENT )); do\n"
                          "                longer=\"${place:+$place }${words[at]}\"\n"
                          "                case $longer in\n"
                          "                (''");
        each_place(text, program, put_zsh_place);
        strbuf_puts(text, ") place=$longer ;;\n"
                          "                (*) break ;;\n"
                          "                esac\n"
                          "                (( at++ ))\n"
                          "        done\n"
                          "        words=(\"$words[1]\" \"${(@)words[at,-1]}\")\n"
                          "        (( CURRENT -= at - 2 ))\n"
                          "        case $place in\n");
        each_place(text, program, put_zsh_words);
        strbuf_puts(text, "        esac\n"
                          "}\n_");
        put_identifier(text, program->name);
        strbuf_puts(text, " \"$@\"\n");
}

/* ---- fish ---- */

static void put_fish_place(struct strbuf *text, const struct command *program UNUSED, const char *place,
        const struct command *command UNUSED)
{
        if (*place)
                strbuf_printf(text, " '%s'", place);
}

/* fish has one more rule for single quotes: a backslash. */
static void put_fish_text(struct strbuf *text, const char *from)
{
        for (; *from; from++) {
                if (*from == '\'' || *from == '\\')
                        strbuf_putc(text, '\\');
                strbuf_putc(text, *from);
        }
}

static void begin_fish(struct strbuf *text, const struct command *program, const char *place)
{
        strbuf_printf(text, "complete -c %s -n 'test \"$(__", program->name);
        put_identifier(text, program->name);
        strbuf_printf(text, "_place)\" = \"%s\"' ", place);
}

static void put_fish_words(
        struct strbuf *text, const struct command *program, const char *place, const struct command *command)
{
        const struct option *option;

        for (const struct command *const *below = command->below; below && *below; below++) {
                begin_fish(text, program, place);
                strbuf_printf(text, "-a %s -d '", (*below)->name);
                put_fish_text(text, (*below)->summary);
                strbuf_puts(text, "'\n");
        }
        for (size_t i = 0; (option = command_option(command, i)); i++) {
                begin_fish(text, program, place);
                strbuf_printf(text, "-l %s ", option->flag);
                if (value_of(option) == VALUE_FILE)
                        strbuf_puts(text, "-r -F ");
                else if (value_of(option) != VALUE_NONE)
                        strbuf_puts(text, "-x ");
                if (value_of(option) == VALUE_CHOICE) {
                        strbuf_puts(text, "-a '");
                        for (size_t j = 0; option->choices[j]; j++) {
                                strbuf_puts(text, j ? " " : "");
                                put_fish_text(text, option->choices[j]);
                        }
                        strbuf_puts(text, "' ");
                }
                strbuf_puts(text, "-d '");
                put_fish_text(text, option->help);
                strbuf_puts(text, "'\n");
        }
}

void manual_fish(struct strbuf *text, const struct command *program)
{
        strbuf_printf(text, "# Completion of %s for fish, made from its tables of commands and options.\nfunction __",
                program->name);
        put_identifier(text, program->name);
        strbuf_puts(text, "_place\n"
                          "    set -l place\n"
                          "    for word in (commandline -opc)[2..]\n"
                          "        switch \"$(string join -- ' ' $place $word)\"\n"
                          "            case ''");
        each_place(text, program, put_fish_place);
        strbuf_printf(text,
                "\n"
                "                set -a place $word\n"
                "            case '*'\n"
                "                break\n"
                "        end\n"
                "    end\n"
                "    string join -- ' ' $place\n"
                "end\n"
                "complete -c %s -f\n",
                program->name);
        each_place(text, program, put_fish_words);
}
