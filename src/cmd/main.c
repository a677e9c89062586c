// SPDX-License-Identifier: Apache-2.0
/* The one binary: the name in argv[0], or the first argument, selects the command. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "cmd/commands.h"

static void print_help(FILE *to)
{
        struct command options = command_main;
        struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%scommands:\n", options.help);
        for (const struct command *const *command = command_table; *command; command++)
                strbuf_printf(&text, "  %-21s %s\n", (*command)->name, (*command)->summary);
        strbuf_puts(&text, "\noptions:\n");
        options.help = NULL;
        command_print_help(&options, &text);
        fputs(text.data, to);
        strbuf_done(&text);
}

/* "help", or "help mps status", which is "mps status --help". */
static int help(int argc, char **argv)
{
        const struct command *command;
        char flag[] = "--help";
        char *words[] = {argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : flag, argc > 2 ? flag : NULL, NULL};

        if (argc < 2) {
                print_help(stdout);
                return 0;
        }
        command = command_find(command_table, words[0]);
        if (!command)
                return command_refuse_word("warpshare", command_table, words[0]);
        return command_run(command, argc > 2 ? 3 : 2, words);
}

/*
 * Makes the libraries abort without memory, too (base/alloc.h). By itself jansson would omit members of an object, and
 * libuv would print nothing.
 */
static void abort_without_memory(void)
{
        json_set_alloc_funcs(xmalloc, free);
        uv_replace_allocator(xmalloc, xrealloc, xcalloc, free);
}

/*
 * libuv aborts without a word where the system refuses it what it does not expect, a descriptor for example. Not by
 * strerror(), which may take a lock: the signal may come from outside, at any moment.
 */
static void on_abort(int number)
{
        static const struct {
                int number;
                const char *text;
        } refusals[] = {{EMFILE, "too many open files\n"}, {ENFILE, "too many open files on this machine\n"},
                {ENOMEM, "no memory\n"}, {EAGAIN, "a limit of processes and threads, or of memory\n"},
                {ENOSPC, "no space, or a limit of watches\n"}};
        static const char beginning[] = "aborted; what the system refused last: ";
        const char *text = "no limit of descriptors, memory or threads\n";
        int last = errno; /* NOLINT(bugprone-signal-handler): a variable of this thread */

        for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
                if (refusals[i].number == last)
                        text = refusals[i].text;
        (void)!write(STDERR_FILENO, beginning, sizeof(beginning) - 1);
        (void)!write(STDERR_FILENO, text, strlen(text));
        signal(number, SIG_DFL);
        raise(number); /* it comes with the return */
}

int main(int argc, char **argv)
{
        const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
        const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
        const char *word = argc > 1 ? argv[1] : NULL;
        const struct command *command = command_find(command_table, name);
        const struct command *named = word ? command_find(command_table, word) : NULL;

        abort_without_memory();
        signal(SIGABRT, on_abort);
        /*
         * NVIDIA's plugin knows no words. It is the image's entry point, so that `docker run IMAGE demo` is `warpshare
         * demo`.
         */
        if (command && !(named && command == &command_device_plugin))
                return command_run(command, argc, argv);
        if (!word) {
                print_help(stderr);
                return EXIT_USAGE;
        }
        if (strcmp(word, "help") == 0)
                return help(argc - 1, argv + 1);
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
                return help(1, argv);
        if (strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0) {
                puts("warpshare " WARPSHARE_VERSION);
                return 0;
        }
        if (named)
                return command_run(named, argc - 1, argv + 1);
        return command_refuse_word("warpshare", command_table, word);
}
