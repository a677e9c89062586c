// SPDX-License-Identifier: Apache-2.0
#include "tree.h"

#include "node/cdi/context.h"

static void test_links_stay_below_the_root(void **state)
{
        static const struct {
                const char *link; /* made as "/driver/link" */
                const char *path;
                const char *resolved;
        } table[] = {
                {"/usr/lib/real", "/link", "/usr/lib/real"},
                {"usr/lib/real", "/link", "/usr/lib/real"},
                {"usr/lib", "/link/real", "/usr/lib/real"},
                {"/usr/lib", "/link/../lib/real", "/usr/lib/real"},
                {"../../../usr/lib/real", "/link", "/usr/lib/real"}, /* above the root is the root */
                {"/other", "/link", "/usr/lib/real"},                /* itself a link */
                {"/", "/link", "/"},
                {"/link", "/link", NULL},
                {"/link/usr", "/link/lib", NULL},
                {"/nowhere", "/link", NULL},
                {"/usr/a:b", "/link", NULL},
                {"/usr/lib/real", "/link/below", NULL},
                {"/usr", "//link//./lib/real//", "/usr/lib/real"},
        };
        struct tree *tree = *state;
        struct cdi_context context = {.arena = &tree->arena, .roots.driver = tree_path(tree, "/driver")};

        tree_file(tree, "/driver/usr/lib/real");
        tree_file(tree, "/driver/usr/a:b");
        tree_link(tree, "/driver/other", "usr/lib/real");
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const char *resolved;

                tree_link(tree, "/driver/link", table[i].link);
                resolved = cdi_resolve(&context, table[i].path);
                if (table[i].resolved)
                        assert_string_equal(resolved, table[i].resolved);
                else
                        assert_null(resolved);
                assert_int_equal(unlink(tree_path(tree, "/driver/link")), 0);
        }
}

static void test_a_path_of_any_length_is_refused_or_resolved(void **state)
{
        struct tree *tree = *state;
        struct cdi_context context = {.arena = &tree->arena, .roots.driver = tree_path(tree, "/driver")};
        _cleanup_(strbuf_done) struct strbuf path = STRBUF_INIT;

        tree_file(tree, "/driver/file");
        for (size_t i = 0; i < 5000; i++)
                strbuf_puts(&path, "/.");
        strbuf_puts(&path, "/file");
        assert_string_equal(cdi_resolve(&context, path.data), "/file");
        strbuf_clear(&path);
        for (size_t i = 0; i < 5000; i++)
                strbuf_putc(&path, 'a');
        assert_null(cdi_resolve(&context, path.data));
}

static void test_a_path_in_the_driver_root_has_another_name_on_the_host(void **state)
{
        static const struct {
                const char *here, *host, *path, *expected;
        } table[] = {
                {"/driver-root", "", "/driver-root/usr/bin/x", "/usr/bin/x"},
                {"/driver-root", "/run/nvidia/driver", "/driver-root/usr/bin/x", "/run/nvidia/driver/usr/bin/x"},
                {"/driver-root", "/run/nvidia/driver", "/driver-root-2/x", "/driver-root-2/x"}, /* no plain prefix */
                {"/driver-root", "/run/nvidia/driver", "/usr/bin/x", "/usr/bin/x"},
                {"", "/run/nvidia/driver", "/usr/bin/x", "/usr/bin/x"},
        };
        struct tree *tree = *state;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct cdi_context context = {
                        .arena = &tree->arena, .roots = {.driver = table[i].here, .driver_host = table[i].host}};

                assert_string_equal(cdi_to_host(&context, table[i].path), table[i].expected);
        }
}

static const char *const not_b[] = {"[!b]*", NULL};

static void test_a_folder_is_listed_in_order_and_by_plain_names(void **state)
{
        struct tree *tree = *state;
        const struct cdi_context context = {.arena = &tree->arena};
        const char *const *names;

        tree_file(tree, "/driver/lib/c");
        tree_file(tree, "/driver/lib/a");
        tree_file(tree, "/driver/lib/b");
        tree_file(tree, "/driver/lib/a b");
        tree_file(tree, "/driver/lib/a::b");
        assert_int_equal(cdi_list(&context, tree->config.driver.mounted_root, "/lib", not_b, &names), 2);
        assert_string_equal(names[0], "a");
        assert_string_equal(names[1], "c");
        assert_int_equal(cdi_list(&context, tree->config.driver.mounted_root, "/nowhere", not_b, &names), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_links_stay_below_the_root),
                TREE_TEST(test_a_path_of_any_length_is_refused_or_resolved),
                TREE_TEST(test_a_path_in_the_driver_root_has_another_name_on_the_host),
                TREE_TEST(test_a_folder_is_listed_in_order_and_by_plain_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
