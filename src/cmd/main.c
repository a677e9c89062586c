/* The one binary: the name in argv[0], or the first argument, selects the command. */
#include <stdio.h>
#include <string.h>

#include "cmd/commands.h"

static void print_help(FILE *to)
{
        struct command_line options = *command_main.line;
        struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%scommands:\n", options.help);
        for (const struct command *command = command_table; command->name; command++)
                strbuf_printf(&text, "  %-20s %s\n", command->name, command->summary);
        strbuf_puts(&text, "\noptions:\n");
        options.help = NULL;
        command_line_print_help(&options, &text);
        fputs(text.data, to);
        strbuf_done(&text);
}

int main(int argc, char **argv)
{
        const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
        const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
        const char *word = argc > 1 ? argv[1] : NULL;
        const struct command *command = command_find(command_table, name);

        if (command)
                return command->run(argc, argv);
        if (!word) {
                print_help(stderr);
                return EXIT_USAGE;
        }
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
                print_help(stdout);
                return 0;
        }
        if (strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0) {
                puts("warpshare " WARPSHARE_VERSION);
                return 0;
        }
        command = command_find(command_table, word);
        if (command)
                return command->run(argc - 1, argv + 1);
        fprintf(stderr, "warpshare: '%s' is not a command; 'warpshare --help' lists them\n", word);
        return EXIT_USAGE;
}
