// SPDX-License-Identifier: Apache-2.0
/*
 * The file in which a container of the device plugin reads its share.
 */
#include "rig.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define FOLDER "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/device-plugin/"
#define FILE_LIMIT ((size_t)65536)

/* In rig.arena. */
static const char *path_of(const struct fake_container *container)
{
        return arena_printf(&rig.arena, "%s/%s", rig.mps, container->metadata);
}

static bool has_file(const struct fake_container *container)
{
        return access(path_of(container), F_OK) == 0;
}

static json_t *read_first(const struct fake_container *container)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;
        json_t *object;

        assert_ok(file_read(path_of(container), FILE_LIMIT, &text, &err), &err);
        object = json_loadb(text.data, text.size, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(object);
        return object;
}

/* "GPU-0 11904 MiB 50 % verified", of each device. */
static const char *share_in(const struct fake_container *container)
{
        json_t *object = read_first(container);
        const json_t *request = json_array_get(json_object_get(object, "requests"), 0);
        const char *text = "";
        const json_t *device;
        size_t i;

        json_array_foreach(json_object_get(request, "devices"), i, device)
        {
                json_int_t memory = 0;
                json_int_t threads = 0;
                const char *uuid = "";
                const char *tier = "";

                json_unpack(json_object_get((json_t *)(uintptr_t)device, "attributes"),
                        "{s:{s:s}, s?{s:I}, s?{s:I}, s?{s:s}}", "uuid", "string", &uuid, "memoryMiB", "int", &memory,
                        "threadPercentage", "int", &threads, "tier", "string", &tier);
                text = arena_printf(&rig.arena, "%s%s%s %lld MiB %lld %% %s", text, i ? ", " : "", uuid,
                        (long long)memory, (long long)threads, tier);
        }
        json_decref(object);
        return text;
}

static void test_a_container_reads_the_share_that_it_got(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1");
        json_t *object = read_first(train);
        json_t *expected =
                json_pack("{s:s, s:s, s:i}", "name", "device-plugin", "uid", train->allocation, "generation", 1);
        struct stat status;

        assert_string_equal(train->metadata_path, FOLDER "gpu/gpu.warpshare.dev-metadata.json");
        assert_string_equal(train->metadata, arena_printf(&rig.arena, "metadata/%s.json", train->allocation));
        assert_string_equal(share_in(train), "GPU-0 11904 MiB 50 % verified");
        assert_true(json_equal(json_object_get(object, "metadata"), expected));
        assert_int_equal(stat(path_of(train), &status), 0);
        assert_int_equal(status.st_mode & 07777, 0644);
        json_decref(expected);
        json_decref(object);
}

static void test_it_is_of_the_gpu_to_which_the_container_is_bound(void **state UNUSED)
{
        rig_run("first", "GPU-0::0 GPU-0::1 GPU-0::2");
        assert_string_equal(share_in(rig_run("second", "GPU-0::3 GPU-1::0")), "GPU-1 11904 MiB 50 % verified");
}

static void test_it_names_the_tier_that_was_made(void **state UNUSED)
{
        assert_string_equal(share_in(rig_run("train", "GPU-0::0")), "GPU-0 5952 MiB 25 % namespace");
}

static void test_resources_of_one_container_have_files_of_their_own(void **state UNUSED)
{
        const struct fake_container *first = rig_run("train", "GPU-0::0");
        const struct fake_container *second = rig_run("train", "GPU-1::0 GPU-1::1");

        assert_string_equal(first->metadata_path, FOLDER "gpu0/gpu.warpshare.dev-metadata.json");
        assert_string_equal(second->metadata_path, FOLDER "gpu1/gpu.warpshare.dev-metadata.json");
        assert_string_equal(share_in(first), "GPU-0 5952 MiB 25 % verified");
        assert_string_equal(share_in(second), "GPU-1 11904 MiB 50 % verified");
}

static void test_the_file_ends_with_the_allocation(void **state UNUSED)
{
        const struct fake_container *ended = rig_run("ended", "GPU-0::0");
        const struct fake_container *train = rig_run("train", "GPU-0::1");

        rig_pass(2 * GRACE_MS);
        fake_kubelet_end_pod("ended");
        assert_true(has_file(ended));
        rig_run("next", "GPU-1::0");
        rig_pass(2 * GRACE_MS);
        assert_false(has_file(ended));
        assert_true(has_file(train));
}

/* The folder is in memory. kubelet starts the same containers, with the same mounts. */
static void test_what_a_reboot_took_is_there_again(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-1::0 GPU-1::1 GPU-1::2");

        rig_pass(2 * GRACE_MS);
        rig_kill();
        unlink(rig.file);
        rig_remove_metadata();
        rig_start();
        rig_pass(2 * GRACE_MS);
        assert_string_equal(share_in(train), "GPU-1 17856 MiB 75 % verified");
}

/* containerd makes a folder of what it has to mount and does not find. */
static void test_a_folder_in_its_place_becomes_the_file(void **state UNUSED)
{
        const struct fake_container *train = rig_run("train", "GPU-0::0");

        assert_int_equal(unlink(path_of(train)), 0);
        assert_int_equal(mkdir(path_of(train), 0755), 0);
        rig_pass(2 * GRACE_MS);
        rig_run("next", "GPU-1::0");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(share_in(train), "GPU-0 5952 MiB 25 % verified");
}

static void test_a_container_starts_without_it_where_it_cannot_be_written(void **state UNUSED)
{
        _free_ char *folder = xasprintf("%s/metadata", rig.mps);
        const struct fake_container *train;

        assert_int_equal(symlink("/proc/nonexistent", folder), 0);
        train = rig_run("train", "GPU-0::0");
        assert_string_equal(train->metadata, "");
        assert_true(train->is_running);
        unlink(folder);
}

static void test_what_a_container_declares_is_in_it_when_it_starts(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1");

        assert_string_equal(share_in(train), "GPU-0 11904 MiB 50 % verified");
        fake_api_pod("train", "'warpshare.dev/threads': '60', 'warpshare.dev/memory': '3Gi'", "");
        assert_string_equal(rig_start_container(train), "");
        assert_string_equal(share_in(train), "GPU-0 3072 MiB 60 % verified");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST(test_a_container_reads_the_share_that_it_got),
                RIG_TEST(test_it_is_of_the_gpu_to_which_the_container_is_bound),
                RIG_TEST_WITH(test_it_names_the_tier_that_was_made, RIG_NAMESPACES),
                RIG_TEST_WITH(test_resources_of_one_container_have_files_of_their_own, RIG_NODE_EACH),
                RIG_TEST(test_the_file_ends_with_the_allocation),
                RIG_TEST(test_what_a_reboot_took_is_there_again),
                RIG_TEST(test_a_folder_in_its_place_becomes_the_file),
                RIG_TEST(test_a_container_starts_without_it_where_it_cannot_be_written),
                RIG_TEST_WITH(test_what_a_container_declares_is_in_it_when_it_starts, RIG_DECLARED),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
