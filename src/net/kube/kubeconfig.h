/* Kubeconfigs as texts, private to credentials.c and user_credentials.c. */
#pragma once

#include "base/data/yaml.h"
#include "net/kube/credentials.h"

struct kubeconfig_file {
        struct yaml *yaml;
        char *folder; /* base of relative paths */
};

/* The entries to use; NULL: those that the files name. */
struct kubeconfig_names {
        const char *context;
        const char *cluster;
        const char *user;
        bool may_exec; /* a program may make the credentials; otherwise that is refused */
};

int kubeconfig_load(
        struct kubeconfig_file *ret, const char *path, const char *text, size_t size, struct error *err) MUST_USE;
void kubeconfig_unload(struct kubeconfig_file *file); /* accepts a zeroed one */

/*
 * The credentials of several files: as with kubectl the first that has an entry of a name, or a current context,
 * counts. |ret| is empty unless 0 is returned.
 */
int kubeconfig_read(struct kube_credentials *ret, const struct kubeconfig_file *files, size_t n_files,
        const struct kubeconfig_names *names, struct error *err) MUST_USE;

/* Sets the server without slashes at its end. False: it is not a URL, or has a user or a query. */
bool kubeconfig_set_server(struct kube_credentials *credentials, const char *server);
