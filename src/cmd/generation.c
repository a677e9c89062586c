#include "cmd/generation.h"

#include "base/log.h"

static void log_warning(const char *text, void *data UNUSED)
{
        log_warn(text);
}

int settings_new(struct settings **ret, const struct option_set *options, struct error *err)
{
        struct settings *settings = xcalloc(1, sizeof(*settings));

        settings->references = 1;
        if (config_build(options, &settings->arena, &settings->config, log_warning, NULL, err) < 0) {
                settings_unref(settings);
                return -1;
        }
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

int generation_new(struct generation **ret, struct settings *settings, struct inventory *inventory, struct error *err)
{
        struct generation *generation = xcalloc(1, sizeof(*generation));

        generation->settings = settings_ref(settings);
        if (plan_build(&generation->plan, &generation->arena, settings->config, inventory, log_warning, NULL, err) <
                0) {
                generation_free(generation);
                return -1;
        }
        generation->inventory = inventory;
        *ret = generation;
        return 0;
}

struct generation *generation_free(struct generation *generation)
{
        if (!generation)
                return NULL;
        if (generation->plan)
                plan_done(generation->plan);
        arena_done(&generation->arena);
        inventory_free(generation->inventory);
        settings_unref(generation->settings);
        free(generation);
        return NULL;
}
