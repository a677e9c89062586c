// SPDX-License-Identifier: Apache-2.0
/* What the agent asks of a supervisor: parts that have to be made, and the end of a client. */
#include "supervisor_rig.h"

#include "mps/supervisor/allocations.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "mps/supervisor/record.h"

#define TEST(name) cmocka_unit_test_setup_teardown((name), rig_set_up, rig_tear_down)
#define CONTAINER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ANOTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD "12345678-1234-1234-1234-123456789abc"

/* One answer at a time. */
struct answer {
        bool is_there;
        struct error err; /* kind ERROR_NONE: it went well */
        enum mps_tier tier;
        unsigned int sms;
        char partition[128];
        char pipe[128];
};

static void keep_error(struct answer *answer, const struct error *err)
{
        answer->is_there = true;
        answer->err.kind = ERROR_NONE;
        if (err)
                answer->err = *err;
}

static void on_granted(const struct error *err, const struct mps_allocation *allocation, void *data)
{
        struct answer *answer = data;

        keep_error(answer, err);
        if (err)
                return;
        answer->tier = allocation->tier;
        answer->sms = allocation->sms;
        snprintf(
                answer->partition, sizeof(answer->partition), "%s", allocation->partition ? allocation->partition : "");
        snprintf(answer->pipe, sizeof(answer->pipe), "%s", allocation->pipe ? allocation->pipe : "");
}

static void on_done(const struct error *err, void *data)
{
        keep_error(data, err);
}

static bool is_there(struct rig *rig UNUSED, const void *data)
{
        return ((const struct answer *)data)->is_there;
}

static struct answer allocation_of(struct rig *rig, const char *id, const char *daemon, unsigned int sms)
{
        const struct mps_allocation_request request = {
                .id = id, .daemon = daemon, .unit = GPU_A, .threads_permille = 500, .limit_mib = 4096, .sms = sms};
        struct answer answer = {0};

        mps_allocations_make(mps_supervisor_allocations(rig->supervisor), &request, on_granted, &answer);
        assert_false(answer.is_there); /* never from within */
        rig_wait(rig, is_there, &answer, "the grant is answered");
        return answer;
}

static struct answer allocation_with(struct rig *rig, const char *id, unsigned int threads_permille, uint64_t limit_mib)
{
        const struct mps_allocation_request request = {
                .id = id, .daemon = GPU_A, .unit = GPU_A, .threads_permille = threads_permille, .limit_mib = limit_mib};
        struct answer answer = {0};

        mps_allocations_make(mps_supervisor_allocations(rig->supervisor), &request, on_granted, &answer);
        rig_wait(rig, is_there, &answer, "the grant is answered");
        return answer;
}

static struct answer release(struct rig *rig, const char *id)
{
        struct answer answer = {0};

        mps_allocations_release(mps_supervisor_allocations(rig->supervisor), id, on_done, &answer);
        rig_wait(rig, is_there, &answer, "the release is answered");
        return answer;
}

static struct answer terminate(struct rig *rig, pid_t client, const char *container)
{
        struct answer answer = {0};

        mps_allocations_terminate(
                mps_supervisor_allocations(rig->supervisor), GPU_A, client, container, on_done, &answer);
        rig_wait(rig, is_there, &answer, "the termination is answered");
        return answer;
}

/* ---- containers ---- */

/* What the kernel would say of a client that is a pod's. */
static void put_into_container(struct rig *rig, pid_t pid, const char *container)
{
        const char *folder = rig_path(rig, "%s/system/proc/%d", rig->root, (int)pid);

        mkdir(rig_path(rig, "%s/system", rig->root), 0700);
        mkdir(rig_path(rig, "%s/system/proc", rig->root), 0700);
        mkdir(folder, 0700);
        rig_write(rig, rig_path(rig, "%s/stat", folder),
                rig_path(rig, "%d (python) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0\n", (int)pid));
        rig_write(rig, rig_path(rig, "%s/status", folder), "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\n");
        rig_write(rig, rig_path(rig, "%s/cgroup", folder),
                rig_path(rig, "0::/kubepods/burstable/pod" POD "/%s\n", container));
        rig_write(rig, rig_path(rig, "%s/environ", folder), "WARPSHARE_GRANT=gabc\n");
}

static bool knows_container(struct rig *rig, const void *data UNUSED)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        return status->n_clients == 1 && status->clients[0].container_id;
}

/* ---- allocations ---- */

static void start_with_partitions(struct rig *rig)
{
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);

        daemon.provisioning = PROVISIONING_SM;
        daemon.tier_limit = MPS_TIER_PARTITION;
        daemon.threads_permille = 1000;
        rig_drive(rig, "590.44.01", "", "");
        rig_behave(rig, "version: 590\n");
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
}

static void test_a_partition_is_made_once_and_released(void **state)
{
        struct rig *rig = *state;
        struct answer first;
        struct answer again;

        start_with_partitions(rig);
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_PARTITION);
        first = allocation_of(rig, "g1", GPU_A, 27);
        assert_int_equal(first.err.kind, ERROR_NONE);
        assert_int_equal(first.tier, MPS_TIER_PARTITION);
        assert_int_equal(first.sms, 24); /* whole chunks of 4 */
        assert_non_null(strstr(rig_ask(rig, GPU_A, "lspart"), strchr(first.partition, '/') + 1));
        again = allocation_of(rig, "g1", GPU_A, 27);
        assert_string_equal(again.partition, first.partition);
        assert_string_not_equal(allocation_of(rig, "g2", GPU_A, 8).partition, first.partition);
        assert_int_equal(release(rig, "g1").err.kind, ERROR_NONE);
        assert_null(strstr(rig_ask(rig, GPU_A, "lspart"), strchr(first.partition, '/') + 1));
        assert_int_equal(release(rig, "g1").err.kind, ERROR_NONE); /* what is not there is released */
}

static void test_a_partition_that_does_not_fit_is_refused(void **state)
{
        struct rig *rig = *state;
        struct answer answer;

        start_with_partitions(rig);
        answer = allocation_of(rig, "g1", GPU_A, 4000);
        assert_int_not_equal(answer.err.kind, ERROR_NONE);
        assert_non_null(strstr(answer.err.text, "Failed to fulfill"));
        assert_int_equal(allocation_of(rig, "g1", GPU_A, 8).err.kind, ERROR_NONE);
}

/* They are promised by nobody: a daemon that wants them from every client would refuse all. */
static void test_a_mig_device_has_no_partitions(void **state)
{
        static const char mig[] = "MIG-33333333-3333-3333-3333-333333333333";
        struct rig *rig = *state;
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 1024);
        struct mps_unit unit = daemon.units[0];
        struct mps_allocation_request request = {
                .id = "g1", .daemon = mig, .unit = mig, .threads_permille = 500, .limit_mib = 1024, .sms = 4};
        struct answer answer = {0};

        rig_drive(rig, "590.44.01",
                ", mig: {devices: [{profile: 1g.5gb, uuid: MIG-33333333-3333-3333-3333-333333333333}]}", "");
        rig_behave(rig, "version: 590\ngpu: MIG-33333333-3333-3333-3333-333333333333 sms=14 memory=4864 cc=8\n");
        unit.uuid = mig;
        unit.is_mig = true;
        daemon.name = mig;
        daemon.units = &unit;
        daemon.provisioning = PROVISIONING_SM;
        daemon.tier_limit = MPS_TIER_PARTITION;
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, mig, MPS_READY);
        assert_int_equal(rig_status(rig, mig)->tier, MPS_TIER_VERIFIED);
        mps_allocations_make(mps_supervisor_allocations(rig->supervisor), &request, on_granted, &answer);
        rig_wait(rig, is_there, &answer, "the grant is answered");
        assert_int_equal(answer.err.kind, ERROR_NONE);
        assert_int_equal(answer.tier, MPS_TIER_VERIFIED);
}

static void test_partitions_outlive_the_supervisor(void **state)
{
        struct rig *rig = *state;
        struct answer first;

        start_with_partitions(rig);
        first = allocation_of(rig, "g1", GPU_A, 8);
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_string_equal(allocation_of(rig, "g1", GPU_A, 8).partition, first.partition);
}

static bool has_remade(struct rig *rig, const void *data UNUSED)
{
        return strstr(rig_ask(rig, GPU_A, "lspart"), "AAA=") != NULL;
}

static bool has_notice(struct rig *rig, const void *data)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        return status && status->notice && strstr(status->notice, data);
}

static void test_partitions_of_a_daemon_that_died_are_created_again_and_the_old_ones_are_void(void **state)
{
        struct rig *rig = *state;
        pid_t pid;

        start_with_partitions(rig);
        allocation_of(rig, "g0", GPU_A, 8);
        allocation_of(rig, "g1", GPU_A, 8);
        release(rig, "g0");
        pid = rig_status(rig, GPU_A)->pid;
        kill(pid, SIGKILL);
        rig_wait_for_another(rig, GPU_A, pid);
        rig_wait(rig, has_remade, NULL, "the partition is made anew");
        rig_wait(rig, has_notice,
                "the SM partitions of 1 containers ended with an earlier process of its control daemon: restart "
                "their pods",
                "the notice");
        release(rig, "g1");
        rig_run_for(rig, 100);
        assert_null(rig_status(rig, GPU_A)->notice);
}

/* ---- what is granted, whole ---- */

static void hold(struct rig *rig, const char *const *ids, size_t n_ids)
{
        struct mps_allocation_request allocations[8];

        for (size_t i = 0; i < n_ids; i++)
                allocations[i] = (struct mps_allocation_request){.id = ids[i],
                        .daemon = GPU_A,
                        .unit = GPU_A,
                        .threads_permille = 250,
                        .limit_mib = 2048,
                        .sms = 8};
        mps_allocations_hold(mps_supervisor_allocations(rig->supervisor), allocations, n_ids);
}

static bool has_partitions(struct rig *rig, const void *data)
{
        const char *text = rig_ask(rig, GPU_A, "lspart");
        size_t count = 0;

        for (const char *at = text; (at = strstr(at, "AAA=")); at++)
                count++;
        return count == *(const size_t *)data;
}

/* A release that got lost, as while the supervisor started anew, keeps SMs that nobody can have any more. */
static void test_a_partition_without_a_holder_is_removed(void **state)
{
        static const char *const ids[] = {"g1", "g2"};
        static const size_t one = 1;
        static const size_t two = 2;
        struct rig *rig = *state;

        start_with_partitions(rig);
        allocation_of(rig, "g1", GPU_A, 8);
        allocation_of(rig, "g2", GPU_A, 8);
        allocation_of(rig, "g3", GPU_A, 8);
        rig_leave(rig);
        rig_start(rig);
        hold(rig, ids, 2); /* before its daemon is ready */
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait(rig, has_partitions, &two, "the third is removed");
        hold(rig, ids, 1);
        rig_wait(rig, has_partitions, &one, "the second is removed");
        allocation_of(rig, "g4", GPU_A, 8); /* since then */
        rig_run_for(rig, 200);
        assert_true(has_partitions(rig, &two));
}

static void assert_fails_so(struct error err, const char *text)
{
        assert_int_equal(err.kind, ERROR_UNAVAILABLE);
        assert_string_equal(err.text, text);
}

static void test_a_removal_that_fails_is_tried_again(void **state)
{
        static const size_t none = 0;
        struct rig *rig = *state;

        start_with_partitions(rig);
        allocation_of(rig, "g1", GPU_A, 8);
        rig_behave(rig, "version: 590\non sm_partition: answer Failed\n");
        assert_fails_so(release(rig, "g1").err, "the SM partition stays: Failed");
        rig_behave(rig, "version: 590\n");
        rig_wait(rig, has_partitions, &none, "it is removed after all");
}

static void test_a_partition_counts_as_removed_only_when_the_list_has_it_no_more(void **state)
{
        static const size_t none = 0;
        struct rig *rig = *state;

        start_with_partitions(rig);
        allocation_of(rig, "g1", GPU_A, 8);
        rig_behave(rig, "version: 590\non sm_partition: answer Partition x not found\n");
        assert_fails_so(release(rig, "g1").err, "the SM partition stays: Partition x not found");
        rig_behave(rig, "version: 590\n");
        rig_wait(rig, has_partitions, &none, "it is removed after all");
}

static void test_a_partition_whose_list_cannot_be_read_may_be_there_still(void **state)
{
        struct rig *rig = *state;

        start_with_partitions(rig);
        allocation_of(rig, "g1", GPU_A, 8);
        rig_behave(rig, "version: 590\non lspart: answer no list\n");
        assert_fails_so(release(rig, "g1").err,
                "the SM partition may be there still: 1 lines of lspart cannot be read, the first: 'no list'");
}

static bool lacks_chunks(struct rig *rig, const void *data)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        if (!data || !status || !status->notice)
                return !data && status && !status->notice;
        return strcmp(status->notice, data) == 0;
}

static void want_chunks(struct rig *rig, unsigned int needed, unsigned int of_sms)
{
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);
        struct mps_unit unit = daemon.units[0];

        unit.chunks_needed = needed;
        unit.chunk_sms = of_sms;
        daemon.units = &unit;
        daemon.provisioning = PROVISIONING_SM;
        daemon.tier_limit = MPS_TIER_PARTITION;
        daemon.threads_permille = 1000;
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
}

static void test_a_gpu_with_fewer_chunks_than_its_partitions_need_is_reported(void **state)
{
        struct rig *rig = *state;

        rig_drive(rig, "590.44.01", "", "");
        rig_behave(rig, "version: 590\n");
        rig_start(rig);
        want_chunks(rig, 28, 4);
        rig_wait(rig, lacks_chunks,
                GPU_A
                " has 27 chunks of SMs, and its partitions need 28 together, so the last are refused: lower replicas "
                "or sms",
                "too few");
        want_chunks(rig, 27, 4); /* with the same daemon */
        rig_wait(rig, lacks_chunks, NULL, "enough");
        want_chunks(rig, 13, 8);
        rig_wait(rig, lacks_chunks,
                GPU_A
                " has 27 chunks of its 108 SMs, which are smaller than the 8 SMs that were expected: partitions have "
                "fewer SMs than their shares",
                "too small");
}

static void test_a_supervisor_that_takes_over_asks_for_the_chunks_again(void **state)
{
        struct rig *rig = *state;

        rig_drive(rig, "590.44.01", "", "");
        rig_behave(rig, "version: 590\n");
        rig_start(rig);
        want_chunks(rig, 28, 4);
        rig_leave(rig);
        rig_start(rig);
        want_chunks(rig, 30, 4);
        rig_wait(rig, lacks_chunks,
                GPU_A
                " has 27 chunks of SMs, and its partitions need 30 together, so the last are refused: lower replicas "
                "or sms",
                "too few");
        assert_true(rig_status(rig, GPU_A)->adopted);
}

/* ---- namespaces ---- */

static struct mps_daemon_wanted daemon_for_namespaces(struct rig *rig)
{
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);

        daemon.provisioning = PROVISIONING_HALF;
        daemon.threads_permille = 705;
        return daemon;
}

static void start_with_version(struct rig *rig, unsigned int version, const char *behaviour)
{
        const struct mps_daemon_wanted daemon = daemon_for_namespaces(rig);

        rig_drive(rig, rig_path(rig, "%u.10.01", version), "", "");
        rig_behave(rig, rig_path(rig, "version: %u\n%s", version, behaviour));
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
}

static void start_with_namespaces(struct rig *rig)
{
        start_with_version(rig, 615, "");
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_NAMESPACE);
}

static bool is_namespace_there(struct rig *rig, const char *id)
{
        return access(rig_path(rig, "%s/" GPU_A "/pipe/uid_%u/%s/control", rig->mps, geteuid(), id), F_OK) == 0;
}

static bool says(struct rig *rig, const void *data)
{
        return strstr(rig_read(rig, rig_path(rig, "%s/said", rig->root)), data) != NULL;
}

/* "percentage=… sms=… limit=…" of a client that connects there. */
static void expect_limits(struct rig *rig, const char *pipe, const char *limits)
{
        const pid_t client = rig_client_at(rig, pipe, NULL, rig_path(rig, "%s/said", rig->root));

        rig_wait(rig, says, limits, limits);
        rig_end_client(rig, client, SIGTERM);
}

static void test_a_namespace_has_its_own_limits_and_others_beside_it(void **state)
{
        struct rig *rig = *state;
        struct answer first;
        struct answer second;

        start_with_namespaces(rig);
        assert_int_equal(rig_status(rig, GPU_A)->threads_permille, 700);
        assert_true(rig_status(rig, GPU_A)->limit_mib == 8192);
        first = allocation_with(rig, "g1", 255, 1630);
        assert_int_equal(first.err.kind, ERROR_NONE);
        assert_int_equal(first.tier, MPS_TIER_NAMESPACE);
        assert_string_equal(first.pipe, rig_path(rig, GPU_A "/pipe/uid_%u/g1", geteuid()));
        second = allocation_with(rig, "g2", 500, 4096);
        assert_string_equal(second.pipe, rig_path(rig, GPU_A "/pipe/uid_%u/g2", geteuid()));
        assert_string_equal(allocation_with(rig, "g1", 255, 1630).pipe, first.pipe);
        expect_limits(rig, first.pipe, "percentage=25.0 sms=26 limit=1630\n");
        expect_limits(rig, second.pipe, "percentage=50.0 sms=54 limit=4096\n");
        expect_limits(rig, GPU_A "/pipe", "percentage=70.0 sms=74 limit=8192\n"); /* one that names none */
}

static bool has_no_clients(struct rig *rig, const void *data UNUSED)
{
        return rig_status(rig, GPU_A)->n_clients == 0;
}

static bool is_gone(struct rig *rig, const void *data)
{
        return !is_namespace_there(rig, data);
}

static void test_a_namespace_is_released_when_its_clients_have_left(void **state)
{
        struct rig *rig = *state;
        struct answer answer;
        pid_t client;

        start_with_namespaces(rig);
        answer = allocation_with(rig, "g1", 250, 2048);
        client = rig_client_at(rig, answer.pipe, NULL, "/dev/null");
        rig_wait_for_clients(rig, GPU_A, 1);
        answer = release(rig, "g1");
        assert_string_equal(answer.err.text, "the MPS namespace 'g1' stays: it has clients");
        rig_end_client(rig, client, SIGTERM);
        rig_wait(rig, has_no_clients, NULL, "the client has left");
        assert_int_equal(release(rig, "g1").err.kind, ERROR_NONE);
        rig_wait(rig, is_gone, "g1",
                "the namespace is gone"); /* perhaps by the supervisor's own attempt, which this one does not wait for */
        assert_int_equal(release(rig, "g1").err.kind, ERROR_NONE); /* what is not there is released */
}

static bool is_there_again(struct rig *rig, const void *data)
{
        return is_namespace_there(rig, data);
}

static void test_namespaces_of_a_daemon_that_died_are_created_again_in_the_same_place(void **state)
{
        struct rig *rig = *state;
        struct answer first;
        pid_t pid;

        start_with_namespaces(rig);
        first = allocation_with(rig, "g1", 250, 2048);
        allocation_with(rig, "g2", 250, 2048);
        release(rig, "g2");
        pid = rig_status(rig, GPU_A)->pid;
        kill(pid, SIGKILL);
        unlink(rig_path(rig, "%s/%s/control", rig->mps, first.pipe));
        rig_wait_for_another(rig, GPU_A, pid);
        rig_wait(rig, is_there_again, "g1", "the namespace is made anew");
        assert_false(is_namespace_there(rig, "g2"));
        assert_string_equal(allocation_with(rig, "g1", 250, 2048).pipe, first.pipe);
        expect_limits(rig, first.pipe, "percentage=25.0 sms=26 limit=2048\n");
        assert_null(rig_status(rig, GPU_A)->notice);
}

static void test_a_namespace_that_is_missing_is_made_and_one_too_many_removed(void **state)
{
        static const char *const ids[] = {"g2", "g3"};
        struct rig *rig = *state;
        pid_t client;

        start_with_namespaces(rig);
        client = rig_client_at(rig, allocation_with(rig, "g1", 250, 2048).pipe, NULL, "/dev/null");
        allocation_with(rig, "g2", 250, 2048);
        rig_wait_for_clients(rig, GPU_A, 1);
        hold(rig, ids, 2);
        rig_wait(rig, is_there_again, "g3", "the one that is missing is made");
        rig_run_for(rig, 200);
        assert_true(is_namespace_there(rig, "g1")); /* it has a client */
        assert_true(is_namespace_there(rig, "g2"));
        rig_end_client(rig, client, SIGTERM);
        rig_wait(rig, is_gone, "g1", "it is removed when its client has left");
        hold(rig, NULL, 0);
        rig_wait(rig, is_gone, "g2", "it is removed");
        rig_wait(rig, is_gone, "g3", "it is removed");
}

static bool has_no_notice(struct rig *rig, const void *data UNUSED)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        return status && !status->notice;
}

static void test_a_namespace_is_made_again_in_each_process_and_until_it_can_be(void **state)
{
        struct rig *rig = *state;
        pid_t pid;

        start_with_namespaces(rig);
        allocation_with(rig, "g1", 250, 2048);
        for (int i = 0; i < 2; i++) {
                pid = rig_status(rig, GPU_A)->pid;
                kill(pid, SIGKILL);
                unlink(rig_path(rig, "%s/" GPU_A "/pipe/uid_%u/g1/control", rig->mps, geteuid()));
                if (i == 1)
                        rig_behave(rig, "version: 615\non namespace create: ignore\n");
                rig_wait_for_another(rig, GPU_A, pid);
                if (i == 1) {
                        rig_wait(rig, has_notice,
                                "the partitions or namespaces of 1 containers cannot be created, will try again: ",
                                "it is told");
                        rig_behave(rig, "version: 615\n");
                }
                rig_wait(rig, is_there_again, "g1", "the namespace is made anew");
        }
        rig_wait(rig, has_no_notice, NULL, "nothing is told any more");
}

static void test_namespaces_outlive_the_supervisor_with_and_without_its_record(void **state)
{
        struct rig *rig = *state;
        const struct mps_daemon_wanted daemon = daemon_for_namespaces(rig);
        struct answer first;
        pid_t pid;

        start_with_namespaces(rig);
        pid = rig_status(rig, GPU_A)->pid;
        first = allocation_with(rig, "g1", 250, 2048);
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_string_equal(allocation_with(rig, "g1", 250, 2048).pipe, first.pipe);
        rig_leave(rig);
        assert_int_equal(unlink(rig_path(rig, "%s/" MPS_RECORD_FILE, rig->mps)), 0);
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->pid, pid);
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_NAMESPACE);
        assert_string_equal(allocation_with(rig, "g1", 250, 2048).pipe, first.pipe);
        expect_limits(rig, first.pipe, "percentage=25.0 sms=26 limit=2048\n");
}

static void test_a_namespace_without_its_limits_is_refused_and_does_not_stay(void **state)
{
        struct rig *rig = *state;
        struct answer answer;

        rig->poll_ms = 600000; /* or the daemon would be found with other settings, too */
        start_with_namespaces(rig);
        rig_behave(rig, "version: 615\non namespace set: ignore\n");
        rig_run_for(rig, 300);
        answer = allocation_with(rig, "g1", 250, 2048);
        assert_int_equal(answer.err.kind, ERROR_INVALID);
        assert_non_null(strstr(answer.err.text, "MPS namespace 'g1': "));
        assert_false(is_namespace_there(rig, "g1"));
        rig_behave(rig, "version: 615\non namespace get: answer 1G\n");
        rig_run_for(rig, 300);
        answer = allocation_with(rig, "g1", 250, 2048);
        assert_string_equal(answer.err.text,
                "MPS namespace 'g1': memory limit: 2048 MiB were set, its control daemon reports 1024 MiB");
        assert_false(is_namespace_there(rig, "g1"));
        answer = allocation_with(rig, "../g1", 250, 2048);
        assert_int_equal(answer.err.kind, ERROR_INVALID);
}

static void test_a_program_that_does_not_know_namespaces_serves_without(void **state)
{
        struct rig *rig = *state;
        struct answer answer;

        start_with_version(rig, 590, "");
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_VERIFIED);
        answer = allocation_with(rig, "g1", 250, 2048);
        assert_int_equal(answer.tier, MPS_TIER_VERIFIED);
        assert_string_equal(answer.pipe, "");
}

/* The driver says more than the program can. */
static void test_an_option_for_namespaces_that_is_not_known_is_left_out(void **state)
{
        struct rig *rig = *state;
        const struct mps_daemon_wanted daemon = daemon_for_namespaces(rig);

        rig_drive(rig, "615.10.01", "", "");
        rig_behave(rig, "version: 590\n");
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_VERIFIED);
        assert_int_equal(rig_status(rig, GPU_A)->restarts, 0);
}

static void test_a_daemon_that_refuses_its_limits_in_a_namespace_serves_without(void **state)
{
        struct rig *rig = *state;

        start_with_version(rig, 615, "on server set: ignore\n");
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_VERIFIED);
        assert_int_equal(rig_status(rig, GPU_A)->threads_permille, 705);
        assert_string_equal(allocation_with(rig, "g1", 250, 2048).pipe, "");
}

/* A tenant's command line can look like another line of the list. */
static void test_a_client_that_the_daemon_does_not_know_is_none(void **state)
{
        struct rig *rig = *state;

        start_with_namespaces(rig);
        rig_behave(rig, "version: 615\non client list: answer 1,uid_0,0,default,init\n");
        rig_client(rig, GPU_A, NULL);
        rig_run_for(rig, 500);
        assert_int_equal(rig_status(rig, GPU_A)->n_clients, 0);
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
        rig_behave(rig, "version: 615\n");
        rig_wait_for_clients(rig, GPU_A, 1);
}

static void test_a_client_in_a_namespace_is_terminated(void **state)
{
        struct rig *rig = *state;
        struct answer answer;
        pid_t client;

        rig->system_root = rig_path(rig, "%s/system", rig->root);
        start_with_namespaces(rig);
        answer = allocation_with(rig, "g1", 250, 2048);
        client = rig_client_at(rig, answer.pipe, NULL, "/dev/null");
        put_into_container(rig, client, CONTAINER);
        rig_wait(rig, knows_container, NULL, "the client's container is known");
        assert_int_equal(terminate(rig, client, ANOTHER).err.kind, ERROR_DENIED);
        answer = terminate(rig, client, CONTAINER);
        assert_string_equal(answer.err.kind == ERROR_NONE ? "" : answer.err.text, "");
        rig_wait(rig, has_no_clients, NULL, "the client is gone");
}

/* ---- memory limits of containers ---- */

#define CGROUP "/kubepods/burstable/pod" POD "/" CONTAINER

static const char *limit_file(struct rig *rig)
{
        return rig_path(rig, "%s/system/sys/fs/cgroup" CGROUP "/warpshare-sim-limit." GPU_A, rig->root);
}

static void make_cgroup(struct rig *rig)
{
        struct error err;

        assert_ok(file_make_folder(rig_path(rig, "%s/system/sys/fs/cgroup" CGROUP, rig->root), &err), &err);
}

static void remove_cgroup(struct rig *rig)
{
        unlink(limit_file(rig));
        assert_int_equal(rmdir(rig_path(rig, "%s/system/sys/fs/cgroup" CGROUP, rig->root)), 0);
}

/* A client with 2,048 MiB in namespace g1, in a container. */
static pid_t start_with_a_limited_client(struct rig *rig)
{
        struct answer answer;
        pid_t client;

        rig->system_root = rig_path(rig, "%s/system", rig->root);
        make_cgroup(rig);
        start_with_namespaces(rig);
        answer = allocation_with(rig, "g1", 250, 2048);
        assert_int_equal(answer.err.kind, ERROR_NONE);
        client = rig_client_at(rig, answer.pipe, NULL, "/dev/null");
        put_into_container(rig, client, CONTAINER);
        return client;
}

static bool has_limit(struct rig *rig, const void *data)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        return status && status->n_limits == 1 && status->limits[0].is_in_force &&
               strcmp(rig_read(rig, limit_file(rig)), data) == 0;
}

static bool has_no_limit(struct rig *rig, const void *data UNUSED)
{
        return rig_status(rig, GPU_A)->n_limits == 0 && access(limit_file(rig), F_OK) < 0;
}

#define LIMIT "0 2147483648\n"

static void test_the_memory_of_a_container_is_limited_as_a_whole_until_its_allocation_is_released(void **state)
{
        struct rig *rig = *state;
        const pid_t client = start_with_a_limited_client(rig);
        const struct mps_daemon_status *status;

        rig_wait(rig, has_limit, LIMIT, "the limit is set");
        status = rig_status(rig, GPU_A);
        assert_string_equal(status->limits[0].allocation, "g1");
        assert_string_equal(status->limits[0].unit, GPU_A);
        assert_string_equal(status->limits[0].cgroup, CGROUP);
        assert_true(status->limits[0].limit_mib == 2048);
        assert_null(status->limits[0].problem);
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_clients(rig, GPU_A, 0);
        assert_true(has_limit(rig, LIMIT)); /* it is the container's, not the process's */
        assert_int_equal(release(rig, "g1").err.kind, ERROR_NONE);
        rig_wait(rig, has_no_limit, NULL, "the limit is taken away");
}

static void test_a_limit_is_found_after_a_restart_and_taken_away_with_its_allocation(void **state)
{
        struct rig *rig = *state;
        const pid_t client = start_with_a_limited_client(rig);

        rig_wait(rig, has_limit, LIMIT, "the limit is set");
        rig_end_client(rig, client, SIGTERM);
        rig_leave(rig);
        rig_start(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait(rig, has_limit, LIMIT, "the limit is known again");
        assert_int_equal(release(rig, "g1").err.kind, ERROR_NONE);
        rig_wait(rig, has_no_limit, NULL, "the limit is taken away");
}

static void test_a_changed_limit_is_set_again(void **state)
{
        struct rig *rig = *state;

        start_with_a_limited_client(rig);
        rig_wait(rig, has_limit, LIMIT, "the limit is set");
        rig_write(rig, limit_file(rig), "0 4294967296\n");
        rig_wait(rig, has_limit, LIMIT, "the limit is set again");
        assert_int_equal(unlink(limit_file(rig)), 0);
        rig_wait(rig, has_limit, LIMIT, "the limit is set again");
}

static void test_a_limit_is_forgotten_with_the_folder_of_its_container(void **state)
{
        struct rig *rig = *state;
        const pid_t client = start_with_a_limited_client(rig);

        rig_wait(rig, has_limit, LIMIT, "the limit is set");
        rig_end_client(rig, client, SIGTERM);
        rig_wait_for_clients(rig, GPU_A, 0);
        remove_cgroup(rig);
        rig_wait(rig, has_no_limit, NULL, "the limit is forgotten");
}

static void test_a_client_whose_container_has_no_folder_any_more_gets_no_limit_again_and_again(void **state)
{
        struct rig *rig = *state;
        unsigned int changes;

        start_with_a_limited_client(rig);
        rig_wait(rig, has_limit, LIMIT, "the limit is set");
        remove_cgroup(rig);
        rig_wait(rig, has_no_limit, NULL, "the limit is forgotten");
        changes = rig->changes;
        for (unsigned int i = 0; i < 50; i++) /* each run ends at a change of the status */
                rig_run_for(rig, 10);
        assert_in_range(rig->changes - changes, 0, 10);
}

static bool has_problem(struct rig *rig, const void *data)
{
        const struct mps_daemon_status *status = rig_status(rig, GPU_A);

        return status && status->n_limits == 1 && !status->limits[0].is_in_force && status->limits[0].problem &&
               strstr(status->limits[0].problem, data);
}

static void test_a_driver_without_limits_of_containers_serves_and_says_so(void **state)
{
        struct rig *rig = *state;

        start_with_a_limited_client(rig);
        rig_wait(rig, has_limit, LIMIT, "the limit is set");
        rig_drive(rig, "615.10.01",
                ", errors: {nvmlDeviceSetMemoryLimits_v1: FUNCTION_NOT_FOUND, nvmlDeviceGetMemoryLimits_v1: FUNCTION_NOT_FOUND}",
                "");
        unlink(limit_file(rig));
        rig_wait(rig, has_problem, "FUNCTION_NOT_FOUND", "the problem is told");
        assert_int_equal(rig_status(rig, GPU_A)->state, MPS_READY);
        assert_int_equal(rig_status(rig, GPU_A)->tier, MPS_TIER_NAMESPACE);
}

static void test_a_container_that_names_no_namespace_has_no_limit_as_a_whole(void **state)
{
        struct rig *rig = *state;

        rig->system_root = rig_path(rig, "%s/system", rig->root);
        make_cgroup(rig);
        start_with_namespaces(rig);
        assert_int_equal(allocation_with(rig, "g1", 250, 2048).err.kind, ERROR_NONE);
        put_into_container(rig, rig_client_at(rig, GPU_A "/pipe", NULL, "/dev/null"), CONTAINER);
        rig_wait(rig, knows_container, NULL, "the client is known");
        assert_string_equal(rig_status(rig, GPU_A)->clients[0].name_space, "default");
        assert_int_equal(rig_status(rig, GPU_A)->n_limits, 0);
}

/* ---- allocations that need nothing ---- */

static void test_an_allocation_that_needs_nothing_made_is_answered_with_the_tier(void **state)
{
        struct rig *rig = *state;
        struct answer answer;

        rig_start_both(rig);
        answer = allocation_of(rig, "g1", GPU_A, 8);
        assert_int_equal(answer.err.kind, ERROR_NONE);
        assert_int_equal(answer.tier, MPS_TIER_DEFAULT);
        assert_string_equal(answer.partition, "");
        assert_string_equal(answer.pipe, "");
}

static void test_an_allocation_of_no_daemon_or_one_that_is_not_ready_is_refused(void **state)
{
        struct rig *rig = *state;
        struct answer answer;

        rig_behave(rig, "daemon: exits 7\n");
        rig_start(rig);
        rig_apply_both(rig);
        answer = allocation_of(rig, "g1", "nvidia.com/gpu", 8);
        assert_int_equal(answer.err.kind, ERROR_NOT_FOUND);
        assert_string_equal(answer.err.text, "MPS daemon 'nvidia.com/gpu' is not known here");
        answer = allocation_of(rig, "g1", GPU_A, 8);
        assert_int_equal(answer.err.kind, ERROR_UNAVAILABLE);
        assert_string_equal(answer.err.text, "MPS daemon '" GPU_A "' is not ready");
}

/* ---- clients ---- */

static pid_t start_with_a_client(struct rig *rig)
{
        pid_t client;

        rig->system_root = rig_path(rig, "%s/system", rig->root);
        rig_start_both(rig);
        client = rig_client(rig, GPU_A, "--memory=1000");
        put_into_container(rig, client, CONTAINER);
        rig_wait(rig, knows_container, NULL, "the client's container is known");
        return client;
}

static bool knows_memory(struct rig *rig, const void *data UNUSED)
{
        const struct mps_client *client = &rig_status(rig, GPU_A)->clients[0];

        return client->memory != UINT64_MAX && client->memory >= UINT64_C(1000) << 20;
}

static void test_a_client_is_known_with_its_pod_its_memory_and_its_limits(void **state)
{
        struct rig *rig = *state;
        const pid_t pid = start_with_a_client(rig);
        const struct mps_client *client;

        rig_wait(rig, knows_memory, NULL, "the client's memory is known");
        client = &rig_status(rig, GPU_A)->clients[0];
        assert_int_equal(client->pid, pid);
        assert_int_equal(client->server, rig_status(rig, GPU_A)->servers[0].pid);
        assert_int_equal(client->uid, 1000);
        assert_string_equal(client->unit, GPU_A);
        assert_string_equal(client->pod_uid, POD);
        assert_string_equal(client->container_id, CONTAINER);
        assert_int_equal(client->threads_permille, 250);
        assert_int_equal(client->limit_mib, 8192);
        assert_string_equal(rig_status(rig, GPU_A)->servers[0].status, "ACTIVE");
}

static void test_a_client_is_terminated_only_in_the_container_that_was_meant(void **state)
{
        struct rig *rig = *state;
        const pid_t client = start_with_a_client(rig);
        struct answer answer;

        answer = terminate(rig, client, ANOTHER);
        assert_int_equal(answer.err.kind, ERROR_DENIED);
        answer = terminate(rig, client, NULL);
        assert_int_equal(answer.err.kind, ERROR_DENIED);
        answer = terminate(rig, getpid(), CONTAINER);
        assert_int_equal(answer.err.kind, ERROR_NOT_FOUND);
        rig_wait_for_clients(rig, GPU_A, 1);
        answer = terminate(rig, client, CONTAINER);
        assert_int_equal(answer.err.kind, ERROR_NONE);
        rig_wait_for_clients(rig, GPU_A, 0);
}

static void test_requests_are_answered_when_their_daemon_ends(void **state)
{
        struct rig *rig = *state;
        const pid_t client = start_with_a_client(rig);
        struct answer answer = {0};

        mps_allocations_terminate(
                mps_supervisor_allocations(rig->supervisor), GPU_A, client, CONTAINER, on_done, &answer);
        rig_leave(rig);
        assert_true(answer.is_there);
        assert_int_equal(answer.err.kind, ERROR_UNAVAILABLE);
}

static void test_a_daemon_that_is_full_says_so(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);
        struct mps_unit unit = daemon.units[0];

        unit.clients = 2;
        daemon.units = &unit;
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_client(rig, GPU_A, NULL);
        rig_wait_for_clients(rig, GPU_A, 1);
        assert_null(rig_status(rig, GPU_A)->notice);
        rig_client(rig, GPU_A, NULL);
        rig_wait(rig, has_notice, "it has 2 clients, the most that its GPU takes", "the notice");
        assert_int_equal(rig_status(rig, GPU_A)->max_clients, 2);
}

static void test_clients_of_a_daemon_with_two_units_are_told_apart(void **state)
{
        struct rig *rig = *state;
        struct mps_daemon_wanted daemon = rig_daemon(rig, GPU_A, 8192);
        const struct mps_unit units[] = {daemon.units[0], rig_daemon(rig, GPU_B, 1630).units[0]};

        daemon.name = "nvidia.com/gpu";
        daemon.units = units;
        daemon.n_units = 2;
        rig_start(rig);
        rig_apply(rig, &daemon, 1);
        rig_wait_for_state(rig, "nvidia.com/gpu", MPS_READY);
        assert_string_equal(rig_ask(rig, "nvidia.com/gpu", "get_default_device_pinned_mem_limit 0"), "8G\n");
        assert_string_equal(rig_ask(rig, "nvidia.com/gpu", "get_default_device_pinned_mem_limit 1"), "1G\n");
        rig_client(rig, "nvidia.com/gpu", NULL);
        rig_wait_for_clients(rig, "nvidia.com/gpu", 1);
        assert_non_null(rig_status(rig, "nvidia.com/gpu")->clients[0].unit);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_partition_is_made_once_and_released),
                TEST(test_a_partition_that_does_not_fit_is_refused),
                TEST(test_a_mig_device_has_no_partitions),
                TEST(test_partitions_outlive_the_supervisor),
                TEST(test_partitions_of_a_daemon_that_died_are_created_again_and_the_old_ones_are_void),
                TEST(test_a_partition_without_a_holder_is_removed),
                TEST(test_a_removal_that_fails_is_tried_again),
                TEST(test_a_partition_counts_as_removed_only_when_the_list_has_it_no_more),
                TEST(test_a_partition_whose_list_cannot_be_read_may_be_there_still),
                TEST(test_a_gpu_with_fewer_chunks_than_its_partitions_need_is_reported),
                TEST(test_a_supervisor_that_takes_over_asks_for_the_chunks_again),
                TEST(test_a_namespace_that_is_missing_is_made_and_one_too_many_removed),
                TEST(test_a_namespace_is_made_again_in_each_process_and_until_it_can_be),
                TEST(test_a_namespace_has_its_own_limits_and_others_beside_it),
                TEST(test_a_namespace_is_released_when_its_clients_have_left),
                TEST(test_namespaces_of_a_daemon_that_died_are_created_again_in_the_same_place),
                TEST(test_namespaces_outlive_the_supervisor_with_and_without_its_record),
                TEST(test_a_namespace_without_its_limits_is_refused_and_does_not_stay),
                TEST(test_a_program_that_does_not_know_namespaces_serves_without),
                TEST(test_an_option_for_namespaces_that_is_not_known_is_left_out),
                TEST(test_a_daemon_that_refuses_its_limits_in_a_namespace_serves_without),
                TEST(test_a_client_that_the_daemon_does_not_know_is_none),
                TEST(test_a_client_in_a_namespace_is_terminated),
                TEST(test_the_memory_of_a_container_is_limited_as_a_whole_until_its_allocation_is_released),
                TEST(test_a_limit_is_found_after_a_restart_and_taken_away_with_its_allocation),
                TEST(test_a_changed_limit_is_set_again),
                TEST(test_a_limit_is_forgotten_with_the_folder_of_its_container),
                TEST(test_a_client_whose_container_has_no_folder_any_more_gets_no_limit_again_and_again),
                TEST(test_a_driver_without_limits_of_containers_serves_and_says_so),
                TEST(test_a_container_that_names_no_namespace_has_no_limit_as_a_whole),
                TEST(test_an_allocation_that_needs_nothing_made_is_answered_with_the_tier),
                TEST(test_an_allocation_of_no_daemon_or_one_that_is_not_ready_is_refused),
                TEST(test_a_client_is_known_with_its_pod_its_memory_and_its_limits),
                TEST(test_a_client_is_terminated_only_in_the_container_that_was_meant),
                TEST(test_requests_are_answered_when_their_daemon_ends),
                TEST(test_a_daemon_that_is_full_says_so),
                TEST(test_clients_of_a_daemon_with_two_units_are_told_apart),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
