/*
 * Sends the status of prepared claims (node/dra/status.h) to the API server, best effort: nothing waits for it, and its
 * failure has no other effect. The first failure is logged; more failures, until the next success, are logged at level
 * debug. That a claim no longer exists is no failure.
 *
 * Of each claim only the latest status is sent: an earlier request that is not answered yet is cancelled.
 */
#pragma once

#include "node/dra/prepared_record.h"
#include "node/dra/service.h"
#include "node/dra/slices.h"
#include "net/kube/client.h"

struct dra_status_sender;

/* |client| must outlive the sender; the texts are copied. |driver| is also the field manager. */
struct dra_status_sender *dra_status_sender_new(struct kube_client *client, const char *driver, const char *pool);

/* Cancels requests that are not answered. Accepts NULL, returns NULL. */
struct dra_status_sender *dra_status_sender_free(struct dra_status_sender *sender);

void dra_status_send_prepared(
        struct dra_status_sender *sender, enum dra_api api, const struct dra_prepared_claim *claim);

/* Removes our devices from the claim's status. */
void dra_status_send_removed(struct dra_status_sender *sender, enum dra_api api, const struct dra_service_claim *claim);
