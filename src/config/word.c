// SPDX-License-Identifier: Apache-2.0
#include "config/word.h"

#include <stdbool.h>
#include <string.h>

#include "base/strbuf.h"
#include "config/config.h"

const char *const sharing_strategy_words[] = {
        [SHARING_NONE] = "none", [SHARING_TIME_SLICING] = "time-slicing", [SHARING_MPS] = "mps", NULL};
const char *const provisioning_words[] = {[PROVISIONING_UNIFORM] = "uniform",
        [PROVISIONING_HALF] = "half",
        [PROVISIONING_WEIGHTED] = "weighted",
        [PROVISIONING_SM] = "sm",
        [PROVISIONING_DECLARED] = "declared",
        NULL};
const char *const placement_words[] = {[PLACEMENT_DISTRIBUTED] = "distributed",
        [PLACEMENT_PACKED] = "packed",
        [PLACEMENT_DISTINCT] = "distinct",
        [PLACEMENT_SAME_GPU] = "same-gpu",
        [PLACEMENT_PREFER_SAME_GPU] = "prefer-same-gpu",
        NULL};
const char *const sharing_scope_words[] = {[SCOPE_AGGREGATE] = "aggregate", [SCOPE_INDIVIDUAL] = "individual", NULL};
const char *const daemon_scope_words[] = {
        [DAEMON_SCOPE_GPU] = "gpu", [DAEMON_SCOPE_RESOURCE] = "resource", [DAEMON_SCOPE_NODE] = "node", NULL};
const char *const reserve_words[] = {
        [RESERVE_AUTO] = "auto", [RESERVE_STRICT] = "strict", [RESERVE_NONE] = "none", NULL};
const char *const guard_mode_words[] = {
        [GUARD_OFF] = "off", [GUARD_REPORT] = "report", [GUARD_TERMINATE] = "terminate", NULL};
const char *const mps_tier_words[] = {[MPS_TIER_DEFAULT] = "default",
        [MPS_TIER_VERIFIED] = "verified",
        [MPS_TIER_PARTITION] = "partition",
        [MPS_TIER_NAMESPACE] = "namespace",
        NULL};
const char *const tier_limit_words[] = {"auto", [1 + MPS_TIER_DEFAULT] = "default",
        [1 + MPS_TIER_VERIFIED] = "verified", [1 + MPS_TIER_PARTITION] = "partition",
        [1 + MPS_TIER_NAMESPACE] = "namespace", NULL};
const char *const mig_strategy_words[] = {
        [MIG_STRATEGY_NONE] = "none", [MIG_STRATEGY_SINGLE] = "single", [MIG_STRATEGY_MIXED] = "mixed", NULL};
const char *const discovery_words[] = {
        [DISCOVERY_AUTO] = "auto", [DISCOVERY_NVML] = "nvml", [DISCOVERY_TEGRA] = "tegra", NULL};
const char *const id_strategy_words[] = {[ID_STRATEGY_UUID] = "uuid", [ID_STRATEGY_INDEX] = "index", NULL};
const char *const xid_action_words[] = {"ignore", "unhealthy", NULL};
const char *const config_fallback_words[] = {"named", "single", "empty", NULL};
const char *const labels_output_words[] = {[LABELS_NONE] = "none",
        [LABELS_FILE] = "file",
        [LABELS_NODE_FEATURE] = "nodefeature",
        [LABELS_NODE] = "node",
        NULL};
const char *const dra_daemon_scope_words[] = {[DAEMON_SCOPE_GPU] = "gpu", [DAEMON_SCOPE_RESOURCE] = "resource", NULL};
const char *const dra_fallback_words[] = {[DRA_FALLBACK_WHOLE] = "whole", [DRA_FALLBACK_SHARES] = "shares", NULL};
const char *const dra_one_form_words[] = {[DRA_ONE_FORM_SHARED] = "shared", [DRA_ONE_FORM_WHOLE] = "whole", NULL};
const char *const dra_unenforced_words[] = {
        [DRA_UNENFORCED_REFUSE] = "refuse", [DRA_UNENFORCED_CONDITION] = "condition", NULL};
const char *const dra_unhealthy_words[] = {
        [DRA_UNHEALTHY_NO_SCHEDULE] = "NoSchedule", [DRA_UNHEALTHY_NO_EXECUTE] = "NoExecute", NULL};
const char *const restart_words[] = {"auto", "always", "never", NULL};
const char *const usage_words[] = {"off", "1s", "5s", "15s", "30s", "60s", NULL};
const char *const metrics_asked_words[] = {
        [METRICS_ASK_NOBODY] = "off", [METRICS_ASK_REMOTE] = "remote", [METRICS_ASK_ALL] = "all", NULL};
const char *const node_page_words[] = {[NODE_PAGE_LOCAL] = "local", [NODE_PAGE_OPEN] = "open", NULL};
const char *const events_words[] = {[EVENTS_NONE] = "none", [EVENTS_NODE] = "node", [EVENTS_PODS] = "pods", NULL};
const char *const device_list_words[] = {"envvar", "volume-mounts", "cdi-annotations", "cdi-cri", NULL};

int word_check(const char *text, size_t length, const char *const *choices, size_t *ret_position, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;
        int shown = (int)MIN(length, (size_t)100);

        for (size_t i = 0; choices[i]; i++) {
                if (strlen(choices[i]) == length && memcmp(choices[i], text, length) == 0) {
                        *ret_position = i;
                        return 0;
                }
        }
        for (size_t i = 0; choices[i]; i++)
                strbuf_printf(&list, "%s%s", i == 0 ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
        return error_set(err, ERROR_INVALID, "'%.*s' is not a known value, use %s", shown, text, list.data);
}

/* ---- the names of config/config.h ---- */

const char *sharing_strategy_name(enum sharing_strategy strategy)
{
        return sharing_strategy_words[strategy];
}

const char *provisioning_name(enum provisioning provisioning)
{
        return provisioning_words[provisioning];
}

const char *placement_name(enum placement placement)
{
        return placement_words[placement];
}

const char *daemon_scope_name(enum daemon_scope scope)
{
        return daemon_scope_words[scope];
}

const char *mps_tier_name(enum mps_tier tier)
{
        return mps_tier_words[tier];
}

const char *mps_tier_promise(enum mps_tier tier, bool limits_memory)
{
        static const char *const unlimited[] = {
                [MPS_TIER_DEFAULT] = "default-no-memory-limit",
                [MPS_TIER_VERIFIED] = "verified-no-memory-limit",
                [MPS_TIER_PARTITION] = "partition-no-memory-limit",
                [MPS_TIER_NAMESPACE] = "namespace-no-memory-limit",
        };

        return limits_memory ? mps_tier_name(tier) : unlimited[tier];
}

const char *mig_strategy_name(enum mig_strategy strategy)
{
        return mig_strategy_words[strategy];
}
