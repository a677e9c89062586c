// SPDX-License-Identifier: Apache-2.0
/*
 * The credentials of a person, found as kubectl finds them: what the flags say, then the kubeconfig of --kubeconfig,
 * the files of KUBECONFIG (several, separated by ':'; those that are not there do not count), ~/.kube/config, and at
 * last the pod's service account. A program that the kubeconfig names for it makes credentials
 * (net/kube/exec_plugin.h).
 */
#pragma once

#include "net/kube/credentials.h"

#define USER_CREDENTIALS_FILES 32U  /* in KUBECONFIG */
#define USER_CREDENTIALS_GROUPS 32U /* of impersonation */

/* kubectl's flags; NULL or "": not given. */
struct user_choice {
        const char *kubeconfig;
        const char *context;
        const char *cluster;
        const char *user;
        const char *server;
        const char *token;
        const char *authority; /* --certificate-authority, a path */
        const char *certificate;
        const char *key;
        const char *server_name; /* --tls-server-name */
        const char *as;
        const char *as_groups; /* separated by commas */
        bool insecure;
};

/* |home|: $HOME, or NULL; |list|: $KUBECONFIG, or NULL. */
int user_credentials_find(struct kube_credentials *ret, const struct user_choice *choice, const char *home,
        const char *list, struct error *err) MUST_USE;
