#include "node/status/labels_make.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

#define MACHINE_LIMIT ((size_t)65536)

static void labels_make_add_warning(const char *text, void *data)
{
        strbuf_printf(data, "%s\n", text);
}

static void labels_make_report(struct labels_warnings *warnings, const struct strbuf *text)
{
        _free_ char *lines = xstrdup(text->data);

        if (warnings->text && strcmp(warnings->text, text->data) == 0)
                return;
        free(warnings->text);
        warnings->text = xstrdup(text->data);
        for (char *rest = NULL, *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
                log_text(LOG_WARN, "%s", line);
}

static void warn_nobody(const char *text UNUSED, void *data UNUSED)
{
}

bool labels_layout_is_invalid(const struct config *config, const struct inventory *inventory)
{
        struct config unshared = *config;
        struct arena arena = ARENA_INIT;
        struct plan *plan = NULL;
        struct error ignored;
        int rc;

        if (config->mig_strategy != MIG_STRATEGY_SINGLE)
                return false;
        unshared.sharing = (struct sharing){0};
        rc = plan_build(&plan, &arena, &unshared, inventory, warn_nobody, NULL, &ignored);
        if (rc == 0)
                plan_done(plan);
        arena_done(&arena);
        return rc < 0;
}

static const char *read_machine(struct arena *arena, const struct labels_source *source)
{
        const char *path = source->machine_file;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored;

        if (!path)
                path = arena_printf(arena, "%s%s", source->config->system_root, LABELS_MACHINE_FILE);
        if (!*path || file_read(path, MACHINE_LIMIT, &text, &ignored) < 0)
                return NULL;
        return arena_strdup(arena, text.data);
}

void labels_make(
        struct labels *ret, struct arena *arena, const struct labels_source *source, struct labels_warnings *warnings)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct labels_input input = {
                .config = source->config,
                .inventory = source->inventory,
                .plan = source->plan,
                .machine = read_machine(arena, source),
                .timestamp = source->timestamp,
        };

        vgpu_read(&input.vgpu, source->config->system_root);
        labels_build(ret, arena, &input, labels_make_add_warning, &text);
        labels_make_report(warnings, &text);
}

void labels_warnings_done(struct labels_warnings *warnings)
{
        free(warnings->text);
        warnings->text = NULL;
}
