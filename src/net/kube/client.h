// SPDX-License-Identifier: Apache-2.0
/*
 * A client of the Kubernetes API on libuv's loop, over libcurl: requests and their answers. It knows no kind of object.
 *
 * A client may exist before its credentials: until kube_client_equip() its requests wait, and their timeouts have not
 * started. So callers do not need to handle that case.
 *
 * The first request that is sent loads libcurl (net/kube/easy.h), which takes some milliseconds. After that only
 * reading the token, a small file, blocks: libcurl resolves names in threads of its own. If libcurl is not installed,
 * every request fails with that error. Connections are kept and shared by all requests of a client; HTTP/2 is used if
 * libcurl and the server support it. The proxy comes from the kubeconfig, otherwise from HTTPS_PROXY and NO_PROXY.
 *
 * A request ends exactly once: by its callback, which is called from the loop and never inside kube_client_send(); or
 * by kube_call_cancel(), after which the callback is not called. A request is copied.
 *
 *         kube_client_send(client, &(struct kube_request){.method = KUBE_MERGE_PATCH, .path = "/api/v1/nodes/n1",
 *                 .body = patch, .done = on_done, .data = agent});
 *
 * Retries: after an answer 429 or 503 with Retry-After the request is sent again after that time (at most
 * KUBE_RETRY_AFTER_LIMIT_MS) or somewhat later, so that not all whom a busy server refused come back at once, and each
 * time later than before (base/clock.h), if this fits into its timeout. After a 401 it is sent once more if token
 * or certificate were replaced meanwhile. Any other failure goes to the caller, who knows whether the request may be
 * repeated: the server may have executed it although its answer was lost.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "base/clock.h"
#include "net/kube/credentials.h"

#define KUBE_TIMEOUT_MS UINT64_C(30000)         /* default for a request, including its retries */
#define KUBE_CONNECT_TIMEOUT_MS UINT64_C(10000) /* for name resolution, TCP and TLS */
#define KUBE_RETRY_AFTER_LIMIT_MS BACKOFF_ASKED_LIMIT_MS
#define KUBE_RETRY_MS UINT64_C(1000) /* own shortest wait of a request that a busy server refuses */
#define KUBE_RETRY_LIMIT_MS UINT64_C(16000)
#define KUBE_ANSWER_LIMIT ((size_t)4 << 20) /* bytes of one answer: etcd's objects end at 1.5 MiB */
#define KUBE_ANSWER_VALUES ((size_t)200000) /* objects, lists and members of one answer, for the memory they take */
#define KUBE_EDIT_TRIES 8U                  /* attempts of kube_client_edit() after conflicts */

/*
 * Forms of an answer, meta.k8s.io/v1, for one object, or each of a watch, and for a list. They have metadata alone,
 * beside kind and apiVersion of their own.
 */
#define KUBE_AS_METADATA "PartialObjectMetadata"
#define KUBE_AS_METADATA_LIST "PartialObjectMetadataList"

struct kube_client;
struct kube_call;

enum kube_method {
        KUBE_GET,
        KUBE_CREATE,      /* POST to the collection */
        KUBE_REPLACE,     /* PUT; with metadata.resourceVersion, a concurrent change causes a 409 */
        KUBE_MERGE_PATCH, /* application/merge-patch+json */
        KUBE_APPLY,       /* server-side apply: needs |field_manager|; creates a missing object; 409 on conflict unless
                     * |force| */
        KUBE_DELETE,
};

struct kube_answer {
        unsigned int status; /* HTTP status; 0 without an answer */
        json_t *object;      /* borrowed; NULL if the answer is not a JSON object. After a failure it is a Status */
        const struct error *error; /* NULL for 2xx. Contains method, path, status and the server's message */
        const char *reason;        /* the server's reason: "NotFound", "AlreadyExists", "Conflict"; "" for none */
        bool is_too_large;       /* more than KUBE_ANSWER_LIMIT or KUBE_ANSWER_VALUES; a smaller question may succeed */
        uint64_t retry_after_ms; /* what the last answer asked for; 0: none */
        const char *text;        /* the body as it came, zero-terminated, borrowed; NULL without an answer */
        size_t size;
        bool is_identity_old; /* a 401, and token or certificate were replaced since */
};
typedef void kube_done_fn(const struct kube_answer *answer, void *data);

struct kube_request {
        enum kube_method method;
        const char *path;   /* "/api/v1/nodes/n1"; parts from outside must be escaped with object_escape() */
        const char *query;  /* "limit=1&…", escaped; may be NULL */
        const char *as;     /* KUBE_AS_METADATA or KUBE_AS_METADATA_LIST, not copied: only that is sent; NULL: all */
        const json_t *body; /* for all except GET; may be NULL for DELETE */
        const char *field_manager; /* the field manager; NULL: the server derives one from the user agent */
        bool force;                /* KUBE_APPLY may take over fields of other managers */
        bool is_text;              /* a 2xx may have any body, of which only |text| is made */
        uint64_t timeout_ms;       /* 0: KUBE_TIMEOUT_MS */
        /*
         * For a watch: a 2xx has begun, and the pieces of its body, as they come; |done| gets no body then, and an
         * answer 429 or 503 is not waited for. May cancel. NULL, both: |done| gets the whole body.
         */
        void (*on_head)(void *data);
        void (*on_body)(const char *bytes, size_t size, void *data);
        kube_done_fn *done; /* may be NULL; may close the client */
        void *data;
};

/* The call is valid until |done| or kube_call_cancel(). */
struct kube_call *kube_client_send(struct kube_client *client, const struct kube_request *request);

/*
 * Reads an object, lets |edit| change it, and sends it back. metadata.resourceVersion is sent with it, so if another
 * client changed the object in between, the server answers 409 and everything is repeated, at most KUBE_EDIT_TRIES
 * times.
 */
struct kube_edit {
        const char *path;
        const char *status_path; /* where to send it, if not to |path|: "/api/v1/nodes/n1/status" */
        bool replace;            /* as PUT; otherwise as a merge patch of the change, which needs the verb "patch" */
        bool (*edit)(json_t *object, void *data); /* false: nothing to change; |done| gets the object as read. Must not
                                              * cancel the call */
        const char *field_manager;
        uint64_t timeout_ms; /* for all attempts together */
        kube_done_fn *done;
        void *data;
};
struct kube_call *kube_client_edit(struct kube_client *client, const struct kube_edit *edit);

/* No callback after this. Accepts NULL, returns NULL. */
struct kube_call *kube_call_cancel(struct kube_call *call);

/* The new client has no credentials yet. */
struct kube_client *kube_client_new(uv_loop_t *loop);

/*
 * Called once: sends the waiting requests and takes over |credentials|, which are empty afterwards. Fails if the
 * server's URL is invalid; then it may be called again with others. Opens no connection and calls no callback.
 */
int kube_client_equip(struct kube_client *client, struct kube_credentials *credentials, struct error *err) MUST_USE;

/*
 * A client with the credentials that kube_credentials_find() finds. KUBE_CREDENTIALS_NONE, with |err|, if there are
 * none. After a failure the loop may still have handles to close.
 */
int kube_client_open(struct kube_client **ret, uv_loop_t *loop, const char *kubeconfig, struct error *err) MUST_USE;

/*
 * The namespace that the pod or the context names, or "default". Lives as long as the client. NULL: no credentials yet.
 */
const char *kube_client_scope(const struct kube_client *client);
uv_loop_t *kube_client_loop(const struct kube_client *client);

/*
 * Ends all calls without their callbacks, and all connections. |closed| (may be NULL) is called from the loop when the
 * last handle is closed. Close watches and lists of this client first. Accepts NULL: then |closed| is not called.
 * Returns NULL.
 */
struct kube_client *kube_client_close(struct kube_client *client, void (*closed)(void *data), void *data);
