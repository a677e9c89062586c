// SPDX-License-Identifier: Apache-2.0
/* Hooks, and programs of several releases of NVIDIA's toolkit that know some of them. */
#include "tree.h"

#include "base/text.h"

static const char *const all_hooks[] = {"create-symlinks", "update-ldcache", "enable-cuda-compat",
        "disable-device-node-modification", "update-application-profile"};

/* In the recording: since which release. A hook that it does not name has always been there. */
static const struct {
        const char *hook;
        const char *recorded;
        int since;
} releases[] = {
        {"enable-cuda-compat", "before 1.17.5 no enable-cuda-compat", 11705},
        {"disable-device-node-modification",
                "toolkit before 1.17.8: No help topic for 'disable-device-node-modification', exit status 3", 11708},
        {"update-application-profile", "toolkit 1.20.0: update-application-profile", 12000},
};

static int since(const char *hook)
{
        for (size_t i = 0; i < ARRAY_SIZE(releases); i++)
                if (strcmp(releases[i].hook, hook) == 0)
                        return releases[i].since;
        return 0;
}

/* The stand-in for the program of |release|: bytes, with the names that it knows in them. */
static void make_program(struct tree *tree, const char *path, int release)
{
        struct strbuf bytes = STRBUF_INIT;

        strbuf_append(&bytes,
                "\x7f"
                "ELF",
                4);
        for (size_t i = 0; i < 70000; i++) /* so that names are in other chunks than the first */
                strbuf_putc(&bytes, (char)i);
        for (size_t i = 0; i < ARRAY_SIZE(all_hooks); i++)
                if (since(all_hooks[i]) <= release)
                        strbuf_puts(&bytes, all_hooks[i]);
        tree_write(tree, path, bytes.data, bytes.size);
        strbuf_done(&bytes);
}

/* The names of the common hooks, each once, separated by blanks. */
static const char *written(struct tree *tree)
{
        json_t *edits = tree_edits(tree, "gpu", NULL);
        const char *names = "";
        json_t *hook;
        size_t i;

        json_array_foreach(json_object_get(edits, "hooks"), i, hook)
        {
                names = arena_printf(&tree->arena, "%s%s%s", names, i ? " " : "",
                        json_string_value(json_array_get(json_object_get(hook, "args"), 1)));
        }
        json_decref(edits);
        return names;
}

static void test_the_releases_of_the_hooks_are_those_of_the_recording(void **state UNUSED)
{
        struct strbuf recorded = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(RECORDED "/hooks-and-runtimes.txt", 1 << 20, &recorded, &err), &err);
        for (size_t i = 0; i < ARRAY_SIZE(releases); i++)
                assert_non_null(strstr(recorded.data, releases[i].recorded));
        assert_non_null(strstr(recorded.data, "; not known before 1.20"));
        strbuf_done(&recorded);
}

static void test_a_hook_that_the_program_does_not_know_is_left_out(void **state)
{
        static const struct {
                int release;
                const char *written;
                const char *missing; /* the warnings name them, in this order */
        } table[] = {
                {12000,
                        "create-symlinks enable-cuda-compat update-ldcache disable-device-node-modification "
                        "update-application-profile",
                        ""},
                {11708, "create-symlinks enable-cuda-compat update-ldcache disable-device-node-modification",
                        "update-application-profile "},
                {11705, "create-symlinks enable-cuda-compat update-ldcache",
                        "disable-device-node-modification update-application-profile "},
                {11600, "create-symlinks update-ldcache",
                        "enable-cuda-compat disable-device-node-modification update-application-profile "},
        };
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const char *program = tree_path(tree, "/driver/usr/bin/nvidia-cdi-hook");
                const char *const *unknown;
                const char *found;
                const char *warnings = "", *missing = "";

                make_program(tree, "/driver/usr/bin/nvidia-cdi-hook", table[i].release);
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(written(tree), table[i].written);
                unknown = cdi_unknown_hooks(&tree->config, &tree->arena, &found);
                assert_string_equal(found, program);
                for (; *unknown; unknown++) {
                        missing = arena_printf(&tree->arena, "%s%s ", missing, *unknown);
                        warnings = arena_printf(&tree->arena,
                                "%sthe hook %s is left out of CDI specifications: '%s' does not know it; upgrade NVIDIA's "
                                "container toolkit\n",
                                warnings, *unknown, program);
                }
                assert_string_equal(missing, table[i].missing);
                assert_string_equal(tree->warnings.data, warnings);
        }
}

static void test_a_hook_that_is_switched_off_is_not_missed(void **state)
{
        static const char *const some[] = {"update-application-profile", NULL};
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        make_program(tree, "/driver/usr/bin/nvidia-cdi-hook", 11708);
        tree->config.cdi.disable_hooks = some;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        assert_string_equal(
                written(tree), "create-symlinks enable-cuda-compat update-ldcache disable-device-node-modification");
}

/* As the toolkit's container installs it: a script, and the program beside it. */
static void test_the_program_behind_a_script_is_looked_into(void **state)
{
        static const char script[] = "#!/bin/sh\nexec /usr/local/nvidia/toolkit/nvidia-ctk.real \"$@\"\n";
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree->config.driver.root = "/run/host";
        tree->config.cdi.hook_path = "/run/host/usr/local/nvidia/toolkit/nvidia-ctk";
        tree_write(tree, "/driver/usr/local/nvidia/releases/nvidia-ctk", script, strlen(script));
        tree_link(tree, "/driver/usr/local/nvidia/toolkit/nvidia-ctk", "/usr/local/nvidia/releases/nvidia-ctk");
        make_program(tree, "/driver/usr/local/nvidia/toolkit/nvidia-ctk.real", 11705);
        assert_ok(tree_publish(tree), &tree->err);
        assert_non_null(strstr(tree->warnings.data, "the hook disable-device-node-modification is left out"));
        assert_non_null(strstr(tree->warnings.data, "/toolkit/nvidia-ctk.real'"));
}

static void test_what_cannot_be_looked_into_gets_all_hooks(void **state)
{
        static const struct {
                const char *content; /* NULL: a FIFO; it never ends */
                const char *root;
        } table[] = {{"no such program", "/"}, {"#!/bin/sh\n", "/"}, {"", "/"}, {NULL, "/"}, {"update-ldcache", "/"},
                {"create-symlinks", "/run/nvidia/driver"} /* another tree: it is not in sight */};
        static const char every[] =
                "create-symlinks enable-cuda-compat update-ldcache disable-device-node-modification "
                "update-application-profile";
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        assert_ok(tree_publish(tree), &tree->err); /* there is none */
        assert_string_equal(written(tree), every);
        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                char *path = tree_path(tree, "/driver/usr/bin/nvidia-cdi-hook");

                tree->config.driver.root = table[i].root;
                if (table[i].content)
                        tree_write(tree, "/driver/usr/bin/nvidia-cdi-hook", table[i].content, strlen(table[i].content));
                else
                        assert_int_equal(mkfifo(path, 0755), 0);
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree->warnings.data, "");
                assert_string_equal(written(tree), every);
                assert_int_equal(unlink(path), 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_releases_of_the_hooks_are_those_of_the_recording),
                TREE_TEST(test_a_hook_that_the_program_does_not_know_is_left_out),
                TREE_TEST(test_a_hook_that_is_switched_off_is_not_missed),
                TREE_TEST(test_the_program_behind_a_script_is_looked_into),
                TREE_TEST(test_what_cannot_be_looked_into_gets_all_hooks),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
