#include "unit.h"

#include "base/macro.h"
#include "kubelet/holders.h"

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

static struct holders *holders_from(const struct pod_container *containers, size_t n_containers,
        const struct checkpoint_entry *entries, size_t n_entries)
{
        const struct pod_list list = {.containers = containers, .n_containers = n_containers};
        const struct checkpoint checkpoint = {.entries = entries, .n_entries = n_entries};

        return holders_new(&list, entries ? &checkpoint : NULL);
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

static void test_an_init_container_counts_while_its_pod_has_another_container(void **state UNUSED)
{
        const struct pod_container containers[] = {CONTAINER("train", "main", {GPU, "a::0"})};
        const struct checkpoint_entry entries[] = {
                ENTRY("uid-train", "prepare", GPU, "a::0", "a::1"),
                ENTRY("uid-train", "main", GPU, "a::0"),
                ENTRY("uid-gone", "main", GPU, "a::5"),
        };
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), entries, ARRAY_SIZE(entries));
        struct arena arena = ARENA_INIT;
        struct grants_held *held;

        assert_int_equal(holders_of(holders, GPU, &arena, &held), 2);
        assert_int_equal(held[0].n_devices, 1);
        assert_int_equal(held[1].n_devices, 2);
        assert_string_equal(holders_find(holders, GPU, "a::0")->container, "main");
        assert_null(holders_find(holders, GPU, "a::1")->container);
        assert_string_equal(holders_find(holders, GPU, "a::1")->pod_uid, "uid-train");
        assert_null(holders_find(holders, GPU, "a::5")); /* its pod has ended, says the list */
        arena_done(&arena);
        holders_free(holders);
}

static void test_without_the_checkpoint_uids_are_unknown(void **state UNUSED)
{
        const struct pod_container containers[] = {CONTAINER("train", "main", {GPU, "a::0"})};
        struct holders *holders = holders_from(containers, ARRAY_SIZE(containers), NULL, 0);
        struct arena arena = ARENA_INIT;
        struct grants_held *held;

        assert_null(holders_find(holders, GPU, "a::0")->pod_uid);
        assert_int_equal(holders_of(holders, GPU, &arena, &held), 1);
        assert_int_equal(holders_of(holders, "nvidia.com/other", &arena, &held), 0);
        arena_done(&arena);
        holders_free(holders);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_device_leads_to_the_container_and_the_uid_of_its_pod),
                cmocka_unit_test(test_an_init_container_counts_while_its_pod_has_another_container),
                cmocka_unit_test(test_without_the_checkpoint_uids_are_unknown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
