#include "share/mps_limits.h"

#include "base/strbuf.h"
#include "share/mps_wanted.h"
#include "share/share.h"

const char *mps_limits_pipe(struct arena *arena, const struct resource *resource, const struct unit *unit)
{
        return arena_printf(arena, "/mps/%s/pipe", mps_daemon_name(arena, resource, unit));
}

const char *mps_limits_threads(struct arena *arena, unsigned int permille)
{
        if (permille % 10)
                return arena_printf(arena, "%u.%u", permille / 10, permille % 10);
        return arena_printf(arena, "%u", permille / 10);
}

const char *mps_limits_memory(struct arena *arena, uint64_t mib, unsigned int n_units)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (unsigned int i = 0; i < n_units; i++)
                strbuf_printf(&text, "%s%u=%lluM", i ? "," : "", i, (unsigned long long)mib);
        return arena_strdup(arena, text.data);
}

unsigned int mps_limits_most(const struct resource *resource, const struct unit *unit)
{
        if (resource->provisioning == PROVISIONING_UNIFORM || !mps_has_own_daemon(resource->daemon_scope, unit->uuid))
                return 0;
        return share_most(resource, unit);
}

const char *mps_limits_device(
        struct arena *arena, const struct resource *resource, const struct unit *unit, unsigned int k)
{
        char *name = arena_strdup(arena, mps_daemon_name(arena, resource, unit));

        for (char *at = name; *at; at++)
                if (*at == '/')
                        *at = '_';
        return k && k <= mps_limits_most(resource, unit) ? arena_printf(arena, "%s-%u", name, k) : name;
}
