/*
 * warpshare top: shows which pods use what on this node, once, or on a screen until the user quits.
 */
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <uv.h>

#include "base/text.h"
#include "base/clock.h"
#include "cmd/cli/command.h"
#include "cmd/commands.h"
#include "cmd/top/screen.h"
#include "cmd/top/top.h"
#include "cmd/top/view.h"

#define COLUMNS_MAX 10000U
#define DEFAULT_ADDRESS "127.0.0.1:9400"

enum { ONCE, OUTPUT, SORT, FILTER, PROCESSES, HISTORY, UNITS, INTERVAL };

static const char *const outputs[] = {"table", "json", "csv", NULL};
static const char *const sorts[] = {"memory", "sm", "peak", "pod", NULL}; /* in the order of enum top_sort */
static const char *const units[] = {"auto", "MiB", "GiB", NULL};          /* in the order of enum top_amounts */

static const struct option own[] = {
        [ONCE] = COMMAND_FLAG("once", "print once; also where the output is no terminal, or no table"),
        [OUTPUT] = COMMAND_CHOICE("output", outputs, "table", "table for people, json or csv for programs"),
        [SORT] = COMMAND_CHOICE("sort", sorts, "memory", "order of the pods on a GPU: memory, sm, peak or pod"),
        [FILTER] = COMMAND_TEXT("filter", "", "TEXT", "only pods whose namespace/pod/container contains it"),
        [PROCESSES] = COMMAND_FLAG("processes", "also the processes of each pod; not in csv"),
        [HISTORY] = COMMAND_FLAG("history", "also the last hour, which the screen has anyway; not in csv"),
        [UNITS] = COMMAND_CHOICE("units", units, "auto", "amounts of memory in the table: auto, MiB or GiB"),
        [INTERVAL] = COMMAND_TEXT("interval", "5", "SECONDS", "between two looks, 1 to 3600"),
};

static const char *const shared[] = {"metrics-address", "nvml-library", "driver-root-ctr-path", "system-root", NULL};

static const char *address_of(const struct option_set *set)
{
        const char *address = option_set_value(set, "metrics-address");

        return *address ? address : DEFAULT_ADDRESS;
}

/* The driver is asked only if the command line names no agent. */
static int get_text(char **ret, const struct option_set *set, const struct top_wish *wish, struct error *err)
{
        struct error agent;
        struct error driver;

        if (top_fetch(ret, address_of(set), wish, err) == 0)
                return 0;
        agent = *err;
        if (err->kind != ERROR_UNAVAILABLE || *option_set_value(set, "metrics-address"))
                return -1;
        if (top_read_local(ret, option_set_value(set, "nvml-library"), option_set_value(set, "driver-root-ctr-path"),
                    option_set_value(set, "system-root"), wish, &driver) == 0)
                return 0;
        return error_set(err, driver.kind, "%s; and %s", agent.text, driver.text);
}

static int top_get_page(struct node_page *ret, struct arena *arena, const struct option_set *set,
        const struct top_wish *wish, struct error *err)
{
        _free_ char *text = NULL;

        return get_text(&text, set, wish, err) < 0 ? -1 : node_page_read(ret, arena, text, strlen(text), err);
}

/* ---- once ---- */

/* Without a terminal COLUMNS counts; 0: lines are not cut. */
static unsigned int terminal_width(void)
{
        struct winsize size = {0};
        const char *columns = getenv("COLUMNS");
        uint64_t width = 0;

        if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
                return size.ws_col;
        return columns && text_to_uint(columns, COLUMNS_MAX, &width) ? (unsigned int)width : 0;
}

static bool is_utf8(void)
{
        return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static char *top_print_table(const struct top *top, const struct top_wish *wish, struct arena *arena)
{
        struct top_lines lines = {.arena = arena};
        struct strbuf text = STRBUF_INIT;

        if (top->n_units == 0)
                return xstrdup(*wish->filter ? "no such pod\n" : "no GPU is known here\n");
        top_draw(&lines, top, wish, terminal_width(), is_utf8());
        top_lines_print(&text, &lines, command_wants_colours());
        return strbuf_take(&text);
}

static int show_once(const struct option_set *set, const char *output, const struct top_wish *wish, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *text = NULL;
        struct node_page page;
        struct top top;

        if (top_get_page(&page, &arena, set, wish, err) < 0)
                return -1;
        top_make(&top, &arena, &page, wish);
        if (strcmp(output, "json") == 0)
                text = top_print_json(&top, wish);
        else
                text = strcmp(output, "csv") == 0 ? top_print_csv(&top) : top_print_table(&top, wish, &arena);
        fputs(text, stdout);
        fflush(stdout);
        return 0;
}

/* ---- on a screen ---- */

/* The newest page that could be had, and why there is none newer. */
struct look {
        struct arena arena;
        struct node_page page;
        bool has_page;
        struct error trouble;
        bool has_trouble;
        uint64_t at_ms;
};

static void look_again(struct look *look, const struct option_set *set, const struct top_wish *wish)
{
        struct arena arena = ARENA_INIT;
        struct node_page page;

        look->has_trouble = top_get_page(&page, &arena, set, wish, &look->trouble) < 0;
        if (look->has_trouble) {
                arena_done(&arena);
        } else {
                arena_done(&look->arena);
                look->arena = arena;
                look->page = page;
                look->has_page = true;
        }
        look->at_ms = clock_now_ms();
}

static void draw(const struct top_screen *screen, struct top_view *view, const struct look *look)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct top_lines lines = {.arena = &arena};
        unsigned int width;
        unsigned int height;

        top_screen_size(screen, &width, &height);
        top_view_draw(view, &lines, look->has_page ? &look->page : NULL, look->has_trouble ? look->trouble.text : NULL,
                width, height, is_utf8());
        top_screen_show(screen, &lines);
}

static void watch(const struct top_screen *screen, const struct option_set *set, const struct top_wish *wish,
        uint64_t interval_ms)
{
        struct look look = {0};
        struct top_view view;

        top_view_init(&view, wish);
        view.wants_page = true;
        while (!view.is_over) {
                uint64_t passed_ms = clock_now_ms() - look.at_ms;

                if (view.wants_page || passed_ms >= interval_ms) {
                        look_again(&look, set, &view.wish);
                        view.wants_page = false;
                        passed_ms = clock_now_ms() - look.at_ms;
                }
                draw(screen, &view, &look);
                top_view_key(
                        &view, top_screen_key(screen, (unsigned int)(interval_ms - MIN(passed_ms, interval_ms) + 1)));
        }
        arena_done(&look.arena);
}

static bool wants_screen(const struct command_call *call)
{
        const char *type = getenv("TERM");

        return !command_is_set(call, ONCE) && command_has(call, OUTPUT, "table") && isatty(STDOUT_FILENO) &&
               isatty(STDIN_FILENO) && type && *type && strcmp(type, "dumb") != 0;
}

static int top_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        struct top_wish wish = {.sort = (enum top_sort)option_position(&own[SORT], values[SORT]),
                .filter = values[FILTER],
                .amounts = (enum top_amounts)option_position(&own[UNITS], values[UNITS]),
                .has_processes = command_is_set(call, PROCESSES),
                .has_history = command_is_set(call, HISTORY)};
        struct top_screen *screen = NULL;
        uint64_t seconds;

        if (command_number(call, INTERVAL, " of seconds", 1, 3600, &seconds, err) < 0)
                return COMMAND_REFUSED;
        setlocale(LC_CTYPE, "");
        if (!wants_screen(call))
                return show_once(&call->set, values[OUTPUT], &wish, err);
        if (top_screen_new(&screen, command_wants_colours(), err) < 0)
                return COMMAND_FAILED;
        wish.has_history = true;
        watch(screen, &call->set, &wish, seconds * 1000);
        top_screen_free(screen);
        return 0;
}

const struct command command_top = {
        .name = "top",
        .summary = "show who uses what of this node's GPUs",
        .run = top_run,
        .shared = shared,
        COMMAND_OWN(own),
        .program = "warpshare top",
        .help = "usage: warpshare top [OPTION...]\n"
                "\n"
                "Shows the GPUs and MIG devices of this node, with the pods that use them: what they were granted, memory and\n"
                "its peak of the last hour, activity on the SMs and on memory, time on the GPU, and an estimate of energy. In a\n"
                "terminal it goes on until q is pressed; h lists the other keys. It asks the agent for the page of its node (by\n"
                "default at " DEFAULT_ADDRESS
                "). Where no agent answers it asks the driver itself: then pods have no names, and there\n"
                "is no limit and no past. What is not known is \"-\". NO_COLOR turns colours off.\n"
                "\n",
};
