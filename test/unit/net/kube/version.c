// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "net/kube/object.h"

/* Is it 1.36.2, or newer? */
static const struct {
        const char *text;
        struct kube_version version;
        bool is_since;
} releases[] = {
        {"v1.36.2", {1, 36, 2, false}, true},
        {"1.36.2", {1, 36, 2, false}, true},
        {"v1.36.1", {1, 36, 1, false}, false},
        {"v1.36.0", {1, 36, 0, false}, false},
        {"v1.36.10", {1, 36, 10, false}, true},
        {"v1.35.9", {1, 35, 9, false}, false},
        {"v1.37.0", {1, 37, 0, false}, true},
        {"v2.0.0", {2, 0, 0, false}, true},
        {"v1.36.2+k3s1", {1, 36, 2, false}, true},
        {"v1.36.1-gke.100", {1, 36, 1, false}, false},
        {"v1.36.2-gke.1", {1, 36, 2, false}, true},
        {"v1.36.2-eks-3cfe0ce", {1, 36, 2, false}, true},
        {"v1.36.2-rc.0", {1, 36, 2, true}, false},
        {"v1.36.3-rc.0", {1, 36, 3, true}, true},
        {"v1.37.0-alpha.1", {1, 37, 0, true}, true},
        {"v1.37.0-beta.0+8e16b12f", {1, 37, 0, true}, true},
        {"v1.36.2-rc.0+rke2r1", {1, 36, 2, true}, false},
};

static void test_a_release_is_read_with_and_without_what_vendors_append(void **state UNUSED)
{
        struct kube_version version;

        for (size_t i = 0; i < ARRAY_SIZE(releases); i++) {
                print_message("# %s\n", releases[i].text);
                assert_true(kube_version_read(&version, releases[i].text));
                assert_int_equal(version.major, releases[i].version.major);
                assert_int_equal(version.minor, releases[i].version.minor);
                assert_int_equal(version.patch, releases[i].version.patch);
                assert_int_equal(version.is_before, releases[i].version.is_before);
                assert_int_equal(kube_version_is_since(&version, 1, 36, 2), releases[i].is_since);
        }
}

static void test_what_is_no_release_is_since_none(void **state UNUSED)
{
        static const char *const texts[] = {"", "v", "v1", "v1.36", "v1.36.", "v1.36.x", "v1.36.2x", "v1.36.2.1",
                "v1..2", "v0.0.0-master+8e16b12fda5b1dccc41a6de48b3e356cc7d5048b", "v1.36.99999", "-1.36.2",
                "v1.36.+2"};
        struct kube_version version;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                print_message("# %s\n", texts[i]);
                assert_false(kube_version_read(&version, texts[i]));
                assert_false(kube_version_is_since(&version, 1, 36, 2));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_release_is_read_with_and_without_what_vendors_append),
                cmocka_unit_test(test_what_is_no_release_is_since_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
