// SPDX-License-Identifier: Apache-2.0
/*
 * Shares that containers declare: what a container gets when it starts, by its pod's object, and what is known of it
 * from then on. How an object is read is tested with plan/declared.h.
 */
#include "rig.h"

#include <unistd.h>

#include "fake_events.h"

#define READ_MS 4000   /* node/ledger/declared.c, as the next two */
#define FRESH_MS 5000  /* what was read for one resource counts for the container's others */
#define AGAIN_MS 60000 /* until a pod is read again that could not be */

#define MIB ((uint64_t)1024 * 1024)
#define THREADS(value) "{'name': 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE', 'value': '" value "'}"
#define MEMORY(value) "{'name': 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT', 'value': '" value "'}"

static void lose_record(void)
{
        kubelet.writes_record = false;
        unlink(rig.record);
}

static void assert_starts(struct fake_container *container, const char *limits)
{
        assert_string_equal(rig_start_container(container), "");
        assert_string_equal(rig_limits(container), limits);
}

/* "3072 MiB 60.0": what the ledger holds the containers of the first resource to, from the oldest to the newest. */
static const char *worth(void)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct ledger_allocation *all;
        size_t count = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);

        strbuf_printf(&text, "%s", "");
        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "%s%llu MiB %u.%u", i ? ", " : "", (unsigned long long)all[i].limit_mib,
                        all[i].threads_permille / 10, all[i].threads_permille % 10);
        return arena_strdup(&rig.arena, text.data);
}

/* A process of the pod uses so much memory of GPU-0: the limit monitor ends it, or does not. */
static bool is_ended(const char *pod_uid, uint64_t mib)
{
        const struct mps_client client = {.pid = 7,
                .server = 5,
                .uid = 1000,
                .unit = "GPU-0",
                .pod_uid = pod_uid,
                .container_id = "0123456789ab",
                .memory = mib * MIB};
        bool is_it;

        supervisor.terminated = 0;
        supervisor.clients = &client;
        supervisor.n_clients = 1;
        fake_supervisor_report();
        rig_pass(GRACE_MS);
        is_it = supervisor.terminated != 0;
        supervisor.n_clients = 0;
        fake_supervisor_report();
        return is_it;
}

/* The agent that runs now did not see the containers start. */
static void restart_agent(void)
{
        rig_stop();
        rig_start();
}

/* ---- what a container gets ---- */

static void test_a_container_starts_with_what_it_declares(void **state UNUSED)
{
        static const struct {
                const char *annotations;
                const char *env;
                const char *limits;
                const char *worth;
        } table[] = {
                {"", "", "- -", "11904 MiB 50.0"},
                {"'warpshare.dev/threads': '60', 'warpshare.dev/memory': '3Gi'", "", "0=3072M 60", "3072 MiB 60.0"},
                {"'warpshare.dev/threads': '2.5'", "", "- 2.5", "11904 MiB 2.5"},
                {"'warpshare.dev/memory': '512Mi'", "", "0=512M -", "512 MiB 50.0"},
                {"'warpshare.dev/memory': '512Mi', 'warpshare.dev/memory.main': '1Gi'", "", "0=1024M -",
                        "1024 MiB 50.0"},
                {"'nvidia.com/container.main.gpu-memory.limit': '2Gi'", "", "0=2048M -", "2048 MiB 50.0"},
                {"'warpshare.dev/memory.prepare': '512Mi'", "", "- -", "11904 MiB 50.0"},
                {"'warpshare.dev/threads': '60'", THREADS("10"), "- -", "11904 MiB 10.0"},
                {"'warpshare.dev/threads': '60'", MEMORY("0=2G"), "- 60", "2048 MiB 60.0"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1");

                fake_api_pod("train", table[i].annotations, table[i].env);
                assert_starts(train, table[i].limits);
                rig_pass(2 * GRACE_MS);
                assert_string_equal(worth(), table[i].worth);
                assert_string_equal(fake_events_of_pods(), "");
                fake_kubelet_end_pod("train");
                rig_pass(2 * AGAIN_MS);
        }
}

static void test_a_container_starts_with_the_priority_that_its_pod_declares(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/priority': '1'", "");
        assert_starts(train, "- -");
        assert_non_null(strstr(rig_device(train), "CUDA_MPS_CLIENT_PRIORITY=1\n"));
        fake_api_pod("train", "", "");
        assert_starts(train, "- -");
        assert_null(strstr(rig_device(train), "CUDA_MPS_CLIENT_PRIORITY"));
}

static void test_what_it_declares_is_of_each_of_its_gpus(void **state UNUSED)
{
        struct fake_container *first = rig_run("train", "GPU-0::0");
        struct fake_container *second = rig_run("train", "GPU-1::0 GPU-1::1");

        fake_api_pod("train", "'warpshare.dev/memory': '3Gi'", "");
        assert_starts(first, "3072M 25");
        assert_starts(second, "3072M 25");
}

static void test_its_pod_is_read_once_for_all_its_resources(void **state UNUSED)
{
        struct fake_container *first = rig_run("train", "GPU-0::0");
        struct fake_container *second = rig_run("train", "GPU-1::0");

        rig_run("other", "GPU-0::1");
        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        assert_starts(first, "5952M 60");
        assert_starts(second, "5952M 60");
        assert_int_equal(api.n_asked, 1);
        fake_api_pod("train", "'warpshare.dev/threads': '30'", "");
        assert_starts(first, "5952M 30"); /* it starts again */
        assert_starts(second, "5952M 30");
        assert_int_equal(api.n_asked, 2);
        rig_pass(FRESH_MS + 1);
        assert_starts(second, "5952M 30");
        assert_int_equal(api.n_asked, 3);
}

static void test_a_restart_brings_what_the_annotations_say_by_then(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        assert_starts(train, "- 60");
        fake_api_pod("train", "'warpshare.dev/threads': '30', 'warpshare.dev/memory': '1Gi'", "");
        assert_starts(train, "0=1024M 30");
        assert_string_equal(worth(), "1024 MiB 30.0");
}

static void test_an_init_container_with_the_ids_of_the_next_has_what_it_declares_itself(void **state UNUSED)
{
        struct fake_container *prepare = rig_allocate_init("train", "GPU-0::0");
        struct fake_container *main = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/memory': '1Gi', 'warpshare.dev/memory.prepare': '2Gi'", "");
        assert_starts(prepare, "0=2048M -");
        assert_starts(main, "0=1024M -");
}

static void test_a_value_that_cannot_be_used_is_ignored_with_an_event_on_the_pod(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/threads': '150', 'warpshare.dev/memory': '1Gi'", "");
        assert_starts(train, "0=1024M -");
        assert_string_equal(fake_events_of_pods(),
                "team/train DeclarationIgnored: Container main: the annotation warpshare.dev/threads: '150' is not a "
                "percentage above 0 and at most 100, for example 60 or 2.5, so it is ignored.\n");
        assert_string_equal(fake_events_of_node(), "");
}

static void test_by_environment_variables_a_container_has_what_its_own_variables_say_alone(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        fake_api_pod("train", "'warpshare.dev/threads': '60', 'warpshare.dev/memory': '1Gi'", "");
        rig_run("serve", "GPU-1::0");
        fake_api_pod("serve", "'warpshare.dev/memory': '1Gi'", THREADS("10"));
        rig_pass(2 * GRACE_MS); /* kubelet does not ask at their start */
        assert_string_equal(worth(), "5952 MiB 25.0, 5952 MiB 10.0");
        assert_int_equal(api.n_asked, 2);
}

/* ---- what cannot be read ---- */

#define STARTS "; it starts with the share of its replicas.\n"
#define IGNORED "team/train DeclarationIgnored: Container main: "

static void have_no_api(void)
{
        api.is_absent = true;
        restart_agent();
}

static void have_no_list(void)
{
        rig_stop();
        rig.node.config.kubelet.pod_resources = "";
        rig_start();
}

static void refuse_list(void)
{
        kubelet.to = FAKE_REFUSES;
}

static void be_young(void)
{
        fake_kubelet_restart();
}

static void refuse_pod(void)
{
        api.to = FAKE_REFUSES;
}

static void have_another_pod(void)
{
        fake_api_pod("train", "'warpshare.dev/threads': '60'", "")->uid = "uid-other";
}

static void test_what_cannot_be_read_counts_for_nothing_and_the_container_starts(void **state UNUSED)
{
        static const struct {
                void (*happens)(void);
                const char *event; /* only who has a name can have one */
        } table[] = {
                {have_no_api, ""},
                {have_no_list, ""},
                {refuse_list, ""},
                {be_young, ""},
                {refuse_pod, IGNORED "the API server says no" STARTS},
                {have_another_pod, IGNORED "the API server has another pod of its name" STARTS},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct fake_container *train;
                enum rig_shares shares = RIG_DECLARED;
                void *prestate = &shares;

                rig_end(NULL);
                rig_begin(&prestate);
                train = rig_run("train", "GPU-0::0");
                fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
                table[i].happens();
                assert_starts(train, "- -");
                assert_non_null(strstr(rig_device(train), "WARPSHARE_THREAD_PERCENTAGE=25.0\n"));
                assert_string_equal(fake_events_of_pods(), table[i].event);
        }
}

static void test_an_api_server_that_does_not_answer_holds_a_start_up_for_seconds_only(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        api.to = FAKE_IS_SILENT;
        assert_string_equal(rig_start_container(train), "it waits");
        rig_pass(READ_MS);
        assert_true(train->is_waiting);
        rig_pass(1000);
        assert_false(train->is_waiting);
        assert_string_equal(rig_limits(train), "- -");
        assert_string_equal(fake_events_of_pods(), IGNORED "the API server did not answer in time" STARTS);
        assert_int_equal(api.n_calls, 0);
}

static void test_one_that_answers_late_is_in_time(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");
        struct fake_container *serve = rig_run("serve", "GPU-1::0");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        fake_api_pod("serve", "'warpshare.dev/threads': '30'", "");
        api.to = FAKE_IS_SILENT;
        rig_start_container(train);
        rig_pass(READ_MS / 2);
        rig_start_container(serve);
        rig_pass(READ_MS / 2 + 1000);
        assert_string_equal(rig_limits(train), "- -");
        assert_true(serve->is_waiting);
        api.to = FAKE_ANSWERS;
        rig_settle();
        assert_false(serve->is_waiting);
        assert_string_equal(rig_limits(serve), "- 30");
}

static void test_the_previous_declaration_applies_where_the_pod_cannot_be_read_again(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        assert_starts(train, "- 60");
        api.to = FAKE_REFUSES;
        assert_starts(train, "- 60");
        assert_string_equal(
                fake_events_of_pods(), IGNORED "the API server says no; the previous declaration applies.\n");
}

static void test_a_pod_that_could_not_be_read_for_one_resource_is_read_for_the_next(void **state UNUSED)
{
        struct fake_container *first = rig_run("train", "GPU-0::0");
        struct fake_container *second = rig_run("train", "GPU-1::0");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        api.to = FAKE_REFUSES;
        assert_starts(first, "5952M 25");
        api.to = FAKE_ANSWERS;
        assert_starts(second, "5952M 60");
        assert_string_equal(rig_limits(first), "5952M 60");
}

static void test_without_kubelets_record_a_container_starts_with_its_replicas_worth(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        lose_record();
        assert_starts(train, "- -");
}

static void test_starts_that_wait_when_the_agent_stops_are_refused(void **state UNUSED)
{
        static const char expected[] = "the agent is stopping; kubelet will ask again";
        struct fake_container *reading = rig_run("train", "GPU-0::0");
        struct fake_container *listing = rig_run("serve", "GPU-1::0");

        api.to = FAKE_IS_SILENT;
        rig_start_container(reading);
        kubelet.to = FAKE_IS_SILENT;
        rig_start_container(listing);
        rig_stop();
        assert_string_equal(reading->start_error.text, expected);
        assert_int_equal(reading->start_error.kind, ERROR_UNAVAILABLE);
        assert_string_equal(listing->start_error.text, expected);
        kubelet.to = FAKE_ANSWERS;
        rig_start();
}

static void test_a_start_that_waits_when_another_agent_takes_over_is_refused(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", "");
        api.to = FAKE_IS_SILENT;
        rig_start_container(train);
        ledger_leave(rig.ledger);
        api.to = FAKE_ANSWERS;
        rig_settle();
        assert_string_equal(train->start_error.text,
                "resource 'nvidia.com/gpu': this agent does not serve now; kubelet will ask again");
        rig_apply(rig.plan);
}

/* ---- what the limit monitor holds it to ---- */

static void test_more_than_its_replicas_but_not_more_than_declared_is_no_violation(void **state UNUSED)
{
        fake_api_pod("train", "'warpshare.dev/memory': '20Gi'", "");
        assert_starts(rig_run("train", "GPU-0::0"), "0=20480M -");
        rig_pass(GRACE_MS);
        assert_false(is_ended("uid-train", 20000));
        assert_true(is_ended("uid-train", 23000));
}

static void test_a_container_that_declares_less_than_its_replicas_is_held_to_that(void **state UNUSED)
{
        fake_api_pod("train", "'warpshare.dev/memory': '1Gi'", "");
        assert_starts(rig_run("train", "GPU-0::0"), "0=1024M -");
        rig_pass(GRACE_MS);
        assert_true(is_ended("uid-train", 5000));
}

static void test_only_what_is_known_for_certain_ends_anybody(void **state UNUSED)
{
        static const struct {
                const char *annotations;
                const char *env;
                bool is_restarted; /* the agent, after the container has started */
                bool is_ended;
        } table[] = {
                {"'warpshare.dev/memory': '1Gi'", "", false, true},
                {"'warpshare.dev/memory': '1Gi'", "", true, false}, /* it may have been annotated since */
                {"'warpshare.dev/threads': '10'", "", true, false},
                {"", MEMORY("0=1G"), true, true},
                {"'warpshare.dev/threads': '10'", MEMORY("0=1G") ", " THREADS("20"), true, true},
                {"'warpshare.dev/threads': '10'", MEMORY("0=1G"), true, false},
                {"", "", true, true}, /* its replicas */
                {"", "{'name': 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT', 'valueFrom': {}}", false, false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct fake_container *train = rig_run("train", "GPU-0::0");

                fake_api_pod("train", table[i].annotations, table[i].env);
                assert_string_equal(rig_start_container(train), "");
                if (table[i].is_restarted)
                        restart_agent();
                rig_pass(2 * GRACE_MS);
                if (is_ended("uid-train", 10000) != table[i].is_ended)
                        fail_msg("line %zu: %s", i, table[i].is_ended ? "it is let be" : "it is ended");
                fake_kubelet_end_pod("train");
                rig_pass(2 * AGAIN_MS);
        }
}

static void test_of_whom_nothing_could_be_read_nothing_is_certain(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        assert_starts(train, "- -");
        rig_pass(GRACE_MS);
        assert_false(is_ended("uid-train", 20000));
}

/* ---- containers that another agent started ---- */

static void test_what_they_declare_is_read_when_kubelet_lists_them(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-1::0");
        fake_api_pod("train", "'warpshare.dev/memory': '1Gi'", "");
        fake_api_pod("serve", "", THREADS("10"));
        rig_pass(GRACE_MS);
        assert_int_equal(api.n_asked, 0); /* who started under this agent was asked about then */
        restart_agent();
        assert_string_equal(worth(), "5952 MiB 25.0, 5952 MiB 25.0");
        rig_pass(GRACE_MS);
        assert_string_equal(worth(), "1024 MiB 25.0, 5952 MiB 10.0");
        rig_pass(10 * GRACE_MS);
        assert_int_equal(api.n_asked, 2);
}

static void test_one_pod_at_a_time_is_read(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        rig_run("serve", "GPU-1::0");
        restart_agent();
        api.to = FAKE_IS_SILENT;
        for (size_t i = 0; i < 4; i++) {
                rig_pass(1000);
                ledger_ask(rig.ledger);
                rig_settle();
                assert_int_equal(api.n_calls, 1);
        }
}

/* They run with what they had: nothing is made for them, and nobody is told. */
static void test_reading_pods_again_does_not_change_running_containers(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/memory': '1Gi'", "");
        assert_starts(train, "0=1024M -");
        fake_api_pod("train", "'warpshare.dev/memory': '2Gi'", "");
        restart_agent();
        rig_pass(GRACE_MS);
        assert_string_equal(worth(), "2048 MiB 25.0");
        assert_string_equal(rig_limits(train), "0=1024M -");
        api.to = FAKE_REFUSES;
        restart_agent();
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_pods(), "");
}

static void test_a_pod_that_could_not_be_read_is_read_again_after_a_minute(void **state UNUSED)
{
        rig_run("train", "GPU-0::0");
        fake_api_pod("train", "'warpshare.dev/memory': '1Gi'", "");
        api.to = FAKE_REFUSES;
        restart_agent();
        rig_pass(AGAIN_MS);
        assert_int_equal(api.n_asked, 1);
        api.to = FAKE_ANSWERS;
        rig_pass(GRACE_MS);
        assert_string_equal(worth(), "1024 MiB 25.0");
        assert_int_equal(api.n_asked, 2);
}

/* What is read of it later was not told to it when it started. */
static void test_of_a_container_that_started_without_its_declaration_only_its_own_variables_count_later(
        void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0");

        fake_api_pod("train", "'warpshare.dev/threads': '60'", MEMORY("0=2G"));
        api.to = FAKE_REFUSES;
        assert_starts(train, "- -");
        api.to = FAKE_ANSWERS;
        rig_stop(); /* its id is of the agent before: no start of it will be asked about */
        rig_start();
        api.to = FAKE_REFUSES;
        assert_starts(train, "- -");
        api.to = FAKE_ANSWERS;
        rig_pass(2 * AGAIN_MS);
        assert_string_equal(worth(), "2048 MiB 25.0");
}

static void test_an_agent_that_serves_again_reads_what_was_declared_meanwhile(void **state UNUSED)
{
        fake_api_pod("train", "'warpshare.dev/memory': '1Gi'", "");
        assert_starts(rig_run("train", "GPU-0::0"), "0=1024M -");
        rig_pass(GRACE_MS);
        ledger_leave(rig.ledger);
        fake_api_pod("train", "'warpshare.dev/memory': '2Gi'", ""); /* another one saw it start again */
        rig_apply(rig.plan);
        assert_string_equal(worth(), "5952 MiB 25.0");
        rig_pass(GRACE_MS);
        assert_string_equal(worth(), "2048 MiB 25.0");
}

/* What was asked before the agent did not serve is not awaited: the pod is read anew when it serves again. */
static void test_a_volume_at_dev_shm_is_told_once_though_the_agent_stopped_serving_meanwhile(void **state UNUSED)
{
        const char *events;
        const char *first;

        fake_api_pod("train", "", "")->has_own_shm = true;
        api.to = FAKE_IS_SILENT;
        rig_run("train", "GPU-0::0");
        for (int i = 0; i < GRACE_MS / 100 && api.n_calls == 0; i++)
                rig_pass(100);
        assert_int_equal(api.n_calls, 1);
        (void)fake_events_of_node();
        ledger_leave(rig.ledger);
        rig_apply(rig.plan);
        rig_pass(100); /* kubelet's list */
        api.to = FAKE_ANSWERS;
        rig_settle();
        rig_pass(2 * GRACE_MS);
        events = fake_events_of_node();
        first = strstr(events, "MPSSharedMemoryHidden");
        assert_non_null(first);
        assert_null(strstr(first + 1, "MPSSharedMemoryHidden"));
}

static void test_a_pod_that_is_created_again_declares_again(void **state UNUSED)
{
        fake_api_pod("train", "'warpshare.dev/memory': '1Gi'", "");
        assert_starts(rig_run("train", "GPU-0::0"), "0=1024M -");
        rig_pass(GRACE_MS);
        fake_kubelet_end_pod("train");
        rig_run("other", "GPU-1::0");
        rig_pass(AGAIN_MS + 2 * GRACE_MS);
        rig_run("train", "GPU-0::0"); /* with the same UID, as no kubelet has it */
        rig_pass(GRACE_MS);
        assert_string_equal(worth(), "5952 MiB 25.0, 5952 MiB 25.0");
}

/* ---- more memory than there is ---- */

#define USABLE "23808 MiB" /* of 24 GiB, what the driver and the server need is reserved */
#define LATE " A container that allocates late may find too little memory left.\n"

static struct fake_container *run_declaring(const char *pod, const char *ids, const char *memory)
{
        fake_api_pod(pod, arena_printf(&rig.arena, "'warpshare.dev/memory': '%s'", memory), "");
        return rig_run(pod, ids);
}

/* It has what its replicas are worth. */
static void start_undeclared(const char *pod, const char *ids)
{
        struct fake_container *container = rig_run(pod, ids);

        fake_api_pod(pod, "", "");
        assert_starts(container, "- -");
}

static void test_the_node_and_the_pods_have_an_event_once_while_containers_declare_too_much(void **state UNUSED)
{
        static const char text[] =
                "DeclaredMemoryExceedsGPU: GPU 0 (GPU-0): its containers declare 26432 MiB of " USABLE
                " of memory: team/train 20480 MiB, team/serve 5952 MiB." LATE;

        assert_starts(run_declaring("train", "GPU-0::0", "20Gi"), "0=20480M -");
        assert_starts(run_declaring("other", "GPU-1::0", "20Gi"), "0=20480M -");
        start_undeclared("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_node(), text);
        assert_string_equal(fake_events_of_pods(), arena_printf(&rig.arena, "team/train %steam/serve %s", text, text));
        start_undeclared("third", "GPU-0::2");
        rig_pass(10 * GRACE_MS);
        assert_string_equal(fake_events_of_node(), "");
        fake_kubelet_end_pod("third");
        fake_kubelet_end_pod("serve");
        rig_pass(2 * GRACE_MS);
        assert_string_equal(fake_events_of_node(), "");
        start_undeclared("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_node(), text);
}

static void test_what_fits_just_so_is_not_too_much(void **state UNUSED)
{
        struct fake_container *train = run_declaring("train", "GPU-0::0", "17856Mi");

        assert_starts(train, "0=17856M -");
        start_undeclared("serve", "GPU-0::1");
        rig_pass(GRACE_MS);
        assert_string_equal(fake_events_of_node(), "");
        fake_api_pod("train", "'warpshare.dev/memory': '17857Mi'", "");
        assert_starts(train, "0=17857M -");
        assert_memory_equal(fake_events_of_node(), "DeclaredMemoryExceedsGPU: ", 26);
}

static void test_a_container_for_which_there_is_no_room_does_not_start(void **state UNUSED)
{
        struct fake_container *second;

        assert_starts(run_declaring("first", "GPU-0::0", "20Gi"), "0=20480M -");
        second = run_declaring("second", "GPU-0::1", "4Gi");
        assert_string_equal(rig_start_container(second),
                "the container main declares 4096 MiB of GPU-0 (GPU 0), but other containers declare 20480 of its " USABLE
                ": declare at most 3328 MiB (annotation warpshare.dev/memory), end other containers, or set "
                "sharing.mps.declaredOvercommit: true");
        assert_int_equal(second->start_error.kind, ERROR_EXHAUSTED);
        assert_string_equal(rig_limits(second), "none");
        fake_api_pod("second", "'warpshare.dev/memory': '3328Mi'", "");
        assert_starts(second, "0=3328M -");
}

static void test_a_container_that_did_not_start_takes_nothing(void **state UNUSED)
{
        struct fake_container *second;

        assert_starts(run_declaring("first", "GPU-0::0", "20Gi"), "0=20480M -");
        second = run_declaring("second", "GPU-0::1", "20Gi");
        assert_int_not_equal(*rig_start_container(second), 0);
        assert_starts(run_declaring("third", "GPU-0::2", "3Gi"), "0=3072M -");
        fake_kubelet_end_pod("first");
        rig_pass(2 * GRACE_MS);
        api.to = FAKE_REFUSES; /* its previous declaration applies */
        assert_starts(second, "0=20480M -");
        api.to = FAKE_ANSWERS;
        assert_int_not_equal(*rig_start_container(run_declaring("fourth", "GPU-0::0", "3Gi")), 0);
}

/* kubelet asks for a container's devices when it takes the pod, and starts it when its images are there. */
static void test_a_container_that_has_not_started_needs_no_memory_yet(void **state)
{
        bool fits = *(const enum rig_shares *)*state == RIG_DECLARED_FITS;
        struct fake_container *second;
        struct fake_container *third;

        assert_starts(run_declaring("first", "GPU-0::0", "20Gi"), "0=20480M -");
        second = run_declaring("second", "GPU-0::1", "3Gi");
        third = run_declaring("third", "GPU-0::2", "1Gi");
        rig_pass(10 * GRACE_MS);
        assert_starts(second, "0=3072M -");
        assert_string_equal(fake_events_of_node(), "");
        assert_int_equal(*rig_start_container(third) == '\0', !fits);
        assert_int_equal(*fake_events_of_node() == '\0', fits);
}

static void test_a_container_may_start_again_where_its_own_share_is_all_there_is(void **state UNUSED)
{
        struct fake_container *train = run_declaring("train", "GPU-0::0", "20Gi");

        assert_starts(train, "0=20480M -");
        rig_pass(GRACE_MS);
        assert_starts(train, "0=20480M -");
        fake_api_pod("train", "'warpshare.dev/memory': '22Gi'", "");
        assert_starts(train, "0=22528M -");
}

static void test_a_refused_start_says_how_much_is_left_even_if_nothing_is(void **state UNUSED)
{
        assert_starts(run_declaring("first", "GPU-0::0", "20Gi"), "0=20480M -");
        assert_starts(run_declaring("second", "GPU-0::1", "3328Mi"), "0=3328M -");
        assert_non_null(strstr(rig_start_container(run_declaring("third", "GPU-0::2", "1Gi")),
                "but other containers declare 23808 of its " USABLE ": declare at most 0 MiB"));
}

static void test_an_init_container_and_the_container_after_it_need_the_memory_in_turn(void **state UNUSED)
{
        struct fake_container *prepare = rig_allocate_init("train", "GPU-0::1 GPU-0::0");
        struct fake_container *main = run_declaring("train", "GPU-0::0", "20Gi");

        for (size_t i = 0; i < 2; i++) {
                assert_starts(prepare, "0=20480M -");
                assert_starts(main, "0=20480M -");
                rig_pass(GRACE_MS);
        }
        assert_string_equal(fake_events_of_node(), "");
}

static void test_a_container_without_a_name_in_kubelets_list_does_not_block_itself(void **state UNUSED)
{
        struct fake_container *train = rig_run("train", "GPU-0::0 GPU-0::1 GPU-0::2");

        kubelet.to = FAKE_REFUSES;
        restart_agent();
        assert_starts(train, "- -");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                RIG_TEST_WITH(test_a_container_starts_with_what_it_declares, RIG_DECLARED),
                RIG_TEST_WITH(test_a_container_starts_with_the_priority_that_its_pod_declares, RIG_DECLARED),
                RIG_TEST_WITH(test_what_it_declares_is_of_each_of_its_gpus, RIG_DECLARED_EACH),
                RIG_TEST_WITH(test_its_pod_is_read_once_for_all_its_resources, RIG_DECLARED_EACH),
                RIG_TEST_WITH(test_a_restart_brings_what_the_annotations_say_by_then, RIG_DECLARED),
                RIG_TEST_WITH(
                        test_an_init_container_with_the_ids_of_the_next_has_what_it_declares_itself, RIG_DECLARED),
                RIG_TEST_WITH(test_a_value_that_cannot_be_used_is_ignored_with_an_event_on_the_pod, RIG_DECLARED),
                RIG_TEST_WITH(test_by_environment_variables_a_container_has_what_its_own_variables_say_alone,
                        RIG_DECLARED_ENVVAR),
                RIG_TEST_WITH(test_what_cannot_be_read_counts_for_nothing_and_the_container_starts, RIG_DECLARED),
                RIG_TEST_WITH(test_an_api_server_that_does_not_answer_holds_a_start_up_for_seconds_only, RIG_DECLARED),
                RIG_TEST_WITH(test_one_that_answers_late_is_in_time, RIG_DECLARED),
                RIG_TEST_WITH(test_the_previous_declaration_applies_where_the_pod_cannot_be_read_again, RIG_DECLARED),
                RIG_TEST_WITH(
                        test_a_pod_that_could_not_be_read_for_one_resource_is_read_for_the_next, RIG_DECLARED_EACH),
                RIG_TEST_WITH(test_without_kubelets_record_a_container_starts_with_its_replicas_worth, RIG_DECLARED),
                RIG_TEST_WITH(test_starts_that_wait_when_the_agent_stops_are_refused, RIG_DECLARED),
                RIG_TEST_WITH(test_a_start_that_waits_when_another_agent_takes_over_is_refused, RIG_DECLARED),
                RIG_TEST_WITH(test_more_than_its_replicas_but_not_more_than_declared_is_no_violation, RIG_DECLARED),
                RIG_TEST_WITH(test_a_container_that_declares_less_than_its_replicas_is_held_to_that, RIG_DECLARED),
                RIG_TEST_WITH(test_only_what_is_known_for_certain_ends_anybody, RIG_DECLARED),
                RIG_TEST_WITH(test_of_whom_nothing_could_be_read_nothing_is_certain, RIG_DECLARED),
                RIG_TEST_WITH(test_what_they_declare_is_read_when_kubelet_lists_them, RIG_DECLARED),
                RIG_TEST_WITH(test_one_pod_at_a_time_is_read, RIG_DECLARED),
                RIG_TEST_WITH(test_reading_pods_again_does_not_change_running_containers, RIG_DECLARED),
                RIG_TEST_WITH(test_a_pod_that_could_not_be_read_is_read_again_after_a_minute, RIG_DECLARED),
                RIG_TEST_WITH(
                        test_of_a_container_that_started_without_its_declaration_only_its_own_variables_count_later,
                        RIG_DECLARED),
                RIG_TEST_WITH(test_an_agent_that_serves_again_reads_what_was_declared_meanwhile, RIG_DECLARED),
                RIG_TEST(test_a_volume_at_dev_shm_is_told_once_though_the_agent_stopped_serving_meanwhile),
                RIG_TEST_WITH(test_a_pod_that_is_created_again_declares_again, RIG_DECLARED),
                RIG_TEST_WITH(
                        test_the_node_and_the_pods_have_an_event_once_while_containers_declare_too_much, RIG_DECLARED),
                RIG_TEST_WITH(test_what_fits_just_so_is_not_too_much, RIG_DECLARED),
                RIG_TEST_WITH(test_a_container_for_which_there_is_no_room_does_not_start, RIG_DECLARED_FITS),
                RIG_TEST_WITH(test_a_container_that_did_not_start_takes_nothing, RIG_DECLARED_FITS),
                RIG_TEST_WITH(test_a_container_that_has_not_started_needs_no_memory_yet, RIG_DECLARED),
                RIG_TEST_WITH(test_a_container_that_has_not_started_needs_no_memory_yet, RIG_DECLARED_FITS),
                RIG_TEST_WITH(test_a_container_may_start_again_where_its_own_share_is_all_there_is, RIG_DECLARED_FITS),
                RIG_TEST_WITH(test_a_refused_start_says_how_much_is_left_even_if_nothing_is, RIG_DECLARED_FITS),
                RIG_TEST_WITH(
                        test_an_init_container_and_the_container_after_it_need_the_memory_in_turn, RIG_DECLARED_FITS),
                RIG_TEST_WITH(test_an_init_container_and_the_container_after_it_need_the_memory_in_turn, RIG_DECLARED),
                RIG_TEST_WITH(
                        test_a_container_without_a_name_in_kubelets_list_does_not_block_itself, RIG_DECLARED_FITS),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
