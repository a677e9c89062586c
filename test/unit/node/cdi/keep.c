// SPDX-License-Identifier: Apache-2.0
/*
 * What of an earlier specification stays, and what a file that anybody may have written can do.
 */
#include "tree.h"

#define SPEC "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"

/* An earlier file with devices as |devices| says, with ' for ". */
static void write_earlier(struct tree *tree, const char *devices)
{
        char *text = arena_printf(&tree->arena,
                "{'cdiVersion': '0.5.0', 'kind': 'k8s.device-plugin.nvidia.com/gpu', 'devices': [%s]}", devices);

        for (char *c = text; *c; c++)
                if (*c == '\'')
                        *c = '"';
        tree_write(tree, SPEC, text, strlen(text));
}

static void test_a_device_that_the_plan_lost_stays_with_its_nodes(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 3);
        assert_ok(tree_publish(tree), &tree->err);
        tree->inventory.n_gpus = 2; /* NVML counts the third no more */
        tree_plan(tree);
        for (int i = 0; i < 2; i++) { /* also when it is published again */
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree->warnings.data, "");
                assert_string_equal(tree_names(tree, "gpu"), "GPU-0 GPU-1 GPU-2");
                assert_string_equal(tree_nodes(tree, "gpu", "GPU-2"), "/dev/nvidia2");
        }
        assert_int_equal(unlink(tree_path(tree, "/system/dev/nvidia2")), 0);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0 GPU-1");
}

static void test_a_gpu_that_says_nothing_any_more_keeps_its_nodes(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        assert_ok(tree_publish(tree), &tree->err);
        tree->inventory.gpus[1].minor = -1;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        assert_string_equal(tree_nodes(tree, "gpu", "GPU-1"), "/dev/nvidia1");
}

static void test_names_of_the_other_naming_mean_the_same_devices(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        tree_mig(tree, 0, 1);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-1 MIG-0-0");
        tree->config.devices.id_strategy = ID_STRATEGY_INDEX;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "0:0 1 GPU-1 MIG-0-0");
        assert_string_equal(tree_nodes(tree, "gpu", "MIG-0-0"), tree_nodes(tree, "gpu", "0:0"));
        assert_string_equal(tree_nodes(tree, "gpu", "1"), "/dev/nvidia1");
        tree->config.devices.id_strategy = ID_STRATEGY_UUID;
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "0:0 1 GPU-1 MIG-0-0");
}

/* Else a container of the old device would get into the new one. */
static void test_nodes_that_belong_to_another_device_now_are_not_kept(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 2);
        tree_mig(tree, 0, 2);
        write_earlier(tree,
                /* another GPU had the minor number */
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia1'}]}},"
                /* another MIG device was made with these capabilities */
                "{'name': 'MIG-old', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia0'},"
                " {'path': '/dev/nvidia-caps/nvidia-cap10'}, {'path': '/dev/nvidia-caps/nvidia-cap11'}]}},"
                /* its GPU is not divided any more */
                "{'name': 'MIG-whole', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia1'},"
                " {'path': '/dev/nvidia-caps/nvidia-cap40'}]}},"
                /* nobody has these */
                "{'name': 'MIG-gone', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia0'},"
                " {'path': '/dev/dri/card0'}, {'path': '/dev/nvidia-caps/nvidia-cap40'}]}}");
        tree_node(tree, "/system/dev/nvidia-caps/nvidia-cap40", 0444, 0);
        tree_node(tree, "/system/dev/dri/card0", 0666, 0);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-1 MIG-0-0 MIG-0-1 MIG-gone");
        assert_string_equal(tree_nodes(tree, "gpu", "MIG-gone"), "/dev/nvidia0 /dev/nvidia-caps/nvidia-cap40");
}

static void test_only_nodes_of_gpus_are_kept_of_a_file(void **state)
{
        static const char *const devices[] = {
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': [{'path': '/dev/sda'}]}}",
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia8/../sda'}]}}",
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': [{'path': '/dev//nvidia8'}]}}",
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia8 '}]}}",
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia9'}]}}", /* not there */
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': [{'path': 8}, 8, null, '/dev/nvidia8']}}",
                "{'name': 'GPU-old', 'containerEdits': {'deviceNodes': {'path': '/dev/nvidia8'}}}",
                "{'name': 'GPU-old', 'containerEdits': ['/dev/nvidia8']}",
                "{'name': 'GPU-old', 'containerEdits': {'mounts': [{'hostPath': '/', 'containerPath': '/mnt'}]}}",
                "{'name': 'GPU/old', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia8'}]}}",
                "{'name': '', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia8'}]}}",
                "{'name': 8, 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia8'}]}}",
                "{'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia8'}]}}",
                "null, 8, 'GPU-old', [], {}",
        };
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree_node(tree, "/system/dev/sda", 0600, 0);
        tree_node(tree, "/system/dev/nvidia8", 0666, 0);
        for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
                write_earlier(tree, devices[i]);
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree_names(tree, "gpu"), "GPU-0");
        }
        write_earlier(tree,
                "{'name': 'GPU-old', 'annotations': {'a': 'b'}, 'containerEdits': {'env': ['LD_PRELOAD=/x'], 'hooks': "
                "[{'hookName': 'prestart', 'path': '/x'}], 'deviceNodes': [{'path': '/dev/nvidia8', 'hostPath': "
                "'/dev/sda'}, {'path': '/dev/sda'}]}}");
        assert_ok(tree_publish(tree), &tree->err);
        tree_assert_same(tree_edits(tree, "gpu", "GPU-old"),
                json_pack("{s:[{s:s, s:s, s:i, s:s}]}", "deviceNodes", "path", "/dev/nvidia8", "hostPath",
                        "/dev/nvidia8", "fileMode", 0666, "permissions", "rwm"));
}

static void test_a_file_that_is_none_of_ours_is_replaced(void **state)
{
        static const char *const contents[] = {
                "",
                "{",
                "[]",
                "null",
                "{\"kind\": 8}",
                "{\"kind\": \"k8s.device-plugin.nvidia.com/gpu\"}",
                "{\"kind\": \"k8s.device-plugin.nvidia.com/gpu\", \"devices\": 8}",
                "{\"kind\": \"nvidia.com/gpu\", \"devices\": [{\"name\": \"GPU-old\", \"containerEdits\": "
                "{\"deviceNodes\": [{\"path\": \"/dev/nvidia8\"}]}}]}",
                "{\"kind\": \"k8s.device-plugin.nvidia.com/gpu\", \"devices\": [{\"name\": \"GPU-old\", \"name\": "
                "\"GPU-old\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/nvidia8\"}]}}]}",
        };
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree_node(tree, "/system/dev/nvidia8", 0666, 0);
        for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
                tree_write(tree, SPEC, contents[i], strlen(contents[i]));
                assert_ok(tree_publish(tree), &tree->err);
                assert_string_equal(tree_names(tree, "gpu"), "GPU-0");
        }
}

static void test_what_is_no_file_is_replaced_unread(void **state)
{
        struct tree *tree = *state;
        struct strbuf deep = STRBUF_INIT;
        int fd;

        tree_gpus(tree, 1);
        tree_folder(tree, SPEC);
        assert_int_equal(mkfifo(tree_path(tree, SPEC), 0666), 0); /* nobody writes: reading would never end */
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0");

        assert_int_equal(unlink(tree_path(tree, SPEC)), 0);
        tree_link(tree, SPEC, "/dev/zero"); /* no end */
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0");

        fd = open(tree_path(tree, SPEC), O_WRONLY | O_CLOEXEC);
        assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
        close(fd);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0");

        for (size_t i = 0; i < 1000000; i++)
                strbuf_putc(&deep, '[');
        tree_write(tree, SPEC, deep.data, deep.size);
        strbuf_done(&deep);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree_names(tree, "gpu"), "GPU-0");
}

static void test_old_devices_have_an_end(void **state)
{
        _cleanup_(strbuf_done) struct strbuf devices = STRBUF_INIT;
        struct tree *tree = *state;
        json_t *json;

        tree_gpus(tree, 2);
        tree_node(tree, "/system/dev/nvidia8", 0666, 0);
        for (size_t i = 0; i < 5000; i++)
                strbuf_printf(&devices,
                        "%s{'name': 'GPU-old-%zu', 'containerEdits': {'deviceNodes': [{'path': '/dev/nvidia8'}]}}",
                        i ? "," : "", i);
        write_earlier(tree, devices.data);
        assert_ok(tree_publish(tree), &tree->err);
        json = tree_load(tree, "gpu");
        assert_int_equal(json_array_size(json_object_get(json, "devices")), 2 + 256);
        json_decref(json);
}

/* Runtimes watch the folder. */
static void test_what_did_not_change_is_not_written_again(void **state)
{
        struct tree *tree = *state;
        struct stat first, second, third;

        tree_gpus(tree, 1);
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(stat(tree_path(tree, SPEC), &first), 0);
        assert_int_equal(
                link(tree_path(tree, SPEC), tree_path(tree, "/run/kept")), 0); /* so that its inode is not reused */
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(stat(tree_path(tree, SPEC), &second), 0);
        assert_int_equal(first.st_ino, second.st_ino);
        tree_file(tree, "/driver/usr/bin/nvidia-smi");
        assert_ok(tree_publish(tree), &tree->err);
        assert_int_equal(stat(tree_path(tree, SPEC), &third), 0);
        assert_int_not_equal(first.st_ino, third.st_ino);
}

static void test_a_folder_that_cannot_be_written_is_an_error(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree_file(tree, "/run/cdi");
        tree->config.cdi.root = tree_path(tree, "/run/cdi/below");
        assert_fails(tree_publish(tree), &tree->err, ERROR_INVALID,
                arena_printf(&tree->arena, "CDI: create folder '%s/run/cdi/below': Not a directory", tree->root));
        tree->config.cdi.root = "/proc/self";
        assert_int_equal(tree_publish(tree), -1);
        assert_non_null(
                strstr(tree->err.text, "CDI: create a file beside '/proc/self/k8s.device-plugin.nvidia.com-gpu.json'"));
}

static void test_no_temporary_file_is_left_behind(void **state)
{
        struct tree *tree = *state;

        tree_gpus(tree, 1);
        tree_file(tree, SPEC "/in-the-way"); /* a folder where the file goes: renaming fails */
        assert_int_equal(tree_publish(tree), -1);
        assert_int_equal(unlink(tree_path(tree, SPEC "/in-the-way")), 0);
        assert_int_equal(rmdir(tree_path(tree, SPEC)), 0);
        assert_int_equal(rmdir(tree_path(tree, "/run/cdi")), 0); /* is empty */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_a_device_that_the_plan_lost_stays_with_its_nodes),
                TREE_TEST(test_a_gpu_that_says_nothing_any_more_keeps_its_nodes),
                TREE_TEST(test_names_of_the_other_naming_mean_the_same_devices),
                TREE_TEST(test_nodes_that_belong_to_another_device_now_are_not_kept),
                TREE_TEST(test_only_nodes_of_gpus_are_kept_of_a_file),
                TREE_TEST(test_a_file_that_is_none_of_ours_is_replaced),
                TREE_TEST(test_what_is_no_file_is_replaced_unread),
                TREE_TEST(test_old_devices_have_an_end),
                TREE_TEST(test_what_did_not_change_is_not_written_again),
                TREE_TEST(test_a_folder_that_cannot_be_written_is_an_error),
                TREE_TEST(test_no_temporary_file_is_left_behind),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
