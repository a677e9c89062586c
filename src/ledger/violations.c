#include "ledger/parts.h"

#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"

/* ---- the guard ---- */

static bool has_clients(const struct mps_status *status)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                if (status->daemons[i].n_clients)
                        return true;
        return false;
}

static enum guard_mode guard_mode(const struct ledger *ledger)
{
        const struct sharing_section *mps = ledger->plan ? ledger->plan->config->sharing.mps : NULL;

        /* Who holds by terms of before is guarded by them, where there are no others. */
        for (size_t i = 0; !mps && i < ledger->n_books; i++)
                if (ledger->books[i].is_leaving)
                        mps = ledger->books[i].resource->units[0].shared->section;
        return mps ? mps->guard : GUARD_OFF;
}

const struct holder *ledger_holder_of(const struct ledger *ledger, const struct book *book, const struct grant *grant)
{
        const struct holder *holder = NULL;

        for (size_t i = 0; i < grant->n_devices && ledger->holders && !holder; i++)
                holder = holders_find(ledger->holders, book->resource->name, grant->devices[i]);
        return holder;
}

unsigned int ledger_replicas_of(const struct book *book, const struct grant *grant, const struct unit *unit)
{
        unsigned int count = 0;

        if (grant->unit)
                return strcmp(grant->unit, unit->uuid) == 0 ? (unsigned int)MIN(grant->n_devices, unit->replicas) : 0;
        for (size_t i = 0; i < grant->n_devices; i++) {
                const struct device *device = map_find(&book->resource->by_id, grant->devices[i]);

                count += device && &book->resource->units[device->unit] == unit;
        }
        return count;
}

static void add_guard_grants(const struct ledger *ledger, const struct book *book, const struct grant *grant,
        struct arena *arena, struct guard_grant *grants, size_t *n_grants)
{
        const struct holder *holder = ledger_holder_of(ledger, book, grant);

        for (size_t i = 0; i < book->resource->n_units; i++) {
                const struct unit *unit = &book->resource->units[i];
                unsigned int replicas = ledger_replicas_of(book, grant, unit);
                struct share share;
                bool is_guess;

                if (replicas == 0)
                        continue;
                share = ledger_share(ledger, book, grant, unit, replicas, &is_guess);
                grants[(*n_grants)++] = (struct guard_grant){
                        .id = grant->id,
                        .unit = unit->uuid,
                        .pod_uid = holder ? holder->pod_uid : NULL,
                        .pod = holder && holder->pod ? arena_printf(arena, "%s/%s", holder->pod_namespace, holder->pod)
                                                     : NULL,
                        .limit_mib = share.memory_mib,
                        .threads_permille = share.threads_permille,
                        .tier = ledger_tier(ledger, book->resource, unit),
                        .is_guess = is_guess,
                };
        }
}

static size_t collect_guard_grants(const struct ledger *ledger, struct arena *arena, struct guard_grant **ret)
{
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < ledger->n_books; i++)
                most += grants_count(ledger->books[i].grants) * ledger->books[i].resource->n_units;
        *ret = ARENA_ARRAY(arena, struct guard_grant, most);
        for (size_t i = 0; i < ledger->n_books; i++) {
                const struct book *book = &ledger->books[i];

                for (size_t j = 0; j < grants_count(book->grants); j++)
                        add_guard_grants(ledger, book, grants_get(book->grants, j), arena, *ret, &count);
        }
        return count;
}

static void on_terminated(const struct error *err, void *data)
{
        struct ledger *ledger = data;

        if (err)
                log_warn("the MPS client could not be terminated", LOG_ERR(err));
        else
                ledger->clients_ended_total++;
}

static void on_listed(const struct error *err, void *data);

/* |may_ask|: for a list, and then there is another look at once. */
static void look(struct ledger *ledger, bool may_ask)
{
        static const struct mps_status nothing;
        const struct mps_status *status = ledger->status ? ledger->status : &nothing;
        const struct guard_proof proof = {.listed_at = ledger->listed_at,
                .allocated_at = ledger->allocated_at,
                .pods = ledger->holders ? holders_pods(ledger->holders) : NULL};
        struct arena scratch = ARENA_INIT;
        struct guard_report *found = &ledger->found;
        struct guard_grant *grants;
        size_t n_grants = collect_guard_grants(ledger, &scratch, &grants);

        guard_look(ledger->guard, guard_mode(ledger), grants, n_grants, status, &proof, ledger_clock(ledger), found);
        mps_report_guard(ledger->report, found);
        for (size_t i = 0; i < found->n_appeared; i++)
                ledger->findings_total[found->appeared[i]->kind]++;
        for (size_t i = 0; i < found->n_ending; i++)
                mps_link_terminate(ledger->link, found->ending[i]->daemon, found->ending[i]->client,
                        found->ending[i]->container_id, on_terminated, ledger);
        if (found->n_standing == 0 && !has_clients(status))
                uv_timer_stop(&ledger->guard_timer);
        arena_done(&scratch);
        if (!found->wants_list || !may_ask || !ledger->pods || ledger->guard_is_asking)
                return;
        ledger->guard_is_asking = true;
        ledger_list(ledger, on_listed, ledger);
}

static void on_listed(const struct error *err, void *data)
{
        struct ledger *ledger = data;

        ledger->guard_is_asking = false;
        if (!err && ledger->plan)
                look(ledger, false);
}

void ledger_on_guard_timer(uv_timer_t *timer)
{
        look(timer->data, true);
}

/* ---- what the daemons say ---- */

char *ledger_pods_of(const char *unit, void *data)
{
        const struct ledger *ledger = data;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct arena scratch = ARENA_INIT;
        struct guard_grant *grants;
        size_t n_grants = collect_guard_grants(ledger, &scratch, &grants);

        for (size_t i = 0; i < n_grants; i++)
                if (strcmp(grants[i].unit, unit) == 0 && grants[i].pod && !strstr(text.data, grants[i].pod))
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", grants[i].pod);
        arena_done(&scratch);
        return xstrdup(text.data);
}

void ledger_on_status(const struct mps_status *status, const char *reason, void *data)
{
        struct ledger *ledger = data;

        ledger->status = status;
        if (ledger->closing)
                return;
        if (status)
                mps_faults_follow(&ledger->faults, status);
        mps_report_status(ledger->report, status, reason, ledger->n_books > 0);
        for (size_t i = 0; i < ledger->n_books; i++)
                ledger_keep_back(ledger, &ledger->books[i]);
        if (status && has_clients(status) && !uv_is_active((uv_handle_t *)&ledger->guard_timer))
                uv_timer_start(&ledger->guard_timer, ledger_on_guard_timer, 0, GUARD_INTERVAL_MS);
        ledger->options.on_change(ledger->options.data);
}

/* ---- metrics ---- */

static struct ledger_allocation measure_grant(
        const struct ledger *ledger, const struct book *book, const struct grant *grant)
{
        const struct unit *unit = grant->unit ? resource_find_unit(book->resource, grant->unit) : NULL;
        struct ledger_allocation measured = {
                .grant = grant,
                .holder = ledger_holder_of(ledger, book, grant),
                .threads_permille = 1000,
        };

        if (unit) {
                bool is_guess;
                struct share share =
                        ledger_share(ledger, book, grant, unit, ledger_replicas_of(book, grant, unit), &is_guess);

                measured.tier = ledger_tier(ledger, book->resource, unit);
                measured.limit_mib = share.memory_mib;
                measured.threads_permille = share.threads_permille;
        }
        return measured;
}

size_t ledger_allocations(
        const struct ledger *ledger, const char *resource, struct arena *arena, const struct ledger_allocation **ret)
{
        struct ledger_allocation *allocations;
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < ledger->n_books; i++)
                most += grants_count(ledger->books[i].grants);
        *ret = allocations = ARENA_ARRAY(arena, struct ledger_allocation, most);
        for (size_t i = 0; i < ledger->n_books; i++) {
                const struct book *book = &ledger->books[i];

                for (size_t j = 0; j < grants_count(book->grants); j++)
                        if (strcmp(book->resource->name, resource) == 0)
                                allocations[count++] = measure_grant(ledger, book, grants_get(book->grants, j));
        }
        return count;
}

void ledger_measure(const struct ledger *ledger, struct ledger_measures *ret)
{
        *ret = (struct ledger_measures){
                .mps = ledger->status,
                .faults = &ledger->faults,
                .standing = ledger->found.standing,
                .n_standing = ledger->found.n_standing,
                .clients_ended_total = ledger->clients_ended_total,
        };
        memcpy(ret->findings_total, ledger->findings_total, sizeof(ret->findings_total));
}
