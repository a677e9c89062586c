// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/setting.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "mps/control/dialogue.h"

#define ROUNDING_PERMILLE 10U

/* ---- the older interface ---- */

struct mps_setting mps_setting_threads(struct arena *arena, pid_t server, unsigned int permille)
{
        const char *number = arena_printf(arena, "%u.%u", permille / 10, permille % 10);
        struct mps_setting setting = {
                .kind = MPS_SETTING_THREADS,
                .permille = permille,
                .server = server,
                .set = arena_printf(arena, "set_default_active_thread_percentage %s", number),
                .get = "get_default_active_thread_percentage",
                .what = "active thread percentage",
        };

        if (server) {
                setting.set = arena_printf(arena, "set_active_thread_percentage %d %s", (int)server, number);
                setting.get = arena_printf(arena, "get_active_thread_percentage %d", (int)server);
                setting.what = arena_printf(arena, "active thread percentage of its server %d", (int)server);
        }
        return setting;
}

struct mps_setting mps_setting_limit(struct arena *arena, pid_t server, size_t ordinal, const struct mps_unit *unit)
{
        const char *place = server ? arena_printf(arena, "device_pinned_mem_limit %d %zu", (int)server, ordinal)
                                   : arena_printf(arena, "default_device_pinned_mem_limit %zu", ordinal);

        return (struct mps_setting){
                .kind = MPS_SETTING_LIMIT,
                .limit_mib = unit->limit_mib,
                .unit = unit->uuid,
                .server = server,
                .set = arena_printf(arena, "set_%s %" PRIu64 "M", place, unit->limit_mib),
                .get = arena_printf(arena, "get_%s", place),
                .what = server ? arena_printf(arena, "memory limit of its server %d on %s", (int)server, unit->uuid)
                               : arena_printf(arena, "memory limit of %s", unit->uuid),
        };
}

/* ---- v3 ---- */

struct mps_setting mps_setting_v3_create(struct arena *arena, const char *server, const char *unit)
{
        return (struct mps_setting){
                .is_v3 = true, .set = dialogue_v3_server_create(arena, server, geteuid(), unit), .may_fail = true};
}

/* Both limits of the namespace |name|, which |set| sets. */
static void v3_limits(struct mps_setting ret[2], struct arena *arena, const char *server, const char *name,
        const char *set, unsigned int permille, uint64_t limit_mib)
{
        ret[0] = (struct mps_setting){.is_v3 = true,
                .kind = MPS_SETTING_THREADS,
                .permille = dialogue_v3_threads_set(permille),
                .what = "active thread percentage",
                .set = set,
                .get = dialogue_v3_namespace_get(arena, server, name, DIALOGUE_V3_THREADS)};
        ret[1] = (struct mps_setting){.is_v3 = true,
                .kind = MPS_SETTING_LIMIT,
                .limit_mib = limit_mib,
                .what = "memory limit",
                .set = set,
                .get = dialogue_v3_namespace_get(arena, server, name, DIALOGUE_V3_LIMIT)};
}

void mps_setting_v3_default(struct mps_setting ret[2], struct arena *arena, const char *server, unsigned int permille,
        const struct mps_unit *unit)
{
        v3_limits(ret, arena, server, "default", dialogue_v3_server_set(arena, server, permille, unit->limit_mib),
                permille, unit->limit_mib);
        ret[1].unit = unit->uuid;
}

size_t mps_setting_v3_new_namespace(
        struct mps_setting ret[2], struct arena *arena, const char *server, const struct mps_allocation_request *wanted)
{
        struct mps_setting both[2];
        size_t count = 0;

        v3_limits(both, arena, server, wanted->id,
                dialogue_v3_namespace_set(arena, server, wanted->id, wanted->threads_permille, wanted->limit_mib),
                wanted->threads_permille, wanted->limit_mib);
        if (wanted->limit_mib)
                ret[count++] = both[1];
        if (wanted->threads_permille)
                ret[count++] = both[0];
        return count;
}

struct mps_setting mps_setting_v3_namespace(
        struct arena *arena, const char *server, const struct mps_allocation_request *wanted, const char *list)
{
        return (struct mps_setting){
                .is_v3 = true,
                .kind = MPS_SETTING_NAMESPACE,
                .permille = wanted->threads_permille ? dialogue_v3_threads_set(wanted->threads_permille) : 0,
                .limit_mib = wanted->limit_mib,
                .server_name = server,
                .name = arena_strdup(arena, wanted->id),
                .set = dialogue_v3_namespace_set(
                        arena, server, wanted->id, wanted->threads_permille, wanted->limit_mib),
                .get = list,
        };
}

/* ---- answers ---- */

static const char *setting_place_of(const struct mps_setting *setting)
{
        return setting->server ? "" : "default ";
}

static enum mps_setting_outcome check_threads(
        const struct mps_setting *setting, const char *answer, bool is_first, struct error *err)
{
        const unsigned int slack = setting->server ? ROUNDING_PERMILLE : 0;
        const unsigned int expected = setting->permille;
        unsigned int found;

        if (dialogue_read_percentage(answer, &found, err) < 0)
                return MPS_SETTING_UNCLEAR;
        if (found + slack >= expected && found <= expected + slack)
                return MPS_SETTING_SAME;
        if (is_first)
                error_raise(err, ERROR_INVALID, "%s: %u.%u was set, its control daemon reports %u.%u", setting->what,
                        expected / 10, expected % 10, found / 10, found % 10);
        else
                error_raise(err, ERROR_INVALID, "%s%s: %u.%u instead of %u.%u %%", setting_place_of(setting),
                        setting->what, found / 10, found % 10, expected / 10, expected % 10);
        return MPS_SETTING_OTHER;
}

/* It is not known whether v3 shows limits exactly, or rounded as older daemons do. */
static enum mps_setting_outcome check_limit(
        const struct mps_setting *setting, const char *answer, bool is_first, struct error *err)
{
        const uint64_t expected = setting->limit_mib;
        uint64_t found;

        if (dialogue_read_limit(answer, &found, err) < 0)
                return MPS_SETTING_UNCLEAR;
        if (found == dialogue_limit_shown(expected) || (setting->is_v3 && found == expected))
                return MPS_SETTING_SAME;
        if (is_first)
                error_raise(err, ERROR_INVALID,
                        "%s: %" PRIu64 " MiB were set, its control daemon reports %" PRIu64 " MiB", setting->what,
                        expected, found);
        else
                error_raise(err, ERROR_INVALID, "%s%s: %" PRIu64 " instead of %" PRIu64 " MiB",
                        setting_place_of(setting), setting->what, found, expected);
        return MPS_SETTING_OTHER;
}

static const struct dialogue_v3_namespace *namespace_find(
        const struct dialogue_v3_namespace *listed, size_t n_listed, const struct mps_setting *setting)
{
        for (size_t i = 0; i < n_listed; i++)
                if (strcmp(listed[i].name, setting->name) == 0 && strcmp(listed[i].server, setting->server_name) == 0)
                        return &listed[i];
        return NULL;
}

/*
 * A namespace that is missing was released meanwhile, if all lines of the list could be read.
 */
static enum mps_setting_outcome check_namespace(
        const struct mps_setting *setting, const char *answer, struct error *err)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const uint64_t limit = setting->limit_mib;
        const unsigned int permille = setting->permille;
        const struct dialogue_v3_namespace *found;
        struct dialogue_v3_namespace *listed;
        struct dialogue_unread unread = {0};
        size_t n_listed;

        dialogue_v3_read_namespaces(answer, &scratch, &listed, &n_listed, &unread);
        found = namespace_find(listed, n_listed, setting);
        if (!found && unread.count)
                error_raise(err, ERROR_INVALID,
                        "limits of its namespace %s: not in the list of namespaces, of which %zu lines cannot be read, "
                        "the first: '%s'",
                        setting->name, unread.count, unread.first);
        if (!found)
                return MPS_SETTING_UNCLEAR;
        if (limit && found->limit_mib != limit && found->limit_mib != dialogue_limit_shown(limit))
                error_raise(err, ERROR_INVALID,
                        "memory limit of its namespace %s: %" PRIu64 " instead of %" PRIu64 " MiB", setting->name,
                        found->limit_mib, limit);
        else if (permille && found->permille != permille)
                error_raise(err, ERROR_INVALID,
                        "active thread percentage of its namespace %s: %u.%u instead of %u.%u %%", setting->name,
                        found->permille / 10, found->permille % 10, permille / 10, permille % 10);
        else
                return MPS_SETTING_SAME;
        return MPS_SETTING_OTHER;
}

enum mps_setting_outcome mps_setting_check(
        const struct mps_setting *setting, const char *answer, bool is_first, struct error *err)
{
        err->kind = ERROR_NONE;
        if (setting->kind == MPS_SETTING_NAMESPACE)
                return check_namespace(setting, answer, err);
        if (setting->server && dialogue_is_not_found(answer))
                return MPS_SETTING_UNCLEAR;
        return setting->kind == MPS_SETTING_THREADS ? check_threads(setting, answer, is_first, err)
                                                    : check_limit(setting, answer, is_first, err);
}

bool mps_setting_is_blurred(const struct mps_setting *setting)
{
        return setting->kind == MPS_SETTING_LIMIT && !setting->is_v3 &&
               dialogue_limit_shown(setting->limit_mib) != setting->limit_mib;
}
