/* kubectl warpshare doctor NODE */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cluster/checkup.h"
#include "cmd/cluster/session.h"
#include "cmd/doctor/findings.h"

static const struct option own[] = {SESSION_ROWS(session_outputs, "json")};

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
        const bool has_colours = command_wants_colours();
        const json_t *finding;
        json_t *findings;
        size_t i;
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
        json_array_foreach(findings, i, finding) if (is_table) findings_print(finding, has_colours);
        findings_print_end(findings, is_table);
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

const struct command kubectl_doctor = {
        .name = "doctor",
        .summary = "say what is wrong on a node, as far as it can be seen from afar",
        .run = kubectl_doctor_run,
        .shared = command_none,
        COMMAND_OWN(own),
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
