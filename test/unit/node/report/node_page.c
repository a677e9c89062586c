// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/strbuf.h"
#include "node/report/node_page.h"

/* Every member of the format. */
static const char whole[] =
        "{\"version\":1,\"node\":\"node-a\",\"agent\":\"0.1.0\",\"time\":1764175683.25,\"driver\":\"570.86.15\","
        "\"configuration\":\"default\",\"gpus\":[{\"uuid\":\"GPU-A\",\"index\":\"0\",\"model\":\"NVIDIA H100\","
        "\"memory\":85899345920,\"memoryUsed\":1,\"utilization\":0.31,\"temperature\":41,\"power\":212.5,\"powerLimit\":700,"
        "\"units\":[{\"uuid\":\"MIG-A\",\"index\":\"0:1\",\"profile\":\"1g.10gb\",\"resource\":\"nvidia.com/gpu.shared\","
        "\"sharing\":\"mps\",\"by\":\"device-plugin\",\"draining\":true,\"replicas\":10,\"granted\":7,\"reserved\":2,\"memory\":5,"
        "\"memoryUsed\":4,\"utilization\":0.2,\"healthy\":false,\"reason\":\"Xid 79\",\"history\":[null,0.2,1],"
        "\"memoryHistory\":[1,2,3],\"shares\":[{\"namespace\":\"team-a\",\"pod\":\"train-0\",\"container\":\"main\","
        "\"claim\":\"gpu\",\"podUid\":\"u1\",\"replicas\":3,\"memoryLimit\":9,\"threadPercent\":30,\"memoryUsed\":8,"
        "\"memoryPeak\":9,\"sm\":0.2,\"memoryController\":0.1,\"idleSince\":1764175000,\"seconds\":1,\"smSeconds\":0.5,\"energy\":1.5,"
        "\"processes\":[{\"pid\":4711,\"name\":\"python3\",\"memoryUsed\":8,\"sm\":0.1}],\"history\":[0.1],"
        "\"memoryHistory\":[8]}],\"others\":[{\"by\":\"host\",\"memoryUsed\":1,\"sm\":0.1,"
        "\"processes\":[{\"pid\":1,\"name\":\"sh\"}]}]}]}],"
        "\"events\":[{\"time\":1,\"kind\":\"Warning\",\"reason\":\"GpuUnhealthy\",\"unit\":\"GPU-A\",\"text\":\"lost\"}]}\n";

static void test_what_was_written_is_read(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *text = NULL;
        const struct report_unit *unit;
        struct node_page page;
        struct error err;

        assert_ok(node_page_read(&page, &arena, whole, strlen(whole), &err), &err);
        text = node_page_write(&page, false);
        assert_string_equal(text, whole);
        unit = &page.gpus[0].units[0];
        assert_true(unit->has_health && !unit->healthy);
        assert_true(isnan(unit->sm_history.values[0]) && unit->sm_history.values[2] == 1);
        assert_true(unit->shares[0].processes[0].pid == 4711);
        assert_true(page.time == 1764175683.25);
}

static void test_what_is_absent_is_unknown(void **state UNUSED)
{
        static const char text[] =
                "{\"version\":7,\"gpus\":[{\"uuid\":\"A\",\"units\":[{\"uuid\":\"A\",\"shares\":[{}]}]}],\"later\":{\"a\":[]}}";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct report_gpu *gpu;
        struct node_page page;
        struct error err;

        assert_ok(node_page_read(&page, &arena, text, strlen(text), &err), &err);
        gpu = &page.gpus[0];
        assert_int_equal(page.version, 7);
        assert_true(isnan(page.time) && isnan(gpu->memory) && isnan(gpu->units[0].replicas));
        assert_false(gpu->units[0].has_health);
        assert_null(gpu->units[0].shares[0].pod);
        assert_true(isnan(gpu->units[0].shares[0].memory_used));
        assert_int_equal(page.n_events, 0);
}

static void test_what_is_unknown_is_left_out(void **state UNUSED)
{
        const struct report_process process = report_process_unknown;
        const struct report_other other = report_other_unknown;
        struct report_share share = report_share_unknown;
        struct report_unit unit = report_unit_unknown;
        struct report_gpu gpu = report_gpu_unknown;
        const struct node_page page = {.version = NODE_PAGE_VERSION, .time = NAN, .gpus = &gpu, .n_gpus = 1};
        _free_ char *text = NULL;

        share.processes = &process;
        share.n_processes = 1;
        unit.uuid = gpu.uuid = "A";
        unit.shares = &share;
        unit.n_shares = 1;
        unit.others = &other;
        unit.n_others = 1;
        gpu.units = &unit;
        gpu.n_units = 1;
        text = node_page_write(&page, false);
        assert_string_equal(text,
                "{\"version\":1,\"gpus\":[{\"uuid\":\"A\",\"units\":[{\"uuid\":\"A\",\"shares\":[{\"processes\":[{}]}],"
                "\"others\":[{}]}]}],\"events\":[]}\n");
}

static void test_granted_is_at_least_what_the_shares_add_up_to(void **state UNUSED)
{
        struct report_share shares[] = {report_share_unknown, report_share_unknown, report_share_unknown};
        struct report_unit unit = report_unit_unknown;

        unit.shares = shares;
        unit.n_shares = ARRAY_SIZE(shares);
        assert_true(isnan(report_unit_granted(&unit)));
        shares[0].replicas = 3;
        shares[2].replicas = 4;
        assert_true(report_unit_granted(&unit) == 7);
        unit.granted = 5;
        assert_true(report_unit_granted(&unit) == 7);
        unit.granted = 9;
        assert_true(report_unit_granted(&unit) == 9);
}

/*
 * Names come from pods and processes: what they are made of must not reach a terminal, nor keep the page from being
 * read.
 */
static void test_any_text_can_be_written_and_read(void **state UNUSED)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _free_ char *text = NULL;
        _free_ char *again = NULL;
        char name[3 * REPORT_TEXT_MAX];
        struct node_page page = {.version = 1, .time = NAN, .node = name};
        struct error err;

        memset(name, 'x', sizeof(name));
        memcpy(name, "\x1b[2J\xff\xc2\x9b", 7); /* the last two bytes are one character */
        name[sizeof(name) - 1] = '\0';
        text = node_page_write(&page, true);
        assert_ok(node_page_read(&page, &arena, text, strlen(text), &err), &err);
        assert_memory_equal(page.node, "?[2J??x", 7);
        assert_in_range(strlen(page.node), 1, REPORT_TEXT_MAX);
        again = node_page_write(&page, true);
        assert_string_equal(again, text);
}

static char *many(const char *before, const char *item, size_t count, const char *after)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, before);
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "%s%s", i ? "," : "", item);
        strbuf_puts(&text, after);
        return strbuf_take(&text);
}

static void test_what_is_wrong_is_named(void **state UNUSED)
{
#define UNIT(members) "{\"version\":1,\"gpus\":[{\"uuid\":\"A\",\"units\":[{\"uuid\":\"A\"," members "}]}]}"
        static const struct {
                const char *text;
                const char *error;
        } wrong[] = {
                {"", "no JSON: '[' or '{' expected near end of file"},
                {"[]", "no JSON object"},
                {"{\"version\":1,\"version\":1}", "no JSON: duplicate object key near '\"version\"'"},
                {"{\"gpus\":[]}", "version: must be a number from 1 to 65535"},
                {"{\"version\":\"1\",\"gpus\":[]}", "version: must be a number from 1 to 65535"},
                {"{\"version\":1}", "gpus: missing"},
                {"{\"version\":1,\"gpus\":{}}", "gpus: must be a list of 0 to 256"},
                {"{\"version\":1,\"gpus\":[5]}", "gpus[0]: uuid: missing"},
                {"{\"version\":1,\"time\":true,\"gpus\":[]}", "time: must be a number from 0 to 9007199254740992"},
                {UNIT("\"healthy\":\"no\""), "gpus[0]: units[0]: healthy: must be true or false"},
                {UNIT("\"memory\":-1"), "gpus[0]: units[0]: memory: must be a number from 0 to 9007199254740992"},
                {UNIT("\"history\":[0,\"x\"]"),
                        "gpus[0]: units[0]: history[1]: must be a number from 0 to 9007199254740992"},
                {UNIT("\"shares\":[{\"pod\":7}]"),
                        "gpus[0]: units[0]: shares[0]: pod: must be text of at most 1024 bytes"},
        };
        _free_ char *long_history =
                many("{\"version\":1,\"gpus\":[{\"uuid\":\"A\",\"units\":[{\"uuid\":\"A\",\"history\":[", "1",
                        REPORT_HISTORY_MAX + 1, "]}]}]}");
        _free_ char *many_gpus = many("{\"version\":1,\"gpus\":[", "{\"uuid\":\"A\"}", REPORT_GPUS_MAX + 1, "]}");
        _free_ char *deep = many("", "[", 5000, "");
        _free_ char *huge = many("", "0123456789", NODE_PAGE_MAX / 11 + 1, "");
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_page page;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                _free_ char *expected = xasprintf("the page of a node: %s", wrong[i].error);

                assert_fails(node_page_read(&page, &arena, wrong[i].text, strlen(wrong[i].text), &err), &err,
                        ERROR_INVALID, expected);
        }
        assert_fails(node_page_read(&page, &arena, long_history, strlen(long_history), &err), &err, ERROR_INVALID,
                "the page of a node: gpus[0]: units[0]: history: must be a list of 0 to 60");
        assert_fails(node_page_read(&page, &arena, many_gpus, strlen(many_gpus), &err), &err, ERROR_INVALID,
                "the page of a node: gpus: must be a list of 0 to 256");
        assert_int_equal(node_page_read(&page, &arena, deep, strlen(deep), &err), -1);
        assert_fails(node_page_read(&page, &arena, huge, NODE_PAGE_MAX + 1, &err), &err, ERROR_INVALID,
                "the page of a node: 4194305 bytes, must be at most 4194304");
}

/* An end of the connection in the middle is no page. */
/* The agent cleans what it writes; an older one, or who pretends to be one, may not. */
static void test_what_is_not_seen_is_cleaned_when_it_is_read(void **state UNUSED)
{
        static const char text[] =
                "{\"version\":1,\"node\":\"\\u001b[2J\",\"driver\":\"\\u009b2J\\n\",\"gpus\":[{\"uuid\":"
                "\"A\",\"model\":\"\\u202eH100\\u200b\"}]}";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_page page;
        struct error err;

        assert_ok(node_page_read(&page, &arena, text, strlen(text), &err), &err);
        assert_string_equal(page.node, "?[2J");
        assert_string_equal(page.driver, "?2J ");
        assert_string_equal(page.gpus[0].model, "?H100?");
}

static void test_a_page_that_is_cut_is_refused(void **state UNUSED)
{
        for (size_t size = 0; size < strlen(whole) - 1; size++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct node_page page;
                struct error err;

                assert_int_equal(node_page_read(&page, &arena, whole, size, &err), -1);
                assert_int_equal(err.kind, ERROR_INVALID);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_was_written_is_read),
                cmocka_unit_test(test_what_is_absent_is_unknown),
                cmocka_unit_test(test_what_is_unknown_is_left_out),
                cmocka_unit_test(test_granted_is_at_least_what_the_shares_add_up_to),
                cmocka_unit_test(test_any_text_can_be_written_and_read),
                cmocka_unit_test(test_what_is_wrong_is_named),
                cmocka_unit_test(test_what_is_not_seen_is_cleaned_when_it_is_read),
                cmocka_unit_test(test_a_page_that_is_cut_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
