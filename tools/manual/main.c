// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare-manual DATE PAGES BASH ZSH FISH: writes manual pages and completion files into these folders. A tool of the
 * build; which files there are follows from the table of commands.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tools/manual/manual.h"

enum { DATE = 1, PAGES, BASH, ZSH, FISH, COUNT };

static int write_text(const char *folder, const char *before, const char *name, const char *after, struct strbuf *text,
        struct error *err)
{
        _free_ char *file = xasprintf("%s%s%s", before, name, after);
        _free_ char *path = NULL;
        int rc;

        for (char *blank = file; (blank = strchr(blank, ' '));)
                *blank = '-';
        path = xasprintf("%s/%s", folder, file);
        rc = file_write(path, text->data, text->size, err);
        strbuf_done(text);
        return rc;
}

/* A command has a page, and so has all that is below it. */
static int write_pages(char **argv, const struct command *command, struct error *err)
{
        struct strbuf text = STRBUF_INIT;

        manual_page(&text, command, argv[DATE]);
        if (write_text(argv[PAGES], "", command->program, ".1", &text, err) < 0)
                return -1;
        for (const struct command *const *below = command->below; below && *below; below++)
                if (write_pages(argv, *below, err) < 0)
                        return -1;
        return 0;
}

static int write_completions(char **argv, const struct command *program, struct error *err)
{
        struct strbuf text = STRBUF_INIT;

        manual_bash(&text, program);
        if (write_text(argv[BASH], "", program->name, "", &text, err) < 0)
                return -1;
        manual_zsh(&text, program);
        if (write_text(argv[ZSH], "_", program->name, "", &text, err) < 0)
                return -1;
        manual_fish(&text, program);
        return write_text(argv[FISH], "", program->name, ".fish", &text, err);
}

static int write_all(char **argv, struct error *err)
{
        for (int i = PAGES; i < COUNT; i++)
                if (file_make_folder(argv[i], err) < 0)
                        return -1;
        if (write_pages(argv, &command_main, err) < 0 || write_completions(argv, &command_main, err) < 0)
                return -1;
        /* Those that are programs, too, by a link of their name. */
        for (const struct command *const *command = command_table; *command; command++)
                if (strcmp((*command)->program, (*command)->name) == 0 && write_completions(argv, *command, err) < 0)
                        return -1;
        return 0;
}

int main(int argc, char **argv)
{
        struct error err;

        if (argc != COUNT) {
                fputs("usage: warpshare-manual DATE PAGES BASH ZSH FISH\n", stderr);
                return EXIT_USAGE;
        }
        if (write_all(argv, &err) < 0) {
                fprintf(stderr, "warpshare-manual: %s\n", err.text);
                return EXIT_FAILED;
        }
        return 0;
}
