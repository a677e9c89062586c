// SPDX-License-Identifier: Apache-2.0
/*
 * A program of the user's kubeconfig that makes credentials (users[].user.exec, client.authentication.k8s.io): a token,
 * a client certificate, or both, with the time until which they are good.
 *
 * It runs when credentials are needed for the first time, when they have expired, and when the server has refused them
 * (401); what it says is kept in memory until then. It blocks the loop, as it blocks kubectl: for a command that is all
 * right, and the agent runs none (net/kube/credentials.h). It inherits the environment, standard error, and, where it
 * may prompt the user, the terminal.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "net/kube/credentials.h"

#define EXEC_PLUGIN_ARGUMENTS 64U
#define EXEC_PLUGIN_VARIABLES 64U
#define EXEC_PLUGIN_LIMIT ((size_t)1 << 20)     /* bytes of its answer */
#define EXEC_PLUGIN_DEADLINE_MS UINT64_C(60000) /* 5 times as long where it may prompt the user */
#define EXEC_PLUGIN_END_MS UINT64_C(5000)       /* from the end of its output to its own */

enum exec_plugin_mode { EXEC_PLUGIN_NEVER, EXEC_PLUGIN_IF_AVAILABLE, EXEC_PLUGIN_ALWAYS };

/* All texts belong to the owner of the struct. */
struct exec_plugin_spec {
        const char *api_version; /* "client.authentication.k8s.io/v1" or …/v1beta1 */
        const char *command;     /* a name is looked up in PATH */
        const char *arguments[EXEC_PLUGIN_ARGUMENTS];
        size_t n_arguments;
        const char *variables[EXEC_PLUGIN_VARIABLES]; /* "NAME=value" */
        size_t n_variables;
        const char *hint; /* how to get the program; NULL: none */
        enum exec_plugin_mode mode;
        bool wants_cluster; /* spec.cluster is passed to it */
};

struct exec_plugin;

/* |cluster| (taken over; NULL: not passed) becomes spec.cluster of the program's input. */
struct exec_plugin *exec_plugin_new(const struct exec_plugin_spec *spec, json_t *cluster);
struct exec_plugin *exec_plugin_free(struct exec_plugin *plugin); /* accepts NULL, returns NULL */

/* The credentials to use now. */
int exec_plugin_identity(struct exec_plugin *plugin, struct kube_identity *ret, struct error *err) MUST_USE;

/*
 * The server refused this identity: if it is still the one that is kept, the program runs again for the next request.
 */
void exec_plugin_refused(struct exec_plugin *plugin, const struct kube_identity *identity);

/* ---- pure ---- */

/*
 * KUBERNETES_EXEC_INFO for a program; |is_interactive|: standard input is a terminal that it may use. The caller frees.
 */
char *exec_plugin_info(const struct exec_plugin_spec *spec, const json_t *cluster, bool is_interactive);

/* An ExecCredential, as the program prints it. *ret_expires: Unix seconds; 0: it does not say. */
int exec_plugin_read(const struct exec_plugin_spec *spec, const char *text, size_t size, struct kube_identity *ret,
        int64_t *ret_expires, struct error *err) MUST_USE;
