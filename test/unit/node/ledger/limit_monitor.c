// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "node/ledger/limit_monitor.h"

#define MIB (UINT64_C(1) << 20)
#define C1 "c1c1c1c1c1c1c1c1c1c1c1c1"
#define C2 "c2c2c2c2c2c2c2c2c2c2c2c2"

/* One daemon with two units at most; time goes by two seconds a look. */
struct scene {
        struct limit_monitor limit_monitor;
        int64_t now;
        const struct limit_monitor_allocation *allocations;
        size_t n_allocations;
        const struct mps_client *clients;
        size_t n_clients;
        size_t n_units;
        bool is_silent;                   /* kubelet does not answer */
        bool is_frozen;                   /* the supervisor */
        struct limit_monitor_proof proof; /* what it has answered */
        struct map pods;                  /* in its record */
        struct limit_monitor_report report;
};

static void scene_init(struct scene *scene)
{
        *scene = (struct scene){.n_units = 1};
        scene->proof = (struct limit_monitor_proof){
                .listed_at = INT64_MIN, .looked_at = INT64_MIN, .allocated_at = INT64_MIN, .pods = &scene->pods};
}

static void scene_done(struct scene *scene)
{
        limit_monitor_done(&scene->limit_monitor);
        map_done(&scene->pods);
}

#define set_allocations(scene, ...)                                                                                    \
        const struct limit_monitor_allocation allocations[] = {__VA_ARGS__};                                           \
        (scene)->allocations = allocations;                                                                            \
        (scene)->n_allocations = ARRAY_SIZE(allocations)
#define set_clients(scene, ...)                                                                                        \
        const struct mps_client clients[] = {__VA_ARGS__};                                                             \
        (scene)->clients = clients;                                                                                    \
        (scene)->n_clients = ARRAY_SIZE(clients)

/* A list or a look that is wanted comes at once, and with it the next poll; what that finds is added to the report. */
static void poll_as(struct scene *scene, enum guard_mode mode)
{
        static const char *const units[] = {"GPU-a", "GPU-b"};
        const struct mps_daemon_status daemon = {.name = "GPU-a",
                .units = units,
                .n_units = scene->n_units,
                .state = MPS_READY,
                .clients = scene->clients,
                .n_clients = scene->n_clients};
        const struct mps_status status = {.daemons = &daemon, .n_daemons = 1};

        scene->now += 2000;
        limit_monitor_poll(&scene->limit_monitor, mode, scene->allocations, scene->n_allocations, &status,
                &scene->proof, scene->now, &scene->report);
        for (size_t i = 0; i < 2; i++) {
                const bool is_listed = scene->report.wants_list && !scene->is_silent;
                const bool is_looked = scene->report.wants_look && !scene->is_frozen;
                struct limit_monitor_report again;

                if (!is_listed && !is_looked)
                        break;
                if (is_listed)
                        scene->proof.listed_at = scene->now;
                if (is_looked)
                        scene->proof.looked_at = scene->now;
                limit_monitor_poll(&scene->limit_monitor, mode, scene->allocations, scene->n_allocations, &status,
                        &scene->proof, scene->now, &again);
                if (again.n_appeared) {
                        assert_int_equal(scene->report.n_appeared, 0);
                        scene->report.appeared = again.appeared;
                        scene->report.n_appeared = again.n_appeared;
                }
                scene->report.ending = again.ending;
                scene->report.n_ending = again.n_ending;
                scene->report.wants_list = again.wants_list;
                scene->report.wants_look = again.wants_look;
        }
}

static void poll(struct scene *scene)
{
        poll_as(scene, GUARD_TERMINATE);
}

/* "memory 4711 g1" for each, separated by ';'; with '!' where it is certain. */
static void assert_violations(const struct limit_violation *const *violations, size_t count, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < count; i++)
                strbuf_printf(&text, "%s%s%s %d %s", i ? ";" : "", limit_violation_kind_name(violations[i]->kind),
                        violations[i]->is_certain ? "!" : "", (int)violations[i]->client,
                        violations[i]->allocation ? violations[i]->allocation : "-");
        assert_string_equal(text.data, expected);
}

static void assert_appeared(const struct scene *scene, const char *expected)
{
        assert_violations(scene->report.appeared, scene->report.n_appeared, expected);
}

static void assert_ending(const struct scene *scene, const char *expected)
{
        assert_violations(scene->report.ending, scene->report.n_ending, expected);
}

/* What two looks in a row tell. */
static void assert_found(struct scene *scene, const char *expected)
{
        poll(scene);
        assert_appeared(scene, "");
        poll(scene);
        assert_appeared(scene, expected);
}

static void assert_text(const struct scene *scene, const char *expected)
{
        assert_int_equal(scene->report.n_appeared, 1);
        assert_string_equal(scene->report.appeared[0]->text, expected);
}

/* ---- memory ---- */

static void test_processes_of_one_container_are_added_up(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", "default/train", 4096, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB},
                {.pid = 12, .pod_uid = "p1", .container_id = C1, .memory = 2200 * MIB});
        assert_found(&scene, "memory! 12 g1");
        assert_text(&scene,
                "container c1c1c1c1c1c1 of pod default/train on GPU-a (daemon GPU-a) uses 4200 MiB in 2 processes, "
                "allocated are 4096 MiB (allocation g1); process 12 uses most, 2200 MiB");
        assert_int_equal(scene.report.appeared[0]->measured, 4200);
        assert_int_equal(scene.report.appeared[0]->granted, 4096);
        assert_string_equal(scene.report.appeared[0]->pod_uid, "p1");
        assert_string_equal(scene.report.appeared[0]->container_id, C1);
        assert_ending(&scene, "memory! 12 g1");
}

/* An entry of its variable for a GPU that it does not see has lifted the limits of the driver. */
static void test_a_process_without_the_limit_of_its_namespace_is_a_violation_by_what_it_uses(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", "default/train", 2048, 250, MPS_TIER_NAMESPACE});
        set_clients(&scene, {.pid = 11,
                                    .pod_uid = "p1",
                                    .container_id = C1,
                                    .name_space = "g1",
                                    .limit_mib = 96768,
                                    .memory = 8000 * MIB});
        assert_found(&scene, "memory! 11 g1");
        assert_int_equal(scene.report.appeared[0]->granted, 2048);
}

static void test_what_the_driver_rounds_up_is_let_pass(void **state UNUSED)
{
        static const struct {
                uint64_t memory;
                const char *expected;
        } rows[] = {{4096 * MIB, ""}, {(4096 + LIMIT_MONITOR_TOLERANCE_MIB) * MIB, ""},
                {(4096 + LIMIT_MONITOR_TOLERANCE_MIB) * MIB + 1, "memory! 11 g1"}, {UINT64_MAX, ""}};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_(scene_done) struct scene scene;

                scene_init(&scene);
                set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 4096, 500, MPS_TIER_DEFAULT},
                        {"g2", "GPU-a", "p2", NULL, 0, 1000, MPS_TIER_DEFAULT});
                set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = rows[i].memory},
                        {.pid = 12, .pod_uid = "p2", .container_id = C2, .memory = 9000 * MIB});
                assert_found(&scene, rows[i].expected);
        }
}

static void test_another_pod_is_not_counted(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 4096, 500, MPS_TIER_DEFAULT},
                {"g2", "GPU-a", "p2", NULL, 4096, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 4000 * MIB},
                /* says that it is the other, and is not believed */
                {.pid = 12, .pod_uid = "p2", .container_id = C2, .memory = 4000 * MIB, .allocation = "g1"});
        assert_found(&scene, "claim 12 g1");
        assert_text(&scene,
                "container c2c2c2c2c2c2 of pod p2 on GPU-a (daemon GPU-a): process 12 claims allocation g1, which "
                "belongs to pod p1");
        assert_ending(&scene, "");
}

static void test_a_claim_chooses_among_the_allocations_of_a_pod_but_proves_nothing(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT},
                {"g2", "GPU-a", "p1", NULL, 3000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 1500 * MIB, .allocation = "g1"},
                {.pid = 12, .pod_uid = "p1", .container_id = C2, .memory = 2000 * MIB, .allocation = "g2"});
        assert_found(&scene, "memory 11 g1");
        assert_ending(&scene, "");
}

static void test_without_a_claim_the_allocations_of_a_pod_count_together(void **state UNUSED)
{
        static const struct {
                uint64_t second;
                const char *container;
                const char *expected;
        } rows[] = {{2400, C1, ""}, {2600, C1, "memory! 12 -"}, {2600, C2, "memory 12 -"}};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_(scene_done) struct scene scene;

                scene_init(&scene);
                set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT},
                        {"g2", "GPU-a", "p1", NULL, 3000, 500, MPS_TIER_DEFAULT});
                set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 1500 * MIB},
                        {.pid = 12,
                                .pod_uid = "p1",
                                .container_id = rows[i].container,
                                .memory = rows[i].second * MIB});
                assert_found(&scene, rows[i].expected);
        }
}

static void test_of_two_containers_on_one_allocation_neither_is_ended(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 800 * MIB},
                {.pid = 12, .pod_uid = "p1", .container_id = C2, .memory = 700 * MIB});
        assert_found(&scene, "memory 11 g1");
        assert_ending(&scene, "");
}

/* ---- limits in force ---- */

static void test_a_server_that_allows_more_than_the_allocation_is_found_where_nothing_else_limits(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 4096, 333, MPS_TIER_DEFAULT},
                {"g2", "GPU-a", "p2", NULL, 4096, 333, MPS_TIER_PARTITION},
                {"g3", "GPU-a", "p3", NULL, 4096, 333, MPS_TIER_VERIFIED});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .threads_permille = 1000},
                {.pid = 12, .pod_uid = "p1", .container_id = C1, .threads_permille = 333, .limit_mib = 4096},
                {.pid = 13, .pod_uid = "p1", .container_id = C1, .limit_mib = 8192},
                {.pid = 13, .pod_uid = "p1", .container_id = C1, .limit_mib = 8192},
                {.pid = 14, .pod_uid = "p2", .container_id = C2, .threads_permille = 1000, .limit_mib = 8192},
                {.pid = 15, .pod_uid = "p3", .container_id = C2, .threads_permille = 1000, .limit_mib = 8192});
        assert_found(&scene, "limit 11 g1;limit 13 g1");
        assert_string_equal(scene.report.appeared[0]->text,
                "container c1c1c1c1c1c1 of pod p1 on GPU-a (daemon GPU-a): process 11 may use 100.0 % of the threads "
                "according to its server's log, allocated are 33.3 % (allocation g1)");
        assert_string_equal(scene.report.appeared[1]->text,
                "container c1c1c1c1c1c1 of pod p1 on GPU-a (daemon GPU-a): process 13 may allocate 8192 MiB "
                "according to its server's log, allocated are 4096 MiB (allocation g1)");
}

/* ---- who should not be there ---- */

static void test_a_pod_without_an_allocation_on_the_unit_is_external(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        scene.n_units = 2;
        set_allocations(&scene, {"g1", "GPU-b", "p1", "default/a", 4096, 333, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .unit = "GPU-a", .pod_uid = "p1", .container_id = C1, .memory = 300 * MIB},
                {.pid = 12, .unit = "GPU-a", .pod_uid = "p1", .container_id = C1, .memory = 500 * MIB},
                {.pid = 13, .unit = "GPU-b", .pod_uid = "p1", .container_id = C1, .memory = 500 * MIB});
        assert_found(&scene, "unallocated! 12 -");
        assert_text(&scene,
                "container c1c1c1c1c1c1 of pod default/a on GPU-a (daemon GPU-a) has no allocation on this unit but "
                "2 processes with 800 MiB; process 12 uses most, 500 MiB");
        assert_ending(&scene, "unallocated! 12 -");
}

static void test_no_process_is_external_while_an_owner_is_not_known(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", NULL, NULL, 4096, 333, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 9000 * MIB, .allocation = "g1"});
        assert_found(&scene, "unknown 11 -");
        assert_text(&scene,
                "1 MPS clients of daemon GPU-a with 9000 MiB have no known owner, one of them process 11: their pod "
                "has no allocation there, but some allocations have no known owner yet");
        assert_ending(&scene, "");
}

/* A program may run before kubelet was asked whose the newest allocation is, and kubelet may be slow. */
static void test_a_process_whose_owner_kubelet_has_yet_to_name_is_reported_only_if_it_does_not(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        scene.is_silent = true;
        set_allocations(&scene, {"g1", "GPU-a", NULL, NULL, 4096, 333, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB});
        for (int64_t waited = 0; waited < LIMIT_MONITOR_UNLISTED_MS; waited += 2000) {
                poll(&scene);
                assert_appeared(&scene, "");
                assert_true(scene.report.wants_list);
        }
        poll(&scene);
        assert_appeared(&scene, "unknown 11 -");
        poll(&scene);
        assert_false(scene.report.wants_list);
}

static void test_processes_that_cannot_be_seen_are_reported_together(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_clients(&scene, {.pid = 0}, {.pid = 0, .memory = 70 * MIB},
                {.pid = 0, .allocation = "g1", .memory = UINT64_MAX});
        assert_found(&scene, "unknown 0 -");
        assert_text(&scene,
                "3 MPS clients of daemon GPU-a with 70 MiB have no known owner, one of them process 0: their PIDs are "
                "not visible, the daemon needs the host's PID namespace");
}

static void test_a_process_of_no_pod_is_left_alone(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1, 1, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .memory = 9000 * MIB, .allocation = "g1", .threads_permille = 1000});
        assert_found(&scene, "unknown 11 -");
        assert_text(&scene,
                "1 MPS clients of daemon GPU-a with 9000 MiB have no known owner, one of them process 11: no pod is in "
                "their cgroups");
        assert_ending(&scene, "");
}

static void test_an_unknown_allocation_in_the_environment_is_a_claim(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 0, 1000, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .allocation = "g7"},
                {.pid = 12, .pod_uid = "p1", .container_id = C1, .allocation = "g1"});
        assert_found(&scene, "claim 11 g7");
}

/* ---- when it is told, and who is ended ---- */

static void test_a_violation_is_reported_once_and_once_more_when_it_has_ended(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB});
        assert_found(&scene, "memory! 11 g1");
        assert_int_equal(scene.report.appeared[0]->since, 2000);
        poll(&scene);
        assert_appeared(&scene, "");
        assert_violations(scene.report.standing, scene.report.n_standing, "memory! 11 g1");
        scene.n_clients = 0;
        poll(&scene);
        assert_violations(scene.report.gone, scene.report.n_gone, "memory! 11 g1");
        assert_int_equal(scene.report.n_standing, 0);
        poll(&scene);
        assert_int_equal(scene.report.n_gone, 0);
}

static void test_what_was_there_at_one_look_only_is_nothing(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB});
        for (unsigned int i = 0; i < 3; i++) {
                scene.n_clients = 1;
                poll(&scene);
                assert_appeared(&scene, "");
                scene.n_clients = 0;
                poll(&scene);
                assert_int_equal(scene.report.n_gone, 0);
        }
        /* Nor at two that are too near. */
        scene.n_clients = 1;
        poll(&scene);
        scene.now -= 2000 - LIMIT_MONITOR_LASTING_MS + 1;
        poll(&scene);
        assert_appeared(&scene, "");
        scene.now -= 1999;
        poll(&scene);
        assert_appeared(&scene, "memory! 11 g1");
}

/* The supervisor looked when the process was there, and its status still has it after it has ended. */
static void test_a_process_that_ends_before_the_violation_has_lasted_is_nothing(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB});
        poll(&scene);
        scene.is_frozen = true;
        scene.proof.looked_at = scene.now + LIMIT_MONITOR_LASTING_MS - 1;
        poll(&scene);
        assert_appeared(&scene, "");
        assert_true(scene.report.wants_look);
        scene.n_clients = 0;
        scene.is_frozen = false;
        poll(&scene);
        assert_appeared(&scene, "");
        assert_int_equal(scene.report.n_gone, 0);
        assert_false(scene.report.wants_look);
}

static void test_one_process_is_ended_at_a_time_and_the_next_later(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;
        struct mps_client clients[] = {{.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 1500 * MIB},
                {.pid = 12, .pod_uid = "p1", .container_id = C1, .memory = 1800 * MIB}};

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        scene.clients = clients;
        scene.n_clients = 2;
        poll(&scene);
        poll(&scene);
        assert_ending(&scene, "memory! 12 g1");
        scene.n_clients = 1;
        for (int64_t ms = 2000; ms < LIMIT_MONITOR_PATIENCE_MS; ms += 2000) {
                poll(&scene);
                assert_ending(&scene, "");
        }
        poll(&scene);
        assert_ending(&scene, "memory! 11 g1");
}

static void test_the_mode_decides_what_is_done(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 1500 * MIB});
        poll_as(&scene, GUARD_REPORT);
        poll_as(&scene, GUARD_REPORT);
        assert_appeared(&scene, "memory! 11 g1");
        assert_ending(&scene, "");
        poll_as(&scene, GUARD_TERMINATE);
        assert_ending(&scene, "memory! 11 g1");
        poll_as(&scene, GUARD_OFF);
        assert_violations(scene.report.gone, scene.report.n_gone, "memory! 11 g1");
}

static void test_a_process_without_a_container_is_not_terminated(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .memory = 1500 * MIB});
        assert_found(&scene, "memory 11 g1");
        assert_ending(&scene, "");
}

/* ---- what kubelet has to have said ---- */

static void test_nothing_is_reported_before_kubelet_has_answered_after_the_process_started(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        scene.is_silent = true;
        scene.proof.listed_at = 1999; /* the process is seen at 2000: its pod may have come since */
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p2", .container_id = C1, .memory = 2000 * MIB},
                {.pid = 12, .pod_uid = "p1", .container_id = C2, .memory = 2000 * MIB, .allocation = "g7"});
        for (size_t i = 0; i < 4; i++) {
                poll(&scene);
                assert_appeared(&scene, "");
                assert_ending(&scene, "");
                assert_true(scene.report.wants_list);
        }
        scene.proof.listed_at = 2000;
        poll(&scene);
        assert_appeared(&scene, "claim 12 g7;unallocated! 11 -;memory! 12 g1");
        assert_ending(&scene, "");
}

static void test_a_pod_in_kubelets_checkpoint_is_not_external(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        map_add(&scene.pods, "p2", &scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p2", .container_id = C1, .memory = 2000 * MIB});
        assert_found(&scene, "unknown 11 -");
        assert_text(&scene,
                "1 MPS clients of daemon GPU-a with 2000 MiB have no known owner, one of them process 11: kubelet's "
                "record has their pod, but no share of this unit for it");
        assert_ending(&scene, "");
}

static void test_no_process_is_terminated_before_kubelet_was_asked_once_more(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        scene.is_silent = true;
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB});
        scene.proof.listed_at = 2000;
        poll(&scene);
        assert_false(scene.report.wants_list);
        poll(&scene); /* 4000 */
        assert_appeared(&scene, "memory! 11 g1");
        assert_ending(&scene, "");
        assert_true(scene.report.wants_list);
        poll(&scene); /* 6000: no answer yet */
        assert_ending(&scene, "");
        scene.proof.listed_at = 4000;
        scene.proof.allocated_at = 4000; /* what was given then may be the process's own */
        poll(&scene);
        assert_ending(&scene, "");
        scene.proof.listed_at = 4001;
        scene.now = 7002;
        poll(&scene); /* 9002: the answer is too old */
        assert_ending(&scene, "");
        scene.proof.listed_at = 9002;
        poll(&scene);
        assert_ending(&scene, "memory! 11 g1");
}

static void test_a_violation_that_has_ended_when_kubelet_answers_terminates_no_process(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;
        struct limit_monitor_allocation allocations[] = {{"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT}};

        scene_init(&scene);
        scene.is_silent = true;
        scene.allocations = allocations;
        scene.n_allocations = 1;
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB});
        scene.proof.listed_at = 2000;
        poll(&scene);
        poll(&scene);
        assert_appeared(&scene, "memory! 11 g1");
        allocations[0].limit_mib = 3000; /* as the answer has it */
        scene.proof.listed_at = scene.now;
        poll(&scene);
        assert_ending(&scene, "");
        assert_violations(scene.report.gone, scene.report.n_gone, "memory! 11 g1");
}

static void test_what_was_granted_is_a_guess_where_its_record_was_lost(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 1000, 500, MPS_TIER_DEFAULT, .is_guess = true},
                {"g2", "GPU-b", "p2", NULL, 1000, 500, MPS_TIER_DEFAULT, .is_guess = true});
        set_clients(&scene, {.pid = 11, .pod_uid = "p1", .container_id = C1, .memory = 2000 * MIB, .allocation = "g7"},
                {.pid = 12, .pod_uid = "p2", .container_id = C2, .memory = 2000 * MIB});
        map_add(&scene.pods, "p2", &scene);
        assert_found(&scene, "memory 11 g1;unknown 12 -");
        assert_ending(&scene, "");
}

static void test_a_limit_that_was_rounded_is_no_violation(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", NULL, 4095, 333, MPS_TIER_DEFAULT});
        set_clients(&scene,
                {.pid = 11, .pod_uid = "p1", .container_id = C1, .threads_permille = 340, .limit_mib = 4096},
                {.pid = 12, .pod_uid = "p1", .container_id = C1, .threads_permille = 344, .limit_mib = 4095},
                {.pid = 13, .pod_uid = "p1", .container_id = C1, .threads_permille = 333, .limit_mib = 4112});
        assert_found(&scene, "limit 12 g1;limit 13 g1");
}

/* ---- variables ---- */

static void test_a_program_that_was_started_without_its_thread_variable_is_reported_and_never_terminated(
        void **state UNUSED)
{
        static const struct {
                enum mps_tier tier;
                unsigned int granted;
                bool has_environment;
                unsigned int asked;
                const char *expected;
        } rows[] = {
                {MPS_TIER_VERIFIED, 350, true, 0, "variable 11 g1"},
                {MPS_TIER_VERIFIED, 350, true, 900, "variable 11 g1"},
                {MPS_TIER_VERIFIED, 350, true, 350, ""},
                {MPS_TIER_VERIFIED, 350, true, 351, ""}, /* rounding */
                {MPS_TIER_VERIFIED, 350, true, 100, ""}, /* it may have less */
                {MPS_TIER_VERIFIED, 350, false, 0, ""},  /* not readable: not known */
                {MPS_TIER_VERIFIED, 1000, true, 0, ""},
                /* where others than the variable see to it */
                {MPS_TIER_DEFAULT, 350, true, 0, ""},
                {MPS_TIER_PARTITION, 350, true, 0, ""},
                {MPS_TIER_NAMESPACE, 350, true, 900, ""},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_(scene_done) struct scene scene;

                scene_init(&scene);
                set_allocations(&scene, {"g1", "GPU-a", "p1", "default/train", 4096, rows[i].granted, rows[i].tier});
                set_clients(&scene, {.pid = 11,
                                            .pod_uid = "p1",
                                            .container_id = C1,
                                            .memory = 1,
                                            .has_environment = rows[i].has_environment,
                                            .asked_permille = rows[i].asked});
                assert_found(&scene, rows[i].expected);
                assert_ending(&scene, "");
        }
}

static void test_what_a_variable_was_and_should_be_is_said(void **state UNUSED)
{
        _cleanup_(scene_done) struct scene scene;

        scene_init(&scene);
        set_allocations(&scene, {"g1", "GPU-a", "p1", "default/train", 4096, 350, MPS_TIER_VERIFIED});
        set_clients(&scene, {.pid = 11,
                                    .pod_uid = "p1",
                                    .container_id = C1,
                                    .memory = 1,
                                    .has_environment = true,
                                    .asked_permille = 905});
        assert_found(&scene, "variable 11 g1");
        assert_text(&scene,
                "container c1c1c1c1c1c1 of pod default/train on GPU-a (daemon GPU-a): process 11 was started with "
                "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=90.5, allocated are 35.0 % (allocation g1): it may use up to the "
                "daemon's own limit");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_processes_of_one_container_are_added_up),
                cmocka_unit_test(test_a_process_without_the_limit_of_its_namespace_is_a_violation_by_what_it_uses),
                cmocka_unit_test(test_what_the_driver_rounds_up_is_let_pass),
                cmocka_unit_test(test_another_pod_is_not_counted),
                cmocka_unit_test(test_a_claim_chooses_among_the_allocations_of_a_pod_but_proves_nothing),
                cmocka_unit_test(test_without_a_claim_the_allocations_of_a_pod_count_together),
                cmocka_unit_test(test_of_two_containers_on_one_allocation_neither_is_ended),
                cmocka_unit_test(test_a_server_that_allows_more_than_the_allocation_is_found_where_nothing_else_limits),
                cmocka_unit_test(test_a_pod_without_an_allocation_on_the_unit_is_external),
                cmocka_unit_test(test_no_process_is_external_while_an_owner_is_not_known),
                cmocka_unit_test(test_a_process_whose_owner_kubelet_has_yet_to_name_is_reported_only_if_it_does_not),
                cmocka_unit_test(test_processes_that_cannot_be_seen_are_reported_together),
                cmocka_unit_test(test_a_process_of_no_pod_is_left_alone),
                cmocka_unit_test(test_an_unknown_allocation_in_the_environment_is_a_claim),
                cmocka_unit_test(test_a_violation_is_reported_once_and_once_more_when_it_has_ended),
                cmocka_unit_test(test_what_was_there_at_one_look_only_is_nothing),
                cmocka_unit_test(test_a_process_that_ends_before_the_violation_has_lasted_is_nothing),
                cmocka_unit_test(test_one_process_is_ended_at_a_time_and_the_next_later),
                cmocka_unit_test(test_the_mode_decides_what_is_done),
                cmocka_unit_test(test_a_process_without_a_container_is_not_terminated),
                cmocka_unit_test(test_nothing_is_reported_before_kubelet_has_answered_after_the_process_started),
                cmocka_unit_test(test_a_pod_in_kubelets_checkpoint_is_not_external),
                cmocka_unit_test(test_no_process_is_terminated_before_kubelet_was_asked_once_more),
                cmocka_unit_test(test_a_violation_that_has_ended_when_kubelet_answers_terminates_no_process),
                cmocka_unit_test(test_what_was_granted_is_a_guess_where_its_record_was_lost),
                cmocka_unit_test(test_a_limit_that_was_rounded_is_no_violation),
                cmocka_unit_test(
                        test_a_program_that_was_started_without_its_thread_variable_is_reported_and_never_terminated),
                cmocka_unit_test(test_what_a_variable_was_and_should_be_is_said),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
