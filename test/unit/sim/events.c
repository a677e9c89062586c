// SPDX-License-Identifier: Apache-2.0
#include "sim.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"

#define XID NVML_EVENT_TYPE_XID_CRITICAL_ERROR

static const char two_gpus[] = "gpus: [{model: V100-32GB}, {model: A100-40GB}]\nevents:\n- {gpu: 0, xid: 13}\n";

static nvmlEventSet_t new_set(struct sim *sim, unsigned int gpus)
{
        nvmlEventSet_t set = NULL;

        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetCreate(&set));
        for (unsigned int i = 0; i < gpus; i++)
                assert_nvml(NVML_SUCCESS, sim->nvmlDeviceRegisterEvents(sim_gpu(sim, i), XID, set));
        return set;
}

static void test_an_event_is_not_reported_twice(void **state)
{
        struct sim *sim = *state;
        nvmlEventData_t event;

        sim_start(sim, two_gpus);
        assert_nvml(NVML_ERROR_TIMEOUT, sim->nvmlEventSetWait_v2(new_set(sim, 2), &event, 1));
}

static void test_an_appended_xid_comes_once_to_every_set(void **state)
{
        struct sim *sim = *state;
        nvmlEventData_v1_t old;
        nvmlEventData_t event;
        nvmlEventSet_t first;
        nvmlEventSet_t second;

        sim_start(sim, two_gpus);
        first = new_set(sim, 2);
        second = new_set(sim, 2);
        sim_append(sim, "- {gpu: 1, xid: 94, gi: 3, ci: 0}\n- {gpu: 0, xid: 79}\n");
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetWait_v2(first, &event, 0));
        assert_ptr_equal(event.device, sim_gpu(sim, 1));
        assert_int_equal(event.eventType, XID);
        assert_int_equal(event.eventData, 94);
        assert_int_equal(event.gpuInstanceId, 3);
        assert_int_equal(event.computeInstanceId, 0);
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetWait_v2(first, &event, 0));
        assert_int_equal(event.eventData, 79);
        assert_int_equal(event.gpuInstanceId, NVML_NO_INSTANCE);
        assert_nvml(NVML_ERROR_TIMEOUT, sim->nvmlEventSetWait_v2(first, &event, 1));
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetWait(second, &old, 0));
        assert_int_equal(old.eventData, 94);
}

static void test_only_what_is_registered_comes(void **state)
{
        struct sim *sim = *state;
        unsigned long long types;
        nvmlEventData_t event;
        nvmlEventSet_t set;

        sim_start(sim, two_gpus);
        set = new_set(sim, 1);
        sim_append(sim, "- {gpu: 1, xid: 48}\n- {gpu: 0, type: dbe}\n");
        assert_nvml(NVML_ERROR_TIMEOUT, sim->nvmlEventSetWait_v2(set, &event, 1));
        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetSupportedEventTypes(sim_gpu(sim, 0), &types));
        assert_int_equal(types & NVML_EVENT_TYPE_MIG_CONFIG_CHANGE, 0);
        assert_nvml(NVML_ERROR_NOT_SUPPORTED,
                sim->nvmlDeviceRegisterEvents(sim_gpu(sim, 0), NVML_EVENT_TYPE_MIG_CONFIG_CHANGE, set));
}

static void test_a_list_that_was_emptied_and_written_again_is_sent_again(void **state)
{
        struct sim *sim = *state;
        nvmlEventData_t event;
        nvmlEventSet_t set;

        sim_start(sim, two_gpus);
        set = new_set(sim, 2);
        sim_write(sim, "gpus: [{model: V100-32GB}, {model: A100-40GB}]\nevents: []\n");
        assert_nvml(NVML_ERROR_TIMEOUT, sim->nvmlEventSetWait_v2(set, &event, 0));
        sim_write(sim, two_gpus);
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetWait_v2(set, &event, 0));
        assert_int_equal(event.eventData, 13);
}

static void test_a_wait_ends_after_the_longest_that_the_scenario_has(void **state)
{
        struct sim *sim = *state;
        nvmlEventData_t event;

        sim_start(sim, "longestWait: 5ms\ngpus: [{model: T4}]\n");
        assert_nvml(NVML_ERROR_TIMEOUT, sim->nvmlEventSetWait_v2(new_set(sim, 1), &event, UINT_MAX));
}

static int64_t now_us(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

struct waiter {
        struct sim *sim;
        nvmlEventSet_t set;
        pthread_t thread;
        nvmlReturn_t result;
        nvmlEventData_t event;
        int64_t woken_us;
};

static void *wait_ten_seconds(void *data)
{
        struct waiter *waiter = data;

        waiter->result = waiter->sim->nvmlEventSetWait_v2(waiter->set, &waiter->event, 10000);
        waiter->woken_us = now_us();
        return NULL;
}

static void waiter_start(struct waiter *waiter, struct sim *sim)
{
        *waiter = (struct waiter){.sim = sim, .set = new_set(sim, 2)};
        assert_int_equal(pthread_create(&waiter->thread, NULL, wait_ten_seconds, waiter), 0);
        usleep(50000); /* so that it sleeps; if it does not yet, the test is only weaker */
}

typedef void wake_fn(struct sim *sim, nvmlEventSet_t set);

/*
 * The thread polls once a second as well: far less than that proves that it was woken. A machine that stood still for a
 * moment may try again.
 */
static void assert_wakes_at_once(struct sim *sim, wake_fn *wake, nvmlReturn_t result, uint64_t xid)
{
        int64_t took_us = 0;

        for (unsigned int i = 0; i < 5; i++) {
                struct waiter waiter;
                int64_t told_us;

                sim_start(sim, two_gpus);
                waiter_start(&waiter, sim);
                told_us = now_us();
                wake(sim, waiter.set);
                pthread_join(waiter.thread, NULL);
                took_us = waiter.woken_us - told_us;
                assert_nvml(result, waiter.result);
                assert_int_equal(waiter.event.eventData, xid);
                if (took_us < 400000)
                        return;
        }
        fail_msg("woken after %lld us", (long long)took_us);
}

static void edit(struct sim *sim, nvmlEventSet_t set UNUSED)
{
        sim_append(sim, "- {gpu: 0, xid: 79}\n");
}

static void test_a_blocked_wait_wakes_for_an_edit(void **state)
{
        assert_wakes_at_once(*state, edit, NVML_SUCCESS, 79);
}

static void replace(struct sim *sim, nvmlEventSet_t set UNUSED)
{
        _free_ char *longer = xasprintf("%s- {gpu: 1, xid: 31}\n", two_gpus);

        sim_write(sim, longer);
}

static void test_a_blocked_wait_wakes_for_a_replaced_file(void **state)
{
        assert_wakes_at_once(*state, replace, NVML_SUCCESS, 31);
}

static void free_set(struct sim *sim, nvmlEventSet_t set)
{
        assert_nvml(NVML_SUCCESS, sim->nvmlEventSetFree(set));
}

static void test_freeing_a_set_ends_the_wait_on_it(void **state)
{
        assert_wakes_at_once(*state, free_set, NVML_ERROR_UNINITIALIZED, 0);
}

static void test_shutdown_ends_every_wait(void **state)
{
        struct sim *sim = *state;
        struct waiter waiter;

        sim_start(sim, two_gpus);
        waiter_start(&waiter, sim);
        assert_nvml(NVML_SUCCESS, sim->nvmlShutdown());
        pthread_join(waiter.thread, NULL);
        assert_nvml(NVML_ERROR_UNINITIALIZED, waiter.result);
}

/* For the thread sanitizer: calls, waits and edits at the same time. */
static void *ask_and_ask(void *data)
{
        struct sim *sim = data;
        char text[96];

        for (unsigned int i = 0; i < 300; i++) {
                nvmlDevice_t gpu;

                if (sim->nvmlDeviceGetHandleByIndex_v2(i % 2, &gpu) == NVML_SUCCESS)
                        sim->nvmlDeviceGetUUID(gpu, text, sizeof(text));
        }
        return NULL;
}

static void test_threads_may_ask_wait_and_edit_at_once(void **state)
{
        struct sim *sim = *state;
        struct waiter waiter;
        pthread_t threads[4];

        sim_start(sim, two_gpus);
        waiter_start(&waiter, sim);
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, ask_and_ask, sim), 0);
        for (unsigned int i = 0; i < 20; i++) {
                sim_write(sim, i % 2 ? two_gpus : "gpus: [{model: V100-32GB}]\n");
                usleep(1000);
        }
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
                pthread_join(threads[i], NULL);
        sim->nvmlEventSetFree(waiter.set);
        pthread_join(waiter.thread, NULL);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                SIM_TEST(test_an_event_is_not_reported_twice),
                SIM_TEST(test_an_appended_xid_comes_once_to_every_set),
                SIM_TEST(test_only_what_is_registered_comes),
                SIM_TEST(test_a_list_that_was_emptied_and_written_again_is_sent_again),
                SIM_TEST(test_a_wait_ends_after_the_longest_that_the_scenario_has),
                SIM_TEST(test_a_blocked_wait_wakes_for_an_edit),
                SIM_TEST(test_a_blocked_wait_wakes_for_a_replaced_file),
                SIM_TEST(test_freeing_a_set_ends_the_wait_on_it),
                SIM_TEST(test_shutdown_ends_every_wait),
                SIM_TEST(test_threads_may_ask_wait_and_edit_at_once),
        };

        return cmocka_run_group_tests_name("sim/events", tests, sim_setup, sim_teardown);
}
