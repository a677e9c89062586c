// SPDX-License-Identifier: Apache-2.0
/* Without a ledger: claims for MIG devices that are made for them, on a GPU with four memory slices. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/dra/room.h"

#define GPU "GPU-0"

static const struct mig_instance_profile small = {.name = "1g.6gb", .id = 14}, large = {.name = "2g.12gb", .id = 5};
static const struct dra_counter slices[] = {{"memory-slice-0", 1}, {"memory-slice-1", 1}, {"memory-slice-2", 1}};
static const struct dra_counter_set set = {.name = "gpu-0-counters", .counters = slices, .n_counters = 3};
static const struct dra_device devices[] = {
        {.name = "at-0",
                .kind = DRA_DEVICE_MIG_CANDIDATE,
                .uuid = GPU,
                .profile = &small,
                .start = 0,
                .counter_set = &set,
                .consumes = &slices[0],
                .n_consumes = 1},
        {.name = "at-1",
                .kind = DRA_DEVICE_MIG_CANDIDATE,
                .uuid = GPU,
                .profile = &small,
                .start = 1,
                .counter_set = &set,
                .consumes = &slices[1],
                .n_consumes = 1},
        {.name = "at-0-2",
                .kind = DRA_DEVICE_MIG_CANDIDATE,
                .uuid = GPU,
                .profile = &large,
                .start = 0,
                .counter_set = &set,
                .consumes = &slices[0],
                .n_consumes = 2},
};
static const struct dra_layout layout = {.devices = devices, .n_devices = 3, .counter_sets = &set, .n_counter_sets = 1};

struct rig {
        char path[64];
        struct dra_record *record;
        struct arena arena;
        struct dra_room room;
        struct error err;
};

static void rig_init(struct rig *rig)
{
        *rig = (struct rig){.path = "/dev/shm/dra-room-XXXXXX"};
        close(mkstemp(rig->path));
        rig->record = dra_record_new(rig->path, "boot");
        rig->room = (struct dra_room){.record = rig->record, .arena = &rig->arena};
}

static void rig_done(struct rig *rig)
{
        dra_record_free(rig->record);
        arena_done(&rig->arena);
        unlink(rig->path);
}

static void prepared(struct rig *rig, const char *uid, const char *device, enum dra_instance_state state)
{
        struct dra_result result = {.pool = "n1",
                .request = "gpu",
                .device = device,
                .unit = state == DRA_INSTANCE_MADE ? "MIG-x" : GPU,
                .has_instance = true,
                .instance = {.gpu = GPU,
                        .profile_id = 14,
                        .state = state,
                        .uuid = state == DRA_INSTANCE_MADE ? "MIG-x" : NULL},
                .cdi_id = "gpu.warpshare.dev/claim=x"};
        const struct dra_claim claim = {.namespace = "team",
                .uid = uid,
                .name = uid,
                .state = DRA_CLAIM_PREPARED,
                .results = &result,
                .n_results = 1};

        assert_ok(dra_record_put(rig->record, &claim, &rig->err), &rig->err);
}

static enum dra_room_state look(struct rig *rig, const char *uid, const char *device)
{
        struct dra_result result = {.pool = "n1",
                .request = "gpu",
                .device = device,
                .offered = dra_layout_find(&layout, device),
                .unit = GPU};
        const struct dra_claim claim = {
                .namespace = "team", .name = uid, .uid = uid, .results = &result, .n_results = 1};

        return dra_room_look(&rig->room, &claim, &layout, &rig->err);
}

static void test_there_is_room_beside_what_does_not_overlap(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_THERE);
        prepared(&rig, "old", "at-1", DRA_INSTANCE_MADE);
        prepared(&rig, "none", "at-0", DRA_INSTANCE_NONE);
        assert_int_equal(look(&rig, "new", "at-0"), DRA_ROOM_THERE);
        assert_int_equal(look(&rig, "old", "at-0-2"), DRA_ROOM_THERE); /* its own is no obstacle */
        rig_done(&rig);
}

static void test_room_comes_when_who_has_it_is_over_and_is_there_when_that_has_gone(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig);
        prepared(&rig, "old", "at-1", DRA_INSTANCE_MAKING);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_ASK);
        assert_string_equal(rig.room.asked.uid, "old");
        dra_room_learn(&rig.room, true);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_COMES);
        assert_string_equal(rig.err.text, "GPU-0: claim team/old has a MIG device where 'at-0-2' is to be made");
        assert_ok(dra_record_remove(rig.record, "old", &rig.err), &rig.err);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_THERE);
        rig_done(&rig);
}

static void test_no_more_claims_are_asked_for_than_are_in_the_way(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig);
        prepared(&rig, "first", "at-0", DRA_INSTANCE_MADE);
        prepared(&rig, "second", "at-1", DRA_INSTANCE_MADE);
        assert_int_equal(look(&rig, "new", "at-0"), DRA_ROOM_ASK);
        assert_string_equal(rig.room.asked.uid, "first");
        dra_room_learn(&rig.room, true);
        assert_int_equal(look(&rig, "new", "at-0"), DRA_ROOM_COMES);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_ASK);
        assert_string_equal(rig.room.asked.uid, "second");
        rig_done(&rig);
}

static void test_who_is_still_allocated_is_a_conflict_until_something_has_gone(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig);
        prepared(&rig, "over", "at-0", DRA_INSTANCE_MADE);
        prepared(&rig, "allocated", "at-1", DRA_INSTANCE_MADE);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_ASK);
        dra_room_learn(&rig.room, true);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_ASK);
        assert_string_equal(rig.room.asked.uid, "allocated");
        dra_room_learn(&rig.room, false);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_NONE);
        assert_non_null(strstr(rig.err.text, "claim team/allocated has a MIG device"));
        dra_room_doubt(&rig.room);
        assert_int_equal(look(&rig, "new", "at-0-2"), DRA_ROOM_ASK);
        assert_string_equal(rig.room.asked.uid, "allocated");
        rig_done(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_there_is_room_beside_what_does_not_overlap),
                cmocka_unit_test(test_room_comes_when_who_has_it_is_over_and_is_there_when_that_has_gone),
                cmocka_unit_test(test_no_more_claims_are_asked_for_than_are_in_the_way),
                cmocka_unit_test(test_who_is_still_allocated_is_a_conflict_until_something_has_gone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
