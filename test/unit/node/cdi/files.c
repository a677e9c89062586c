// SPDX-License-Identifier: Apache-2.0
/* Files that this process has written, and other programs remove or change. */
#include "tree.h"

#define SPEC "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"

static int publish(struct tree *tree, struct cdi_files *files)
{
        return cdi_publish(&tree->plan, files, NULL, NULL, &tree->err);
}

static void read_spec(struct tree *tree, struct strbuf *ret)
{
        strbuf_clear(ret);
        assert_ok(file_read(tree_path(tree, SPEC), SIZE_MAX, ret, &tree->err), &tree->err);
}

static void remove_it(struct tree *tree)
{
        assert_int_equal(unlink(tree_path(tree, SPEC)), 0);
}

static void remove_it_and_the_folder(struct tree *tree)
{
        remove_it(tree);
        assert_int_equal(rmdir(tree_path(tree, "/run/cdi")), 0);
}

static void replace_it(struct tree *tree)
{
        tree_write(tree, SPEC, "{}", 2);
}

/* In place, with another content of the same size. */
static void change_it(struct tree *tree)
{
        FILE *file = fopen(tree_path(tree, SPEC), "r+");

        assert_non_null(file);
        assert_int_equal(fputc('[', file), '[');
        assert_int_equal(fclose(file), 0);
}

static void put_a_link_there(struct tree *tree)
{
        remove_it(tree);
        tree_file(tree, "/run/elsewhere");
        tree_link(tree, SPEC, tree_path(tree, "/run/elsewhere"));
}

static void hide_it(struct tree *tree)
{
        assert_int_equal(chmod(tree_path(tree, SPEC), 0600), 0);
}

static void test_a_file_that_is_not_as_it_was_is_written_again(void **state)
{
        static void (*const changes[])(struct tree * tree) = {
                remove_it, remove_it_and_the_folder, replace_it, change_it, put_a_link_there, hide_it};
        struct tree *tree = *state;
        struct cdi_files *files = cdi_files_new();
        struct strbuf before = STRBUF_INIT, after = STRBUF_INIT;
        struct stat info;

        tree_gpus(tree, 2);
        assert_ok(publish(tree, files), &tree->err);
        read_spec(tree, &before);
        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                changes[i](tree);
                assert_int_equal(cdi_files_repair(files, &tree->err), 1);
                assert_int_equal(lstat(tree_path(tree, SPEC), &info), 0);
                assert_true(S_ISREG(info.st_mode) && (info.st_mode & 0777) == 0644);
                read_spec(tree, &after);
                assert_string_equal(after.data, before.data);
                assert_int_equal(cdi_files_repair(files, &tree->err), 0);
        }
        strbuf_done(&before);
        strbuf_done(&after);
        cdi_files_free(files);
}

static void test_a_file_that_was_only_touched_is_not_written(void **state)
{
        struct tree *tree = *state;
        struct cdi_files *files = cdi_files_new();
        struct stat before, after;

        tree_gpus(tree, 1);
        assert_ok(publish(tree, files), &tree->err);
        assert_int_equal(stat(tree_path(tree, SPEC), &before), 0);
        assert_int_equal(chmod(tree_path(tree, SPEC), 0664), 0);
        assert_int_equal(cdi_files_repair(files, &tree->err), 0);
        assert_int_equal(stat(tree_path(tree, SPEC), &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        cdi_files_free(files);
}

static void test_what_was_kept_of_old_devices_comes_back_too(void **state)
{
        struct tree *tree = *state;
        struct cdi_files *files = cdi_files_new();

        tree_gpus(tree, 2);
        assert_ok(publish(tree, files), &tree->err);
        tree->inventory.n_gpus = 1;
        tree_plan(tree);
        remove_it(tree);
        assert_ok(publish(tree, files), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0 GPU-1");
        cdi_files_free(files);
}

static void test_one_that_cannot_be_written_does_not_keep_the_others_from_it(void **state)
{
        struct tree *tree = *state;
        struct cdi_files *files = cdi_files_new();
        char *first = tree_path(tree, "/run/cdi/first.json");
        char *second = tree_path(tree, "/run/cdi/second.json");
        struct strbuf content = STRBUF_INIT;

        strbuf_puts(&content, "{}");
        assert_ok(cdi_files_write(files, first, &content, &tree->err), &tree->err);
        assert_ok(cdi_files_write(files, second, &content, &tree->err), &tree->err);
        assert_int_equal(unlink(first), 0);
        assert_int_equal(unlink(second), 0);
        tree_file(tree, "/run/cdi/first.json/in-the-way");
        assert_int_equal(cdi_files_repair(files, &tree->err), -1);
        assert_non_null(strstr(tree->err.text, "first.json"));
        assert_int_equal(access(second, F_OK), 0);
        strbuf_done(&content);
        cdi_files_free(files);
}

static void test_what_was_removed_or_forgotten_does_not_come_back(void **state)
{
        struct tree *tree = *state;
        struct cdi_files *files = cdi_files_new();

        tree_gpus(tree, 1);
        assert_ok(publish(tree, files), &tree->err);
        assert_ok(cdi_files_remove(files, tree_path(tree, SPEC), &tree->err), &tree->err);
        assert_int_equal(cdi_files_repair(files, &tree->err), 0);
        assert_int_equal(access(tree_path(tree, SPEC), F_OK), -1);
        assert_ok(cdi_files_remove(files, tree_path(tree, SPEC), &tree->err), &tree->err);

        assert_ok(publish(tree, files), &tree->err);
        cdi_files_forget(files);
        remove_it(tree);
        assert_int_equal(cdi_files_repair(files, &tree->err), 0);
        assert_int_equal(access(tree_path(tree, SPEC), F_OK), -1);
        cdi_files_free(files);
}

/* ---- device nodes ---- */

static void test_a_node_that_cuda_needs_is_added_when_it_is_there(void **state)
{
        static const char *const paths[] = {
                "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap10"};
        struct tree *tree = *state;
        struct cdi_files *files = cdi_files_new();
        struct strbuf whole = STRBUF_INIT, spec = STRBUF_INIT;
        const struct unit *unit;

        tree_gpus(tree, 2);
        tree_mig(tree, 0, 1);
        unit = &tree->resource.units[0];
        assert_ok(publish(tree, files), &tree->err);
        assert_false(tree->plan.lacks_nodes);
        assert_ok(cdi_check_nodes(&tree->plan, unit, &tree->err), &tree->err);
        read_spec(tree, &whole);
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                char *path = arena_printf(&tree->arena, "/system%s", paths[i]);

                assert_int_equal(unlink(tree_path(tree, path)), 0);
                assert_fails(cdi_check_nodes(&tree->plan, unit, &tree->err), &tree->err, ERROR_UNAVAILABLE,
                        arena_printf(&tree->arena,
                                "'%s' is not there, and CUDA does not work in a container without it: "
                                "nvidia-modprobe -u -c0 makes it",
                                paths[i]));
                assert_ok(publish(tree, files), &tree->err);
                assert_true(tree->plan.lacks_nodes);
                read_spec(tree, &spec);
                assert_string_not_equal(spec.data, whole.data);
                tree_node(tree, path, strstr(path, "cap") ? 0444 : 0666, 0);
                assert_ok(cdi_publish_again(&tree->plan, files, &tree->err), &tree->err);
                assert_false(tree->plan.lacks_nodes);
                read_spec(tree, &spec);
                assert_string_equal(spec.data, whole.data);
        }
        strbuf_done(&whole);
        strbuf_done(&spec);
        cdi_files_free(files);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_a_file_that_is_not_as_it_was_is_written_again),
                TREE_TEST(test_a_file_that_was_only_touched_is_not_written),
                TREE_TEST(test_what_was_kept_of_old_devices_comes_back_too),
                TREE_TEST(test_one_that_cannot_be_written_does_not_keep_the_others_from_it),
                TREE_TEST(test_what_was_removed_or_forgotten_does_not_come_back),
                TREE_TEST(test_a_node_that_cuda_needs_is_added_when_it_is_there),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
