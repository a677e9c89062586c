/*
 * A client of the Kubernetes API on libuv's loop, over libcurl: requests and their answers. It knows no kind of object.
 *
 * A client may be there before its credentials are: until kube_client_equip() its requests wait, and no timeout of theirs has begun. So
 * who speaks to the API server needs to know nothing of that, and has what it wants said when it can be.
 *
 * libcurl is loaded by a thread for the first request (kube/library.h), and name look-ups are done by threads of its own: nothing
 * here blocks but reading the token, a small file. Where there is no libcurl, every request fails with that. Connections are kept
 * and shared by all requests of a client; HTTP/2 is used where libcurl and the server have it. A proxy comes from the kubeconfig,
 * else from HTTPS_PROXY and NO_PROXY.
 *
 * A request ends exactly once: by its callback, which comes from the loop and never out of kube_client_send(); or by
 * kube_call_cancel(), after which nothing comes. What is borrowed in a request is copied.
 *
 *         kube_client_send(client, &(struct kube_request){.method = KUBE_MERGE_PATCH, .path = "/api/v1/nodes/n1",
 *                 .body = patch, .done = on_done, .data = agent});
 *
 * "Later" is obeyed: an answer 429 or 503 with Retry-After is waited for (as long as it says, at most KUBE_RETRY_AFTER_LIMIT_MS) and
 * the request sent again, as long as that fits its timeout; a 401 is tried once more if token or certificate have been replaced meanwhile.
 * Any other failure is the caller's, who knows whether it may be repeated. A request may have been carried out though its answer
 * was lost.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "kube/backoff.h"
#include "kube/credentials.h"

#define KUBE_TIMEOUT_MS UINT64_C(30000)         /* of a request that says nothing else, its repetitions included */
#define KUBE_CONNECT_TIMEOUT_MS UINT64_C(10000) /* for look-up, TCP and TLS */
#define KUBE_RETRY_AFTER_LIMIT_MS BACKOFF_ASKED_LIMIT_MS
#define KUBE_ANSWER_LIMIT ((size_t)4 << 20) /* bytes of one answer: etcd's objects end at 1.5 MiB */
#define KUBE_EDIT_TRIES 8U                  /* of kube_client_edit(), as conflicts go */

struct kube_client;
struct kube_call;

enum kube_method {
        KUBE_GET,
        KUBE_CREATE,      /* POST to the collection */
        KUBE_REPLACE,     /* PUT; with metadata.resourceVersion a lost race is a 409 */
        KUBE_MERGE_PATCH, /* application/merge-patch+json */
        KUBE_APPLY, /* server-side apply: |field_manager| is needed; creates what is missing; 409 unless |force| */
        KUBE_DELETE,
};

struct kube_answer {
        unsigned int status;       /* of HTTP; 0 where none came */
        json_t *object;            /* borrowed; NULL where the answer is no JSON object. Of a failure it is a Status */
        const struct error *error; /* NULL for 2xx. Names method, path, status and the server's message */
        const char *reason; /* the server's word for a failure: "NotFound", "AlreadyExists", "Conflict"; "" for none */
        uint64_t retry_after_ms; /* what the last answer asked for; 0: nothing */
};
typedef void kube_done_fn(const struct kube_answer *answer, void *data);

struct kube_request {
        enum kube_method method;
        const char *path;          /* "/api/v1/nodes/n1"; parts that come from outside went through object_escape() */
        const char *query;         /* "limit=1&…", escaped; may be NULL */
        const json_t *body;        /* for all but GET; may be NULL for DELETE */
        const char *field_manager; /* who changes it; NULL: the server makes a name of the user agent */
        bool force;                /* KUBE_APPLY takes fields over from other managers */
        uint64_t timeout_ms;       /* 0: KUBE_TIMEOUT_MS */
        kube_done_fn *done;        /* may be NULL; may close the client */
        void *data;
};

/* The call is valid until |done| or kube_call_cancel(). */
struct kube_call *kube_client_send(struct kube_client *client, const struct kube_request *request);

/*
 * Reads an object, lets |edit| change it, and sends it back as it was read but for the change: metadata.resourceVersion goes with it, so
 * that a change by somebody else in between is a 409, after which all of it is done again, KUBE_EDIT_TRIES times at most.
 */
struct kube_edit {
        const char *path;
        const char *status_path; /* where it is sent back, if not to |path|: "/api/v1/nodes/n1/status" */
        bool replace;            /* as PUT; else as merge patch of what |edit| changed, which needs the verb "patch" */
        bool (*edit)(
                json_t *object, void *data); /* false: nothing to change; |done| gets what was read. Must not cancel */
        const char *field_manager;
        uint64_t timeout_ms; /* for everything together */
        kube_done_fn *done;
        void *data;
};
struct kube_call *kube_client_edit(struct kube_client *client, const struct kube_edit *edit);

/* Nothing comes after it. Accepts NULL, returns NULL. */
struct kube_call *kube_call_cancel(struct kube_call *call);

/* Without credentials. */
struct kube_client *kube_client_new(uv_loop_t *loop);

/*
 * Once: what waits is sent, and |credentials| are taken over, empty afterwards. Fails where the server's URL is none; then it may be
 * called again with others. Opens no connection, and never calls back.
 */
int kube_client_equip(struct kube_client *client, struct kube_credentials *credentials, struct error *err) MUST_USE;

/*
 * A client with the credentials that kube_credentials_find() finds; KUBE_CREDENTIALS_NONE, and |err| says so, where there are none. The
 * loop may have something to close when it fails.
 */
int kube_client_open(struct kube_client **ret, uv_loop_t *loop, const char *kubeconfig, struct error *err) MUST_USE;

/*
 * Where a pod or a context says which namespace is meant; "default" else. Lives as long as the client. NULL: it has no credentials yet.
 */
const char *kube_client_scope(const struct kube_client *client);
uv_loop_t *kube_client_loop(const struct kube_client *client);

/*
 * Ends all calls without their callbacks, and all connections. |closed| (may be NULL) comes from the loop when the last handle is
 * closed. Watches and lists of it must be closed before. Accepts NULL: then |closed| never comes. Returns NULL.
 */
struct kube_client *kube_client_close(struct kube_client *client, void (*closed)(void *data), void *data);
