/*
 * Reports the accepted configuration in annotations of the node, for users who have only kubectl:
 *
 *   warpshare.dev/config              its name
 *   warpshare.dev/config-source       "ConfigMap gpu/configs, by label"
 *   warpshare.dev/config-generation   how many there have been on this node
 *   warpshare.dev/config-hash         the first 16 digits of its SHA-256
 *   warpshare.dev/config-status       "accepted"; "refused: <reason>"; "waiting: <for what>"
 *
 * They are written by server-side apply as CONFIG_REPORT_MANAGER, so annotations of others are not touched and old ones
 * of ours are removed. node/reconcile.h keeps them there.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "kube/client.h"
#include "nodeconfig/status.h"

#define CONFIG_REPORT_MANAGER "warpshare-config"
#define CONFIG_REPORT_RETRY_MS UINT64_C(5000)
#define CONFIG_REPORT_RETRY_MAX_MS UINT64_C(300000)

/* The node object that is sent; a new reference. Pure. */
json_t *config_report_node(const char *node, const struct config_status *status);

/* True if |node|, from the API server, has all that |report| says. */
bool config_report_is_on(const json_t *node, const json_t *report);

struct config_report;
struct node_watch;

/* |client| and |watch| (of that node) must outlive it. */
struct config_report *config_report_new(struct kube_client *client, struct node_watch *watch, const char *node);
void config_report_publish(struct config_report *report, const struct config_status *status);

/* Nothing is sent after this. Accepts NULL, returns NULL. */
struct config_report *config_report_close(struct config_report *report);
