/*
 * What is granted at this moment, told whole to the supervisor of the daemons, which compares it with what it has made: so nothing
 * stays of a container that is gone, whatever release was lost, and nothing is missing to one that runs.
 */
#include "ledger/parts.h"

#include <string.h>

#include "share/mps_wanted.h"

/* An id that nobody remembers was made up from the devices (share/grants_sync.c): what was made under the true one is not known. */
#define GUESSED_ID_LENGTH ((size_t)17)

static bool is_known(const struct grant *grant)
{
        return !grant->is_guess && strlen(grant->id) != GUESSED_ID_LENGTH;
}

/* Something is made for it there, by the plan: what its daemon can at this moment is the supervisor's business. */
static bool is_made(const struct ledger *ledger, const struct book *book, const struct unit *unit)
{
        return unit->shared && share_tier(ledger->plan, book->resource, unit) >= MPS_TIER_PARTITION;
}

static bool makes_any(const struct ledger *ledger, const struct book *book)
{
        for (size_t i = 0; i < book->resource->n_units; i++)
                if (is_made(ledger, book, &book->resource->units[i]))
                        return true;
        return false;
}

/* False: what it has cannot be told. */
static bool add(const struct ledger *ledger, const struct book *book, const struct grant *grant, struct arena *arena,
        struct mps_grant_request *ret, size_t *ret_count)
{
        const struct unit *unit = grant->unit ? resource_find_unit(book->resource, grant->unit) : NULL;
        struct share share;

        if (!is_known(grant) || !unit)
                return false;
        if (!is_made(ledger, book, unit))
                return true;
        share = share_of(book->resource, unit, (unsigned int)MIN(grant->n_devices, unit->replicas));
        ret[(*ret_count)++] = (struct mps_grant_request){
                .id = grant->id,
                .daemon = mps_daemon_name(arena, book->resource, unit),
                .unit = unit->uuid,
                .threads_permille = share.threads_permille,
                .limit_mib = share.memory_mib,
                .sms = share.sms,
        };
        return true;
}

static bool add_book(const struct ledger *ledger, const struct book *book, struct arena *arena,
        struct mps_grant_request *ret, size_t *ret_count)
{
        if (!makes_any(ledger, book))
                return true;
        for (size_t i = 0; i < grants_count(book->grants); i++)
                if (!add(ledger, book, grants_get(book->grants, i), arena, ret, ret_count))
                        return false;
        return true;
}

/* Only where every grant is known by its true id: what is not named is taken away from whoever has it. */
void ledger_tell_all(struct ledger *ledger)
{
        struct arena scratch = ARENA_INIT;
        struct mps_grant_request *requests;
        size_t most = 0;
        size_t count = 0;
        bool is_whole = ledger->plan != NULL;

        for (size_t i = 0; i < ledger->n_books; i++)
                most += grants_count(ledger->books[i].grants);
        requests = ARENA_ARRAY(&scratch, struct mps_grant_request, most + 1);
        for (size_t i = 0; is_whole && i < ledger->n_books; i++)
                is_whole = add_book(ledger, &ledger->books[i], &scratch, requests, &count);
        mps_link_hold(ledger->link, is_whole ? requests : NULL, count);
        arena_done(&scratch);
}
