// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "node/dra/prepared_record.h"

#define BOOT "6f1c3d3e-0000-4000-8000-000000000001"
#define UID_A "15ebfed7-be35-49d4-b3d5-a749dcd593f9"
#define UID_B "25ebfed7-be35-49d4-b3d5-a749dcd593f9"

static const char *const env[] = {"CUDA_MPS_PIPE_DIRECTORY=/mps/a/pipe", "EMPTY="};
static const struct dra_edit_node nodes[] = {
        {"/dev/nvidia0", "/dev/nvidia0", 0666, 0}, {"/dev/b", "/root/dev/b", 0660, 44}};
static const struct dra_edit_mount mounts[] = {{"/run/mps/a", "/mps/a", true}, {"/usr/lib/x", "/usr/lib/x", false}};

static struct dra_result results[] = {
        {.pool = "n1",
                .request = "main",
                .device = "gpu-0-shared",
                .unit = "GPU-0",
                .share_id = "e7a17ed6-d8c3-4e50-8bf1-502a38e8773d",
                .memory_bytes = UINT64_C(10) << 30,
                .thread_percentage = 30,
                .tier = "verified",
                .attributes = "{\"productName\":{\"string\":\"H100\"}}",
                .daemon = "GPU-0",
                .cdi_id = "gpu.warpshare.dev/claim=a",
                .edits = {env, 2, nodes, 2, mounts, 2}},
        {.pool = "n1",
                .request = "other",
                .device = "gpu-1",
                .unit = "GPU-1",
                .is_admin = true,
                .cdi_id = "gpu.warpshare.dev/claim=b"},
};

static const struct dra_claim claim_a = {.uid = UID_A,
        .namespace = "team",
        .name = "train",
        .pod_claim_name = "gpu",
        .state = DRA_CLAIM_PREPARED,
        .results = results,
        .n_results = 2};
static const struct dra_claim claim_b = {.uid = UID_B,
        .namespace = "team",
        .name = "other",
        .state = DRA_CLAIM_STARTED,
        .results = &results[1],
        .n_results = 1};

static struct dra_result candidates[] = {
        {.pool = "n1",
                .request = "main",
                .device = "gpu-0-mig-1g-10gb-at-4",
                .unit = "MIG-a",
                .has_instance = true,
                .instance = {"GPU-0", 19, 4, DRA_INSTANCE_MADE, "MIG-a"},
                .cdi_id = "gpu.warpshare.dev/claim=a"},
        {.pool = "n1",
                .request = "main",
                .device = "gpu-0-mig-1g-10gb-at-5",
                .unit = "GPU-0",
                .has_instance = true,
                .instance = {"GPU-0", 19, 5, DRA_INSTANCE_MAKING, NULL},
                .cdi_id = "gpu.warpshare.dev/claim=b"},
        {.pool = "n1",
                .request = "main",
                .device = "gpu-0-mig-1g-10gb-at-6",
                .unit = "GPU-0",
                .has_instance = true,
                .instance = {"GPU-0", 19, 6, DRA_INSTANCE_NONE, NULL},
                .cdi_id = "gpu.warpshare.dev/claim=c"},
};
static const struct dra_claim claim_cut = {.uid = UID_A,
        .namespace = "team",
        .name = "train",
        .state = DRA_CLAIM_STARTED,
        .results = candidates,
        .n_results = 3};

struct rig {
        char folder[64];
        char path[96];
        char broken[96];
        struct dra_record *record;
        struct error err;
};

static void rig_init(struct rig *rig)
{
        *rig = (struct rig){0};
        strcpy(rig->folder, "/tmp/dra-record-XXXXXX");
        assert_non_null(mkdtemp(rig->folder));
        snprintf(rig->path, sizeof(rig->path), "%s/prepared.json", rig->folder);
        snprintf(rig->broken, sizeof(rig->broken), "%s/prepared.json.broken", rig->folder);
        rig->record = dra_record_new(rig->path, BOOT);
}

static void rig_done(struct rig *rig)
{
        dra_record_free(rig->record);
        unlink(rig->path);
        unlink(rig->broken);
        assert_int_equal(rmdir(rig->folder), 0);
}

/* As another process would find it. */
static void start_again(struct rig *rig, const char *boot_id)
{
        dra_record_free(rig->record);
        rig->record = dra_record_new(rig->path, boot_id);
        assert_int_equal(dra_record_refresh(rig->record, &rig->err), 0);
}

static void expect_text(const char *text, const char *expected)
{
        if (expected)
                assert_string_equal(text, expected);
        else
                assert_null(text);
}

static void expect_claim(const struct dra_claim *claim, const struct dra_claim *expected)
{
        assert_non_null(claim);
        assert_string_equal(claim->uid, expected->uid);
        assert_string_equal(claim->namespace, expected->namespace);
        assert_string_equal(claim->name, expected->name);
        expect_text(claim->pod_claim_name, expected->pod_claim_name);
        assert_int_equal(claim->state, expected->state);
        assert_int_equal(claim->n_results, expected->n_results);
        for (size_t i = 0; i < claim->n_results; i++) {
                const struct dra_result *one = &claim->results[i], *other = &expected->results[i];

                assert_string_equal(one->request, other->request);
                assert_string_equal(one->device, other->device);
                assert_string_equal(one->unit, other->unit);
                expect_text(one->share_id, other->share_id);
                assert_int_equal(one->has_instance, other->has_instance);
                expect_text(one->instance.gpu, other->instance.gpu);
                assert_int_equal(one->instance.profile_id, other->instance.profile_id);
                assert_int_equal(one->instance.start, other->instance.start);
                assert_int_equal(one->instance.state, other->instance.state);
                expect_text(one->instance.uuid, other->instance.uuid);
                assert_int_equal(one->is_admin, other->is_admin);
                assert_int_equal(one->memory_bytes, other->memory_bytes);
                assert_int_equal(one->thread_percentage, other->thread_percentage);
                expect_text(one->tier, other->tier);
                expect_text(one->daemon, other->daemon);
                expect_text(one->attributes, other->attributes);
                assert_string_equal(one->cdi_id, other->cdi_id);
                assert_int_equal(one->edits.n_env, other->edits.n_env);
                assert_int_equal(one->edits.n_nodes, other->edits.n_nodes);
                assert_int_equal(one->edits.n_mounts, other->edits.n_mounts);
                for (size_t j = 0; j < one->edits.n_env; j++)
                        assert_string_equal(one->edits.env[j], other->edits.env[j]);
                for (size_t j = 0; j < one->edits.n_nodes; j++) {
                        assert_string_equal(one->edits.nodes[j].path, other->edits.nodes[j].path);
                        assert_string_equal(one->edits.nodes[j].host_path, other->edits.nodes[j].host_path);
                        assert_int_equal(one->edits.nodes[j].mode, other->edits.nodes[j].mode);
                        assert_int_equal(one->edits.nodes[j].gid, other->edits.nodes[j].gid);
                }
                for (size_t j = 0; j < one->edits.n_mounts; j++) {
                        assert_string_equal(one->edits.mounts[j].host_path, other->edits.mounts[j].host_path);
                        assert_string_equal(one->edits.mounts[j].path, other->edits.mounts[j].path);
                        assert_int_equal(one->edits.mounts[j].is_writable, other->edits.mounts[j].is_writable);
                }
        }
}

static void test_what_is_recorded_is_there_after_a_restart(void **state UNUSED)
{
        struct rig rig;
        struct stat status;

        rig_init(&rig);
        assert_int_equal(dra_record_refresh(rig.record, &rig.err), 0);
        assert_int_equal(dra_record_count(rig.record), 0);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
        expect_claim(dra_record_find(rig.record, UID_A), &claim_a);
        start_again(&rig, BOOT);
        assert_int_equal(dra_record_count(rig.record), 2);
        expect_claim(dra_record_at(rig.record, 0), &claim_a);
        expect_claim(dra_record_at(rig.record, 1), &claim_b);
        assert_int_equal(stat(rig.path, &status), 0);
        assert_int_equal(status.st_mode & 07777, 0600);
        rig_done(&rig);
}

static void test_what_is_made_of_candidates_is_there_after_a_restart(void **state UNUSED)
{
        struct dra_result odd = candidates[0];
        struct dra_claim claim = claim_cut;
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_cut, &rig.err), &rig.err);
        start_again(&rig, BOOT);
        expect_claim(dra_record_find(rig.record, UID_A), &claim_cut);
        claim.results = &odd;
        claim.n_results = 1;
        odd.instance.uuid = NULL;
        assert_int_equal(dra_record_put(rig.record, &claim, &rig.err), -1);
        assert_string_equal(rig.err.text,
                "record of claim " UID_A ": results[0].instance: has a uuid if it is made, and only then");
        expect_claim(dra_record_find(rig.record, UID_A), &claim_cut);
        rig_done(&rig);
}

static void test_a_claim_is_replaced_in_its_place_and_removed(void **state UNUSED)
{
        struct dra_claim later = claim_a;
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
        later.state = DRA_CLAIM_STARTED;
        assert_ok(dra_record_put(rig.record, &later, &rig.err), &rig.err);
        start_again(&rig, BOOT);
        expect_claim(dra_record_at(rig.record, 0), &later);
        assert_ok(dra_record_remove(rig.record, UID_A, &rig.err), &rig.err);
        assert_ok(dra_record_remove(rig.record, UID_A, &rig.err), &rig.err);
        start_again(&rig, BOOT);
        assert_int_equal(dra_record_count(rig.record), 1);
        assert_null(dra_record_find(rig.record, UID_A));
        expect_claim(dra_record_find(rig.record, UID_B), &claim_b);
        rig_done(&rig);
}

static void test_after_a_reboot_it_is_empty(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        start_again(&rig, "another");
        assert_int_equal(dra_record_count(rig.record), 0);
        assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
        start_again(&rig, "another");
        assert_int_equal(dra_record_count(rig.record), 1);
        expect_claim(dra_record_at(rig.record, 0), &claim_b);
        rig_done(&rig);
}

static void test_what_another_instance_wrote_is_seen(void **state UNUSED)
{
        struct dra_record *other;
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        other = dra_record_new(rig.path, BOOT);
        assert_int_equal(dra_record_refresh(other, &rig.err), 0);
        assert_ok(dra_record_put(other, &claim_b, &rig.err), &rig.err);
        assert_int_equal(dra_record_refresh(rig.record, &rig.err), 0);
        assert_int_equal(dra_record_count(rig.record), 2);
        assert_int_equal(unlink(rig.path), 0);
        assert_int_equal(dra_record_refresh(rig.record, &rig.err), 0);
        assert_int_equal(dra_record_count(rig.record), 0);
        dra_record_free(other);
        rig_done(&rig);
}

static void test_what_cannot_be_written_is_not_recorded(void **state UNUSED)
{
        _free_ char *expected = NULL;
        struct rig rig;

        rig_init(&rig);
        dra_record_free(rig.record);
        strcat(rig.folder, "x");
        snprintf(rig.path, sizeof(rig.path), "%s/prepared.json", rig.folder);
        rig.record = dra_record_new(rig.path, BOOT);
        expected = xasprintf("record: create a file beside '%s': No such file or directory", rig.path);
        assert_fails(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err, ERROR_NOT_FOUND, expected);
        assert_int_equal(dra_record_count(rig.record), 0);
        rig.folder[strlen(rig.folder) - 1] = '\0';
        rig_done(&rig);
}

static void test_what_could_not_be_read_is_not_written(void **state UNUSED)
{
        static const char *const bad_env[] = {"A=\xff"};
        static const char *const no_env[] = {"A"};
        static const struct {
                const char *uid;
                const char *device;
                const char *const *env;
                unsigned int percentage;
                const char *text;
        } cases[] = {
                {"../x", "d", env, 1, "record of claim ../x: uid: must be of letters, digits and '-', at most 63"},
                {UID_A, "", env, 1, "record of claim " UID_A ": results[0]: device: must be a text of 1 to 4096 bytes"},
                {UID_A, "\xff", env, 1,
                        "record of claim " UID_A ": results[0]: device: must be a text of 1 to 4096 bytes"},
                {UID_A, "d", env, 101,
                        "record of claim " UID_A ": results[0]: threadPercentage: 101, must be a number from 0 to 100"},
                {UID_A, "d", bad_env, 1,
                        "record of claim " UID_A ": results[0]: env[0]: must be NAME=value of at most 4096 bytes"},
                {UID_A, "d", no_env, 1,
                        "record of claim " UID_A ": results[0]: env[0]: must be NAME=value of at most 4096 bytes"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct dra_result result = {.pool = "n1",
                        .request = "main",
                        .device = cases[i].device,
                        .unit = "GPU-0",
                        .thread_percentage = cases[i].percentage,
                        .cdi_id = "x",
                        .edits = {.env = cases[i].env, .n_env = 1}};
                const struct dra_claim claim = {
                        .uid = cases[i].uid, .namespace = "n", .name = "n", .results = &result, .n_results = 1};
                struct rig rig;

                rig_init(&rig);
                assert_fails(dra_record_put(rig.record, &claim, &rig.err), &rig.err, ERROR_INVALID, cases[i].text);
                assert_int_equal(dra_record_count(rig.record), 0);
                assert_int_equal(access(rig.path, F_OK), -1);
                rig_done(&rig);
        }
}

static void test_one_claim_more_than_the_limit_is_refused(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *expected = NULL;
        struct rig rig;

        rig_init(&rig);
        strbuf_puts(&text, "{\"version\": 1, \"nodeBootID\": \"" BOOT "\", \"claims\": [");
        for (size_t i = 0; i < DRA_RECORD_CLAIMS_MAX; i++)
                strbuf_printf(&text,
                        "%s{\"uid\": \"u%zu\", \"namespace\": \"n\", \"name\": \"n\", \"state\": \"started\", \"results\": []}",
                        i ? ", " : "", i);
        strbuf_puts(&text, "]}");
        assert_ok(file_write(rig.path, text.data, text.size, &rig.err), &rig.err);
        assert_int_equal(dra_record_refresh(rig.record, &rig.err), 0);
        assert_int_equal(dra_record_count(rig.record), DRA_RECORD_CLAIMS_MAX);
        expected = xasprintf("record '%s': has 1024 claims, which is the limit", rig.path);
        assert_fails(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err, ERROR_EXHAUSTED, expected);
        rig_done(&rig);
}

#define CLAIM(uid)                                                                                                     \
        "{\"uid\": \"" uid "\", \"namespace\": \"n\", \"name\": \"n\", \"state\": \"started\", \"results\": []}"
#define DOCUMENT(claims) "{\"version\": 1, \"nodeBootID\": \"" BOOT "\", \"claims\": " claims "}"

static void test_a_file_that_makes_no_sense_is_moved_aside(void **state UNUSED)
{
        static const struct {
                const char *content;
                const char *text;
        } cases[] = {
                {" ", "no JSON: '[' or '{' expected near end of file"},
                {"[]", "no JSON object"},
                {"{}", "version: must be a number from 1 to 1"},
                {"{\"version\": 2}", "version: 2, must be a number from 1 to 1"},
                {"{\"version\": 1}", "nodeBootID: missing"},
                {DOCUMENT("7"), "claims: must be a list of at most 1024"},
                {DOCUMENT("[7]"), "claims[0]: uid: missing"},
                {DOCUMENT("[" CLAIM("a") ", " CLAIM("a") "]"), "claims[1]: its uid is there twice"},
                {DOCUMENT("[" CLAIM("a/b") "]"), "claims[0]: uid: must be of letters, digits and '-', at most 63"},
                {DOCUMENT(
                         "[{\"uid\": \"a\", \"namespace\": \"n\", \"name\": \"n\", \"state\": \"done\", \"results\": []}]"),
                        "claims[0]: state: is none of the known words, of which 'started' is one"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _free_ char *expected = NULL;
                struct rig rig;

                rig_init(&rig);
                assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
                expected = xasprintf("record '%s' cannot be read and is now '%s': ", rig.path, rig.broken);
                assert_ok(file_write(rig.path, cases[i].content, strlen(cases[i].content), &rig.err), &rig.err);
                assert_int_equal(dra_record_refresh(rig.record, &rig.err), DRA_RECORD_BROKEN);
                assert_memory_equal(rig.err.text, expected, strlen(expected));
                assert_string_equal(rig.err.text + strlen(expected), cases[i].text);
                assert_int_equal(dra_record_count(rig.record), 0);
                assert_int_equal(access(rig.path, F_OK), -1);
                assert_int_equal(access(rig.broken, F_OK), 0);
                assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
                start_again(&rig, BOOT);
                assert_int_equal(dra_record_count(rig.record), 1);
                rig_done(&rig);
        }
}

static void test_an_empty_file_holds_nothing(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        assert_ok(file_write(rig.path, "", 0, &rig.err), &rig.err);
        assert_ok(dra_record_refresh(rig.record, &rig.err), &rig.err);
        assert_int_equal(dra_record_count(rig.record), 0);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        start_again(&rig, BOOT);
        assert_int_equal(dra_record_count(rig.record), 1);
        rig_done(&rig);
}

static void test_a_record_whose_first_line_is_cut_anywhere_is_broken(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        assert_ok(file_read(rig.path, DRA_RECORD_BYTES_MAX, &text, &rig.err), &rig.err);
        for (size_t size = 1; size < text.size - 1; size += 7) {
                assert_ok(file_write(rig.path, text.data, size, &rig.err), &rig.err);
                assert_int_equal(dra_record_refresh(rig.record, &rig.err), DRA_RECORD_BROKEN);
        }
        rig_done(&rig);
}

/* By who was killed while it wrote it: nobody has acted on it. */
static void test_a_change_that_is_cut_anywhere_does_not_count(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct stat first;
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        assert_int_equal(stat(rig.path, &first), 0);
        assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
        assert_ok(file_read(rig.path, DRA_RECORD_BYTES_MAX, &text, &rig.err), &rig.err);
        assert_true(text.size > (size_t)first.st_size);
        for (size_t size = (size_t)first.st_size; size < text.size; size += 7) {
                assert_ok(file_write(rig.path, text.data, size, &rig.err), &rig.err);
                start_again(&rig, BOOT);
                assert_int_equal(dra_record_count(rig.record), 1);
                expect_claim(dra_record_at(rig.record, 0), &claim_a);
                assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
                start_again(&rig, BOOT);
                assert_int_equal(dra_record_count(rig.record), 2);
        }
        rig_done(&rig);
}

static void test_a_change_that_makes_no_sense_is_an_error_with_its_place(void **state UNUSED)
{
        static const struct {
                const char *lines;
                const char *text;
        } cases[] = {
                {"{\"removed\": \"b\"}\n", "change 1: removed: must be the uid of a claim"},
                {"{\"removed\": 7}\n", "change 1: removed: must be the uid of a claim"},
                {CLAIM("b") "\n{}\n", "change 2: uid: missing"},
                {"\n", "change 1: no JSON: '[' or '{' expected near end of file"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _free_ char *text = xasprintf(DOCUMENT("[" CLAIM("a") "]") "\n%s", cases[i].lines);
                struct rig rig;

                rig_init(&rig);
                assert_ok(file_write(rig.path, text, strlen(text), &rig.err), &rig.err);
                assert_int_equal(dra_record_refresh(rig.record, &rig.err), DRA_RECORD_BROKEN);
                assert_non_null(strstr(rig.err.text, cases[i].text));
                assert_int_equal(dra_record_count(rig.record), 0);
                rig_done(&rig);
        }
}

static void test_many_changes_leave_a_file_no_larger_than_what_is_left_of_them_and_some(void **state UNUSED)
{
        struct dra_claim claim = claim_a;
        struct stat status;
        struct rig rig;

        rig_init(&rig);
        for (unsigned int i = 0; i < 2000; i++) {
                claim.state = i % 2 ? DRA_CLAIM_STARTED : DRA_CLAIM_PREPARED;
                assert_ok(dra_record_put(rig.record, &claim, &rig.err), &rig.err);
                assert_int_equal(stat(rig.path, &status), 0);
                assert_true(status.st_size < 160 * 1024);
        }
        start_again(&rig, BOOT);
        assert_int_equal(dra_record_count(rig.record), 1);
        expect_claim(dra_record_at(rig.record, 0), &claim);
        rig_done(&rig);
}

/* As earlier versions read it. */
static void test_at_rest_it_is_one_line(void **state UNUSED)
{
        struct rig rig;

        rig_init(&rig);
        dra_record_settle(rig.record);
        assert_int_equal(access(rig.path, F_OK), -1);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
        assert_ok(dra_record_remove(rig.record, UID_A, &rig.err), &rig.err);
        for (unsigned int round = 0; round < 2; round++) {
                _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
                json_error_t error;
                json_t *root;

                dra_record_settle(rig.record);
                assert_ok(file_read(rig.path, DRA_RECORD_BYTES_MAX, &text, &rig.err), &rig.err);
                root = json_loads(text.data, 0, &error);
                assert_int_equal(json_array_size(json_object_get(root, "claims")), 1);
                json_decref(root);
                /* Also what was left by another process. */
                assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
                start_again(&rig, BOOT);
        }
        rig_done(&rig);
}

/* As on a disk that is full. */
static void test_a_change_that_only_a_part_of_fits_is_not_made(void **state UNUSED)
{
        struct rlimit limit, before;
        struct stat status;
        struct rig rig;

        rig_init(&rig);
        assert_ok(dra_record_put(rig.record, &claim_a, &rig.err), &rig.err);
        assert_int_equal(stat(rig.path, &status), 0);
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = (rlim_t)status.st_size + 10;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(dra_record_put(rig.record, &claim_b, &rig.err), -1);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_null(dra_record_find(rig.record, UID_B));
        start_again(&rig, BOOT);
        assert_int_equal(dra_record_count(rig.record), 1);
        assert_ok(dra_record_put(rig.record, &claim_b, &rig.err), &rig.err);
        start_again(&rig, BOOT);
        assert_int_equal(dra_record_count(rig.record), 2);
        rig_done(&rig);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_recorded_is_there_after_a_restart),
                cmocka_unit_test(test_what_is_made_of_candidates_is_there_after_a_restart),
                cmocka_unit_test(test_a_claim_is_replaced_in_its_place_and_removed),
                cmocka_unit_test(test_after_a_reboot_it_is_empty),
                cmocka_unit_test(test_what_another_instance_wrote_is_seen),
                cmocka_unit_test(test_what_cannot_be_written_is_not_recorded),
                cmocka_unit_test(test_what_could_not_be_read_is_not_written),
                cmocka_unit_test(test_one_claim_more_than_the_limit_is_refused),
                cmocka_unit_test(test_a_file_that_makes_no_sense_is_moved_aside),
                cmocka_unit_test(test_an_empty_file_holds_nothing),
                cmocka_unit_test(test_a_record_whose_first_line_is_cut_anywhere_is_broken),
                cmocka_unit_test(test_a_change_that_is_cut_anywhere_does_not_count),
                cmocka_unit_test(test_a_change_that_makes_no_sense_is_an_error_with_its_place),
                cmocka_unit_test(test_many_changes_leave_a_file_no_larger_than_what_is_left_of_them_and_some),
                cmocka_unit_test(test_at_rest_it_is_one_line),
                cmocka_unit_test(test_a_change_that_only_a_part_of_fits_is_not_made),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
