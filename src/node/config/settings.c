// SPDX-License-Identifier: Apache-2.0
#include "node/config/settings.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/strbuf.h"

void settings_warn(const char *text, void *data)
{
        const enum log_level *level = data;

        LOG_AT(level ? *level : LOG_WARN, text);
}

static void make_policy(struct health_policy *policy, const struct config *config)
{
        struct strbuf ignored = STRBUF_INIT;

        health_policy_parse(policy, getenv("DP_DISABLE_HEALTHCHECKS"), getenv("DP_ENABLE_HEALTHCHECKS"), &ignored);
        if (ignored.size)
                log_warn(
                        "DP_DISABLE_HEALTHCHECKS or DP_ENABLE_HEALTHCHECKS: neither numbers of Xids nor 'all' or 'xids', ignored",
                        LOG_STR("words", ignored.data));
        strbuf_done(&ignored);
        policy->recover = config->health.recover;
        policy->counts_remaps = config->health.counts_remaps;
        for (size_t i = 0; i < config->health.n_xid_rules; i++) {
                const struct xid_rule *rule = &config->health.xid_rules[i];

                if (!health_policy_add_rule(policy, rule->xid, rule->unhealthy))
                        log_text(LOG_WARN, "config '%s' line %d: %u is not an Xid, which are below %u; ignored",
                                config->path, rule->line, rule->xid, XID_MAX);
        }
}

int settings_new(
        struct settings **ret, const struct option_set *options, const struct config_text *text, struct error *err)
{
        struct settings *settings = xcalloc(1, sizeof(*settings));
        enum log_level warnings = LOG_WARN;

        settings->references = 1;
        if (config_build_text(options, text, &settings->arena, &settings->config, settings_warn, &warnings, err) < 0) {
                settings_unref(settings);
                return -1;
        }
        make_policy(&settings->policy, settings->config);
        *ret = settings;
        return 0;
}

struct settings *settings_ref(struct settings *settings)
{
        settings->references++;
        return settings;
}

struct settings *settings_unref(struct settings *settings)
{
        if (!settings || --settings->references)
                return NULL;
        arena_done(&settings->arena);
        free(settings);
        return NULL;
}
