#include "mps/supervisor/guess.h"

#include <string.h>

#include "mps/wire/fields.h"

/* What the record takes. */
static bool is_text(const struct json_text *kind, const char *text)
{
        return strlen(text) <= kind->most && kind->is(text);
}

bool mps_guess(struct mps_daemon_wanted *ret, struct arena *arena, const char *name, const char *units)
{
        struct mps_unit *all;
        size_t most = 1;
        size_t count = 0;

        for (const char *at = units; *at; at++)
                most += *at == ',';
        if (!is_text(&message_path, name) || most > MESSAGE_UNITS_MAX)
                return false;
        all = ARENA_ARRAY(arena, struct mps_unit, most);
        for (const char *at = units; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
                const char *uuid = arena_printf(arena, "%.*s", (int)strcspn(at, ","), at);

                if (!is_text(&message_uuid, uuid))
                        return false;
                all[count++] = (struct mps_unit){.uuid = uuid, .gpu_uuid = uuid, .index = "", .name = ""};
        }
        *ret = (struct mps_daemon_wanted){
                .name = arena_strdup(arena, name),
                .resource = "",
                .threads_permille = 1000,
                .units = all,
                .n_units = count,
        };
        return true;
}

/* Each wanted daemon is of a resource. */
bool mps_guess_is(const struct mps_daemon_wanted *settings)
{
        return settings->resource && !*settings->resource;
}

bool mps_guess_fits(const struct mps_daemon_wanted *guess, const struct mps_daemon_wanted *wanted)
{
        if (guess->n_units != wanted->n_units)
                return false;
        for (size_t i = 0; i < guess->n_units; i++)
                if (strcmp(guess->units[i].uuid, wanted->units[i].uuid) != 0)
                        return false;
        return true;
}
