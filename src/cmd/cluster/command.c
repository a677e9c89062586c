// SPDX-License-Identifier: Apache-2.0
/* kubectl warpshare: the same program as a plugin of kubectl, which looks at the whole cluster. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io/loop.h"
#include "base/text.h"
#include "cluster/checkup.h"
#include "cluster/why.h"
#include "cmd/cluster/session.h"
#include "cmd/cluster/show.h"
#include "cmd/commands.h"
#include "cmd/doctor/doctor.h"
#include "net/kube/object.h"

/* ---- top, nodes and shares ---- */

#define MOST_NODES 64U /* on the command line */

static const char *const session_outputs[] = {"table", "wide", "json", NULL};
static const char *const session_outputs_of_rows[] = {"table", "wide", "json", "csv", NULL};
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

static const struct command kubectl_nodes = {
        LIST("nodes", "show the nodes of the cluster with their GPUs and agents", kubectl_nodes_run, nodes_own),
        .help = "usage: kubectl warpshare nodes [NODE...] [OPTION...]\n"
                "\n"
                "Shows the nodes of the cluster: whether their agents answer, which GPUs they have, into how many replicas these\n"
                "are shared, how many of them are granted or reserved, how many pods have some, and what is unhealthy.\n"
                "\n",
};

static const struct command kubectl_top = {
        LIST("top", "show who uses what of which GPU of the cluster", kubectl_top_run, top_own),
        .help = "usage: kubectl warpshare top [NODE...] [OPTION...]\n"
                "\n"
                "Shows the GPUs and MIG devices of the cluster, with the pods that have a part of them: replicas, memory in use\n"
                "and its limit, activity on the SMs. What an agent does not know is \"-\". With --namespace only the pods of one\n"
                "namespace, and the GPUs that they are on.\n"
                "\n",
};

static const struct command kubectl_shares = {
        LIST("shares", "list the shares of GPUs, what each was granted and uses", kubectl_shares_run, shares_own),
        .help = "usage: kubectl warpshare shares [NODE...] [OPTION...]\n"
                "\n"
                "Lists the shares of GPUs, a line for each: what its container was granted, and what it uses. Of the pods of one\n"
                "namespace, or of all with -A.\n"
                "\n",
};

/* ---- why ---- */

static const struct option why_own[] = {SESSION_ROWS(session_outputs, "json")};

struct asked {
        struct session *session;
        struct arena *arena;
        bool is_json;
};

/* ---- output ---- */

static json_t *why_json(const json_t *pod, const struct why *why)
{
        json_t *nodes = json_array();

        for (size_t i = 0; i < why->n_nodes; i++)
                json_array_append_new(
                        nodes, json_pack("{s:s, s:s, s:b}", "name", why->nodes[i].name, "reason", why->nodes[i].reason,
                                       "hasRoom", why->nodes[i].class == WHY_HAS_ROOM));
        return json_pack("{s:s*, s:s*, s:s, s:s, s:s*, s:s*, s:o}", "namespace",
                object_text(pod, "metadata", "namespace", NULL), "pod", object_text(pod, "metadata", "name", NULL),
                "state", why_state_name(why->state), "sentence", why->sentence, "todo", why->todo, "said", why->said,
                "nodes", nodes);
}

static const char *speaker(const struct why *why)
{
        return why->state == WHY_WAITS     ? "the scheduler says"
               : why->state == WHY_REFUSED ? "kubelet says"
                                           : "last warning";
}

#define MOST_GROUPS 20U /* of nodes, that are printed */

static void print_why(const struct why *why, struct arena *arena, bool is_long)
{
        const struct why_group *groups;
        const size_t n_groups = why_groups(why, arena, &groups);

        printf("%s\n", why->sentence);
        if (!is_long)
                return;
        if (why->todo)
                printf("  do: %s\n", why->todo);
        for (size_t i = 0; i < MIN(n_groups, (size_t)MOST_GROUPS); i++)
                printf("  %s: %s\n", groups[i].names, groups[i].reason);
        if (n_groups > MOST_GROUPS)
                printf("  and %zu more reasons of other nodes: -o json has them all\n", n_groups - MOST_GROUPS);
        if (why->said)
                printf("  %s: %s\n", speaker(why), why->said);
}

/* ---- one pod ---- */

/* Reads the ResourceClaims of a pod that exist; NULL where they may not be read. */
static json_t *claims_of(struct session *session, const json_t *object, struct arena *arena)
{
        const struct cluster_pod *pod = cluster_pod_read(object, arena);
        json_t *claims = json_array();

        for (size_t i = 0; pod && i < pod->n_claims; i++) {
                _free_ char *collection =
                        object_collection("/apis/resource.k8s.io/v1", pod->namespace, "resourceclaims");
                _free_ char *path = pod->claims[i].object ? object_path(collection, pod->claims[i].object) : NULL;
                json_t *claim;
                struct error err;

                if (!path)
                        continue;
                if (session_get(session, path, NULL, &claim, &err) == 0) {
                        json_array_append_new(claims, claim);
                } else if (err.kind != ERROR_NOT_FOUND) {
                        json_decref(claims);
                        return NULL;
                }
        }
        return claims;
}

static void explain_pod(const struct asked *asked, const json_t *pod, bool is_long, json_t *all)
{
        struct why_input input = {.pod = pod};
        const char *namespace = object_text(pod, "metadata", "namespace", NULL);
        const char *name = object_text(pod, "metadata", "name", NULL);
        json_t *events = is_long && name ? session_events(asked->session, "Pod", namespace, name) : NULL;
        json_t *claims = is_long ? claims_of(asked->session, pod, asked->arena) : NULL;
        struct why why;

        input.view = cluster_view(asked->session->cluster); /* after the last question: they turn the loop */
        input.events = events;
        input.claims = claims;
        why_explain(&why, asked->arena, &input);
        if (asked->is_json)
                json_array_append_new(all, why_json(pod, &why));
        else
                print_why(&why, asked->arena, is_long);
        json_decref(events);
        json_decref(claims);
}

static int explain_one(const struct asked *asked, const char *name, json_t *all, struct error *err)
{
        const char *namespace = asked->session->scope ? asked->session->scope : "default";
        _free_ char *collection = object_collection("/api/v1", namespace, "pods");
        _free_ char *path = object_path(collection, name);
        json_t *pod;

        if (session_get(asked->session, path, NULL, &pod, err) < 0)
                return err->kind == ERROR_NOT_FOUND
                               ? error_set(err, ERROR_NOT_FOUND, "there is no pod '%.253s' in the namespace '%.63s'",
                                         name, namespace)
                               : -1;
        explain_pod(asked, pod, true, all);
        json_decref(pod);
        return 0;
}

/* ---- all that wait or were refused ---- */

static int explain_all(const struct asked *asked, json_t *all, struct error *err)
{
        const struct cluster_view *view = cluster_view(asked->session->cluster);
        const size_t n_paths = view->n_pods;
        const char **paths = ARENA_ARRAY(asked->arena, const char *, n_paths);
        size_t count = 0;

        for (size_t i = 0; i < n_paths; i++) {
                _free_ char *collection = object_collection("/api/v1", view->pods[i]->namespace, "pods");
                _free_ char *path = object_path(collection, view->pods[i]->name);

                paths[i] = arena_strdup(asked->arena, path);
        }
        for (size_t i = 0; i < n_paths; i++) {
                json_t *pod;

                if (session_get(asked->session, paths[i], NULL, &pod, err) == 0) {
                        explain_pod(asked, pod, false, all);
                        json_decref(pod);
                        count++;
                } else if (err->kind != ERROR_NOT_FOUND) { /* it has gone meanwhile */
                        return -1;
                }
        }
        if (count == 0 && !asked->is_json)
                puts("no pod waits for a GPU, and none was refused");
        return 0;
}

static int kubectl_why_run(struct command_call *call, struct error *err)
{
        const struct option_set *set = &call->set;
        struct cluster_options options = CLUSTER_OPTIONS_INIT;
        struct session session;
        const struct asked asked = {&session, &call->arena, command_has(call, FLAG_OUTPUT, "json")};
        json_t *all;
        int status = session_open(&session, call, err);

        if (status < 0)
                return status;
        options.has_pods = set->n_words == 0;
        options.pod_namespace = session.scope;
        session_look(&session, options);
        all = json_array();
        status = set->n_words ? explain_one(&asked, set->words[0], all, err) : explain_all(&asked, all, err);
        if (asked.is_json && status == 0)
                command_print_json(json_incref(set->n_words ? json_array_get(all, 0) : all), JSON_INDENT(2));
        json_decref(all);
        session_close(&session);
        return status;
}

static const struct command kubectl_why = {
        .name = "why",
        .summary = "say in a sentence why a pod waits or was refused",
        .run = kubectl_why_run,
        .shared = command_none,
        COMMAND_OWN(why_own),
        .program = "kubectl-warpshare why",
        .most_words = 1,
        .takes_letters = true,
        .help = "usage: kubectl warpshare why [POD] [OPTION...]\n"
                "\n"
                "Says in a sentence why a pod that asks for GPUs waits, or why kubelet refused it; then, node by node, what is in\n"
                "the way, and the scheduler's or kubelet's own words. Of a pod that runs it says what it has. Without a name: all\n"
                "pods of the namespace that wait or were refused, of every one with -A.\n"
                "\n",
        .more_help = SESSION_RIGHTS
        "With a name also get of that pod, and list of events and get of resourceclaims where allowed.\n",
};

/* ---- doctor ---- */

static const struct option doctor_own[] = {SESSION_ROWS(session_outputs, "json")};

static char *doctor_ask_health(struct session *session, const struct cluster_node *node, unsigned int *ret_status)
{
        _free_ char *path = cluster_agent_path(node, "/healthz");
        char *text = NULL;
        struct error err;

        if (!path || session_get_text(session, path, ret_status, &text, &err) < 0)
                return NULL;
        if (*ret_status != 200 && text[0] == '{') { /* the API server's own refusal, a Status */
                free(text);
                return NULL;
        }
        return text;
}

static int kubectl_examine(struct session *session, const char *name, bool is_table, struct error *err)
{
        const struct cluster_node *node = cluster_find_node(cluster_view(session->cluster), name);
        struct checkup_input input = {.now = (int64_t)time(NULL)};
        _free_ char *health = node ? doctor_ask_health(session, node, &input.health_status) : NULL;
        json_t *events = node ? session_events(session, "Node", NULL, name) : NULL;
        json_t *findings;
        int status;

        input.view = cluster_view(session->cluster); /* after the last question: they turn the loop */
        input.node = cluster_find_node(input.view, name);
        if (!input.node) {
                json_decref(events);
                return error_set(err, ERROR_NOT_FOUND, "there is no node '%.253s'", name);
        }
        input.health = health;
        input.events = events;
        findings = checkup_make(&input);
        findings_print(findings, is_table);
        status = findings_count(findings, "wrong") ? EXIT_FAILED : 0;
        json_decref(findings);
        json_decref(events);
        return status;
}

static int kubectl_doctor_run(struct command_call *call, struct error *err)
{
        struct cluster_options options = CLUSTER_OPTIONS_INIT;
        struct session session;
        int status;

        if (call->set.n_words == 0)
                return command_refuse(err, "needs the name of a node; 'kubectl warpshare nodes' lists them");
        status = session_open(&session, call, err);
        if (status < 0)
                return status;
        options.node = call->set.words[0];
        session_look(&session, options);
        status = kubectl_examine(&session, options.node, !command_has(call, FLAG_OUTPUT, "json"), err);
        session_close(&session);
        return status;
}

static const struct command kubectl_doctor = {
        .name = "doctor",
        .summary = "say what is wrong on a node, as far as it can be seen from afar",
        .run = kubectl_doctor_run,
        .shared = command_none,
        COMMAND_OWN(doctor_own),
        .program = "kubectl-warpshare doctor",
        .most_words = 1,
        .takes_letters = true,
        .help = "usage: kubectl warpshare doctor NODE [OPTION...]\n"
                "\n"
                "Says what is wrong on a node, as far as it can be seen from afar: its object in the cluster, its agent, what\n"
                "that says of its GPUs and its configuration, what kubelet counts, and what happened in the last hour.\n"
                "'warpshare doctor', on the node or in the agent's pod, sees more. The exit status is 0 when nothing is wrong,\n"
                "else 1.\n"
                "\n",
        .more_help = SESSION_RIGHTS
        "The health of the agent and the events of the node are looked at where that is allowed.\n",
};

/* ---- all of them ---- */

static const char help[] =
        "usage: kubectl warpshare COMMAND [OPTION...]\n"
        "       kubectl warpshare top [NODE...]       who uses what of which GPU\n"
        "       kubectl warpshare shares [NODE...]    the shares of GPUs, a line for each\n"
        "       kubectl warpshare nodes [NODE...]     the nodes, their GPUs and agents\n"
        "       kubectl warpshare pools               what the scheduler counts as free for claims\n"
        "       kubectl warpshare why [POD]           why a pod waits, or was refused, in a sentence\n"
        "       kubectl warpshare doctor NODE         what is wrong on a node, as far as it can be seen from here\n"
        "       kubectl warpshare dashboard           all of it as a page in your browser, as long as this runs\n"
        "\n"
        "Who shares which GPU of the cluster. It asks the agents of the nodes through the API server, with your rights\n"
        "and your kubeconfig, and changes nothing; pools asks by an object that it deletes again. Put 'kubectl-warpshare', a link to 'warpshare', into your PATH, and\n"
        "kubectl finds it.\n"
        "\n"
        "  kubectl warpshare top -n team-a\n"
        "  kubectl warpshare why train-0 -n team-a\n"
        "  kubectl warpshare shares -A -o csv >shares.csv\n"
        "\n";

static const struct command *const below[] = {&command_kubectl_dashboard, &kubectl_doctor, &kubectl_nodes,
        &command_kubectl_pools, &kubectl_shares, &kubectl_top, &kubectl_why, NULL};

const struct command command_kubectl = {
        .name = "kubectl-warpshare",
        .summary = "who shares which GPU of the cluster, as a plugin of kubectl",
        .below = below,
        .shared = command_none,
        .program = "kubectl-warpshare",
        .help = help,
        .more_help =
                "\nFlags come last, since kubectl takes none before the plugin's name: 'kubectl warpshare top --context=…'.\n",
};
