// SPDX-License-Identifier: Apache-2.0
/*
 * The parts that the commands of kubectl-warpshare share: kubectl's flags, the connection to the cluster, and one
 * reading of it.
 */
#pragma once

#include "cmd/cli/command.h"
#include "cluster/cluster.h"
#include "net/kube/client.h"

/* kubectl's flags that say where the cluster is and whose rights count: positions, from a command's first of them. */
enum {
        CONNECT_KUBECONFIG,
        CONNECT_CONTEXT,
        CONNECT_CLUSTER,
        CONNECT_USER,
        CONNECT_SERVER,
        CONNECT_TOKEN,
        CONNECT_AUTHORITY,
        CONNECT_CERTIFICATE,
        CONNECT_KEY,
        CONNECT_SERVER_NAME,
        CONNECT_INSECURE,
        CONNECT_AS,
        CONNECT_AS_GROUP,
        CONNECT_FLAGS, /* how many there are */
};

#define CONNECT_ROWS(first)                                                                                            \
        [(first) +                                                                                                     \
                CONNECT_KUBECONFIG] =                                                                                  \
                COMMAND_TEXT("kubeconfig", "", "PATH", "instead of KUBECONFIG and ~/.kube/config"),                    \
                [(first) + CONNECT_CONTEXT] =                                                                          \
                        COMMAND_TEXT("context", "", "NAME", "of the kubeconfig, instead of the current one"),          \
                [(first) + CONNECT_CLUSTER] =                                                                          \
                        COMMAND_TEXT("cluster", "", "NAME", "of the kubeconfig, instead of the context's"),            \
                [(first) + CONNECT_USER] =                                                                             \
                        COMMAND_TEXT("user", "", "NAME", "of the kubeconfig, instead of the context's"),               \
                [(first) + CONNECT_SERVER] = COMMAND_TEXT("server", "", "URL", "of the API server", .aliases = {"s"}), \
                [(first) + CONNECT_TOKEN] = COMMAND_TEXT("token", "", "TEXT", "for the API server"),                   \
                [(first) + CONNECT_AUTHORITY] =                                                                        \
                        COMMAND_TEXT("certificate-authority", "", "PATH", "that signed the API server's certificate"), \
                [(first) + CONNECT_CERTIFICATE] =                                                                      \
                        COMMAND_TEXT("client-certificate", "", "PATH", "for the API server"),                          \
                [(first) + CONNECT_KEY] = COMMAND_TEXT("client-key", "", "PATH", "of the client certificate"),         \
                [(first) + CONNECT_SERVER_NAME] =                                                                      \
                        COMMAND_TEXT("tls-server-name", "", "NAME", "that the server's certificate must have"),        \
                [(first) + CONNECT_INSECURE] = COMMAND_FLAG(                                                           \
                        "insecure-skip-tls-verify", "trust any server: whoever is in between reads the token"),        \
                [(first) + CONNECT_AS] = COMMAND_TEXT("as", "", "NAME", "act as this user, if you may impersonate"),   \
                [(first) + CONNECT_AS_GROUP] =                                                                         \
                        COMMAND_WORDS("as-group", "NAME", "and as a member of this group; may be repeated")

/*
 * Finds what these flags say, or else the environment. |first|: the position of the first one in the command's table.
 * Else COMMAND_FAILED.
 */
int session_find_credentials(
        struct kube_credentials *ret, const struct command_call *call, size_t first, struct error *err) MUST_USE;

/* The flags that come first in the table of a command that looks once, by position of the values. */
enum {
        FLAG_NAMESPACE,
        FLAG_ALL_NAMESPACES,
        FLAG_OUTPUT,
        FLAG_NO_HEADERS,
        FLAG_CONNECT,
        FLAG_TIMEOUT = FLAG_CONNECT + CONNECT_FLAGS,
        FLAG_AGENTS,
        FLAG_AGENT_NAMESPACE,
        SESSION_FLAGS, /* a command's own follow */
};

#define SESSION_ROWS(outputs, for_programs)                                                                            \
        [FLAG_NAMESPACE] = COMMAND_TEXT("namespace", "", "NAME",                                                       \
                "of pods; without it that of the context, or every one where a whole node is shown",                   \
                .aliases = {"n"}),                                                                                     \
        [FLAG_ALL_NAMESPACES] = COMMAND_FLAG("all-namespaces", "pods of every namespace", .aliases = {"A"}),           \
        [FLAG_OUTPUT] = COMMAND_CHOICE("output", outputs, "table",                                                     \
                "table or wide for people, " for_programs " for programs", .aliases = {"o"}),                          \
        [FLAG_NO_HEADERS] = COMMAND_FLAG("no-headers", "a table without its first line"), CONNECT_ROWS(FLAG_CONNECT),  \
        [FLAG_TIMEOUT] = COMMAND_TEXT("request-timeout", "60s", "TIME",                                                \
                "for all that is asked: 30s, 2m; what has not come by then is left out"),                              \
        [FLAG_AGENTS] = COMMAND_TEXT("agent-selector", CLUSTER_AGENT_SELECTOR, "LABELS", "which pods are the agents"), \
        [FLAG_AGENT_NAMESPACE] = COMMAND_TEXT(                                                                         \
                "agent-namespace", "", "NAME", "where they are; without it they are looked for everywhere")

/* A paragraph in the help of each command. */
#define SESSION_RIGHTS                                                                                                 \
        "\nIt needs no more than the ClusterRole warpshare-viewer allows: list and watch of nodes and pods, get of\n"  \
        "pods/proxy where the agents are. What is denied is missing, and named.\n"

struct session {
        const struct command_call *call;
        uv_loop_t loop;
        uv_timer_t deadline;
        struct kube_client *client;
        struct cluster *cluster; /* NULL: session_look() was not called */
        const char *scope;       /* the namespace of pods: the flag's, or the context's; NULL: every one */
        const char *given_scope; /* the flag's; NULL: none was given */
        uint64_t timeout_ms;
        bool is_late; /* the deadline has passed */
};

/* Reads the flags and connects. Else COMMAND_FAILED, or COMMAND_REFUSED. */
int session_open(struct session *session, const struct command_call *call, struct error *err) MUST_USE;

/*
 * Looks once at what |options| want, whose client is set here. The view is valid until the session is used again: then
 * ask cluster_view(). Says on standard error what could not be had.
 */
const struct cluster_view *session_look(struct session *session, struct cluster_options options);

/* One request with |body|, which may be NULL. The answer's object, as in the next. */
int session_send(struct session *session, enum kube_method method, const char *path, const json_t *body, json_t **ret,
        struct error *err) MUST_USE;

/* One GET. The answer's object, for the caller to release with json_decref(), or its text (|is_text|), to be freed. */
int session_get(struct session *session, const char *path, const char *query, json_t **ret, struct error *err) MUST_USE;
int session_get_text(
        struct session *session, const char *path, unsigned int *ret_status, char **ret, struct error *err) MUST_USE;

void session_close(struct session *session);

/*
 * Events of one object, the oldest first, as a new reference; |namespace| NULL: of a Node. NULL where they may not be
 * read.
 */
json_t *session_events(struct session *session, const char *kind, const char *namespace, const char *name);
