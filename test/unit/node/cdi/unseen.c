// SPDX-License-Identifier: Apache-2.0
/*
 * What cannot be looked at for a moment: the specification is whole, or not written. Each look of the modules comes
 * here first, and one of them fails.
 */
#include "tree.h"

#include <dirent.h>
#include <limits.h>

#define SPEC "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"

static int looks_left = INT_MAX; /* before one fails */
static int failure;

static bool fails(void)
{
        if (looks_left-- != 0)
                return false;
        errno = failure;
        return true;
}

DIR *opendir(const char *path)
{
        int fd = fails() ? -1 : openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? NULL : fdopendir(fd);
}

int lstat(const char *path, struct stat *ret)
{
        return fails() ? -1 : fstatat(AT_FDCWD, path, ret, AT_SYMLINK_NOFOLLOW);
}

ssize_t readlink(const char *path, char *ret, size_t size)
{
        return fails() ? -1 : readlinkat(AT_FDCWD, path, ret, size);
}

static char *content(struct tree *tree)
{
        struct strbuf text = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(tree_path(tree, SPEC), 1 << 20, &text, &err), &err);
        return strbuf_take(&text);
}

/* |is_new|: there is no file of before. */
static void try_each(struct tree *tree, bool is_new)
{
        static const int failures[] = {EMFILE, ENOMEM, EIO};
        _free_ char *whole = NULL;
        int n_looks;

        looks_left = INT_MAX;
        assert_ok(tree_publish(tree), &tree->err);
        n_looks = INT_MAX - looks_left;
        assert_true(n_looks > 20);
        whole = content(tree);
        for (int i = 0; i < 3 * n_looks; i++) {
                int result;

                if (is_new)
                        assert_int_equal(unlink(tree_path(tree, SPEC)), 0);
                failure = failures[i % 3];
                looks_left = i / 3;
                result = tree_publish(tree);
                looks_left = INT_MAX;
                if (result < 0 && !strstr(tree->err.text, "look at '"))
                        fail_msg("%d of %d: %s", i / 3, n_looks, tree->err.text);
                if (result == 0 || !is_new) {
                        _free_ char *now = content(tree);

                        if (strcmp(now, whole) != 0)
                                fail_msg("%d of %d: %s", i / 3, n_looks, now);
                } else {
                        assert_int_equal(access(tree_path(tree, SPEC), F_OK), -1);
                        assert_ok(tree_publish(tree), &tree->err);
                }
        }
}

static void make_machine(struct tree *tree)
{
        tree_gpus(tree, 3);
        tree->inventory.gpus[0].bus = "0000:3b:00.0";
        tree_node(tree, "/system/dev/nvidia-modeset", 0666, 0);
        tree_node(tree, "/system/dev/dri/card1", 0660, 44);
        tree_file(tree, "/system/sys/bus/pci/devices/0000:3b:00.0/drm/card1/dev");
        tree_file(tree, "/driver/usr/bin/nvidia-smi");
        tree_file(tree, "/driver/lib/firmware/nvidia/" TREE_VERSION "/gsp.bin");
        tree_link(tree, TREE_LIBRARIES "/libcuda.so.1", "libcuda.so." TREE_VERSION);
        tree_socket(tree, "/driver/run/nvidia-persistenced/socket");
}

static void test_a_new_specification_is_whole_or_not_written(void **state)
{
        make_machine(*state);
        try_each(*state, true);
}

static void test_what_an_earlier_one_had_is_not_lost(void **state)
{
        struct tree *tree = *state;

        make_machine(tree);
        assert_ok(tree_publish(tree), &tree->err);
        tree->inventory.n_gpus = 2;
        tree_plan(tree);
        try_each(tree, false);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0 GPU-1 GPU-2");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_a_new_specification_is_whole_or_not_written),
                TREE_TEST(test_what_an_earlier_one_had_is_not_lost),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
