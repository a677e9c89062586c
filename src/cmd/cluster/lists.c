/* kubectl warpshare nodes, top and shares. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/cluster/command.h"
#include "cmd/cluster/session.h"
#include "cmd/cluster/show.h"
#include "base/io/loop.h"

#define MOST_NODES 64U /* on the command line */

static const char *const sorts[] = {"memory", "sm", "pod", NULL}; /* in the order of enum show_sort */

enum { WATCH = SESSION_FLAGS, INTERVAL, SORT };

#define WATCH_ROWS                                                                                                     \
        [WATCH] = {.flag = "watch",                                                                                    \
                .aliases = {"w"},                                                                                      \
                .type = OPTION_BOOL,                                                                                   \
                .fallback = "false",                                                                                   \
                .help = "show it again and again, until it is interrupted"},                                           \
        [INTERVAL] = {.flag = "interval",                                                                              \
                .type = OPTION_STRING,                                                                                 \
                .fallback = "5",                                                                                       \
                .argument = "SECONDS",                                                                                 \
                .help = "between two times, 1 to 3600"}

#define SORT_ROW                                                                                                       \
        [SORT] = {.flag = "sort-by",                                                                                   \
                .type = OPTION_CHOICE,                                                                                 \
                .choices = sorts,                                                                                      \
                .fallback = "memory",                                                                                  \
                .argument = "WORD",                                                                                    \
                .help = "order of pods: memory or sm in use, the most first, or pod, by name"}

static const struct option nodes_own[] = {SESSION_ROWS(session_outputs, "json"), WATCH_ROWS};
static const struct option top_own[] = {SESSION_ROWS(session_outputs, "json"), WATCH_ROWS, SORT_ROW};
static const struct option shares_own[] = {SESSION_ROWS(session_outputs_of_rows, "json or csv"), WATCH_ROWS, SORT_ROW};

const struct command_line kubectl_nodes_line = {
        .shared = command_line_none,
        .own = nodes_own,
        .n_own = ARRAY_SIZE(nodes_own),
        .program = "kubectl-warpshare nodes",
        .most_words = MOST_NODES,
        .takes_letters = true,
        .help = "usage: kubectl warpshare nodes [NODE...] [OPTION...]\n"
                "\n"
                "Shows the nodes of the cluster: whether their agents answer, which GPUs they have, into how many replicas these\n"
                "are shared, how many of them are granted or reserved, how many pods have some, and what is unhealthy.\n"
                "\n",
        .more_help = SESSION_RIGHTS,
};

const struct command_line kubectl_top_line = {
        .shared = command_line_none,
        .own = top_own,
        .n_own = ARRAY_SIZE(top_own),
        .program = "kubectl-warpshare top",
        .most_words = MOST_NODES,
        .takes_letters = true,
        .help = "usage: kubectl warpshare top [NODE...] [OPTION...]\n"
                "\n"
                "Shows the GPUs and MIG devices of the cluster, with the pods that have a part of them: replicas, memory in use\n"
                "and its limit, activity on the SMs. What an agent does not know is \"-\". With --namespace only the pods of one\n"
                "namespace, and the GPUs that they are on.\n"
                "\n",
        .more_help = SESSION_RIGHTS,
};

const struct command_line kubectl_shares_line = {
        .shared = command_line_none,
        .own = shares_own,
        .n_own = ARRAY_SIZE(shares_own),
        .program = "kubectl-warpshare shares",
        .most_words = MOST_NODES,
        .takes_letters = true,
        .help = "usage: kubectl warpshare shares [NODE...] [OPTION...]\n"
                "\n"
                "Lists the shares of GPUs, a line for each: what its container was granted, and what it uses. Of the pods of one\n"
                "namespace, or of all with -A.\n"
                "\n",
        .more_help = SESSION_RIGHTS,
};

/* Again and again, each time is a line. */
static void print_json(json_t *json, bool is_line)
{
        json_dumpf(json, stdout, is_line ? JSON_COMPACT : JSON_INDENT(2));
        putchar('\n');
        json_decref(json);
}

/* Nothing at all could be had: neither nodes nor agents. */
static bool is_blind(const struct cluster_view *view)
{
        return view->n_nodes == 0 && view->nodes_trouble && view->agents_trouble;
}

static int say_unknown(const struct command_line *line, const struct cluster_view *view, const struct show *show)
{
        int status = 0;

        for (size_t i = 0; i < show->n_names && !view->nodes_trouble; i++)
                if (!cluster_find_node(view, show->names[i])) {
                        fprintf(stderr, "%s: there is no node '%s'\n", line->program, show->names[i]);
                        status = EXIT_FAILED;
                }
        return status;
}

enum list { LIST_NODES, LIST_TOP, LIST_SHARES };

static void print_list(
        enum list list, const struct cluster_view *view, const struct show *show, const char *const *values)
{
        const bool is_watch = strcmp(values[WATCH], "true") == 0;
        struct strbuf text = STRBUF_INIT;

        if (session_wants(values, "json")) {
                print_json(show_json(view, show), is_watch);
                return;
        }
        if (session_wants(values, "csv"))
                show_shares_csv(&text, view, show);
        else if (list == LIST_NODES)
                show_nodes(&text, view, show);
        else if (list == LIST_TOP)
                show_gpus(&text, view, show);
        else
                show_shares(&text, view, show);
        if (is_watch && isatty(STDOUT_FILENO))
                fputs("\033[H\033[2J", stdout);
        fputs(text.data, stdout);
        if (is_watch && !isatty(STDOUT_FILENO))
                putchar('\n');
        strbuf_done(&text);
}

static bool has_ended(void *data UNUSED)
{
        return ferror(stdout);
}

/* Until it is interrupted, or nobody reads it any more. */
static void watch_list(enum list list, struct session *session, const struct show *show, const char *const *values,
        uint64_t interval_ms)
{
        while (fflush(stdout) == 0) {
                loop_run_until(&session->loop, has_ended, NULL, interval_ms);
                print_list(list, cluster_view(session->cluster), show, values);
        }
}

static int run_list(enum list list, const struct command_line *line, int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct cluster_options options = CLUSTER_OPTIONS_INIT;
        const char *values[SORT + 1];
        const struct cluster_view *view;
        struct session session;
        struct option_set set;
        uint64_t seconds;
        struct show show;
        struct error err;
        int status;

        if (!command_line_read(line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!text_to_uint(values[INTERVAL], 3600, &seconds) || seconds == 0) {
                error_raise(&err, ERROR_INVALID, "--interval: '%.40s' is no number of seconds from 1 to 3600",
                        values[INTERVAL]);
                return command_line_refuse(line, &err);
        }
        if (!session_open(&session, line, values, &status))
                return status;
        show = (struct show){.names = set.words,
                .n_names = set.n_words,
                .scope = list == LIST_SHARES ? session.scope
                         : list == LIST_TOP  ? session.given_scope
                                             : NULL,
                .sort = list == LIST_NODES ? SHOW_BY_MEMORY
                                           : (enum show_sort)option_position(&line->own[SORT], values[SORT]),
                .is_wide = session_wants(values, "wide"),
                .has_headers = strcmp(values[FLAG_NO_HEADERS], "true") != 0,
                .has_colours = command_line_wants_colours()};
        options.has_pods = false;
        options.interval_ms = strcmp(values[WATCH], "true") == 0 ? seconds * 1000 : 0;
        options.node = set.n_words == 1 ? set.words[0] : NULL;
        view = session_look(&session, line, values, options);
        status = say_unknown(line, view, &show);
        if (is_blind(view))
                status = EXIT_FAILED;
        else
                print_list(list, view, &show, values);
        if (options.interval_ms > 0 && status == 0)
                watch_list(list, &session, &show, values, options.interval_ms);
        session_close(&session);
        return status;
}

int kubectl_nodes(int argc, char **argv)
{
        return run_list(LIST_NODES, &kubectl_nodes_line, argc, argv);
}

int kubectl_top(int argc, char **argv)
{
        return run_list(LIST_TOP, &kubectl_top_line, argc, argv);
}

int kubectl_shares(int argc, char **argv)
{
        return run_list(LIST_SHARES, &kubectl_shares_line, argc, argv);
}
