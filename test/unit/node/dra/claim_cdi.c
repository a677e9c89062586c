// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/dra/claim_cdi.h"

#define DRIVER "gpu.warpshare.dev"
#define UID "15ebfed7-be35-49d4-b3d5-a749dcd593f9"
#define SHARE "e7a17ed6-d8c3-4e50-8bf1-502a38e8773d"

struct rig {
        struct arena arena;
        char folder[64];
        char root[96];
        char path[256];
        struct error err;
};

static void rig_init(struct rig *rig)
{
        *rig = (struct rig){0};
        strcpy(rig->folder, "/tmp/dra-cdi-XXXXXX");
        assert_non_null(mkdtemp(rig->folder));
        snprintf(rig->root, sizeof(rig->root), "%s/cdi", rig->folder);
        snprintf(rig->path, sizeof(rig->path), "%s/" DRIVER "-claim_" UID ".json", rig->root);
}

static void rig_done(struct rig *rig)
{
        arena_done(&rig->arena);
        unlink(rig->path);
        rmdir(rig->root);
        assert_int_equal(rmdir(rig->folder), 0);
}

static const char *const env[] = {"CUDA_MPS_PIPE_DIRECTORY=/mps/a/pipe", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30"};
static const struct dra_edit_node nodes[] = {{"/dev/nvidia0", "/dev/nvidia0", 0666, 0}};
static const struct dra_edit_mount mounts[] = {{"/run/mps/a", "/mps/a", true}, {"/usr/lib/x", "/usr/lib/x", false}};

static struct dra_claim claim_of(struct rig *rig, size_t n_env)
{
        struct dra_result *results = ARENA_ARRAY(&rig->arena, struct dra_result, 2);

        results[0] = (struct dra_result){.pool = "n1",
                .request = "main",
                .device = "gpu-0-shared",
                .unit = "GPU-0",
                .share_id = SHARE,
                .cdi_id = dra_claim_cdi_id(&rig->arena, DRIVER, UID, "gpu-0-shared", SHARE),
                .edits = {env, n_env, nodes, 1, mounts, 2}};
        results[1] = (struct dra_result){.pool = "n1",
                .request = "whole",
                .device = "gpu-1",
                .unit = "GPU-1",
                .cdi_id = dra_claim_cdi_id(&rig->arena, DRIVER, UID, "gpu-1", NULL),
                .edits = {.nodes = nodes, .n_nodes = 1}};
        return (struct dra_claim){.uid = UID, .namespace = "team", .name = "train", .results = results, .n_results = 2};
}

static ino_t inode_of(const char *path)
{
        struct stat status;

        assert_int_equal(stat(path, &status), 0);
        return status.st_ino;
}

static void test_every_device_of_a_claim_is_in_its_file(void **state UNUSED)
{
        struct strbuf text = STRBUF_INIT;
        struct dra_claim claim;
        struct rig rig;
        json_t *written, *expected;

        rig_init(&rig);
        claim = claim_of(&rig, 2);
        assert_string_equal(claim.results[0].cdi_id, DRIVER "/claim=" UID "-gpu-0-shared-" SHARE);
        assert_string_equal(claim.results[1].cdi_id, DRIVER "/claim=" UID "-gpu-1");
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        assert_ok(file_read(rig.path, 65536, &text, &rig.err), &rig.err);
        written = json_loads(text.data, 0, NULL);
        expected = json_pack("{s:s, s:s, s:{}, s:[{s:s, s:{s:[s, s], s:[o], s:[{s:s, s:s, s:[s, s, s, s, s]},"
                             " {s:s, s:s, s:[s, s, s, s, s]}]}}, {s:s, s:{s:[o]}}]}",
                "cdiVersion", "0.5.0", "kind", DRIVER "/claim", "containerEdits", "devices", "name",
                UID "-gpu-0-shared-" SHARE, "containerEdits", "env", env[0], env[1], "deviceNodes",
                json_pack("{s:s, s:s, s:i, s:s}", "path", "/dev/nvidia0", "hostPath", "/dev/nvidia0", "fileMode", 0666,
                        "permissions", "rwm"),
                "mounts", "hostPath", "/run/mps/a", "containerPath", "/mps/a", "options", "rw", "nosuid", "nodev",
                "rbind", "rprivate", "hostPath", "/usr/lib/x", "containerPath", "/usr/lib/x", "options", "ro", "nosuid",
                "nodev", "rbind", "rprivate", "name", UID "-gpu-1", "containerEdits", "deviceNodes",
                json_pack("{s:s, s:s, s:i, s:s}", "path", "/dev/nvidia0", "hostPath", "/dev/nvidia0", "fileMode", 0666,
                        "permissions", "rwm"));
        assert_non_null(written);
        assert_non_null(expected);
        assert_true(json_equal(written, expected));
        json_decref(written);
        json_decref(expected);
        strbuf_done(&text);
        rig_done(&rig);
}

static void test_the_same_content_is_not_written_again(void **state UNUSED)
{
        struct dra_claim claim;
        struct rig rig;
        ino_t inode;

        rig_init(&rig);
        claim = claim_of(&rig, 2);
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        inode = inode_of(rig.path);
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        assert_int_equal(inode_of(rig.path), inode);
        rig_done(&rig);
}

static void test_other_content_under_the_same_name_is_replaced(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf before = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf after = STRBUF_INIT;
        struct dra_claim claim;
        struct rig rig;

        rig_init(&rig);
        claim = claim_of(&rig, 2);
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        assert_ok(file_read(rig.path, SIZE_MAX, &before, &rig.err), &rig.err);
        assert_ok(file_write(rig.path, "{}", 2, &rig.err), &rig.err);
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        assert_ok(file_read(rig.path, SIZE_MAX, &after, &rig.err), &rig.err);
        assert_string_equal(after.data, before.data);
        rig_done(&rig);
}

static void test_a_removed_cdi_file_can_be_written_again(void **state UNUSED)
{
        struct dra_claim claim;
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_claim_cdi_remove(NULL, rig.root, DRIVER, UID, &rig.err), &rig.err);
        claim = claim_of(&rig, 2);
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        assert_ok(dra_claim_cdi_remove(NULL, rig.root, DRIVER, UID, &rig.err), &rig.err);
        assert_int_equal(access(rig.path, F_OK), -1);
        claim = claim_of(&rig, 1);
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        assert_int_equal(access(rig.path, F_OK), 0);
        rig_done(&rig);
}

static bool is_other(const char *uid, void *data UNUSED)
{
        return strcmp(uid, "other") == 0;
}

static void test_files_of_unknown_claims_are_removed(void **state UNUSED)
{
        static const char *const kept[] = {DRIVER "-claim_other.json", "else." DRIVER "-claim_" UID ".json",
                DRIVER "-claim_.json", DRIVER "-claim_" UID ".json.new", DRIVER "-claim_a_b.json",
                "k8s.device-plugin.nvidia.com-gpu.json"};
        struct dra_claim claim;
        struct rig rig;

        rig_init(&rig);
        claim = claim_of(&rig, 1);
        assert_ok(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
                _free_ char *path = xasprintf("%s/%s", rig.root, kept[i]);

                assert_ok(file_write(path, "{}", 2, &rig.err), &rig.err);
        }
        dra_claim_cdi_sweep(NULL, rig.root, DRIVER, is_other, NULL);
        assert_int_equal(access(rig.path, F_OK), -1);
        for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
                _free_ char *path = xasprintf("%s/%s", rig.root, kept[i]);

                assert_int_equal(access(path, F_OK), 0);
                unlink(path);
        }
        dra_claim_cdi_sweep(NULL, "/nonexistent", DRIVER, is_other, NULL);
        rig_done(&rig);
}

static void test_what_no_runtime_would_read_is_not_written(void **state UNUSED)
{
        struct dra_result result = {.device = "gpu-0", .cdi_id = DRIVER "/claim=" UID "-gpu-0"};
        const struct dra_claim claim = {.uid = UID, .results = &result, .n_results = 1};
        struct rig rig;

        rig_init(&rig);
        assert_fails(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err, ERROR_INVALID,
                "CDI: device 'gpu-0' has nothing for a container");
        result.edits = (struct dra_edits){.env = env, .n_env = 1};
        result.cdi_id = "a/b=c/d";
        assert_fails(dra_claim_cdi_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err, ERROR_INVALID,
                "CDI: 'a/b=c/d' can be no name of a CDI device");
        assert_int_equal(access(rig.path, F_OK), -1);
        rig_done(&rig);
}

/* ---- device metadata ---- */

#define METADATA "/var/run/kubernetes.io/dra-device-attributes/"

static json_t *named(const char *name)
{
        return json_pack("{s:{s:s}}", "productName", "string", name);
}

/* Two devices of a request, and one of another that had a choice, with their metadata in the folder of the test. */
static struct dra_claim told_claim(struct rig *rig, const char *pod_claim_name)
{
        struct dra_claim claim = claim_of(rig, 2);
        struct dra_result *results = ARENA_ARRAY(&rig->arena, struct dra_result, 3);

        results[0] = claim.results[0];
        results[1] = results[2] = claim.results[1];
        results[0].memory_bytes = UINT64_C(10) << 30;
        results[0].thread_percentage = 30;
        results[0].tier = "verified";
        results[1].request = "main";
        results[2].subrequest = "large";
        claim.results = results;
        claim.n_results = 3;
        claim.pod_claim_name = pod_claim_name;
        for (size_t i = 0; i < 3; i++)
                dra_metadata_add(&rig->arena, rig->root, DRIVER, &claim, i, named(i == 0 ? "A" : "B"));
        return claim;
}

/* The mounts that dra_metadata_add() has added to the result, whose own are |own|; "" for none. */
static const char *added_mount(const struct dra_claim *claim, size_t i, size_t own)
{
        const struct dra_edits *edits = &claim->results[i].edits;

        if (edits->n_mounts == own)
                return "";
        assert_int_equal(edits->n_mounts, own + 1);
        assert_false(edits->mounts[own].is_writable);
        return edits->mounts[own].path;
}

static void test_each_request_has_its_file_at_the_path_of_the_protocol(void **state UNUSED)
{
        struct dra_claim claim;
        struct rig rig;

        rig_init(&rig);
        claim = told_claim(&rig, NULL);
        assert_string_equal(added_mount(&claim, 0, 2), METADATA "resourceclaims/train/main/" DRIVER "-metadata.json");
        assert_string_equal(added_mount(&claim, 1, 0), "");
        assert_string_equal(added_mount(&claim, 2, 0), METADATA "resourceclaims/train/whole/" DRIVER "-metadata.json");
        claim = told_claim(&rig, "gpu");
        assert_string_equal(
                added_mount(&claim, 0, 2), METADATA "resourceclaimtemplates/gpu/main/" DRIVER "-metadata.json");
        rig_done(&rig);
}

/* The file of the request, as the list of its lines. */
static json_t *told(struct rig *rig, const struct dra_claim *claim, size_t i, size_t own)
{
        const char *path = claim->results[i].edits.mounts[own].host_path;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        json_t *objects = json_array();
        struct stat status;

        assert_ok(file_read(path, 65536, &text, &rig->err), &rig->err);
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0644);
        for (const char *line = text.data; *line; line = strchr(line, '\n') + 1) {
                json_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);

                assert_non_null(object);
                assert_non_null(strchr(line, '\n'));
                json_array_append_new(objects, object);
        }
        return objects;
}

static void assert_told(
        struct rig *rig, const struct dra_claim *claim, size_t i, size_t own, json_t *name, json_t *devices)
{
        static const char *const versions[] = {"metadata.resource.k8s.io/v1beta1", "metadata.resource.k8s.io/v1alpha1"};
        json_t *objects = told(rig, claim, i, own);

        assert_int_equal(json_array_size(objects), 2);
        for (size_t j = 0; j < 2; j++) {
                json_t *expected = json_pack("{s:s, s:s, s:{s:s, s:s, s:s, s:i}, s:s*, s:[{s:O, s:O}]}", "kind",
                        "DeviceMetadata", "apiVersion", versions[j], "metadata", "name", "train", "namespace", "team",
                        "uid", UID, "generation", 1, "podClaimName", claim->pod_claim_name, "requests", "name", name,
                        "devices", devices);

                assert_non_null(expected);
                assert_true(json_equal(json_array_get(objects, j), expected));
                json_decref(expected);
        }
        json_decref(name);
        json_decref(devices);
        json_decref(objects);
}

static json_t *told_device(const char *name, json_t *attributes)
{
        return json_pack(
                "{s:s, s:s, s:s, s:o}", "driver", DRIVER, "pool", "n1", "name", name, "attributes", attributes);
}

static void test_a_file_says_what_each_device_of_its_request_is_in_both_versions(void **state UNUSED)
{
        struct dra_claim claim;
        struct rig rig;

        rig_init(&rig);
        for (size_t i = 0; i < 2; i++) {
                claim = told_claim(&rig, i == 0 ? NULL : "gpu");
                assert_ok(dra_metadata_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
                assert_told(&rig, &claim, 0, 2, json_string("main"),
                        json_pack("[o, o]",
                                told_device("gpu-0-shared",
                                        json_pack("{s:{s:s}, s:{s:i}, s:{s:i}, s:{s:s}}", "productName", "string", "A",
                                                "memoryMiB", "int", 10240, "threadPercentage", "int", 30, "tier",
                                                "string", "verified")),
                                told_device("gpu-1", named("B"))));
                assert_told(&rig, &claim, 2, 0, json_string("whole/large"),
                        json_pack("[o]", told_device("gpu-1", named("B"))));
        }
        assert_ok(dra_metadata_remove(NULL, rig.root, UID, &rig.err), &rig.err);
        assert_int_equal(access(claim.results[0].edits.mounts[2].host_path, F_OK), -1);
        assert_int_equal(access(claim.results[2].edits.mounts[0].host_path, F_OK), -1);
        assert_ok(dra_metadata_remove(NULL, rig.root, UID, &rig.err), &rig.err);
        rig_done(&rig);
}

static void test_a_claim_that_an_earlier_version_prepared_has_no_file(void **state UNUSED)
{
        struct dra_claim claim;
        struct rig rig;

        rig_init(&rig);
        claim = claim_of(&rig, 2);
        assert_ok(dra_metadata_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        assert_int_equal(access(rig.root, F_OK), -1);
        claim.results[0].attributes = "{";
        assert_fails(dra_metadata_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err, ERROR_INVALID,
                "device metadata of request 'main': results[0].attributes: must be JSON");
        rig_done(&rig);
}

static void test_files_with_metadata_of_unknown_claims_are_removed(void **state UNUSED)
{
        static const char *const kept[] = {"other_main.json", UID ".json", UID "_main.json.new", UID "_.json",
                UID "_a_b.json", "_main.json", "prepared.json"};
        struct dra_claim claim;
        struct rig rig;

        rig_init(&rig);
        claim = told_claim(&rig, NULL);
        assert_ok(dra_metadata_write(NULL, rig.root, DRIVER, &claim, &rig.err), &rig.err);
        for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
                _free_ char *path = xasprintf("%s/%s", rig.root, kept[i]);

                assert_ok(file_write(path, "{}", 2, &rig.err), &rig.err);
                assert_int_equal(dra_metadata_is_file(DRIVER, kept[i]), i == 0);
        }
        dra_metadata_sweep(NULL, rig.root, is_other, NULL);
        assert_int_equal(access(claim.results[0].edits.mounts[2].host_path, F_OK), -1);
        assert_int_equal(access(claim.results[2].edits.mounts[0].host_path, F_OK), -1);
        for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
                _free_ char *path = xasprintf("%s/%s", rig.root, kept[i]);

                assert_int_equal(access(path, F_OK), 0);
                unlink(path);
        }
        dra_metadata_sweep(NULL, "/nonexistent", is_other, NULL);
        rig_done(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_device_of_a_claim_is_in_its_file),
                cmocka_unit_test(test_the_same_content_is_not_written_again),
                cmocka_unit_test(test_other_content_under_the_same_name_is_replaced),
                cmocka_unit_test(test_a_removed_cdi_file_can_be_written_again),
                cmocka_unit_test(test_files_of_unknown_claims_are_removed),
                cmocka_unit_test(test_what_no_runtime_would_read_is_not_written),
                cmocka_unit_test(test_each_request_has_its_file_at_the_path_of_the_protocol),
                cmocka_unit_test(test_a_file_says_what_each_device_of_its_request_is_in_both_versions),
                cmocka_unit_test(test_a_claim_that_an_earlier_version_prepared_has_no_file),
                cmocka_unit_test(test_files_with_metadata_of_unknown_claims_are_removed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
