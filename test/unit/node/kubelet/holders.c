// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/macro.h"
#include "node/kubelet/holders.h"

#define GPU "nvidia.com/gpu"

#define CONTAINER(pod_name, container_name, ...)                                                                       \
        {                                                                                                              \
                .pod_namespace = "ml", .pod = (pod_name), .container = (container_name),                               \
                .devices = (const struct held_device[]){__VA_ARGS__},                                                  \
                .n_devices = sizeof((struct held_device[]){__VA_ARGS__}) / sizeof(struct held_device),                 \
        }
#define ENTRY(uid, container_name, resource_name, ...)                                                                 \
        {                                                                                                              \
                .pod_uid = (uid), .container = (container_name), .resource = (resource_name),                          \
                .devices = (const char *const[]){__VA_ARGS__},                                                         \
                .n_devices = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *),                        \
        }

static struct holders *holders_after(const struct holders *before, const struct pod_container *containers,
        size_t n_containers, const struct checkpoint_entry *entries, size_t n_entries, bool is_whole)
{
        const struct pod_list list = {.containers = containers, .n_containers = n_containers};
        const struct checkpoint checkpoint = {.entries = entries, .n_entries = n_entries};

        return holders_new(&list, entries ? &checkpoint : NULL, before, is_whole);
}

static struct holders *holders_from(const struct pod_container *containers, size_t n_containers,
        const struct checkpoint_entry *entries, size_t n_entries)
{
        return holders_after(NULL, containers, n_containers, entries, n_entries, true);
}

static void test_a_device_leads_to_the_container_and_the_uid_of_its_pod(void **state UNUSED)
{
        const struct pod_container containers[] = {
                CONTAINER("train", "main", {GPU, "a::0"}, {GPU, "a::1"}),
                CONTAINER("serve", "main", {GPU, "a::2"}, {"nvidia.com/mig", "m::0"}),
        };
        const struct checkpoint_entry entries[] = {
                ENTRY("uid-serve", "main", "nvidia.com/mig", "m::0"),
                ENTRY("uid-serve", "main", GPU, "a::2"),
                ENTRY("uid-train", "main", GPU, "a::1", "a::0"),
        };
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), entries, ARRAY_SIZE(entries));

        assert_string_equal(holders_find(holders, GPU, "a::1")->pod, "train");
        assert_string_equal(holders_find(holders, GPU, "a::1")->pod_uid, "uid-train");
        assert_string_equal(holders_find(holders, GPU, "a::2")->pod_uid, "uid-serve");
        assert_string_equal(holders_find(holders, "nvidia.com/mig", "m::0")->pod_namespace, "ml");
        assert_null(holders_find(holders, GPU, "m::0"));
        assert_null(holders_find(holders, GPU, "a::3"));
        holders_free(holders);
}

static void test_a_device_is_found_however_long_its_name_is(void **state UNUSED)
{
        char device[1024];
        struct pod_container containers[] = {CONTAINER("train", "main", {GPU, device})};
        struct holders *holders;

        for (size_t length = 235; length < sizeof(device); length = length < 255 ? length + 1 : length * 2) {
                memset(device, 'd', length);
                device[length] = '\0';
                holders = holders_from(containers, 1, NULL, 0);
                assert_string_equal(holders_find(holders, GPU, device)->pod, "train");
                device[length - 1] = 'e';
                assert_null(holders_find(holders, GPU, device));
                holders_free(holders);
        }
}

static void test_containers_are_listed_with_their_devices(void **state UNUSED)
{
        const struct pod_container containers[] = {
                CONTAINER("train", "main", {GPU, "a::0"}, {GPU, "a::1"}), CONTAINER("zone", "main", {GPU, "a::2"})};
        const struct checkpoint_entry entries[] = {ENTRY("uid-train", "main", GPU, "a::1", "a::0")};
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), entries, ARRAY_SIZE(entries));
        const struct holder *found;

        assert_int_equal(holders_containers(holders, &found), 2);
        assert_string_equal(found[0].pod_uid, "uid-train");
        assert_string_equal(found[0].pod_namespace, "ml");
        assert_string_equal(found[0].pod, "train");
        assert_string_equal(found[0].container, "main");
        assert_string_equal(found[0].resource, GPU);
        assert_int_equal(found[0].n_devices, 2);
        assert_string_equal(found[0].devices[1], "a::1");
        assert_null(found[1].pod_uid);
        holders_free(holders);
}

static void test_an_init_container_counts_while_its_pod_has_another_container(void **state UNUSED)
{
        const struct pod_container containers[] = {CONTAINER("train", "main", {GPU, "a::0"})};
        const struct checkpoint_entry entries[] = {
                ENTRY("uid-train", "prepare", GPU, "a::0", "a::1"),
                ENTRY("uid-train", "main", GPU, "a::0"),
        };
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), entries, ARRAY_SIZE(entries));
        struct arena arena = ARENA_INIT;
        struct allocations_held *held;

        assert_int_equal(holders_of(holders, GPU, &arena, &held), 2);
        assert_int_equal(held[0].n_devices, 1);
        assert_int_equal(held[1].n_devices, 2);
        assert_string_equal(holders_find(holders, GPU, "a::0")->container, "main");
        assert_null(holders_find(holders, GPU, "a::1")->container);
        assert_string_equal(holders_find(holders, GPU, "a::1")->pod_uid, "uid-train");
        assert_false(holders_find(holders, GPU, "a::1")->is_doubtful);
        arena_done(&arena);
        holders_free(holders);
}

/* As real kubelets tell it: the list never has an init container that ends, the record has it until its pod ends. */
static void test_who_is_in_the_record_alone_may_be_an_init_container_that_runs(void **state UNUSED)
{
        const struct checkpoint_entry entries[] = {ENTRY("uid-init", "prepare", GPU, "a::1", "a::2"),
                ENTRY("uid-init", "prepare", "nvidia.com/mig", "m::0")};
        struct holders *first = holders_from(NULL, 0, entries, ARRAY_SIZE(entries));
        struct holders *second = holders_after(first, NULL, 0, entries, ARRAY_SIZE(entries), true);
        struct arena arena = ARENA_INIT;
        const char *const *resources;
        struct allocations_held *held;

        assert_true(holders_find(first, GPU, "a::2")->is_doubtful);
        assert_string_equal(holders_find(second, GPU, "a::2")->pod_uid, "uid-init");
        assert_int_equal(holders_of(second, GPU, &arena, &held), 1);
        assert_int_equal(holders_doubtful(second, &arena, &resources), 2);
        assert_string_equal(resources[0], GPU);
        assert_string_equal(resources[1], "nvidia.com/mig");
        assert_non_null(map_find(holders_pods(second), "uid-init"));
        arena_done(&arena);
        holders_free(second);
        holders_free(first);
}

static void test_who_was_in_the_list_and_is_no_more_is_over_and_stays_so(void **state UNUSED)
{
        const struct pod_container containers[] = {CONTAINER("train", "main", {GPU, "a::0"})};
        const struct checkpoint_entry entries[] = {ENTRY("uid-train", "main", GPU, "a::0")};
        struct holders *before = holders_from(containers, 1, entries, 1);
        struct arena arena = ARENA_INIT;
        const char *const *resources;

        for (size_t i = 0; i < 3; i++) {
                struct holders *after =
                        holders_after(before, NULL, 0, entries, 1, i != 1); /* of OVER nobody is asked again */

                assert_null(holders_find(after, GPU, "a::0"));
                assert_int_equal(holders_doubtful(after, &arena, &resources), 0);
                assert_non_null(map_find(holders_pods(after), "uid-train"));
                holders_free(before);
                before = after;
        }
        holders_free(before);
        arena_done(&arena);
}

static void test_the_list_of_a_kubelet_that_has_just_started_ends_nobody(void **state UNUSED)
{
        const struct pod_container containers[] = {CONTAINER("train", "main", {GPU, "a::0"})};
        const struct checkpoint_entry entries[] = {ENTRY("uid-train", "main", GPU, "a::0")};
        struct holders *before = holders_from(containers, 1, entries, 1);
        struct holders *young = holders_after(before, NULL, 0, entries, 1, false);
        struct holders *grown = holders_after(young, NULL, 0, entries, 1, true);

        assert_true(holders_find(young, GPU, "a::0")->is_doubtful);
        assert_null(holders_find(grown, GPU, "a::0"));
        holders_free(grown);
        holders_free(young);
        holders_free(before);
}

static void test_without_the_checkpoint_uids_are_unknown(void **state UNUSED)
{
        const struct pod_container containers[] = {CONTAINER("train", "main", {GPU, "a::0"})};
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), NULL, 0);
        struct arena arena = ARENA_INIT;
        struct allocations_held *held;

        assert_null(holders_find(holders, GPU, "a::0")->pod_uid);
        assert_int_equal(holders_of(holders, GPU, &arena, &held), 1);
        assert_int_equal(holders_of(holders, "nvidia.com/other", &arena, &held), 0);
        arena_done(&arena);
        holders_free(holders);
}

static void test_a_device_of_two_pods_has_two_holders_and_is_told(void **state UNUSED)
{
        const struct pod_container containers[] = {
                CONTAINER("train", "main", {GPU, "a::0"}, {GPU, "a::1"}),
                CONTAINER("serve", "other", {GPU, "a::1"}, {GPU, "a::2"}),
        };
        const struct checkpoint_entry entries[] = {
                ENTRY("uid-serve", "other", GPU, "a::1", "a::2"),
                ENTRY("uid-train", "main", GPU, "a::0", "a::1"),
        };
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), entries, ARRAY_SIZE(entries));
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct holder *all;
        const struct holders_twice *twice;
        struct allocations_held *held;

        assert_int_equal(holders_containers(holders, &all), 2);
        assert_string_equal(all[0].pod_uid, "uid-serve");
        assert_string_equal(all[1].pod_uid, "uid-train");
        assert_true(!all[0].is_second && all[1].is_second);
        assert_int_equal(holders_of(holders, GPU, &arena, &held), 2);
        assert_int_equal(held[0].n_devices, 2);
        assert_int_equal(held[1].n_devices, 1);
        assert_string_equal(held[1].devices[0], "a::0");
        assert_int_equal(holders_twice(holders, &arena, &twice), 1);
        assert_string_equal(twice->device, "a::1");
        assert_string_equal(twice->first->pod, "serve"); /* by name: kubelet's order changes from list to list */
        assert_string_equal(twice->second->pod, "train");
        assert_string_equal(holders_find(holders, GPU, "a::1")->pod, "serve");
        holders_free(holders);
}

/* A UID of the wrong pod would make one pod answer for what the other does. */
static void test_two_pods_of_one_device_and_one_name_of_container_have_no_uid(void **state UNUSED)
{
        const struct pod_container containers[] = {
                CONTAINER("train", "main", {GPU, "a::0"}),
                CONTAINER("serve", "main", {GPU, "a::0"}),
                CONTAINER("third", "main", {GPU, "a::2"}),
        };
        const struct checkpoint_entry entries[] = {
                ENTRY("uid-train", "main", GPU, "a::0"),
                ENTRY("uid-serve", "main", GPU, "a::0"),
                ENTRY("uid-third", "main", GPU, "a::2"),
        };
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), entries, ARRAY_SIZE(entries));
        const struct holder *all;

        assert_int_equal(holders_containers(holders, &all), 3);
        assert_null(all[0].pod_uid);
        assert_string_equal(all[1].pod_uid, "uid-third");
        assert_null(all[2].pod_uid);
        assert_int_equal(holders_doubt(holders), 0);
        holders_free(holders);
}

static void test_containers_of_one_pod_may_have_one_device(void **state UNUSED)
{
        const struct pod_container containers[] = {
                CONTAINER("train", "sidecar", {GPU, "a::0"}),
                CONTAINER("train", "main", {GPU, "a::0"}),
        };
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), NULL, 0);
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct holders_twice *twice;

        assert_int_equal(holders_twice(holders, &arena, &twice), 0);
        holders_free(holders);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_device_of_two_pods_has_two_holders_and_is_told),
                cmocka_unit_test(test_two_pods_of_one_device_and_one_name_of_container_have_no_uid),
                cmocka_unit_test(test_containers_of_one_pod_may_have_one_device),
                cmocka_unit_test(test_a_device_leads_to_the_container_and_the_uid_of_its_pod),
                cmocka_unit_test(test_a_device_is_found_however_long_its_name_is),
                cmocka_unit_test(test_containers_are_listed_with_their_devices),
                cmocka_unit_test(test_an_init_container_counts_while_its_pod_has_another_container),
                cmocka_unit_test(test_who_is_in_the_record_alone_may_be_an_init_container_that_runs),
                cmocka_unit_test(test_who_was_in_the_list_and_is_no_more_is_over_and_stays_so),
                cmocka_unit_test(test_the_list_of_a_kubelet_that_has_just_started_ends_nobody),
                cmocka_unit_test(test_without_the_checkpoint_uids_are_unknown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
