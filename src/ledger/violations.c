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

static enum guard_mode guard_mode(const struct holdings *holdings)
{
        const struct sharing_section *mps = holdings->plan ? holdings->plan->config->sharing.mps : NULL;

        /* Who holds by terms of before is guarded by them, where there are no others. */
        for (size_t i = 0; !mps && i < holdings->n_books; i++)
                if (holdings->books[i].is_leaving)
                        mps = holdings->books[i].resource->units[0].shared->section;
        return mps ? mps->guard : GUARD_OFF;
}

const struct holder *holdings_holder_of(
        const struct holdings *holdings, const struct book *book, const struct grant *grant)
{
        const struct holder *holder = NULL;

        for (size_t i = 0; i < grant->n_devices && holdings->holders && !holder; i++)
                holder = holders_find(holdings->holders, book->resource->name, grant->devices[i]);
        return holder;
}

unsigned int holdings_replicas_of(const struct book *book, const struct grant *grant, const struct unit *unit)
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

static void add_guard_grants(const struct holdings *holdings, const struct book *book, const struct grant *grant,
        struct arena *arena, struct guard_grant *grants, size_t *n_grants)
{
        const struct holder *holder = holdings_holder_of(holdings, book, grant);

        for (size_t i = 0; i < book->resource->n_units; i++) {
                const struct unit *unit = &book->resource->units[i];
                unsigned int replicas = holdings_replicas_of(book, grant, unit);
                struct share share;
                bool is_guess;

                if (replicas == 0)
                        continue;
                share = holdings_share(holdings, book, grant, unit, replicas, &is_guess);
                grants[(*n_grants)++] = (struct guard_grant){
                        .id = grant->id,
                        .unit = unit->uuid,
                        .pod_uid = holder ? holder->pod_uid : NULL,
                        .pod = holder && holder->pod ? arena_printf(arena, "%s/%s", holder->pod_namespace, holder->pod)
                                                     : NULL,
                        .limit_mib = share.memory_mib,
                        .threads_permille = share.threads_permille,
                        .tier = holdings_tier(holdings, book->resource, unit),
                        .is_guess = is_guess,
                };
        }
}

static size_t collect_guard_grants(const struct holdings *holdings, struct arena *arena, struct guard_grant **ret)
{
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < holdings->n_books; i++)
                most += grants_count(holdings->books[i].grants) * holdings->books[i].resource->n_units;
        *ret = ARENA_ARRAY(arena, struct guard_grant, most);
        for (size_t i = 0; i < holdings->n_books; i++) {
                const struct book *book = &holdings->books[i];

                for (size_t j = 0; j < grants_count(book->grants); j++)
                        add_guard_grants(holdings, book, grants_get(book->grants, j), arena, *ret, &count);
        }
        return count;
}

static void on_terminated(const struct error *err, void *data)
{
        struct holdings *holdings = data;

        if (err)
                log_warn("the MPS client could not be terminated", LOG_ERR(err));
        else
                holdings->clients_ended_total++;
}

static void on_listed(const struct error *err, void *data);

/* |may_ask|: for a list, and then there is another look at once. */
static void look(struct holdings *holdings, bool may_ask)
{
        static const struct mps_status nothing;
        const struct mps_status *status = holdings->status ? holdings->status : &nothing;
        const struct guard_proof proof = {.listed_at = holdings->listed_at,
                .allocated_at = holdings->allocated_at,
                .pods = holdings->holders ? holders_pods(holdings->holders) : NULL};
        struct arena scratch = ARENA_INIT;
        struct guard_report *found = &holdings->found;
        struct guard_grant *grants;
        size_t n_grants = collect_guard_grants(holdings, &scratch, &grants);

        guard_look(holdings->guard, guard_mode(holdings), grants, n_grants, status, &proof, holdings_clock(holdings),
                found);
        mps_report_guard(holdings->report, found);
        for (size_t i = 0; i < found->n_appeared; i++)
                holdings->findings_total[found->appeared[i]->kind]++;
        for (size_t i = 0; i < found->n_ending; i++)
                mps_link_terminate(holdings->link, found->ending[i]->daemon, found->ending[i]->client,
                        found->ending[i]->container_id, on_terminated, holdings);
        if (found->n_standing == 0 && !has_clients(status))
                uv_timer_stop(&holdings->guard_timer);
        arena_done(&scratch);
        if (!found->wants_list || !may_ask || !holdings->pods || holdings->guard_is_asking)
                return;
        holdings->guard_is_asking = true;
        holdings_list(holdings, on_listed, holdings);
}

static void on_listed(const struct error *err, void *data)
{
        struct holdings *holdings = data;

        holdings->guard_is_asking = false;
        if (!err && holdings->plan)
                look(holdings, false);
}

void holdings_on_guard_timer(uv_timer_t *timer)
{
        look(timer->data, true);
}

/* ---- what the daemons say ---- */

char *holdings_pods_of(const char *unit, void *data)
{
        const struct holdings *holdings = data;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct arena scratch = ARENA_INIT;
        struct guard_grant *grants;
        size_t n_grants = collect_guard_grants(holdings, &scratch, &grants);

        for (size_t i = 0; i < n_grants; i++)
                if (strcmp(grants[i].unit, unit) == 0 && grants[i].pod && !strstr(text.data, grants[i].pod))
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", grants[i].pod);
        arena_done(&scratch);
        return xstrdup(text.data);
}

void holdings_on_status(const struct mps_status *status, const char *reason, void *data)
{
        struct holdings *holdings = data;

        holdings->status = status;
        if (holdings->closing)
                return;
        if (status)
                mps_faults_follow(&holdings->faults, status);
        mps_report_status(holdings->report, status, reason, holdings->n_books > 0);
        for (size_t i = 0; i < holdings->n_books; i++)
                holdings_keep_back(holdings, &holdings->books[i]);
        if (status && has_clients(status) && !uv_is_active((uv_handle_t *)&holdings->guard_timer))
                uv_timer_start(&holdings->guard_timer, holdings_on_guard_timer, 0, GUARD_INTERVAL_MS);
        holdings->options.on_change(holdings->options.data);
}

/* ---- metrics ---- */

static struct ledger_allocation measure_grant(
        const struct holdings *holdings, const struct book *book, const struct grant *grant)
{
        const struct unit *unit = grant->unit ? resource_find_unit(book->resource, grant->unit) : NULL;
        struct ledger_allocation measured = {
                .grant = grant,
                .holder = holdings_holder_of(holdings, book, grant),
                .threads_permille = 1000,
        };

        if (unit) {
                bool is_guess;
                struct share share =
                        holdings_share(holdings, book, grant, unit, holdings_replicas_of(book, grant, unit), &is_guess);

                measured.tier = holdings_tier(holdings, book->resource, unit);
                measured.limit_mib = share.memory_mib;
                measured.threads_permille = share.threads_permille;
        }
        return measured;
}

size_t holdings_allocations(const struct holdings *holdings, const char *resource, struct arena *arena,
        const struct ledger_allocation **ret)
{
        struct ledger_allocation *allocations;
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < holdings->n_books; i++)
                most += grants_count(holdings->books[i].grants);
        *ret = allocations = ARENA_ARRAY(arena, struct ledger_allocation, most);
        for (size_t i = 0; i < holdings->n_books; i++) {
                const struct book *book = &holdings->books[i];

                for (size_t j = 0; j < grants_count(book->grants); j++)
                        if (strcmp(book->resource->name, resource) == 0)
                                allocations[count++] = measure_grant(holdings, book, grants_get(book->grants, j));
        }
        return count;
}

void holdings_measure(const struct holdings *holdings, struct ledger_measures *ret)
{
        *ret = (struct ledger_measures){
                .mps = holdings->status,
                .faults = &holdings->faults,
                .standing = holdings->found.standing,
                .n_standing = holdings->found.n_standing,
                .clients_ended_total = holdings->clients_ended_total,
        };
        memcpy(ret->findings_total, holdings->findings_total, sizeof(ret->findings_total));
}
