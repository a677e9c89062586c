// SPDX-License-Identifier: Apache-2.0
#include "node/dra/room.h"

#include <string.h>

#include "node/dra/wanted.h"
#include "node/ledger/claims.h"

struct dra_room_known {
        struct dra_room_known *next;
        const char *uid;
        bool is_over;
};

/* One look. */
struct look {
        const struct dra_room *room;
        const struct dra_claim *claim;
        const struct dra_layout *layout;
        ledger_claim_over_fn *is_over; /* whose claims do not count; NULL: all count */
};

static const struct dra_room_known *room_find_known(const struct dra_room *room, const char *uid)
{
        const struct dra_room_known *known = room->known;

        while (known && strcmp(known->uid, uid) != 0)
                known = known->next;
        return known;
}

static bool is_over(const char *uid, void *data)
{
        const struct dra_room_known *known = room_find_known(data, uid);

        return known && known->is_over;
}

static bool room_is_counted(const struct look *look, const char *uid)
{
        return strcmp(uid, look->claim->uid) != 0 &&
               !(look->is_over && look->is_over(uid, (void *)(uintptr_t)look->room));
}

static bool is_candidate(const struct dra_result *result)
{
        return result->offered->kind == DRA_DEVICE_MIG_CANDIDATE;
}

/* ---- MIG devices that are made for claims ---- */

static uint64_t room_consumed(const struct dra_device *device, const struct dra_counter_set *set, const char *counter)
{
        for (size_t i = 0; device && device->counter_set == set && i < device->n_consumes; i++)
                if (strcmp(device->consumes[i].name, counter) == 0)
                        return device->consumes[i].value;
        return 0;
}

static uint64_t room_value_of(const struct dra_counter_set *set, const char *counter)
{
        for (size_t i = 0; i < set->n_counters; i++)
                if (strcmp(set->counters[i].name, counter) == 0)
                        return set->counters[i].value;
        return 0;
}

/* How much of the counter the MIG devices of |claim| consume. */
static uint64_t consumed_by(
        const struct look *look, const struct dra_claim *claim, const struct dra_counter_set *set, const char *counter)
{
        uint64_t sum = 0;

        for (size_t i = 0; i < claim->n_results; i++)
                if (dra_result_has_instance(&claim->results[i]))
                        sum += room_consumed(dra_layout_find(look->layout, claim->results[i].device), set, counter);
        return sum;
}

/* A candidate is free if what it consumes is: as the scheduler counts. */
static int check_candidate(const struct look *look, const struct dra_device *device, struct error *err)
{
        const struct dra_record *record = look->room->record;

        for (size_t i = 0; i < device->n_consumes; i++) {
                const struct dra_counter *counter = &device->consumes[i];
                uint64_t sum = counter->value;

                for (size_t j = 0; j < dra_record_count(record); j++) {
                        const struct dra_claim *other = dra_record_at(record, j);
                        uint64_t more = room_is_counted(look, other->uid)
                                                ? consumed_by(look, other, device->counter_set, counter->name)
                                                : 0;

                        sum += more;
                        if (more && sum > room_value_of(device->counter_set, counter->name))
                                return error_set(err, ERROR_EXHAUSTED,
                                        "%s: claim %s/%s has a MIG device where '%s' is to be made", device->uuid,
                                        other->namespace, other->name, device->name);
                }
        }
        return 0;
}

/* ---- all that the claim has ---- */

/* MIG devices that are still to be made are left out: the ledger does not know them. */
static int check_ledger(const struct look *look, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger_claim booking;

        dra_booking_make(&booking, &arena, look->claim);
        for (size_t i = 0; i < look->claim->n_results; i++) {
                struct ledger_claim_device *device = dra_booking_find(&booking, dra_booking_id(&arena, look->claim, i));

                if (!device || !is_candidate(&look->claim->results[i]))
                        continue;
                booking.n_devices--;
                for (; device < &booking.devices[booking.n_devices]; device++)
                        *device = device[1]; /* the ledger names the first that does not fit */
        }
        if (booking.n_devices == 0)
                return 0; /* the ledger has nothing of this claim */
        return ledger_claim_fits(look->room->ledger, &booking, look->is_over, (void *)(uintptr_t)look->room, err);
}

static int check(const struct look *look, struct error *err)
{
        for (size_t i = 0; i < look->claim->n_results; i++)
                if (is_candidate(&look->claim->results[i]) &&
                        check_candidate(look, look->claim->results[i].offered, err) < 0)
                        return -1;
        return check_ledger(look, err);
}

/* ---- who may be in the way ---- */

static bool is_near_device(const struct dra_claim *other, const struct dra_device *device)
{
        for (size_t i = 0; i < other->n_results; i++) {
                const struct dra_result *result = &other->results[i];

                if (strcmp(result->unit, device->uuid) == 0 ||
                        (dra_result_has_instance(result) && strcmp(result->instance.gpu, device->uuid) == 0))
                        return true;
        }
        return false;
}

static bool room_is_near(const struct look *look, const struct dra_claim *other)
{
        for (size_t i = 0; i < look->claim->n_results; i++)
                if (is_near_device(other, look->claim->results[i].offered))
                        return true;
        return false;
}

static const struct dra_claim *find_unknown(const struct look *look)
{
        const struct dra_record *record = look->room->record;

        for (size_t i = 0; i < dra_record_count(record); i++) {
                const struct dra_claim *other = dra_record_at(record, i);

                if (room_is_counted(look, other->uid) && !room_find_known(look->room, other->uid) &&
                        room_is_near(look, other))
                        return other;
        }
        return NULL;
}

/* ---- public ---- */

enum dra_room_state dra_room_look(
        struct dra_room *room, const struct dra_claim *claim, const struct dra_layout *layout, struct error *err)
{
        const struct look all = {.room = room, .claim = claim, .layout = layout};
        struct look left = all;
        const struct dra_claim *unknown;
        struct error conflict;

        if (check(&all, err) == 0)
                return DRA_ROOM_THERE;
        left.is_over = is_over;
        if (check(&left, &conflict) == 0)
                return DRA_ROOM_COMES;
        unknown = find_unknown(&left);
        if (unknown) {
                room->asked = dra_claim_copy_names(room->arena, unknown);
                return DRA_ROOM_ASK;
        }
        *err = conflict;
        return DRA_ROOM_NONE;
}

void dra_room_learn(struct dra_room *room, bool is_claim_over)
{
        struct dra_room_known *known = ARENA_NEW(room->arena, struct dra_room_known);

        *known = (struct dra_room_known){room->known, room->asked.uid, is_claim_over};
        room->known = known;
}

void dra_room_doubt(struct dra_room *room)
{
        for (struct dra_room_known **at = &room->known; *at;) {
                if ((*at)->is_over)
                        at = &(*at)->next;
                else
                        *at = (*at)->next;
        }
}
