// SPDX-License-Identifier: Apache-2.0
/*
 * The API server's address and our identity, from a kubeconfig file or from a pod's service account. It sends nothing.
 *
 * A kubeconfig is read as client-go reads it: its current context (or the one context it has), the cluster and the user
 * of that. Relative paths in it are relative to its folder. A base64 value (the "-data" keys) has precedence over the
 * file that is named beside it. It may be YAML or JSON. Refused, with advice: `exec` and `auth-provider` (no program is
 * started for a token; give the agent a service account), user name and password (removed from Kubernetes in 1.19). For
 * people, net/kube/kubeconfig.h finds them as kubectl does, `exec` included.
 *
 * In a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT have the address (the host may be an IPv6 address), and
 * the folder /var/run/secrets/kubernetes.io/serviceaccount has `token`, `ca.crt` and `namespace`. kubelet replaces the
 * token before it expires, so the file is read for each request, and the token is never kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

#define KUBE_CONFIG_LIMIT ((size_t)1 << 20) /* bytes of a kubeconfig */
#define KUBE_TOKEN_LIMIT ((size_t)16 << 10) /* bytes of a token */
#define KUBE_PEM_LIMIT ((size_t)256 << 10)  /* bytes of a file with the client's certificate or key */
#define KUBE_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

/* PEM, as text or as a file that is read each time. If both are NULL, there is none. */
struct kube_pem {
        const char *text;
        const char *path;
};

struct exec_plugin;

/* Strings are in |arena|; NULL means absent. */
struct kube_credentials {
        struct arena arena;
        const char *origin;      /* for logs: "kubeconfig '/etc/k.yaml'" or "service account" */
        const char *server;      /* "https://10.0.0.1:6443", perhaps with a path, without a slash at the end */
        const char *scope;       /* the namespace of context or pod; "default" if neither has one */
        const char *proxy;       /* URL; NULL: use HTTPS_PROXY and NO_PROXY */
        const char *server_name; /* the name that the server's certificate must have, instead of the host of |server| */
        bool insecure;           /* the server's certificate is not checked */
        struct kube_pem authority;
        struct kube_pem certificate;
        struct kube_pem key;
        const char *token;
        const char *token_path;   /* has precedence over |token| */
        struct exec_plugin *exec; /* a program makes token or certificate, where none of the above says one; owned */
        const char *as;           /* who the requests are to be from, by impersonation */
        const char *const *as_groups;
        size_t n_as_groups;
};

enum { KUBE_CREDENTIALS_NONE = 1 };

/*
 * Reads |kubeconfig| unless it is NULL or empty; otherwise the credentials of the pod. KUBE_CREDENTIALS_NONE, with an
 * |err| that says how to get some, if this is not a pod, or a pod without a mounted service account; this does not
 * change while the process runs. After an error, a later attempt may succeed: a missing or wrong file may be correct
 * then. |ret| is empty unless 0 is returned.
 */
int kube_credentials_find(struct kube_credentials *ret, const char *kubeconfig, struct error *err) MUST_USE;

/* Parses the text of a kubeconfig; |path| need not exist. */
int kube_credentials_read(
        struct kube_credentials *ret, const char *path, const char *text, size_t size, struct error *err) MUST_USE;

/*
 * The credentials of a pod: |host| and |port| from its environment, |folder| is that of the service account.
 * KUBE_CREDENTIALS_NONE without that folder; an error if the token or the authority is missing in it.
 */
int kube_credentials_of_pod(struct kube_credentials *ret, const char *host, const char *port, const char *folder,
        struct error *err) MUST_USE;

/* One word of plain characters, or "". */
bool kube_token_is_plain(const char *text);

/* The token to send now, for the caller to free; "" if there is none. */
int kube_credentials_token(const struct kube_credentials *credentials, char **ret, struct error *err) MUST_USE;

/*
 * The identity of a request: what the files contain now, since kubelet replaces them before they expire. A value is ""
 * if there is none; |certificate| and |key| are PEM.
 */
struct kube_identity {
        char *token;
        char *certificate;
        char *key;
};

int kube_identity_read(
        struct kube_identity *ret, const struct kube_credentials *credentials, struct error *err) MUST_USE;
/* The server refused it (401): what was kept in memory is not used again. */
void kube_identity_refused(const struct kube_credentials *credentials, const struct kube_identity *identity);
bool kube_identity_is_same(const struct kube_identity *a, const struct kube_identity *b);
void kube_identity_done(struct kube_identity *identity); /* accepts a zeroed struct */

/* Accepts a zeroed struct. */
void kube_credentials_done(struct kube_credentials *credentials);
