// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <unistd.h>

#include "base/macro.h"
#include "mps/supervisor/machine.h"
#include "mps/supervisor/daemon.h"

static const char *const events[MPS_N_EVENTS] = {
        [MPS_EVENT_WANTED] = "WANTED",
        [MPS_EVENT_UNWANTED] = "UNWANTED",
        [MPS_EVENT_CHANGED] = "CHANGED",
        [MPS_EVENT_ADOPTED] = "ADOPTED",
        [MPS_EVENT_LEFT] = "LEFT",
        [MPS_EVENT_ANSWERED] = "ANSWERED",
        [MPS_EVENT_CONFIGURED] = "CONFIGURED",
        [MPS_EVENT_REFUSED] = "REFUSED",
        [MPS_EVENT_EXITED] = "EXITED",
        [MPS_EVENT_SILENT] = "SILENT",
        [MPS_EVENT_SERVER_FAULT] = "SERVER_FAULT",
        [MPS_EVENT_SERVER_ACTIVE] = "SERVER_ACTIVE",
        [MPS_EVENT_LOST] = "LOST",
        [MPS_EVENT_EMPTY] = "EMPTY",
        [MPS_EVENT_DRAIN_DEADLINE] = "HURRY",
        [MPS_EVENT_TIMEOUT] = "TIMEOUT",
};

/* One arrow of the machine. What stands in no row of the table below changes nothing. */
struct arrow {
        enum mps_state state;
        enum mps_phase phase;
        bool wanted;
        enum mps_event event;
        enum mps_state next;
        enum mps_phase next_phase;
        enum mps_command command;
        uint64_t timeout_ms;
};

#define PLAIN MPS_PHASE_PLAIN
#define KILLING MPS_PHASE_KILLING
#define QUITTING MPS_PHASE_QUITTING
#define SRV_FAULT MPS_PHASE_SERVER_FAULT
#define SRV_EMPTY MPS_PHASE_SERVER_EMPTY
#define SRV_SHUT MPS_PHASE_SERVER_SHUT
#define START MPS_DO_START, MPS_START_TIMEOUT_MS
#define CONFIGURE MPS_DO_CONFIGURE, MPS_CONFIGURE_TIMEOUT_MS
#define KILL MPS_DO_KILL, MPS_KILL_TIMEOUT_MS
#define QUIT MPS_DO_QUIT, MPS_QUIT_TIMEOUT_MS
#define END MPS_DO_END, MPS_QUIT_TIMEOUT_MS
#define DRAIN MPS_DO_DRAIN, 0
#define GONE MPS_DO_GONE, 0
#define RETRY MPS_DO_NOTHING, MPS_FIRST_RETRY_MS
#define REST MPS_DO_NOTHING, 0
#define SHUT MPS_DO_SHUT_SERVER, MPS_QUIT_TIMEOUT_MS
#define KEEP MPS_DO_NOTHING, MPS_TIMER_KEEP

static const struct arrow arrows[] = {
        {MPS_OFF, PLAIN, false, MPS_EVENT_WANTED, MPS_STARTING, PLAIN, START},
        {MPS_OFF, PLAIN, false, MPS_EVENT_CHANGED, MPS_STARTING, PLAIN, START},
        {MPS_OFF, PLAIN, false, MPS_EVENT_ADOPTED, MPS_CONFIGURING, PLAIN, CONFIGURE},
        {MPS_OFF, PLAIN, false, MPS_EVENT_LEFT, MPS_DRAINING, PLAIN, DRAIN},

        {MPS_STARTING, PLAIN, true, MPS_EVENT_ANSWERED, MPS_CONFIGURING, PLAIN, CONFIGURE},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_ADOPTED, MPS_CONFIGURING, PLAIN, CONFIGURE},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_LEFT, MPS_DRAINING, PLAIN, DRAIN},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_EXITED, MPS_FAULT, PLAIN, RETRY},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_LOST, MPS_FAULT, KILLING, KILL},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_SILENT, MPS_FAULT, KILLING, KILL},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_REFUSED, MPS_FAULT, KILLING, KILL},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_TIMEOUT, MPS_FAULT, KILLING, KILL},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_UNWANTED, MPS_DRAINING, KILLING, KILL},
        {MPS_STARTING, PLAIN, true, MPS_EVENT_CHANGED, MPS_DRAINING, KILLING, KILL},

        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_CONFIGURED, MPS_READY, PLAIN, REST},
        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_EXITED, MPS_FAULT, PLAIN, RETRY},
        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_REFUSED, MPS_FAULT, KILLING, KILL},
        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_SILENT, MPS_FAULT, KILLING, KILL},
        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_LOST, MPS_FAULT, KILLING, KILL},
        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_TIMEOUT, MPS_FAULT, KILLING, KILL},
        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_UNWANTED, MPS_DRAINING, PLAIN, DRAIN},
        {MPS_CONFIGURING, PLAIN, true, MPS_EVENT_CHANGED, MPS_DRAINING, PLAIN, DRAIN},

        {MPS_READY, PLAIN, true, MPS_EVENT_EXITED, MPS_FAULT, PLAIN, RETRY},
        {MPS_READY, PLAIN, true, MPS_EVENT_SILENT, MPS_FAULT, KILLING, KILL},
        {MPS_READY, PLAIN, true, MPS_EVENT_LOST, MPS_FAULT, KILLING, KILL},
        {MPS_READY, PLAIN, true, MPS_EVENT_REFUSED, MPS_CONFIGURING, PLAIN, CONFIGURE},
        {MPS_READY, PLAIN, true, MPS_EVENT_SERVER_FAULT, MPS_FAULT, SRV_FAULT, MPS_DO_NOTHING, MPS_FAULT_PATIENCE_MS},
        {MPS_READY, PLAIN, true, MPS_EVENT_UNWANTED, MPS_DRAINING, PLAIN, DRAIN},
        {MPS_READY, PLAIN, true, MPS_EVENT_CHANGED, MPS_DRAINING, PLAIN, DRAIN},

        {MPS_DRAINING, PLAIN, false, MPS_EVENT_EXITED, MPS_OFF, PLAIN, GONE},
        {MPS_DRAINING, PLAIN, false, MPS_EVENT_EMPTY, MPS_DRAINING, QUITTING, QUIT},
        {MPS_DRAINING, PLAIN, false, MPS_EVENT_DRAIN_DEADLINE, MPS_DRAINING, QUITTING, END},
        {MPS_DRAINING, PLAIN, false, MPS_EVENT_SILENT, MPS_DRAINING, KILLING, KILL},
        {MPS_DRAINING, PLAIN, false, MPS_EVENT_LOST, MPS_DRAINING, KILLING, KILL},
        {MPS_DRAINING, PLAIN, false, MPS_EVENT_TIMEOUT, MPS_DRAINING, KILLING, KILL},
        {MPS_DRAINING, PLAIN, false, MPS_EVENT_WANTED, MPS_CONFIGURING, PLAIN, CONFIGURE},
        {MPS_DRAINING, PLAIN, true, MPS_EVENT_EXITED, MPS_STARTING, PLAIN, START},
        {MPS_DRAINING, PLAIN, true, MPS_EVENT_WANTED, MPS_CONFIGURING, PLAIN, CONFIGURE},
        {MPS_DRAINING, QUITTING, false, MPS_EVENT_EXITED, MPS_OFF, PLAIN, GONE},
        {MPS_DRAINING, QUITTING, false, MPS_EVENT_DRAIN_DEADLINE, MPS_DRAINING, QUITTING, END},
        {MPS_DRAINING, QUITTING, false, MPS_EVENT_SILENT, MPS_DRAINING, KILLING, KILL},
        {MPS_DRAINING, QUITTING, false, MPS_EVENT_LOST, MPS_DRAINING, KILLING, KILL},
        {MPS_DRAINING, QUITTING, false, MPS_EVENT_TIMEOUT, MPS_DRAINING, KILLING, KILL},
        {MPS_DRAINING, QUITTING, true, MPS_EVENT_EXITED, MPS_STARTING, PLAIN, START},
        {MPS_DRAINING, KILLING, false, MPS_EVENT_EXITED, MPS_OFF, PLAIN, GONE},
        {MPS_DRAINING, KILLING, false, MPS_EVENT_TIMEOUT, MPS_DRAINING, KILLING, KILL},
        {MPS_DRAINING, KILLING, true, MPS_EVENT_EXITED, MPS_STARTING, PLAIN, START},

        {MPS_FAULT, PLAIN, true, MPS_EVENT_TIMEOUT, MPS_STARTING, PLAIN, START},
        {MPS_FAULT, PLAIN, true, MPS_EVENT_CHANGED, MPS_STARTING, PLAIN, START},
        {MPS_FAULT, PLAIN, true, MPS_EVENT_UNWANTED, MPS_OFF, PLAIN, GONE},
        {MPS_FAULT, KILLING, true, MPS_EVENT_EXITED, MPS_FAULT, PLAIN, RETRY},
        {MPS_FAULT, KILLING, true, MPS_EVENT_TIMEOUT, MPS_FAULT, KILLING, KILL},
        {MPS_FAULT, KILLING, true, MPS_EVENT_UNWANTED, MPS_DRAINING, KILLING, KEEP},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_SERVER_ACTIVE, MPS_READY, PLAIN, REST},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_EMPTY, MPS_FAULT, SRV_EMPTY, MPS_DO_NOTHING, MPS_FAULT_EMPTY_MS},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_TIMEOUT, MPS_FAULT, SRV_SHUT, SHUT},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_EXITED, MPS_FAULT, PLAIN, RETRY},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_SILENT, MPS_FAULT, KILLING, KILL},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_LOST, MPS_FAULT, KILLING, KILL},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_UNWANTED, MPS_DRAINING, PLAIN, DRAIN},
        {MPS_FAULT, SRV_FAULT, true, MPS_EVENT_CHANGED, MPS_DRAINING, PLAIN, DRAIN},
        {MPS_FAULT, SRV_EMPTY, true, MPS_EVENT_TIMEOUT, MPS_FAULT, SRV_SHUT, SHUT},
        {MPS_FAULT, SRV_EMPTY, true, MPS_EVENT_SERVER_ACTIVE, MPS_READY, PLAIN, REST},
        {MPS_FAULT, SRV_SHUT, true, MPS_EVENT_TIMEOUT, MPS_FAULT, KILLING, KILL},
        {MPS_FAULT, SRV_SHUT, true, MPS_EVENT_SERVER_ACTIVE, MPS_READY, PLAIN, REST},
        {MPS_FAULT, SRV_SHUT, true, MPS_EVENT_EXITED, MPS_FAULT, PLAIN, RETRY},
};

static void assert_arrow(const struct arrow *arrow)
{
        struct mps_machine machine = {.state = arrow->state, .phase = arrow->phase, .wanted = arrow->wanted};
        const struct mps_action action = mps_step(&machine, arrow->event, 1000);

        if (machine.state != arrow->next || machine.phase != arrow->next_phase || action.command != arrow->command ||
                action.timeout_ms != arrow->timeout_ms)
                fail_msg("%s/%d on %s: %s/%d, command %d, timeout %lld; expected %s/%d, %d, %lld",
                        mps_state_name(arrow->state), arrow->phase, events[arrow->event], mps_state_name(machine.state),
                        machine.phase, action.command, (long long)action.timeout_ms, mps_state_name(arrow->next),
                        arrow->next_phase, arrow->command, (long long)arrow->timeout_ms);
}

static void test_every_arrow_is_as_it_is_drawn(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(arrows); i++)
                assert_arrow(&arrows[i]);
}

static bool has_arrow(enum mps_state from, enum mps_phase phase, bool wanted, enum mps_event event)
{
        for (size_t i = 0; i < ARRAY_SIZE(arrows); i++)
                if (arrows[i].state == from && arrows[i].phase == phase && arrows[i].wanted == wanted &&
                        arrows[i].event == event)
                        return true;
        return false;
}

/*
 * The combinations that the table has rows for are all that the machine can be in: the random walk below sees to that.
 */
static void test_what_is_not_drawn_changes_nothing(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(arrows); i++) {
                const struct arrow *arrow = &arrows[i];

                for (enum mps_event event = 0; event < MPS_N_EVENTS; event++)
                        if (arrow->phase < SRV_EMPTY && !has_arrow(arrow->state, arrow->phase, arrow->wanted, event) &&
                                !(arrow->state == MPS_DRAINING && arrow->wanted))
                                assert_arrow(&(struct arrow){arrow->state, arrow->phase, arrow->wanted, event,
                                        arrow->state, arrow->phase, KEEP});
        }
}

static void test_retries_become_rarer_up_to_a_minute(void **state UNUSED)
{
        static const uint64_t delays[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000};
        struct mps_machine machine = {0};

        mps_step(&machine, MPS_EVENT_WANTED, 0);
        for (size_t i = 0; i < ARRAY_SIZE(delays); i++) {
                assert_int_equal(mps_step(&machine, MPS_EVENT_EXITED, 0).timeout_ms, delays[i]);
                assert_int_equal(mps_step(&machine, MPS_EVENT_TIMEOUT, 0).command, MPS_DO_START);
        }
}

static uint64_t retry_after_ready_for(int64_t ms)
{
        struct mps_machine machine = {0};

        mps_step(&machine, MPS_EVENT_WANTED, 0);
        for (int i = 0; i < 3; i++) {
                mps_step(&machine, MPS_EVENT_EXITED, 0);
                mps_step(&machine, MPS_EVENT_TIMEOUT, 0);
        }
        mps_step(&machine, MPS_EVENT_ANSWERED, 0);
        mps_step(&machine, MPS_EVENT_CONFIGURED, 1000);
        return mps_step(&machine, MPS_EVENT_EXITED, 1000 + ms).timeout_ms;
}

static void test_a_minute_of_ready_makes_up_for_earlier_failures(void **state UNUSED)
{
        assert_int_equal(retry_after_ready_for(MPS_STABLE_MS - 1), 8000);
        assert_int_equal(retry_after_ready_for(MPS_STABLE_MS), 1000);
}

/* ---- random walks ---- */

static uint32_t next_random(uint32_t *seed)
{
        *seed = *seed * 1664525 + 1013904223;
        return *seed >> 16;
}

/* The world that the machine acts upon: at most one process, and a timer. */
struct world {
        struct mps_machine machine;
        bool process;
        bool armed;
        unsigned int gone;
};

static void apply(struct world *world, enum mps_event event)
{
        const bool was_alive = mps_machine_is_alive(&world->machine);
        struct mps_action action;

        if (event == MPS_EVENT_TIMEOUT)
                world->armed = false;
        if (event == MPS_EVENT_EXITED || event == MPS_EVENT_ADOPTED || event == MPS_EVENT_LEFT)
                world->process = event != MPS_EVENT_EXITED;
        action = mps_step(&world->machine, event, 0);
        if (action.timeout_ms != MPS_TIMER_KEEP)
                world->armed = action.timeout_ms != 0;
        if (action.command == MPS_DO_START) {
                assert_false(world->process);
                assert_true(!was_alive || event == MPS_EVENT_EXITED);
                world->process = true;
        }
        if (action.command == MPS_DO_GONE) {
                assert_false(world->process);
                world->gone++;
        }
        assert_int_equal(world->process, mps_machine_is_alive(&world->machine));
}

/* May this come now? A process can only do things while it is there, and a timer only ring when armed. */
static bool is_possible(const struct world *world, enum mps_event event)
{
        switch (event) {
        case MPS_EVENT_WANTED:
        case MPS_EVENT_CHANGED:
        case MPS_EVENT_UNWANTED:
        case MPS_EVENT_DRAIN_DEADLINE:
                return true;
        case MPS_EVENT_TIMEOUT:
                return world->armed;
        case MPS_EVENT_ADOPTED:
        case MPS_EVENT_LEFT:
                return world->machine.state == MPS_OFF;
        default:
                return world->process;
        }
}

/* What a machine that wants no harm would see next. */
static enum mps_event kind_event(const struct world *world)
{
        const struct mps_machine *machine = &world->machine;

        if (machine->phase == KILLING || machine->phase == QUITTING)
                return MPS_EVENT_EXITED;
        if (mps_machine_is_server_fault(machine))
                return MPS_EVENT_SERVER_ACTIVE;
        switch (machine->state) {
        case MPS_STARTING:
                return MPS_EVENT_ANSWERED;
        case MPS_CONFIGURING:
                return MPS_EVENT_CONFIGURED;
        case MPS_DRAINING:
                return MPS_EVENT_EMPTY;
        default:
                return MPS_EVENT_TIMEOUT;
        }
}

/* From wherever it is, a kind world brings it to |goal| in a few steps, always with something to wait for. */
static void assert_leads_to(struct world world, enum mps_event wish, enum mps_state goal)
{
        apply(&world, wish);
        for (int step = 0; world.machine.state != goal; step++) {
                const enum mps_event event = kind_event(&world);

                assert_in_range(step, 0, 8);
                assert_true(is_possible(&world, event));
                apply(&world, event);
        }
}

static void test_no_walk_starts_two_processes_or_ends_in_a_corner(void **state UNUSED)
{
        bool seen[MPS_FAULT + 1][SRV_SHUT + 1] = {0};

        for (uint32_t walk = 0; walk < 1000; walk++) {
                uint32_t seed = walk;
                struct world world = {0};

                for (int i = 0; i < 60; i++) {
                        const enum mps_event event = next_random(&seed) % MPS_N_EVENTS;

                        if (!is_possible(&world, event))
                                continue;
                        apply(&world, event);
                        seen[world.machine.state][world.machine.phase] = true;
                        assert_leads_to(world, MPS_EVENT_WANTED, MPS_READY);
                        assert_leads_to(world, MPS_EVENT_CHANGED, MPS_READY);
                        assert_leads_to(world, MPS_EVENT_UNWANTED, MPS_OFF);
                }
        }
        for (size_t i = 0; i < ARRAY_SIZE(arrows); i++)
                assert_true(seen[arrows[i].next][arrows[i].next_phase]);
        for (int from = 0; from <= MPS_FAULT; from++)
                for (int phase = 0; phase <= SRV_SHUT; phase++) {
                        bool drawn = false;

                        for (size_t i = 0; i < ARRAY_SIZE(arrows); i++)
                                drawn |= (int)arrows[i].state == from && (int)arrows[i].phase == phase;
                        assert_int_equal(seen[from][phase], drawn);
                }
}

static void test_all_that_is_looked_at_at_intervals_is_looked_at_in_the_same_round(void **state UNUSED)
{
        uv_loop_t loop;
        const struct mps_supervisor_options options = {.loop = &loop, .poll_ms = 7};
        struct mps_daemon_context context = {.options = &options};

        uv_loop_init(&loop);
        for (int i = 0; i < 10; i++) {
                uint64_t pause = mps_daemon_pause(&context);

                assert_true(pause >= 1 && pause <= 7);
                assert_int_equal((uv_now(&loop) + pause) % 7, 0);
                usleep(1000);
                uv_update_time(&loop);
        }
        uv_loop_close(&loop);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_arrow_is_as_it_is_drawn),
                cmocka_unit_test(test_what_is_not_drawn_changes_nothing),
                cmocka_unit_test(test_retries_become_rarer_up_to_a_minute),
                cmocka_unit_test(test_a_minute_of_ready_makes_up_for_earlier_failures),
                cmocka_unit_test(test_all_that_is_looked_at_at_intervals_is_looked_at_in_the_same_round),
                cmocka_unit_test(test_no_walk_starts_two_processes_or_ends_in_a_corner),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
