// SPDX-License-Identifier: Apache-2.0
#include "fake_node.h"

#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "node/dra/claim_cdi.h"

#define POOL "n1"
#define GIB (UINT64_C(1) << 30)

static const struct dra_capacity capacities[] = {{.name = "memory", .value = 79 * GIB, .has_policy = true},
        {.name = "threadPercentage", .value = 100, .has_policy = true}};
static const struct mig_instance_profile small = {.name = "1g.10gb", .id = 19};
static const struct dra_device devices[] = {
        {.name = "gpu-0-shared",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "GPU-0",
                .allows_multiple = true,
                .capacities = capacities,
                .n_capacities = 2},
        {.name = "gpu-1-shared",
                .kind = DRA_DEVICE_SHARED,
                .uuid = "GPU-1",
                .allows_multiple = true,
                .capacities = capacities,
                .n_capacities = 2},
        {.name = "gpu-0", .kind = DRA_DEVICE_WHOLE, .uuid = "GPU-0"},
        {.name = "gpu-0-at-4", .kind = DRA_DEVICE_MIG_CANDIDATE, .uuid = "GPU-0", .profile = &small, .start = 4},
        {.name = "gpu-0-at-5", .kind = DRA_DEVICE_MIG_CANDIDATE, .uuid = "GPU-0", .profile = &small, .start = 5},
};
static const struct dra_layout layout = {.devices = devices, .n_devices = ARRAY_SIZE(devices)};

const char *fake_uid(size_t i)
{
        static const char *const uids[] = {"c0000000-0000-4000-8000-000000000000",
                "c0000000-0000-4000-8000-000000000001", "c0000000-0000-4000-8000-000000000002",
                "c0000000-0000-4000-8000-000000000003", "c0000000-0000-4000-8000-000000000004",
                "c0000000-0000-4000-8000-000000000005", "c0000000-0000-4000-8000-000000000006",
                "c0000000-0000-4000-8000-000000000007"};

        assert_in_range(i, 0, ARRAY_SIZE(uids) - 1);
        return uids[i];
}

struct dra_claim fake_claim(size_t i)
{
        return (struct dra_claim){.namespace = "team", .uid = fake_uid(i), .name = "train"};
}

/* Here the process may end. */
static void step(struct fake_node *node)
{
        if (node->steps_left >= 0 && node->steps_left-- == 0)
                _exit(FAKE_KILLED);
}

/* ---- the ledger ---- */

static unsigned int number_in(const char *path, const char *before)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const char *found;
        struct error err;

        if (file_read(path, 65536, &text, &err) < 0)
                return 0;
        found = strstr(text.data, before);
        assert_non_null(found);
        return (unsigned int)strtoul(found + strlen(before), NULL, 10);
}

static void held_path(const struct fake_node *node, const char *uid, char path[256])
{
        snprintf(path, 256, "%s/%s", node->held, uid);
}

static unsigned int held_number(const struct fake_node *node, const char *uid)
{
        char path[256];

        held_path(node, uid, path);
        return number_in(path, "NUMBER=");
}

static void hold(const struct fake_node *node, const char *uid)
{
        char path[256], last[256], text[32];
        struct error err;

        snprintf(last, sizeof(last), "%s/last", node->held);
        snprintf(text, sizeof(text), "NUMBER=%u", number_in(last, "NUMBER=") + 1);
        held_path(node, uid, path);
        assert_ok(file_write(last, text, strlen(text), &err), &err);
        assert_ok(file_write(path, text, strlen(text), &err), &err);
}

void fake_change(struct fake_node *node, size_t i)
{
        const struct fake_asked *asked = &node->asked[i];
        char path[256];

        step(node);
        if (asked->kind == FAKE_ALLOCATE)
                hold(node, asked->uid);
        held_path(node, asked->uid, path);
        if (asked->kind == FAKE_RELEASE)
                unlink(path);
        step(node);
}

/* ---- answers ---- */

static json_t *object_of(const struct fake_node *node, const char *uid)
{
        _free_ char *words = strdup(node->devices);
        json_t *results = json_array();
        char *rest = words;
        size_t n = 0;

        for (char *word; (word = strsep(&rest, " ")); n++) {
                json_t *result = json_pack("{s:s, s:s, s:s, s:s}", "driver", FAKE_DRIVER, "pool", POOL, "device", word,
                        "request", n == 0 ? "main" : "other/sub");

                if (strstr(word, "-shared")) {
                        json_object_set_new(result, "shareID", json_sprintf("5%07zu%s", n, uid + 8));
                        json_object_set_new(result, "consumedCapacity",
                                json_pack("{s:s, s:s}", "memory", "10Gi", "threadPercentage", "30"));
                }
                json_array_append_new(results, result);
        }
        return json_pack("{s:{s:s}, s:{s:{s:{s:o}}}}", "metadata", "uid", uid, "status", "allocation", "devices",
                "results", results);
}

static struct fake_asked take(struct fake_node *node, size_t i)
{
        struct fake_asked asked;

        assert_in_range(i + 1, 1, node->n_asked);
        asked = node->asked[i];
        node->n_asked--;
        memmove(&node->asked[i], &node->asked[i + 1], (node->n_asked - i) * sizeof(asked));
        return asked;
}

static void fill_results(const struct fake_node *node, const struct fake_asked *asked)
{
        static const struct dra_edit_node dev = {"/dev/nvidia0", "/dev/nvidia0", 0666, 0};
        const char **env = ARENA_ARRAY(asked->arena, const char *, 1);

        env[0] = arena_printf(asked->arena, "NUMBER=%u", held_number(node, asked->uid));
        for (size_t i = 0; i < asked->claim->n_results; i++) {
                struct dra_result *result = &asked->claim->results[i];

                result->tier = "verified";
                result->daemon = "GPU-0";
                result->edits = (struct dra_edits){.env = env, .n_env = 1, .nodes = &dev, .n_nodes = 1};
        }
}

static void answer_reading(const struct fake_node *node, const struct fake_asked *asked)
{
        static const struct dra_wanted_rules rules = {.layout = &layout};
        json_t *object = object_of(node, asked->uid);
        struct error err;

        if (dra_claim_read(asked->claim, asked->arena, object, FAKE_DRIVER, POOL, &err) < 0) {
                asked->done(&err, asked->data);
        } else if (dra_wanted_read(asked->claim, &rules, &err) < 0) {
                error_raise_prefix(&err, "ResourceClaim team/train");
                asked->done(&err, asked->data);
        } else {
                asked->done(NULL, asked->data);
        }
        json_decref(object);
}

void fake_answer(struct fake_node *node, size_t i)
{
        struct fake_asked asked;

        fake_change(node, i);
        asked = take(node, i);
        if (asked.kind == FAKE_READ) {
                answer_reading(node, &asked);
                return;
        }
        if (asked.kind == FAKE_ALLOCATE)
                fill_results(node, &asked);
        asked.done(NULL, asked.data);
}

void fake_refuse(struct fake_node *node, size_t i, const struct error *err)
{
        struct fake_asked asked = take(node, i);

        asked.done(err, asked.data);
}

static struct fake_asked *ask(
        struct fake_node *node, enum fake_kind kind, const char *uid, dra_allocator_done_fn *done, void *data)
{
        struct fake_asked *asked = &node->asked[node->n_asked++];

        assert_in_range(node->n_asked, 1, FAKE_ASKED_MAX);
        *asked = (struct fake_asked){.kind = kind, .done = done, .data = data};
        snprintf(asked->uid, sizeof(asked->uid), "%s", uid);
        return asked;
}

static void asked_for(struct fake_node *node)
{
        if (node->answers_at_once)
                fake_answer(node, node->n_asked - 1);
}

/* ---- the steps ---- */

/* What fake_start() has given as all of them. */
static struct fake_node *fake_of(const void *steps)
{
        return (struct fake_node *)(uintptr_t)steps;
}

void dra_reading_begin(struct dra_readings *readings, struct dra_claim *claim, struct arena *arena,
        dra_reading_done_fn *done, void *data)
{
        struct fake_node *node = fake_of(readings);
        struct fake_asked *asked = ask(node, FAKE_READ, claim->uid, done, data);

        assert_string_equal(claim->namespace, "team");
        assert_string_equal(claim->name, "train");
        asked->claim = claim;
        asked->arena = arena;
        node->n_reads++;
        asked_for(node);
}

void dra_reading_abandon(struct dra_readings *readings, const void *data)
{
        struct fake_node *node = fake_of(readings);
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "abandoned");
        for (size_t i = 0; i < node->n_asked; i++)
                if (node->asked[i].kind == FAKE_READ && node->asked[i].data == data) {
                        fake_refuse(node, i, &err);
                        return;
                }
        fail_msg("what is not being read was abandoned");
}

void dra_allocate(struct dra_allocator *allocator, struct dra_claim *claim, struct arena *arena,
        dra_allocator_done_fn *done, void *data)
{
        struct fake_node *node = fake_of(allocator);
        struct fake_asked *asked = ask(node, FAKE_ALLOCATE, claim->uid, done, data);
        struct error err;

        for (size_t i = 0; i < claim->n_results; i++)
                assert_non_null(claim->results[i].offered);
        asked->claim = claim;
        asked->arena = arena;
        if (node->refuses_allocations) {
                error_raise(&err, ERROR_EXHAUSTED, "no memory left");
                fake_change(node, node->n_asked - 1); /* half of it may be made */
                fake_refuse(node, node->n_asked - 1, &err);
                return;
        }
        asked_for(node);
}

void dra_release(struct dra_allocator *allocator, const char *uid, struct arena *arena UNUSED,
        dra_allocator_done_fn *done, void *data)
{
        struct fake_node *node = fake_of(allocator);

        ask(node, FAKE_RELEASE, uid, done, data);
        asked_for(node);
}

int dra_allocator_write_cdi(const struct dra_allocator *allocator, const struct dra_claim *claim, struct error *err)
{
        struct fake_node *node = fake_of(allocator);
        int result;

        if (node->fails_writes)
                return error_set(err, ERROR_UNAVAILABLE, "no room for CDI files");
        step(node);
        result = dra_claim_cdi_write(NULL, node->cdi, FAKE_DRIVER, claim, err);
        step(node);
        return result;
}

int dra_allocator_remove_cdi(const struct dra_allocator *allocator, const char *uid, struct error *err)
{
        struct fake_node *node = fake_of(allocator);
        int result;

        if (node->fails_removals)
                return error_set(err, ERROR_UNAVAILABLE, "CDI files cannot be removed");
        step(node);
        result = dra_claim_cdi_remove(NULL, node->cdi, FAKE_DRIVER, uid, err);
        step(node);
        return result;
}

void dra_status_send(struct dra_status_sender *sender, const struct dra_claim *claim, bool is_prepared)
{
        assert_string_equal(claim->name, "train");
        if (is_prepared)
                assert_int_equal(claim->state, DRA_CLAIM_PREPARED);
        ++*(is_prepared ? &fake_of(sender)->n_prepared : &fake_of(sender)->n_unprepared);
}

/* ---- the process ---- */

void fake_start(struct fake_node *node, const char *boot_id)
{
        node->record = dra_record_new(node->record_path, boot_id);
        node->real = (struct dra_node){.record = node->record, .driver = FAKE_DRIVER};
        node->prepare = dra_prepare_new(&node->real, (struct dra_readings *)node, (struct dra_allocator *)node,
                (struct dra_status_sender *)node);
}

void fake_stop(struct fake_node *node)
{
        node->prepare = dra_prepare_free(node->prepare);
        node->record = dra_record_free(node->record);
        node->n_asked = 0;
}

void fake_init(struct fake_node *node)
{
        *node = (struct fake_node){.devices = "gpu-0-shared", .steps_left = -1};
        strcpy(node->folder, "/dev/shm/dra-prepare-XXXXXX");
        assert_non_null(mkdtemp(node->folder));
        snprintf(node->record_path, sizeof(node->record_path), "%s/prepared.json", node->folder);
        snprintf(node->cdi, sizeof(node->cdi), "%s/cdi", node->folder);
        snprintf(node->held, sizeof(node->held), "%s/held", node->folder);
        assert_int_equal(mkdir(node->cdi, 0755), 0);
        assert_int_equal(mkdir(node->held, 0755), 0);
}

void fake_clear_held(struct fake_node *node)
{
        char path[256];

        for (size_t i = 0; i < 8; i++) {
                held_path(node, fake_uid(i), path);
                unlink(path);
        }
}

void fake_clear_cdi(struct fake_node *node)
{
        char path[256];

        for (size_t i = 0; i < 8; i++) {
                fake_path_of_cdi(node, i, path);
                unlink(path);
        }
}

void fake_done(struct fake_node *node)
{
        char path[256];

        fake_stop(node);
        fake_clear_held(node);
        fake_clear_cdi(node);
        held_path(node, "last", path);
        unlink(path);
        unlink(node->record_path);
        snprintf(path, sizeof(path), "%s.broken", node->record_path);
        unlink(path);
        assert_int_equal(rmdir(node->cdi), 0);
        assert_int_equal(rmdir(node->held), 0);
        assert_int_equal(rmdir(node->folder), 0);
}

/* ---- what there is ---- */

void fake_path_of_cdi(const struct fake_node *node, size_t i, char path[256])
{
        snprintf(path, 256, "%s/" FAKE_DRIVER "-claim_%s.json", node->cdi, fake_uid(i));
}

unsigned int fake_held_number(const struct fake_node *node, size_t i)
{
        return held_number(node, fake_uid(i));
}

unsigned int fake_cdi_number(const struct fake_node *node, size_t i)
{
        char path[256];

        fake_path_of_cdi(node, i, path);
        return number_in(path, "NUMBER=");
}

unsigned int fake_mask_held(const struct fake_node *node)
{
        unsigned int mask = 0;

        for (size_t i = 0; i < 8; i++)
                if (fake_held_number(node, i))
                        mask |= 1U << i;
        return mask;
}

unsigned int fake_mask_cdi(const struct fake_node *node)
{
        unsigned int mask = 0;

        for (size_t i = 0; i < 8; i++)
                if (fake_cdi_number(node, i))
                        mask |= 1U << i;
        return mask;
}

unsigned int fake_mask_record(const struct fake_node *node, enum dra_claim_state state)
{
        unsigned int mask = 0;

        for (size_t i = 0; i < 8; i++) {
                const struct dra_claim *claim = dra_record_find(node->record, fake_uid(i));

                if (claim && claim->state == state)
                        mask |= 1U << i;
        }
        return mask;
}
