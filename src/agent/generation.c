#include "agent/generation.h"

#include <stdlib.h>
#include <string.h>

#include "agent/report.h"
#include "cdi/cdi.h"

static void make_policy(struct health_policy *policy, const struct config *config)
{
        struct strbuf ignored = STRBUF_INIT;

        health_policy_parse(policy, getenv("DP_DISABLE_HEALTHCHECKS"), getenv("DP_ENABLE_HEALTHCHECKS"), &ignored);
        if (ignored.size)
                log_warn(
                        "DP_DISABLE_HEALTHCHECKS or DP_ENABLE_HEALTHCHECKS: neither numbers of Xids nor 'all' or 'xids', ignored",
                        LOG_STR("words", ignored.data));
        strbuf_done(&ignored);
        policy->recover = config->recover;
        policy->counts_remaps = config->counts_remaps;
        for (size_t i = 0; i < config->n_xid_rules; i++) {
                const struct xid_rule *rule = &config->xid_rules[i];

                if (!health_policy_add_rule(policy, rule->xid, rule->unhealthy))
                        log_text(LOG_WARN, "config '%s' line %d: %u is no Xid, which are below %u; ignored",
                                config->path, rule->line, rule->xid, XID_MAX);
        }
}

int settings_new(
        struct settings **ret, const struct option_set *options, const struct config_text *text, struct error *err)
{
        struct settings *settings = xcalloc(1, sizeof(*settings));
        enum log_level warnings = LOG_WARN;

        settings->references = 1;
        if (config_build_text(options, text, &settings->arena, &settings->config, report_warning, &warnings, err) < 0) {
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

static int check_imex(
        const struct config *config, const struct inventory *inventory, enum log_level warnings, struct error *err)
{
        static const char text[] = "IMEX channel 0 is to be given to containers, but its device node "
                                   "/dev/nvidia-caps-imex-channels/channel0 is not there";

        if (!config->has_imex_channel || (inventory->nodes & NODE_IMEX_CHANNEL))
                return 0;
        if (config->imex_required)
                return error_set(err, ERROR_NOT_FOUND, "%s (imex.required: false would go on without)", text);
        LOG_AT(warnings, text);
        return 0;
}

int generation_new(struct generation **ret, struct settings *settings, struct inventory *inventory,
        enum log_level warnings, struct error *err)
{
        struct generation *generation = xcalloc(1, sizeof(*generation));
        const struct config *config = settings->config;

        generation->settings = settings_ref(settings);
        if (check_imex(config, inventory, warnings, err) < 0 ||
                plan_build(&generation->plan, &generation->arena, config, inventory, report_warning, &warnings, err) <
                        0) {
                generation_free(generation);
                return -1;
        }
        generation->inventory = inventory;
        *ret = generation;
        return 0;
}

int generation_publish(struct generation *generation, enum log_level warnings, struct error *err)
{
        if (!generation->is_published && cdi_publish(generation->plan, report_warning, &warnings, err) < 0)
                return -1;
        generation->is_published = true;
        return 0;
}

struct generation *generation_free(struct generation *generation)
{
        if (!generation)
                return NULL;
        handover_free(generation->handover_before);
        handover_free(generation->handover);
        if (generation->plan)
                plan_done(generation->plan);
        arena_done(&generation->arena);
        inventory_free(generation->inventory);
        settings_unref(generation->settings);
        free(generation);
        return NULL;
}

void generation_serve(struct generation *generation, struct handover *next)
{
        handover_free(generation->handover_before);
        generation->handover_before = generation->handover;
        generation->handover = next;
}
