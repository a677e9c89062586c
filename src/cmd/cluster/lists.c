/* kubectl warpshare nodes, top and shares. */
#include <stdio.h>
#include <string.h>

#include "cmd/cluster/command.h"
#include "cmd/cluster/session.h"
#include "cmd/cluster/show.h"

#define MOST_NODES 64U /* on the command line */

static const char *const sorts[] = {"memory", "sm", "pod", NULL}; /* in the order of enum show_sort */

enum { SORT = SESSION_FLAGS };

#define SORT_ROW                                                                                                       \
        [SORT] = {.flag = "sort-by",                                                                                   \
                .type = OPTION_CHOICE,                                                                                 \
                .choices = sorts,                                                                                      \
                .fallback = "memory",                                                                                  \
                .argument = "WORD",                                                                                    \
                .help = "order of pods: memory or sm in use, the most first, or pod, by name"}

static const struct option nodes_own[] = {SESSION_ROWS(session_outputs)};
static const struct option top_own[] = {SESSION_ROWS(session_outputs), SORT_ROW};
static const struct option shares_own[] = {SESSION_ROWS(session_outputs_of_rows), SORT_ROW};

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

static void print_json(json_t *json)
{
        json_dumpf(json, stdout, JSON_INDENT(2));
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
        struct strbuf text = STRBUF_INIT;

        if (session_wants(values, "json")) {
                print_json(show_json(view, show));
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
        fputs(text.data, stdout);
        strbuf_done(&text);
}

static int run_list(enum list list, const struct command_line *line, int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct cluster_options options = CLUSTER_OPTIONS_INIT;
        const char *values[SESSION_FLAGS + 1];
        const struct cluster_view *view;
        struct session session;
        struct option_set set;
        struct show show;
        int status;

        if (!command_line_read(line, &set, values, &arena, argc, argv, &status) ||
                !session_open(&session, line, values, &status))
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
        options.node = set.n_words == 1 ? set.words[0] : NULL;
        view = session_look(&session, line, values, options);
        status = say_unknown(line, view, &show);
        if (is_blind(view))
                status = EXIT_FAILED;
        else
                print_list(list, view, &show, values);
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
