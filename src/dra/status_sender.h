/*
 * Sends what users see of prepared claims (dra/status.h) to the API server, best effort: nothing waits for it, and nothing fails by it. The
 * first failure is logged, those until the next success at level debug; a claim that is gone has no status, so that is no failure.
 *
 * For one claim the latest counts: what was sent before and is not answered yet is cancelled.
 */
#pragma once

#include "dra/prepared_record.h"
#include "dra/service.h"
#include "dra/slices.h"
#include "kube/client.h"

struct dra_status_sender;

/* The client outlives it; the texts are copied. |driver| is also the field manager. */
struct dra_status_sender *dra_status_sender_new(struct kube_client *client, const char *driver, const char *pool);

/* Cancels what is not answered. Accepts NULL, returns NULL. */
struct dra_status_sender *dra_status_sender_free(struct dra_status_sender *sender);

void dra_status_send_prepared(
        struct dra_status_sender *sender, enum dra_api api, const struct dra_prepared_claim *claim);

/* Takes it back. */
void dra_status_send_removed(struct dra_status_sender *sender, enum dra_api api, const struct dra_service_claim *claim);
