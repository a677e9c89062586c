/*
 * Reports the accepted configuration in annotations of the node, for users who have only kubectl:
 *
 *   warpshare.dev/config              its name
 *   warpshare.dev/config-source       "ConfigMap gpu/configs, by label"
 *   warpshare.dev/config-generation   how many there have been on this node
 *   warpshare.dev/config-hash         the first 16 digits of its SHA-256
 *   warpshare.dev/config-status       "accepted"; "refused: <reason>"; "waiting: <for what>"
 *
 * node/status/apply.h keeps them on the node, as CONFIG_REPORT_MANAGER. Pure.
 */
#pragma once

#include <jansson.h>

#include "node/config/version.h"

#define CONFIG_REPORT_MANAGER "warpshare-config"

/* The node object that is sent; a new reference. */
json_t *config_report_node(const char *node, const struct config_status *status);
