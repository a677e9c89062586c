/*
 * Where the API server is and as whom we speak: from a kubeconfig file, or from what a pod is given by its service account. It does
 * not know how to send anything.
 *
 * A kubeconfig is read as client-go reads it: its current context (or the one context it has), the cluster and the user of that.
 * Relative paths in it are relative to its folder. What the file holds as base64 (the "-data" keys) wins over the file that is named
 * beside it. It may be YAML or JSON. Refused, with the way out: `exec` and `auth-provider` (we start no programs for a token, give
 * the agent a service account), user name and password (gone from Kubernetes since 1.19).
 *
 * In a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT say where (the host may be an IPv6 address), and the folder
 * /var/run/secrets/kubernetes.io/serviceaccount has `token`, `ca.crt` and `namespace`. kubelet replaces the token before it expires,
 * so it is a file to be read for each request, and never kept.
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

/* PEM, as text or as a file that is read whenever it is needed. Neither: there is none. */
struct kube_pem {
        const char *text;
        const char *path;
};

/* Strings are in |arena|; NULL means absent. */
struct kube_credentials {
        struct arena arena;
        const char *origin; /* for logs: "kubeconfig '/etc/k.yaml'" or "service account" */
        const char *server; /* "https://10.0.0.1:6443", with a path where there is one, without a slash at its end */
        const char *scope;  /* the namespace of context or pod; "default" where neither says */
        const char *proxy;  /* URL; NULL: what HTTPS_PROXY and NO_PROXY say */
        const char *server_name; /* what the server's certificate must be for, instead of the host of |server| */
        bool insecure;           /* the server's certificate is not checked */
        struct kube_pem authority;
        struct kube_pem certificate;
        struct kube_pem key;
        const char *token;
        const char *token_path; /* wins over |token| */
};

enum { KUBE_CREDENTIALS_NONE = 1 };

/*
 * |kubeconfig| if it is neither NULL nor empty, else those of the pod. KUBE_CREDENTIALS_NONE, and |err| says how there would be some,
 * where this is no pod, or a pod whose service account is not mounted: that lasts as long as the process. An error need not: a file
 * that is missing or wrong may be right the next time. |ret| is empty unless 0 is returned.
 */
int kube_credentials_find(struct kube_credentials *ret, const char *kubeconfig, struct error *err) MUST_USE;

/* The text of a kubeconfig of that |path|, which need not exist. */
int kube_credentials_read(
        struct kube_credentials *ret, const char *path, const char *text, size_t size, struct error *err) MUST_USE;

/*
 * Of a pod: |host| and |port| as in its environment, |folder| is that of the service account. KUBE_CREDENTIALS_NONE without that folder;
 * an error where token or authority are not in it.
 */
int kube_credentials_of_pod(struct kube_credentials *ret, const char *host, const char *port, const char *folder,
        struct error *err) MUST_USE;

/* The token to be sent now, for the caller to free; "" where there is none. */
int kube_credentials_token(const struct kube_credentials *credentials, char **ret, struct error *err) MUST_USE;

/*
 * As whom a request is sent: what the files hold now. kubelet replaces all of them before they expire. Each "" where there is none;
 * |certificate| and |key| are PEM.
 */
struct kube_identity {
        char *token;
        char *certificate;
        char *key;
};

int kube_identity_read(
        struct kube_identity *ret, const struct kube_credentials *credentials, struct error *err) MUST_USE;
bool kube_identity_is_same(const struct kube_identity *a, const struct kube_identity *b);
void kube_identity_done(struct kube_identity *identity); /* accepts what was only zeroed */

/* Accepts what was only zeroed. */
void kube_credentials_done(struct kube_credentials *credentials);
