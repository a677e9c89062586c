// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "node/dra/wanted.h"

#define GIB (UINT64_C(1) << 30)
#define SHARE "e7a17ed6-d8c3-4e50-8bf1-502a38e8773d"

static const struct dra_capacity of_shared[] = {{.name = "memory", .value = 79 * GIB, .has_policy = true},
        {.name = "threadPercentage", .value = 100, .has_policy = true},
        {.name = "clients", .value = 60, .has_policy = true}};
static const struct dra_capacity of_share[] = {
        {.name = "memory", .value = 20 * GIB}, {.name = "threadPercentage", .value = 25}};
static const struct dra_capacity of_whole[] = {{.name = "memory", .value = 80 * GIB}};

static const struct mig_device a_mig_device = {.uuid = "MIG-2"};
static const struct dra_device devices[] = {
        {.name = "gpu-0-shared",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "GPU-0",
                .allows_multiple = true,
                .capacities = of_shared,
                .n_capacities = 3},
        {.name = "gpu-1-shared",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "GPU-1",
                .allows_multiple = true,
                .capacities = of_shared,
                .n_capacities = 3},
        {.name = "gpu-1-share-2", .kind = DRA_DEVICE_SHARE, .uuid = "GPU-1", .capacities = of_share, .n_capacities = 2},
        {.name = "gpu-0", .kind = DRA_DEVICE_WHOLE, .uuid = "GPU-0", .capacities = of_whole, .n_capacities = 1},
        {.name = "gpu-1", .kind = DRA_DEVICE_WHOLE, .uuid = "GPU-1", .capacities = of_whole, .n_capacities = 1},
        {.name = "gpu-2-mig-shared",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "MIG-2",
                .mig = &a_mig_device,
                .allows_multiple = true,
                .capacities = of_shared,
                .n_capacities = 3},
        {.name = "gpu-1-timeslice", .kind = DRA_DEVICE_TIMESLICE, .uuid = "GPU-1", .allows_multiple = true},
};
static const struct dra_layout layout = {.devices = devices, .n_devices = ARRAY_SIZE(devices)};
static const struct dra_wanted_rules rules = {.layout = &layout};

static const struct dra_claim_capacity ten_gib[] = {{"clients", 2}, {"memory", 10 * GIB}, {"threadPercentage", 30}};

#define SHARED(name)                                                                                                   \
        {                                                                                                              \
                .request = "a", .device = name, .share_id = SHARE, .capacities = ten_gib, .n_capacities = 3            \
        }

static void test_limits_are_what_the_scheduler_counted(void **state UNUSED)
{
        struct dra_result results[] = {SHARED("gpu-1-shared"), {.request = "b", .device = "gpu-1-share-2"},
                {.request = "c", .device = "gpu-0"}};
        static const struct {
                uint64_t memory_bytes;
                unsigned int thread_percentage;
        } expected[] = {{10 * GIB, 30}, {20 * GIB, 25}, {0, 0}};
        struct dra_claim claim = {.results = results, .n_results = 3};
        struct error err;

        assert_ok(dra_wanted_read(&claim, &rules, &err), &err);
        for (size_t i = 0; i < 3; i++) {
                assert_string_equal(results[i].offered->name, results[i].device);
                assert_string_equal(results[i].unit, results[i].offered->uuid);
                assert_int_equal(results[i].memory_bytes, expected[i].memory_bytes);
                assert_int_equal(results[i].thread_percentage, expected[i].thread_percentage);
        }
}

static void test_is_admin_needs_no_share_of_its_own(void **state UNUSED)
{
        struct dra_result results[] = {{.request = "a", .device = "gpu-0", .is_admin = true},
                {.request = "b", .device = "gpu-0", .is_admin = true},
                {.request = "c", .device = "gpu-1-timeslice", .is_admin = true}};
        struct dra_claim claim = {.results = results, .n_results = 3};
        const struct dra_wanted_rules all = {.layout = &layout};
        struct error err;

        assert_ok(dra_wanted_read(&claim, &all, &err), &err);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(results[i].memory_bytes, 0);
}

static void test_what_cannot_be_prepared_is_refused_with_the_reason(void **state UNUSED)
{
        static const struct dra_claim_capacity no_memory[] = {{"threadPercentage", 30}, {"clients", 1}};
        static const struct dra_claim_capacity no_threads[] = {
                {"memory", GIB}, {"threadPercentage", 0}, {"clients", 1}};
        static const struct dra_claim_capacity too_much[] = {
                {"memory", 80 * GIB}, {"threadPercentage", 30}, {"clients", 1}};
        static const struct {
                struct dra_result result;
                enum error_kind kind;
                const char *text;
        } cases[] = {
                {{.device = "gpu-7"}, ERROR_UNAVAILABLE, "device 'gpu-7': this node does not offer it now"},
                {{.device = "gpu-1-share-2", .is_admin = true}, ERROR_UNSUPPORTED,
                        "device 'gpu-1-share-2': admin access to a share by MPS is not supported, since its limits would be "
                        "taken from others; ask for the device class of whole GPUs"},
                {{.device = "gpu-0-shared", .capacities = ten_gib, .n_capacities = 3}, ERROR_INVALID,
                        "device 'gpu-0-shared': it is shared, and the result has no shareID"},
                {{.device = "gpu-0-shared", .share_id = SHARE, .capacities = no_memory, .n_capacities = 2},
                        ERROR_INVALID, "device 'gpu-0-shared': consumedCapacity has no memory"},
                {{.device = "gpu-0-shared", .share_id = SHARE, .capacities = no_threads, .n_capacities = 3},
                        ERROR_INVALID, "device 'gpu-0-shared': consumedCapacity has no threadPercentage"},
                {{.device = "gpu-0-shared", .share_id = SHARE, .capacities = too_much, .n_capacities = 3},
                        ERROR_INVALID,
                        "device 'gpu-0-shared': consumedCapacity memory: 85899345920, the device has 84825604096"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct dra_result result = cases[i].result;
                struct dra_claim claim = {.results = &result, .n_results = 1};
                struct error err;

                assert_fails(dra_wanted_read(&claim, &rules, &err), &err, cases[i].kind, cases[i].text);
        }
}

static void test_without_a_layout_it_is_to_be_tried_again(void **state UNUSED)
{
        struct dra_result result = SHARED("gpu-0-shared");
        struct dra_claim claim = {.results = &result, .n_results = 1};
        const struct dra_wanted_rules none = {.layout = NULL};
        struct error err;

        assert_fails(dra_wanted_read(&claim, &none, &err), &err, ERROR_UNAVAILABLE,
                "the GPUs of this node are not known yet");
}

#define SHARED_BY(name, of)                                                                                            \
        {                                                                                                              \
                .request = name, .device = of, .share_id = SHARE, .capacities = ten_gib, .n_capacities = 3             \
        }

static const char *const a = "a", *const b = "b";
static const struct dra_use use_a = {&a, 1}, use_b = {&b, 1}, use_all;

static const char *read_text(
        const struct dra_result *results, size_t count, const struct dra_wanted_rules *of, struct error *err)
{
        static char text[256];
        struct dra_result copies[8];
        struct dra_claim claim = {.results = copies, .n_results = count};
        size_t length = 0;

        text[0] = '\0';
        memcpy(copies, results, count * sizeof(*results));
        if (dra_wanted_read(&claim, of, err) < 0)
                snprintf(text, sizeof(text), "%s", "refused");
        for (size_t i = 0; i < count && strcmp(text, "refused") != 0; i++)
                length += (size_t)snprintf(
                        text + length, sizeof(text) - length, "%s%u", i ? " " : "", copies[i].together);
        return text;
}

static void assert_refused(
        const struct dra_result *results, size_t count, const struct dra_wanted_rules *of, const char *text)
{
        struct error err;

        assert_string_equal(read_text(results, count, of, &err), "refused");
        assert_int_equal(err.kind, ERROR_UNSUPPORTED);
        assert_string_equal(err.text, text);
}

static void test_shares_of_two_units_need_one_daemon(void **state UNUSED)
{
        static const struct dra_result two_units[] = {
                {.request = "w", .device = "gpu-0"}, SHARED("gpu-0-shared"), SHARED("gpu-1-shared")};
        static const struct dra_result mig[] = {SHARED("gpu-0-shared"), SHARED("gpu-2-mig-shared")};
        struct dra_wanted_rules with = rules;
        struct error err;

        assert_refused(two_units, 3, &rules,
                "devices 'gpu-0-shared' and 'gpu-1-shared' are shared by different MPS daemons, and a process can use only one; use "
                "a claim for each, in different containers, or one daemon for all GPUs of the node (dra.daemonScope: resource)");
        with.one_daemon = with.knows_uses = true;
        assert_string_equal(read_text(two_units, 3, &with, &err), "0 6 6");
        assert_refused(mig, 2, &with,
                "devices 'gpu-0-shared' and 'gpu-2-mig-shared' are shared by different MPS daemons, and a process can use only one; "
                "use a claim for each, in different containers");
}

static void test_shares_of_two_gpus_are_for_containers_that_use_both(void **state UNUSED)
{
        static const struct dra_result results[] = {SHARED_BY("a", "gpu-0-shared"), SHARED_BY("b", "gpu-1-shared")};
        const struct dra_use uses[] = {use_all, use_a};
        struct dra_wanted_rules with = rules;
        struct error err;

        with.one_daemon = true;
        assert_refused(results, 2, &with,
                "it has shares of several GPUs, whose limits count by their order, so a container must use all of them; whether "
                "they do is not known, since the agent may not get pods (rbac.readPods of the chart)");
        with.knows_uses = true;
        with.uses = uses;
        with.n_uses = 1;
        assert_string_equal(read_text(results, 2, &with, &err), "3 3");
        with.n_uses = 2;
        assert_refused(results, 2, &with,
                "it has shares of several GPUs, whose limits count by their order, and a container uses only a part of them: "
                "name no request there, or use a claim for each container");
}

static void test_shares_of_one_unit_are_one_for_who_uses_both(void **state UNUSED)
{
        static const struct dra_result results[] = {SHARED_BY("a", "gpu-1-shared"), {.request = "w", .device = "gpu-0"},
                SHARED_BY("b", "gpu-1-shared"), {.request = "b", .device = "gpu-1-share-2"}};
        const struct {
                struct dra_use uses[3];
                size_t n_uses;
                const char *expected;
        } cases[] = {
                {{use_all}, 0, "13 0 13 13"}, /* not known */
                {{use_all}, 1, "13 0 13 13"},
                {{use_a, use_b}, 2, "1 0 12 12"},
                {{use_a}, 1, "1 0 12 12"}, /* nobody uses the others */
                {{use_b, use_b}, 2, "1 0 12 12"},
                {{use_a, use_b, use_all}, 3, "refused"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct dra_wanted_rules with = rules;
                struct error err;

                with.uses = cases[i].uses;
                with.n_uses = cases[i].n_uses;
                assert_string_equal(read_text(results, ARRAY_SIZE(results), &with, &err), cases[i].expected);
        }
}

static void test_containers_that_use_shares_of_a_unit_in_ways_that_overlap_are_refused(void **state UNUSED)
{
        static const struct dra_result results[] = {SHARED_BY("a", "gpu-1-shared"), SHARED_BY("b", "gpu-1-shared")};
        const struct dra_use uses[] = {use_all, use_b};
        struct dra_wanted_rules with = rules;

        with.uses = uses;
        with.n_uses = 2;
        assert_refused(results, 2, &with,
                "it has several shares of one unit, on which a process has one limit of each kind, and containers use them in ways "
                "that overlap: let all use the same requests, or each its own");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_limits_are_what_the_scheduler_counted),
                cmocka_unit_test(test_is_admin_needs_no_share_of_its_own),
                cmocka_unit_test(test_what_cannot_be_prepared_is_refused_with_the_reason),
                cmocka_unit_test(test_without_a_layout_it_is_to_be_tried_again),
                cmocka_unit_test(test_shares_of_two_units_need_one_daemon),
                cmocka_unit_test(test_shares_of_two_gpus_are_for_containers_that_use_both),
                cmocka_unit_test(test_shares_of_one_unit_are_one_for_who_uses_both),
                cmocka_unit_test(test_containers_that_use_shares_of_a_unit_in_ways_that_overlap_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
