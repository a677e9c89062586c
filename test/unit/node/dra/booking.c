// SPDX-License-Identifier: Apache-2.0
/*
 * What a claim books in the ledger, when it is prepared and when a starting agent finds it in its record.
 */
#include "unit.h"

#include <string.h>

#include "base/strbuf.h"
#include "node/dra/wanted.h"

#define GIB (UINT64_C(1) << 30)

static const struct dra_device shared_0 = {.name = "gpu-0-shared", .kind = DRA_DEVICE_SHARED, .uuid = "GPU-0"};
static const struct dra_device shared_1 = {.name = "gpu-1-shared", .kind = DRA_DEVICE_SHARED, .uuid = "GPU-1"};
static const struct dra_device whole = {.name = "gpu-2", .kind = DRA_DEVICE_WHOLE, .uuid = "GPU-2"};

static char *text_of(const struct ledger_claim_device *devices, size_t count)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_printf(&text, "%s", "");
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "%s %s %ju %u%s%s\n", devices[i].id, devices[i].unit,
                        (uintmax_t)devices[i].limit_mib, devices[i].threads_permille,
                        devices[i].is_shared ? " shared" : "", devices[i].is_alone ? " alone" : "");
        return text.data;
}

#define ALL (1U << 0 | 1U << 2 | 1U << 3)

static struct dra_result results[] = {
        {.offered = &shared_0, .unit = "GPU-0", .memory_bytes = 10 * GIB, .thread_percentage = 30, .together = ALL},
        {.offered = &whole, .unit = "GPU-2"},
        {.offered = &shared_0, .unit = "GPU-0", .memory_bytes = 5 * GIB, .thread_percentage = 20, .together = ALL},
        {.offered = &shared_1, .unit = "GPU-1", .memory_bytes = GIB, .thread_percentage = 10, .together = ALL},
        {.offered = &shared_0, .unit = "GPU-0", .memory_bytes = 2 * GIB, .thread_percentage = 5, .together = 1U << 4},
        {.offered = &whole, .unit = "GPU-2", .is_admin = true},
};
static const struct dra_claim claim = {
        .namespace = "team", .name = "train", .uid = "15EB-fed7", .results = results, .n_results = ARRAY_SIZE(results)};
static const char *const ids[] = {"c15ebfed7_0", "c15ebfed7_1", "c15ebfed7_0", "c15ebfed7_3", "c15ebfed7_4", NULL};

#define EXPECTED                                                                                                       \
        "c15ebfed7_0 GPU-0 15360 500 shared\n"                                                                         \
        "c15ebfed7_1 GPU-2 0 1000 alone\n"                                                                             \
        "c15ebfed7_3 GPU-1 1024 100 shared\n"                                                                          \
        "c15ebfed7_4 GPU-0 2048 50 shared\n"

static void test_shares_of_a_unit_that_are_used_together_are_booked_as_one(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger_claim booking;
        _free_ char *text = NULL;

        dra_booking_make(&booking, &arena, &claim);
        text = text_of(booking.devices, booking.n_devices);
        assert_string_equal(text, EXPECTED);
        assert_string_equal(booking.name, "team/train");
        for (size_t i = 0; i < ARRAY_SIZE(results); i++) {
                const char *id = dra_booking_id(&arena, &claim, i);

                assert_int_equal(!!id, !!ids[i]);
                if (id)
                        assert_string_equal(id, ids[i]);
        }
        assert_ptr_equal(dra_booking_find(&booking, ids[3]), &booking.devices[2]);
        assert_null(dra_booking_find(&booking, NULL));
}

static void test_what_the_record_has_is_booked_as_it_was(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dra_result prepared[ARRAY_SIZE(results)] = {0};
        struct dra_claim recorded = claim;
        struct ledger_claim kept;
        _free_ char *text = NULL;

        recorded.results = prepared;
        for (size_t i = 0; i < ARRAY_SIZE(results); i++)
                prepared[i] = (struct dra_result){
                        .unit = results[i].unit,
                        .is_admin = results[i].is_admin,
                        .memory_bytes = results[i].memory_bytes,
                        .thread_percentage = results[i].thread_percentage,
                        .tier = results[i].together ? "verified" : NULL,
                        .daemon = results[i].together ? "gpu.warpshare.dev" : NULL,
                        .allocation = ids[i],
                };
        dra_booking_make(&kept, &arena, &recorded);
        text = text_of(kept.devices, kept.n_devices);
        assert_string_equal(text, EXPECTED);
        assert_string_equal(kept.devices[0].daemon, "gpu.warpshare.dev");
        assert_null(kept.devices[1].daemon);
        assert_int_equal(kept.devices[0].tier, MPS_TIER_VERIFIED);
}

/* By an agent that had no such thing. */
static void test_a_record_without_allocations_has_one_for_each_result(void **state UNUSED)
{
        static struct dra_result prepared[] = {
                {.unit = "GPU-0", .daemon = "GPU-0", .memory_bytes = GIB, .thread_percentage = 10},
                {.unit = "GPU-0", .daemon = "GPU-0", .memory_bytes = GIB, .thread_percentage = 10}};
        const struct dra_claim recorded = {
                .uid = "u", .namespace = "team", .name = "train", .results = prepared, .n_results = 2};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger_claim kept;
        _free_ char *text = NULL;

        dra_booking_make(&kept, &arena, &recorded);
        text = text_of(kept.devices, kept.n_devices);
        assert_string_equal(text, "cu_0 GPU-0 1024 100 shared\ncu_1 GPU-0 1024 100 shared\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shares_of_a_unit_that_are_used_together_are_booked_as_one),
                cmocka_unit_test(test_what_the_record_has_is_booked_as_it_was),
                cmocka_unit_test(test_a_record_without_allocations_has_one_for_each_result),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
