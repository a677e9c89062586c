/* kubectl warpshare nodes, top and shares. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cluster/session.h"
#include "cmd/cluster/show.h"
#include "base/io/loop.h"

#define MOST_NODES 64U /* on the command line */

static const char *const sorts[] = {"memory", "sm", "pod", NULL}; /* in the order of enum show_sort */

enum { WATCH = SESSION_FLAGS, INTERVAL, SORT };

#define WATCH_ROWS                                                                                                     \
        [WATCH] = COMMAND_FLAG("watch", "show it again and again, until it is interrupted", .aliases = {"w"}),         \
        [INTERVAL] = COMMAND_TEXT("interval", "5", "SECONDS", "between two times, 1 to 3600")

#define SORT_ROW                                                                                                       \
        [SORT] = COMMAND_CHOICE(                                                                                       \
                "sort-by", sorts, "memory", "order of pods: memory or sm in use, the most first, or pod, by name")

static const struct option nodes_own[] = {SESSION_ROWS(session_outputs, "json"), WATCH_ROWS};
static const struct option top_own[] = {SESSION_ROWS(session_outputs, "json"), WATCH_ROWS, SORT_ROW};
static const struct option shares_own[] = {SESSION_ROWS(session_outputs_of_rows, "json or csv"), WATCH_ROWS, SORT_ROW};

/* Nothing at all could be had: neither nodes nor agents. */
static bool is_blind(const struct cluster_view *view)
{
        return view->n_nodes == 0 && view->nodes_trouble && view->agents_trouble;
}

static int say_unknown(const struct command *command, const struct cluster_view *view, const struct show *show)
{
        int status = 0;

        for (size_t i = 0; i < show->n_names && !view->nodes_trouble; i++)
                if (!cluster_find_node(view, show->names[i])) {
                        fprintf(stderr, "%s: there is no node '%s'\n", command->program, show->names[i]);
                        status = EXIT_FAILED;
                }
        return status;
}

enum list { LIST_NODES, LIST_TOP, LIST_SHARES };

static void lists_print_list(
        enum list list, const struct cluster_view *view, const struct show *show, const struct command_call *call)
{
        const bool is_watch = command_is_set(call, WATCH);
        struct strbuf text = STRBUF_INIT;

        if (command_has(call, FLAG_OUTPUT, "json")) { /* each time is a line */
                command_print_json(show_json(view, show), is_watch ? JSON_COMPACT : JSON_INDENT(2));
                return;
        }
        if (command_has(call, FLAG_OUTPUT, "csv"))
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

static bool lists_has_ended(void *data UNUSED)
{
        return ferror(stdout);
}

/* Repeats the list until it is interrupted, or its reader has gone. */
static void watch_list(enum list list, struct session *session, const struct show *show, uint64_t interval_ms)
{
        while (fflush(stdout) == 0) {
                loop_run_until(&session->loop, lists_has_ended, NULL, interval_ms);
                lists_print_list(list, cluster_view(session->cluster), show, session->call);
        }
}

static int run_list(enum list list, struct command_call *call, struct error *err)
{
        const struct option_set *set = &call->set;
        struct cluster_options options = CLUSTER_OPTIONS_INIT;
        const struct cluster_view *view;
        struct session session;
        uint64_t seconds;
        struct show show;
        int status = command_number(call, INTERVAL, " of seconds", 1, 3600, &seconds, err);

        if (status == 0)
                status = session_open(&session, call, err);
        if (status < 0)
                return status;
        show = (struct show){.names = set->words,
                .n_names = set->n_words,
                .scope = list == LIST_SHARES ? session.scope
                         : list == LIST_TOP  ? session.given_scope
                                             : NULL,
                .sort = list == LIST_NODES
                                ? SHOW_BY_MEMORY
                                : (enum show_sort)option_position(&call->command->own[SORT], call->values[SORT]),
                .is_wide = command_has(call, FLAG_OUTPUT, "wide"),
                .has_headers = !command_is_set(call, FLAG_NO_HEADERS),
                .has_colours = command_wants_colours()};
        options.has_pods = false;
        options.interval_ms = command_is_set(call, WATCH) ? seconds * 1000 : 0;
        options.node = set->n_words == 1 ? set->words[0] : NULL;
        view = session_look(&session, options);
        status = say_unknown(call->command, view, &show);
        if (is_blind(view))
                status = EXIT_FAILED;
        else
                lists_print_list(list, view, &show, call);
        if (options.interval_ms > 0 && status == 0)
                watch_list(list, &session, &show, options.interval_ms);
        session_close(&session);
        return status;
}

static int kubectl_nodes_run(struct command_call *call, struct error *err)
{
        return run_list(LIST_NODES, call, err);
}

static int kubectl_top_run(struct command_call *call, struct error *err)
{
        return run_list(LIST_TOP, call, err);
}

static int kubectl_shares_run(struct command_call *call, struct error *err)
{
        return run_list(LIST_SHARES, call, err);
}

#define LIST(word, what, function, options)                                                                            \
        .name = word, .summary = what, .run = function, .shared = command_none, COMMAND_OWN(options),                  \
        .program = "kubectl-warpshare " word, .most_words = MOST_NODES, .takes_letters = true,                         \
        .more_help = SESSION_RIGHTS

const struct command kubectl_nodes = {
        LIST("nodes", "show the nodes of the cluster with their GPUs and agents", kubectl_nodes_run, nodes_own),
        .help = "usage: kubectl warpshare nodes [NODE...] [OPTION...]\n"
                "\n"
                "Shows the nodes of the cluster: whether their agents answer, which GPUs they have, into how many replicas these\n"
                "are shared, how many of them are granted or reserved, how many pods have some, and what is unhealthy.\n"
                "\n",
};

const struct command kubectl_top = {
        LIST("top", "show who uses what of which GPU of the cluster", kubectl_top_run, top_own),
        .help = "usage: kubectl warpshare top [NODE...] [OPTION...]\n"
                "\n"
                "Shows the GPUs and MIG devices of the cluster, with the pods that have a part of them: replicas, memory in use\n"
                "and its limit, activity on the SMs. What an agent does not know is \"-\". With --namespace only the pods of one\n"
                "namespace, and the GPUs that they are on.\n"
                "\n",
};

const struct command kubectl_shares = {
        LIST("shares", "list the shares of GPUs, what each was granted and uses", kubectl_shares_run, shares_own),
        .help = "usage: kubectl warpshare shares [NODE...] [OPTION...]\n"
                "\n"
                "Lists the shares of GPUs, a line for each: what its container was granted, and what it uses. Of the pods of one\n"
                "namespace, or of all with -A.\n"
                "\n",
};
