/*
 * warpshare top: who uses what on this node, once, or again and again in a terminal.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/commands.h"
#include "cli/command_line.h"
#include "cmd/top/top.h"

#define DEFAULT_ADDRESS "127.0.0.1:9400"

enum { ONCE, OUTPUT, SORT, FILTER, INTERVAL };

static const char *const outputs[] = {"table", "json", "csv", NULL};
static const char *const sorts[] = {"memory", "sm", "peak", "pod", NULL}; /* in the order of enum top_sort */

static const struct option own[] = {
        [ONCE] = {.flag = "once",
                .type = OPTION_BOOL,
                .fallback = "false",
                .help = "print once; also where the output is no terminal, or no table"},
        [OUTPUT] = {.flag = "output",
                .type = OPTION_CHOICE,
                .choices = outputs,
                .fallback = "table",
                .argument = "WORD",
                .help = "table for people, json or csv for programs"},
        [SORT] = {.flag = "sort",
                .type = OPTION_CHOICE,
                .choices = sorts,
                .fallback = "memory",
                .argument = "WORD",
                .help = "order of the pods on a GPU: memory, sm, peak or pod"},
        [FILTER] = {.flag = "filter",
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "TEXT",
                .help = "only pods whose namespace/pod/container contains it"},
        [INTERVAL] = {.flag = "interval",
                .type = OPTION_STRING,
                .fallback = "5",
                .argument = "SECONDS",
                .help = "between two looks, 1 to 3600"},
};

static const char *const shared[] = {"metrics-address", "nvml-library", "driver-root-ctr-path", "system-root", NULL};

const struct command_line command_top_line = {
        .shared = shared,
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare top",
        .help = "usage: warpshare top [OPTION...]\n"
                "\n"
                "Shows the GPUs and MIG devices of this node, with the pods that use them: memory, its limit and its peak of\n"
                "the last hour, activity on the SMs and on memory, time on the GPU, and an estimate of energy. It asks the\n"
                "agent for its metrics (by default at " DEFAULT_ADDRESS
                "). Where no agent answers it asks the driver itself:\n"
                "then pods have no names, and there is no limit and no past. What is not known is \"-\".\n"
                "\n",
};

static const char *address_of(const struct option_set *set)
{
        const char *address = command_line_get(set, "metrics-address");

        return *address ? address : DEFAULT_ADDRESS;
}

/* The driver is asked only where nobody named an agent. */
static int get_page(char **ret, const struct option_set *set, struct error *err)
{
        struct error agent;
        struct error driver;

        if (top_fetch(ret, address_of(set), err) == 0)
                return 0;
        agent = *err;
        if (err->kind != ERROR_UNAVAILABLE || *command_line_get(set, "metrics-address"))
                return -1;
        if (top_read_local(ret, command_line_get(set, "nvml-library"), command_line_get(set, "driver-root-ctr-path"),
                    command_line_get(set, "system-root"), &driver) == 0)
                return 0;
        return error_set(err, driver.kind, "%s; and %s", agent.text, driver.text);
}

static unsigned int terminal_width(void)
{
        struct winsize size = {0};

        return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int show(const struct option_set *set, const char *const *values, bool clears, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct top_wish wish = {
                .sort = (enum top_sort)option_position(&own[SORT], values[SORT]), .filter = values[FILTER]};
        struct strbuf text = STRBUF_INIT;
        _free_ char *page_text = NULL;
        _free_ char *other = NULL;
        struct page page;
        struct top top;

        if (get_page(&page_text, set, err) < 0 ||
                page_read(&page, &arena, page_text ? page_text : "", page_text ? strlen(page_text) : 0, err) < 0)
                return -1;
        top_make(&top, &arena, &page, &wish);
        if (strcmp(values[OUTPUT], "json") == 0)
                other = top_print_json(&top);
        else if (strcmp(values[OUTPUT], "csv") == 0)
                other = top_print_csv(&top);
        else if (top.n_units == 0)
                other = xstrdup(*wish.filter ? "no such pod\n" : "no GPU is read: is --usage-interval off?\n");
        else
                top_print_table(&text, &top, command_line_wants_colours(), terminal_width());
        if (clears)
                fputs("\033[H\033[2J", stdout);
        fputs(other ? other : text.data, stdout);
        if (strcmp(values[OUTPUT], "json") == 0)
                fputc('\n', stdout);
        fflush(stdout);
        strbuf_done(&text);
        return 0;
}

int command_top(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        uint64_t seconds;
        struct error err;
        bool is_once;
        int status;

        if (!command_line_read(&command_top_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!text_to_uint(values[INTERVAL], 3600, &seconds) || seconds == 0) {
                error_raise(&err, ERROR_INVALID, "--interval: '%s' is no number of seconds from 1 to 3600",
                        values[INTERVAL]);
                return command_line_refuse(&command_top_line, &err);
        }
        is_once = strcmp(values[ONCE], "true") == 0 || strcmp(values[OUTPUT], "table") != 0 || !isatty(STDOUT_FILENO);
        while (show(&set, values, !is_once, &err) == 0) {
                if (is_once)
                        return 0;
                sleep((unsigned int)seconds);
        }
        return command_line_fail(&command_top_line, &err);
}
