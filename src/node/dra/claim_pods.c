#include "node/dra/claim_pods.h"

#include "base/alloc.h"
#include "base/list.h"
#include "base/log.h"
#include "node/ledger/claims.h"

#define CLAIM_TIMEOUT_MS UINT64_C(20000)

struct dra_claim_pods {
        const struct dra_node *node;
        struct list requests;
        uint64_t refreshed_at; /* uv_now(), like |asked_at| */
        uint64_t asked_at;
        uint64_t pause_ms; /* from then to the next request */
        void (*on_known)(void *data);
        void *data;
};

struct pods_request {
        struct list link;
        struct dra_claim_pods *pods;
        struct kube_call *call;
        struct arena arena;
        struct dra_claim claim; /* only named at first */
};

static void pods_request_free(struct pods_request *request)
{
        list_remove(&request->link);
        kube_call_cancel(request->call);
        arena_done(&request->arena);
        free(request);
}

static void on_claim_with_pods(const struct kube_answer *answer, void *data)
{
        struct pods_request *request = data;
        struct dra_claim_pods *pods = request->pods;
        struct error err = {.kind = ERROR_NONE};

        request->call = NULL;
        if (answer->error)
                err = *answer->error;
        else if (dra_claim_read(&request->claim, &request->arena, answer->object, pods->node->driver, pods->node->pool,
                         &err) == 0)
                ledger_set_claim_pods(
                        pods->node->ledger, request->claim.uid, request->claim.pods, request->claim.n_pods);
        if (err.kind != ERROR_NONE)
                log_debug("which pods use a claim is not known", LOG_STR("claim", request->claim.name), LOG_ERR(&err));
        pods_request_free(request);
        pods->on_known(pods->data);
}

void dra_claim_pods_ask(struct dra_claim_pods *pods)
{
        const struct dra_record *record = pods->node->record;

        for (size_t i = 0; i < dra_record_count(record); i++) {
                const struct dra_claim *recorded = dra_record_at(record, i);
                struct pods_request *request;

                if (recorded->state != DRA_CLAIM_PREPARED)
                        continue;
                request = xcalloc(1, sizeof(*request));
                request->pods = pods;
                request->claim = dra_claim_copy_names(&request->arena, recorded);
                list_append(&pods->requests, &request->link);
                request->call =
                        dra_node_get_claim(pods->node, &request->claim, CLAIM_TIMEOUT_MS, on_claim_with_pods, request);
        }
}

void dra_claim_pods_refresh(struct dra_claim_pods *pods)
{
        uint64_t now = uv_now(pods->node->loop);

        if (now - pods->refreshed_at > DRA_PODS_QUIET_MS)
                pods->pause_ms = 0;
        pods->refreshed_at = now;
        if (now - pods->asked_at < pods->pause_ms)
                return;
        pods->asked_at = now;
        pods->pause_ms = MIN(MAX(2 * pods->pause_ms, DRA_PODS_MS), DRA_PODS_MAX_MS);
        dra_claim_pods_ask(pods);
}

bool dra_claim_pods_is_asking(const struct dra_claim_pods *pods)
{
        return !list_is_empty(&pods->requests);
}

struct dra_claim_pods *dra_claim_pods_new(const struct dra_node *node, void (*on_known)(void *data), void *data)
{
        struct dra_claim_pods *pods = xcalloc(1, sizeof(*pods));

        pods->node = node;
        pods->on_known = on_known;
        pods->data = data;
        list_init(&pods->requests);
        return pods;
}

struct dra_claim_pods *dra_claim_pods_free(struct dra_claim_pods *pods)
{
        if (!pods)
                return NULL;
        while (!list_is_empty(&pods->requests))
                pods_request_free(container_of(pods->requests.next, struct pods_request, link));
        free(pods);
        return NULL;
}
