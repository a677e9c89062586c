// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "node/usage/rows.h"

#define GIB (UINT64_C(1) << 30)

static const char *or_none(const char *text)
{
        return text ? text : "-";
}

/* "unit pod_uid: namespace/pod/container claim, limit of so many GiB or none, so many processes", a row a line. */
static char *write_rows(const struct usage_owner *owners, size_t n_owners, const struct usage_share *shares, size_t n)
{
        struct strbuf text = STRBUF_INIT;
        struct arena arena = ARENA_INIT;
        const struct usage_row *rows;
        size_t count = usage_rows(owners, n_owners, shares, n, &arena, &rows);

        for (size_t i = 0; i < count; i++) {
                const struct usage_row *row = &rows[i];

                strbuf_printf(&text, "%s %s: %s/%s/%s %s, ", *row->unit ? row->unit : "-", or_none(row->pod_uid),
                        or_none(row->pod_namespace), or_none(row->pod), or_none(row->container), or_none(row->claim));
                if (row->is_granted)
                        strbuf_printf(&text, "%u GiB, ", (unsigned int)(row->limit / GIB));
                else
                        strbuf_puts(&text, "nothing, ");
                strbuf_printf(&text, "%u\n", row->share ? row->share->n_processes : 0);
        }
        arena_done(&arena);
        return strbuf_take(&text);
}

static void expect_rows(const struct usage_owner *owners, size_t n_owners, const struct usage_share *shares, size_t n,
        const char *expected)
{
        _free_ char *text = write_rows(owners, n_owners, shares, n);

        assert_string_equal(text, expected);
}

#define OWNER(uuid, uid, name, of, bytes)                                                                              \
        {                                                                                                              \
                .unit = uuid, .pod_uid = uid, .pod_namespace = "ns", .pod = name, .container = of, .limit = bytes      \
        }
#define SHARE(uuid, uid, processes)                                                                                    \
        {                                                                                                              \
                .unit = uuid, .kind = USAGE_POD, .pod_uid = uid, .n_processes = processes                              \
        }

static void test_granted_and_used_are_joined_by_unit_and_pod(void **state UNUSED)
{
        static const struct usage_owner owners[] = {OWNER("B", "u1", "train", "main", 2 * GIB),
                OWNER("A", "u1", "train", "main", GIB), OWNER("A", "u2", "serve", "api", 0)};
        static const struct usage_share shares[] = {SHARE("A", "u2", 3), SHARE("A", "u1", 1)};

        expect_rows(owners, 3, shares, 2,
                "A u1: ns/train/main -, 1 GiB, 1\n"
                "A u2: ns/serve/api -, 0 GiB, 3\n"
                "B u1: ns/train/main -, 2 GiB, 0\n");
}

static void test_two_containers_of_a_pod_on_a_unit_have_one_row_without_a_container(void **state UNUSED)
{
        static const struct usage_owner owners[] = {
                OWNER("A", "u1", "train", "main", GIB), OWNER("A", "u1", "train", "side", 2 * GIB)};
        static const struct usage_owner unlimited[] = {OWNER("A", "u1", "train", "main", GIB),
                OWNER("A", "u1", "train", "main", 0), OWNER("A", "u1", "train", "main", GIB)};

        expect_rows(owners, 2, NULL, 0, "A u1: ns/train/- -, 3 GiB, 0\n");
        expect_rows(unlimited, 3, NULL, 0, "A u1: ns/train/main -, 0 GiB, 0\n");
}

static void test_a_pod_has_its_name_where_only_its_processes_are(void **state UNUSED)
{
        static const struct usage_owner owners[] = {OWNER(NULL, "u1", "train", "main", 0),
                OWNER(NULL, "u2", "two", "a", 0), OWNER(NULL, "u2", "two", "b", 0)};
        static const struct usage_share shares[] = {SHARE("A", "u1", 1), SHARE("B", "u1", 0), SHARE("A", "u2", 1),
                SHARE("A", "u3", 2), SHARE("B", "u3", 0), {.unit = "A", .kind = USAGE_HOST, .n_processes = 9}};

        expect_rows(owners, 3, shares, 6,
                "A u1: ns/train/main -, nothing, 1\n"
                "A u2: ns/two/- -, nothing, 1\n"
                "A u3: -/-/- -, nothing, 2\n" /* nobody knows it; on B it has ended */
                "B u1: ns/train/main -, nothing, 0\n");
}

static void test_a_claim_is_named_and_what_was_given_of_a_unit_names_its_container(void **state UNUSED)
{
        static const struct usage_owner owners[] = {
                {.unit = "A", .pod_uid = "u1", .pod_namespace = "ns", .claim = "gpu", .limit = GIB},
                OWNER(NULL, "u1", "train", "main", 0),
                OWNER("A", "u2", "two", "a", GIB),
                OWNER(NULL, "u2", "two", "b", 0),
        };

        expect_rows(owners, 4, NULL, 0,
                "A u1: ns/train/- gpu, 1 GiB, 0\n"
                "A u2: ns/two/a -, 1 GiB, 0\n");
}

static void test_what_is_given_to_nobody_known_has_a_row_of_its_own(void **state UNUSED)
{
        static const struct usage_owner owners[] = {
                {.unit = "A", .key = "allocation 1", .is_granted = true, .limit = GIB},
                {.unit = "A", .key = "allocation 2", .is_granted = true, .limit = 2 * GIB},
                {.key = "allocation 3", .is_granted = true, .limit = 3 * GIB},
                {.unit = "A", .key = "claim c", .pod_namespace = "ns", .claim = "gpu", .limit = 4 * GIB},
                {.pod_uid = "u1", .pod_namespace = "ns", .claim = "gpu"},
        };
        static const struct usage_share shares[] = {SHARE("A", "u1", 1)};

        expect_rows(owners, 5, shares, 1,
                "- -: -/-/- -, 3 GiB, 0\n"
                "A -: -/-/- -, 1 GiB, 0\n"
                "A -: -/-/- -, 2 GiB, 0\n"
                "A -: ns/-/- gpu, 4 GiB, 0\n"
                "A u1: ns/-/- gpu, nothing, 1\n");
}

static void test_replicas_and_threads_of_a_pod_add_up(void **state UNUSED)
{
        static const struct usage_owner owners[] = {{.unit = "A",
                                                            .pod_uid = "u1",
                                                            .resource = "gpu",
                                                            .tier = "default",
                                                            .is_granted = true,
                                                            .replicas = 2,
                                                            .threads_permille = 200},
                {.unit = "A",
                        .pod_uid = "u1",
                        .resource = "gpu",
                        .tier = "verified",
                        .is_granted = true,
                        .replicas = 3,
                        .threads_permille = 300}};
        struct arena arena = ARENA_INIT;
        const struct usage_row *rows;

        assert_int_equal(usage_rows(owners, 2, NULL, 0, &arena, &rows), 1);
        assert_int_equal(rows[0].replicas, 5);
        assert_int_equal(rows[0].threads_permille, 500);
        assert_string_equal(rows[0].resource, "gpu");
        assert_null(rows[0].tier);
        arena_done(&arena);
}

static void test_a_row_keeps_its_id_and_no_two_have_the_same(void **state UNUSED)
{
        static const struct usage_owner owners[] = {
                OWNER("A", "u1", "a", "main", 0), OWNER("A", "u2", "b", "main", 0), OWNER("B", "u1", "a", "main", 0)};
        static const struct usage_share shares[] = {SHARE("A", "u2", 1)};
        struct arena arena = ARENA_INIT;
        const struct usage_row *all;
        const struct usage_row *one;

        assert_int_equal(usage_rows(owners, 3, NULL, 0, &arena, &all), 3);
        assert_int_equal(usage_rows(owners + 1, 1, shares, 1, &arena, &one), 1);
        assert_string_equal(all[1].id, one[0].id);
        assert_string_not_equal(all[0].id, all[1].id);
        assert_string_not_equal(all[0].id, all[2].id);
        assert_int_equal(strspn(all[0].id, "abcdefghijklmnopqrstuvwxyz234567"), USAGE_ROW_ID_LENGTH);
        arena_done(&arena);
}

static void test_nothing_has_no_rows(void **state UNUSED)
{
        expect_rows(NULL, 0, NULL, 0, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_granted_and_used_are_joined_by_unit_and_pod),
                cmocka_unit_test(test_two_containers_of_a_pod_on_a_unit_have_one_row_without_a_container),
                cmocka_unit_test(test_a_pod_has_its_name_where_only_its_processes_are),
                cmocka_unit_test(test_a_claim_is_named_and_what_was_given_of_a_unit_names_its_container),
                cmocka_unit_test(test_what_is_given_to_nobody_known_has_a_row_of_its_own),
                cmocka_unit_test(test_replicas_and_threads_of_a_pod_add_up),
                cmocka_unit_test(test_a_row_keeps_its_id_and_no_two_have_the_same),
                cmocka_unit_test(test_nothing_has_no_rows),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
