// SPDX-License-Identifier: Apache-2.0
/*
 * The API server as the ledger asks it for pods (the functions of net/kube/client.h that it calls are these here). It
 * knows the pods of namespace "team" that the test has made.
 */
#pragma once

#include "fake_kubelet.h"
#include "net/kube/client.h"

struct fake_pod {
        const char *name;
        const char *uid; /* uid-<name>, for the test to change */
        const char *annotations;
        const char *env;
        bool has_own_shm; /* its container "main" has a volume at /dev/shm; the test sets it */
};

struct fake_api {
        bool is_absent;       /* an agent that starts has no client */
        enum fake_answers to; /* a question */
        size_t n_calls;       /* that have no answer */
        size_t n_asked;       /* in all */
};
extern struct fake_api api;

/* To pass as options. */
struct kube_client *fake_api_client(void);
void fake_api_end(void);

/*
 * Makes or replaces the pod with containers "prepare" and "main". |annotations| as "'warpshare.dev/threads': '60'" and
 * |env| of both as "{'name': 'A', 'value': 'b'}", with ' for ".
 */
struct fake_pod *fake_api_pod(const char *name, const char *annotations, const char *env);

/* All questions. False: there is none. */
bool fake_api_answer(void);
bool fake_api_refuse(void);
