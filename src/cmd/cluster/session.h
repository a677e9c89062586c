/*
 * What the commands of kubectl-warpshare share: kubectl's flags, the connection to the cluster, and one look at it.
 */
#pragma once

#include "cmd/cli/command_line.h"
#include "cluster/cluster.h"
#include "net/kube/client.h"

/* The flags that come first in each command's table, by position of the values. */
enum {
        FLAG_NAMESPACE,
        FLAG_ALL_NAMESPACES,
        FLAG_OUTPUT,
        FLAG_NO_HEADERS,
        FLAG_KUBECONFIG,
        FLAG_CONTEXT,
        FLAG_CLUSTER,
        FLAG_USER,
        FLAG_SERVER,
        FLAG_TOKEN,
        FLAG_AUTHORITY,
        FLAG_CERTIFICATE,
        FLAG_KEY,
        FLAG_SERVER_NAME,
        FLAG_INSECURE,
        FLAG_AS,
        FLAG_AS_GROUP,
        FLAG_TIMEOUT,
        FLAG_AGENTS,
        FLAG_AGENT_NAMESPACE,
        SESSION_FLAGS, /* a command's own follow */
};

#define SESSION_TEXT(name, what, says)                                                                                 \
        {                                                                                                              \
                .flag = (name), .type = OPTION_STRING, .fallback = "", .argument = (what), .help = (says)              \
        }

#define SESSION_ROWS(outputs, for_programs)                                                                            \
        [FLAG_NAMESPACE] = {.flag = "namespace",                                                                       \
                .aliases = {"n"},                                                                                      \
                .type = OPTION_STRING,                                                                                 \
                .fallback = "",                                                                                        \
                .argument = "NAME",                                                                                    \
                .help = "of pods; without it that of the context, or every one where a whole node is shown"},          \
        [FLAG_ALL_NAMESPACES] = {.flag = "all-namespaces",                                                             \
                .aliases = {"A"},                                                                                      \
                .type = OPTION_BOOL,                                                                                   \
                .fallback = "false",                                                                                   \
                .help = "pods of every namespace"},                                                                    \
        [FLAG_OUTPUT] = {.flag = "output",                                                                             \
                .aliases = {"o"},                                                                                      \
                .type = OPTION_CHOICE,                                                                                 \
                .choices = (outputs),                                                                                  \
                .fallback = "table",                                                                                   \
                .argument = "WORD",                                                                                    \
                .help = "table or wide for people, " for_programs " for programs"},                                    \
        [FLAG_NO_HEADERS] = {.flag = "no-headers",                                                                     \
                .type = OPTION_BOOL,                                                                                   \
                .fallback = "false",                                                                                   \
                .help = "a table without its first line"},                                                             \
        [FLAG_KUBECONFIG] = SESSION_TEXT("kubeconfig", "PATH", "instead of KUBECONFIG and ~/.kube/config"),            \
        [FLAG_CONTEXT] = SESSION_TEXT("context", "NAME", "of the kubeconfig, instead of the current one"),             \
        [FLAG_CLUSTER] = SESSION_TEXT("cluster", "NAME", "of the kubeconfig, instead of the context's"),               \
        [FLAG_USER] = SESSION_TEXT("user", "NAME", "of the kubeconfig, instead of the context's"),                     \
        [FLAG_SERVER] = {.flag = "server",                                                                             \
                .aliases = {"s"},                                                                                      \
                .type = OPTION_STRING,                                                                                 \
                .fallback = "",                                                                                        \
                .argument = "URL",                                                                                     \
                .help = "of the API server"},                                                                          \
        [FLAG_TOKEN] = SESSION_TEXT("token", "TEXT", "for the API server"),                                            \
        [FLAG_AUTHORITY] = SESSION_TEXT("certificate-authority", "PATH", "that signed the API server's certificate"),  \
        [FLAG_CERTIFICATE] = SESSION_TEXT("client-certificate", "PATH", "for the API server"),                         \
        [FLAG_KEY] = SESSION_TEXT("client-key", "PATH", "of the client certificate"),                                  \
        [FLAG_SERVER_NAME] = SESSION_TEXT("tls-server-name", "NAME", "that the server's certificate must have"),       \
        [FLAG_INSECURE] = {.flag = "insecure-skip-tls-verify",                                                         \
                .type = OPTION_BOOL,                                                                                   \
                .fallback = "false",                                                                                   \
                .help = "trust any server: whoever is in between reads the token"},                                    \
        [FLAG_AS] = SESSION_TEXT("as", "NAME", "act as this user, if you may impersonate"),                            \
        [FLAG_AS_GROUP] = {.flag = "as-group",                                                                         \
                .type = OPTION_WORDS,                                                                                  \
                .fallback = "",                                                                                        \
                .argument = "NAME",                                                                                    \
                .help = "and as a member of this group; may be repeated"},                                             \
        [FLAG_TIMEOUT] = {.flag = "request-timeout",                                                                   \
                .type = OPTION_STRING,                                                                                 \
                .fallback = "60s",                                                                                     \
                .argument = "TIME",                                                                                    \
                .help = "for all that is asked: 30s, 2m; what has not come by then is left out"},                      \
        [FLAG_AGENTS] = {.flag = "agent-selector",                                                                     \
                .type = OPTION_STRING,                                                                                 \
                .fallback = CLUSTER_AGENT_SELECTOR,                                                                    \
                .argument = "LABELS",                                                                                  \
                .help = "which pods are the agents"},                                                                  \
        [FLAG_AGENT_NAMESPACE] =                                                                                       \
                SESSION_TEXT("agent-namespace", "NAME", "where they are; without it they are looked for everywhere")

extern const char *const session_outputs[];         /* table, wide, json */
extern const char *const session_outputs_of_rows[]; /* and csv */

/* Of the help of each command. */
#define SESSION_RIGHTS                                                                                                 \
        "\nIt needs no more than the ClusterRole warpshare-viewer allows: list and watch of nodes and pods, get of\n"  \
        "pods/proxy where the agents are. What is denied is missing, and named.\n"

struct session {
        uv_loop_t loop;
        uv_timer_t deadline;
        struct kube_client *client;
        struct cluster *cluster; /* NULL: session_look() was not called */
        const char *scope;       /* the namespace of pods: the flag's, or the context's; NULL: every one */
        const char *given_scope; /* the flag's; NULL: none was given */
        uint64_t timeout_ms;
        bool is_late; /* the deadline has passed */
};

/* Reads the flags and connects. False: it is over with *ret_status, and what was wrong has been said. */
bool session_open(
        struct session *session, const struct command_line *line, const char *const *values, int *ret_status) MUST_USE;

/*
 * Looks once at what |options| want, whose client is set here. The view is valid until the session is used again: then
 * ask cluster_view(). Says on standard error what could not be had.
 */
const struct cluster_view *session_look(struct session *session, const struct command_line *line,
        const char *const *values, struct cluster_options options);

/* One GET. The answer's object, for the caller to release with json_decref(), or its text (|is_text|), to be freed. */
int session_get(struct session *session, const char *path, const char *query, json_t **ret, struct error *err) MUST_USE;
int session_get_text(
        struct session *session, const char *path, unsigned int *ret_status, char **ret, struct error *err) MUST_USE;

void session_close(struct session *session);

bool session_wants(const char *const *values, const char *output); /* --output is that word */
