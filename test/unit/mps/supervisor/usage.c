#include "unit.h"

#include "base/macro.h"
#include "mps/supervisor/usage.h"

static void test_memory_that_was_read_too_long_ago_is_not_known(void **state UNUSED)
{
        const struct mps_usage_process process = {.pid = 7, .memory = 4711};
        const struct mps_usage usage = {.asked_at = 1000, .processes = &process, .n_processes = 1};

        assert_int_equal(mps_usage_of(&usage, 1000 + MPS_USAGE_FRESH_MS, 7), 4711);
        assert_int_equal(mps_usage_of(&usage, 1000 + MPS_USAGE_FRESH_MS, 8), UINT64_MAX);
        assert_int_equal(mps_usage_of(&usage, 1001 + MPS_USAGE_FRESH_MS, 7), UINT64_MAX);
        assert_int_equal(mps_usage_of(NULL, 1000, 7), UINT64_MAX);
}

static void test_figures_are_the_same_whenever_they_were_read(void **state UNUSED)
{
        const struct mps_usage_process processes[] = {{.pid = 7, .memory = 4711}, {.pid = 8, .memory = UINT64_MAX}};
        const struct mps_usage_process others[] = {{.pid = 7, .memory = 4711}, {.pid = 8, .memory = 1}};
        const struct mps_usage usage = {.asked_at = 1000, .processes = processes, .n_processes = 2};
        struct mps_usage later = usage;

        later.asked_at = 3000;
        assert_true(mps_usage_is_same(&usage, &later));
        later.processes = others;
        assert_false(mps_usage_is_same(&usage, &later));
        later = usage;
        later.n_processes = 1;
        assert_false(mps_usage_is_same(&usage, &later));
        later = usage;
        later.lost = "it has fallen off the bus";
        assert_false(mps_usage_is_same(&usage, &later));
        assert_false(mps_usage_is_same(&usage, &(struct mps_usage){.asked_at = 3000}));
}

/* As a process answers. */
static void test_figures_survive_the_way_between_two_processes(void **state UNUSED)
{
        struct mps_usage_process processes[2] = {{.pid = 7, .memory = 4711}, {.pid = 8, .memory = UINT64_MAX}};
        struct mps_usage usage = {.lost = "it has fallen off the bus", .processes = processes, .n_processes = 2};
        struct mps_usage read = {.arena = ARENA_INIT};
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        struct pack pack = pack_writer(&bytes);

        mps_usage_pack(&pack, &usage);
        pack = pack_reader(bytes.data, bytes.size, &read.arena);
        mps_usage_pack(&pack, &read);
        assert_true(pack_end(&pack));
        assert_true(mps_usage_is_same(&usage, &read));
        arena_done(&read.arena);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_figures_survive_the_way_between_two_processes),
                cmocka_unit_test(test_figures_are_the_same_whenever_they_were_read),
                cmocka_unit_test(test_memory_that_was_read_too_long_ago_is_not_known),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
