// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "mps/wire/message.h"

static struct arena arena;

static int empty_arena(void **state UNUSED)
{
        arena_done(&arena);
        return 0;
}

static struct mps_unit unit_1 = {
        .uuid = "GPU-11111111-2222-3333-4444-555555555555",
        .gpu_uuid = "GPU-11111111-2222-3333-4444-555555555555",
        .index = "0",
        .name = "Tesla V100-SXM2-32GB",
        .memory = UINT64_C(34089730048),
        .replicas = 20,
        .sms = 80,
        .chunk_sms = 4,
        .chunks_needed = 20,
        .limit_mib = 1625,
        .replica_mib = 1624,
        .clients = 48,
};
static struct mps_unit unit_2 = {
        .uuid = "MIG-GPU-66666666/1/0",
        .gpu_uuid = "GPU-66666666",
        .index = "1:0",
        .name = "A100 MIG 1g.5gb",
        .is_mig = true,
};

static const char *const away[] = {"GPU-22222222", "GPU-33333333"};
static const struct mps_daemon_wanted daemons[] = {
        {"nvidia.com/gpu", "nvidia.com/gpu", PROVISIONING_UNIFORM, MPS_TIER_NAMESPACE, 50, &unit_1, 1, away, 2},
        {"MIG-GPU-66666666-1-0", "nvidia.com/mig-1g.5gb", PROVISIONING_SM, MPS_TIER_VERIFIED, 1000, &unit_2, 1},
};
static const struct mps_wanted wanted = {daemons, ARRAY_SIZE(daemons)};

static struct mps_request read_request(const char *line)
{
        struct mps_request request;
        struct error err;

        assert_ok(mps_request_read(&request, &arena, line, strlen(line), &err), &err);
        return request;
}

/* A line has one newline, at its end. */
static struct mps_request pass_request(const struct mps_request *request)
{
        _free_ char *line = mps_request_write(request);

        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        return read_request(line);
}

static void assert_same_wanted(const struct mps_wanted *a, const struct mps_wanted *b)
{
        assert_int_equal(a->n_daemons, b->n_daemons);
        for (size_t i = 0; i < a->n_daemons; i++) {
                const struct mps_daemon_wanted *x = &a->daemons[i];
                const struct mps_daemon_wanted *y = &b->daemons[i];

                assert_string_equal(x->name, y->name);
                assert_string_equal(x->resource, y->resource);
                assert_int_equal(x->provisioning, y->provisioning);
                assert_int_equal(x->tier_limit, y->tier_limit);
                assert_int_equal(x->threads_permille, y->threads_permille);
                assert_int_equal(x->n_units, y->n_units);
                assert_int_equal(x->n_away, y->n_away);
                for (size_t j = 0; j < x->n_away; j++)
                        assert_string_equal(x->away[j], y->away[j]);
                assert_string_equal(x->units[0].uuid, y->units[0].uuid);
                assert_string_equal(x->units[0].gpu_uuid, y->units[0].gpu_uuid);
                assert_string_equal(x->units[0].index, y->units[0].index);
                assert_string_equal(x->units[0].name, y->units[0].name);
                assert_int_equal(x->units[0].is_mig, y->units[0].is_mig);
                assert_int_equal(x->units[0].memory, y->units[0].memory);
                assert_int_equal(x->units[0].replicas, y->units[0].replicas);
                assert_int_equal(x->units[0].sms, y->units[0].sms);
                assert_int_equal(x->units[0].chunk_sms, y->units[0].chunk_sms);
                assert_int_equal(x->units[0].chunks_needed, y->units[0].chunks_needed);
                assert_int_equal(x->units[0].limit_mib, y->units[0].limit_mib);
                assert_int_equal(x->units[0].replica_mib, y->units[0].replica_mib);
                assert_int_equal(x->units[0].clients, y->units[0].clients);
        }
}

static void test_what_is_wanted_arrives_as_it_was(void **state UNUSED)
{
        const struct mps_request sent = {.kind = MPS_REQUEST_APPLY, .id = 1, .generation = 7, .wanted = wanted};
        struct mps_request request = pass_request(&sent);

        assert_int_equal(request.kind, MPS_REQUEST_APPLY);
        assert_int_equal(request.id, 1);
        assert_int_equal(request.generation, 7);
        assert_same_wanted(&request.wanted, &wanted);
}

/* An older side says nothing of them, which is not the same as none. */
static void test_what_is_granted_arrives_with_what_is_wanted(void **state UNUSED)
{
        static const struct mps_allocation_request allocations[] = {{"g1f", "nvidia.com/gpu", "GPU-1", 350, 5687, 24}};
        const struct mps_request sent = {.kind = MPS_REQUEST_APPLY,
                .wanted = wanted,
                .has_allocations = true,
                .allocations = allocations,
                .n_allocations = 1};
        const struct mps_request none = {.kind = MPS_REQUEST_APPLY, .wanted = wanted, .has_allocations = true};
        struct mps_request request = pass_request(&sent);

        assert_true(request.has_allocations);
        assert_int_equal(request.n_allocations, 1);
        assert_string_equal(request.allocations[0].id, "g1f");
        assert_int_equal(request.allocations[0].limit_mib, 5687);
        assert_int_equal(request.allocations[0].sms, 24);
        request = pass_request(&none);
        assert_true(request.has_allocations);
        assert_int_equal(request.n_allocations, 0);
        assert_false(read_request("{\"do\":\"apply\",\"daemons\":[]}").has_allocations);
}

static void test_nothing_may_be_wanted(void **state UNUSED)
{
        assert_int_equal(read_request("{\"do\":\"apply\",\"daemons\":[]}").wanted.n_daemons, 0);
        assert_false(read_request("{\"do\":\"apply\",\"daemons\":[]}").wanted.ends_clients);
        assert_true(read_request("{\"do\":\"apply\",\"daemons\":[],\"endsClients\":true}").wanted.ends_clients);
}

static void test_an_allocation_arrives_as_it_was(void **state UNUSED)
{
        const struct mps_request sent = {
                .kind = MPS_REQUEST_ALLOCATION,
                .id = 2,
                .allocation = {"g1f", "nvidia.com/gpu", "GPU-1", 350, 5687, 24},
        };
        struct mps_request request = pass_request(&sent);

        assert_int_equal(request.kind, MPS_REQUEST_ALLOCATION);
        assert_int_equal(request.id, 2);
        assert_string_equal(request.allocation.id, "g1f");
        assert_string_equal(request.allocation.daemon, "nvidia.com/gpu");
        assert_string_equal(request.allocation.unit, "GPU-1");
        assert_int_equal(request.allocation.threads_permille, 350);
        assert_int_equal(request.allocation.limit_mib, 5687);
        assert_int_equal(request.allocation.sms, 24);
}

static void test_the_other_requests_arrive_as_they_were(void **state UNUSED)
{
        const struct mps_request release = {.kind = MPS_REQUEST_RELEASE, .id = 3, .allocation = {.id = "g1f"}};
        const struct mps_request terminate = {
                .kind = MPS_REQUEST_TERMINATE, .id = 4, .daemon = "GPU-1", .client = 4711, .container_id = "0a1b"};
        const struct mps_request watch = {.kind = MPS_REQUEST_WATCH};
        const struct mps_request ping = {.kind = MPS_REQUEST_PING, .id = 5};
        const struct mps_request look = {.kind = MPS_REQUEST_PING, .is_look = true};
        struct mps_request request = pass_request(&release);

        assert_int_equal(request.kind, MPS_REQUEST_RELEASE);
        assert_string_equal(request.allocation.id, "g1f");
        request = pass_request(&terminate);
        assert_int_equal(request.kind, MPS_REQUEST_TERMINATE);
        assert_string_equal(request.daemon, "GPU-1");
        assert_int_equal(request.client, 4711);
        assert_string_equal(request.container_id, "0a1b");
        assert_int_equal(pass_request(&watch).kind, MPS_REQUEST_WATCH);
        assert_int_equal(pass_request(&ping).id, 5);
        assert_false(pass_request(&ping).is_look);
        assert_true(pass_request(&look).is_look);
}

static void test_unknown_members_are_ignored(void **state UNUSED)
{
        struct mps_request request = read_request("{\"do\":\"release\",\"id\":3,\"grant\":\"g\",\"since\":\"v2\"}");

        assert_string_equal(request.allocation.id, "g");
}

#define UNIT "{\"uuid\":\"GPU-1\",\"gpuUuid\":\"GPU-1\",\"index\":\"0\",\"name\":\"V100\"}"
#define DAEMON(name, more) "{\"name\":\"" name "\",\"resource\":\"r\",\"threadsPermille\":1000" more "}"
#define APPLY(daemon) "{\"do\":\"apply\",\"daemons\":[" daemon "]}"
#define UNITS ",\"units\":[" UNIT "]"
#define PATH_RULE "must be a relative path of letters, digits, '.', '-' and '_', of at most 255 bytes"

static const struct {
        const char *line;
        const char *text;
} wrong[] = {
        {"", "request: no JSON: '[' or '{' expected near end of file"},
        {"[]", "request: no JSON object"},
        {"{}", "request: do: missing"},
        {"{\"do\":\"dance\"}", "request: do: is none of the known words, of which 'watch' is one"},
        {"{\"do\":\"watch\",\"id\":-1}", "request: id: -1, must be a number from 0 to 9223372036854775807"},
        {"{\"do\":\"watch\",\"do\":\"watch\"}", "request: no JSON: duplicate object key near '\"do\"'"},
        {"{\"do\":\"apply\"}", "request: daemons: missing"},
        {"{\"do\":\"apply\",\"daemons\":{}}", "request: daemons: must be a list of 0 to 1024"},
        {APPLY("5"), "request: daemons[0]: name: missing"},
        {APPLY(DAEMON("..", UNITS)), "request: daemons[0]: name: " PATH_RULE},
        {APPLY(DAEMON("/gpu", UNITS)), "request: daemons[0]: name: " PATH_RULE},
        {APPLY(DAEMON("a/../../b", UNITS)), "request: daemons[0]: name: " PATH_RULE},
        {APPLY(DAEMON("a/", UNITS)), "request: daemons[0]: name: " PATH_RULE},
        {APPLY(DAEMON("a b", UNITS)), "request: daemons[0]: name: " PATH_RULE},
        {APPLY(DAEMON("a", "")), "request: daemons[0]: units: must be a list of 1 to 1024"},
        {APPLY(DAEMON("a", ",\"units\":[{\"uuid\":\"GPU-1\\nquit\"}]")),
                "request: daemons[0]: units[0]: uuid: must be a UUID: letters, digits, '-' and '/', of at most 127 bytes"},
        {APPLY(DAEMON("a", UNITS ",\"tierLimit\":\"best\"")),
                "request: daemons[0]: tierLimit: is none of the known words, of which 'default' is one"},
        {APPLY("{\"name\":\"a\",\"resource\":\"r\"" UNITS "}"),
                "request: daemons[0]: threadsPermille: must be a number from 1 to 1000"},
        {"{\"do\":\"grant\",\"id\":1}", "request: grant: missing"},
        {"{\"do\":\"release\",\"id\":1,\"grant\":\"G 1\"}",
                "request: grant: must be 1 to 64 of a-z, 0-9 and '_', of at most 64 bytes"},
        {"{\"do\":\"terminate\",\"id\":1,\"daemon\":\"a\"}", "request: client: must be a number from 1 to 2147483647"},
        {"{\"do\":\"terminate\",\"id\":1,\"daemon\":\"a\",\"client\":1,\"container\":\"\\u001b[2J\"}",
                "request: container: must be text without control characters, of at most 1024 bytes"},
};

static void test_a_wrong_request_is_refused_with_what_is_wrong(void **state UNUSED)
{
        struct mps_request request;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                assert_fails(mps_request_read(&request, &arena, wrong[i].line, strlen(wrong[i].line), &err), &err,
                        ERROR_INVALID, wrong[i].text);
}

/* ---- answers ---- */

static struct mps_answer read_answer(const char *line)
{
        struct mps_answer answer;
        struct error err;

        assert_ok(mps_answer_read(&answer, &arena, line, strlen(line), &err), &err);
        return answer;
}

static struct mps_answer pass_answer(const struct mps_answer *answer)
{
        _free_ char *line = mps_answer_write(answer);

        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        return read_answer(line);
}

static const char *const units[] = {"GPU-1", "GPU-2"};

static const struct mps_client clients[] = {
        {
                .pid = 100,
                .server = 90,
                .uid = 1000,
                .unit = "GPU-1",
                .pod_uid = "uid-1",
                .container_id = "0a1b",
                .name_space = "n1",
                .allocation = "g1",
                .has_environment = true,
                .asked_permille = 350,
                .memory = UINT64_C(1) << 30,
                .threads_permille = 350,
                .limit_mib = 5687,
        },
        {.pid = 101, .server = 90, .uid = (uid_t)-1, .unit = "GPU-2", .memory = UINT64_MAX},
        {.pid = 102, .server = 90, .uid = 0, .memory = 4096},
};

static const struct mps_server servers[] = {{90, 0, "ACTIVE"}, {91, (uid_t)-1, NULL}};

static const struct mps_container_limit limits[] = {
        {.allocation = "g1", .unit = "GPU-1", .cgroup = "/kubepods/pod1/c1", .limit_mib = 5687, .is_in_force = true},
        {.allocation = "g2", .unit = "GPU-2", .cgroup = "/c2", .limit_mib = 1, .problem = "no such function"},
};

static struct mps_daemon_status statuses[] = {
        {
                .name = "nvidia.com/gpu",
                .resource = "nvidia.com/gpu",
                .units = units,
                .n_units = 2,
                .unlimited = &units[1],
                .n_unlimited = 1,
                .state = MPS_READY,
                .since = 1700000000,
                .pid = 80,
                .adopted = true,
                .restarts = 3,
                .repairs = 2,
                .can = MPS_CAN_SERVER_STATUS | MPS_CAN_TERMINATE,
                .tier = MPS_TIER_VERIFIED,
                .threads_permille = 50,
                .limit_mib = 1625,
                .servers = servers,
                .n_servers = ARRAY_SIZE(servers),
                .clients = clients,
                .n_clients = ARRAY_SIZE(clients),
                .max_clients = 48,
                .limits = limits,
                .n_limits = ARRAY_SIZE(limits),
        },
        {.name = "GPU-3",
                .resource = "nvidia.com/gpu.x",
                .state = MPS_FAULT,
                .reason = "it \"ended\" with status 1",
                .has_own_shm = true,
                .shm = {.size = 4096, .used = 1024, .files_max = 10, .files = 2}},
};
static const struct mps_holder holders[] = {
        {.unit = "GPU-1", .pod = "team/train"}, {.unit = "GPU-2", .claim = "team/serve"}};
static struct mps_status whole = {
        .holders = holders,
        .n_holders = ARRAY_SIZE(holders),
        .generation = 7,
        .daemons = statuses,
        .n_daemons = ARRAY_SIZE(statuses),
        .shm = {.size = 65536,
                .used = 61440,
                .files_max = 100,
                .files = 7,
                .is_full = true,
                .owners = {{1000, 4096, 5}, {0, 0, 1}},
                .n_owners = 2,
                .nameless = 512},
};

static void test_a_status_arrives_as_it_was(void **state UNUSED)
{
        const struct mps_answer sent = {.is_status = true, .status = &whole};
        struct mps_answer answer = pass_answer(&sent);
        const struct mps_daemon_status *first = &answer.status->daemons[0];
        const struct mps_daemon_status *second = &answer.status->daemons[1];
        _free_ char *again = NULL;
        _free_ char *line = mps_answer_write(&sent);

        assert_true(answer.is_status);
        assert_int_equal(answer.status->generation, 7);
        assert_int_equal(answer.status->n_daemons, 2);
        assert_string_equal(first->name, "nvidia.com/gpu");
        assert_string_equal(first->units[1], "GPU-2");
        assert_int_equal(first->n_unlimited, 1);
        assert_string_equal(first->unlimited[0], "GPU-2");
        assert_int_equal(second->n_unlimited, 0);
        assert_int_equal(first->state, MPS_READY);
        assert_null(first->reason);
        assert_int_equal(first->since, 1700000000);
        assert_int_equal(first->pid, 80);
        assert_true(first->adopted);
        assert_int_equal(first->restarts, 3);
        assert_int_equal(first->repairs, 2);
        assert_int_equal(first->can, MPS_CAN_SERVER_STATUS | MPS_CAN_TERMINATE);
        assert_int_equal(first->tier, MPS_TIER_VERIFIED);
        assert_int_equal(first->threads_permille, 50);
        assert_int_equal(first->limit_mib, 1625);
        assert_int_equal(first->max_clients, 48);
        assert_int_equal(first->servers[0].uid, 0);
        assert_string_equal(first->servers[0].status, "ACTIVE");
        assert_int_equal(first->servers[1].uid, (uid_t)-1);
        assert_null(first->servers[1].status);
        assert_string_equal(first->clients[0].pod_uid, "uid-1");
        assert_string_equal(first->clients[0].container_id, "0a1b");
        assert_string_equal(first->clients[0].allocation, "g1");
        assert_int_equal(first->clients[0].memory, UINT64_C(1) << 30);
        assert_int_equal(first->clients[1].uid, (uid_t)-1);
        assert_true(first->clients[1].memory == UINT64_MAX);
        assert_null(first->clients[2].unit);
        assert_string_equal(first->clients[0].name_space, "n1");
        assert_true(first->clients[0].has_environment && !first->clients[1].has_environment);
        assert_int_equal(first->clients[0].asked_permille, 350);
        assert_int_equal(first->n_limits, 2);
        assert_string_equal(first->limits[0].cgroup, "/kubepods/pod1/c1");
        assert_true(first->limits[0].is_in_force);
        assert_string_equal(first->limits[1].problem, "no such function");
        assert_string_equal(second->reason, "it \"ended\" with status 1");
        assert_int_equal(second->state, MPS_FAULT);
        assert_false(first->has_own_shm);
        assert_true(second->has_own_shm);
        assert_int_equal(second->shm.used, 1024);
        assert_int_equal(answer.status->shm.n_owners, 2);
        assert_int_equal(answer.status->shm.owners[0].uid, 1000);
        assert_int_equal(answer.status->shm.nameless, 512);
        assert_int_equal(answer.status->n_holders, 2);
        assert_string_equal(answer.status->holders[0].pod, "team/train");
        assert_null(answer.status->holders[0].claim);
        assert_string_equal(answer.status->holders[1].claim, "team/serve");
        assert_string_equal(answer.status->holders[1].unit, "GPU-2");
        again = mps_answer_write(&answer);
        assert_string_equal(again, line); /* and all the rest */
        mps_status_free(answer.status);
}

static void test_an_answer_arrives_as_it_was(void **state UNUSED)
{
        const struct mps_answer done = {.id = 4, .ok = true};
        const struct mps_answer granted = {.id = 2,
                .ok = true,
                .has_allocation = true,
                .allocation = {MPS_TIER_PARTITION, "GPU-1/pipe/g1", "GPU-1/AAAA=", 24}};
        struct mps_answer failed = {.id = 3};
        struct mps_answer answer = pass_answer(&done);

        assert_true(answer.ok && answer.id == 4 && !answer.is_status && !answer.has_allocation);
        answer = pass_answer(&granted);
        assert_true(answer.ok && answer.has_allocation);
        assert_int_equal(answer.allocation.tier, MPS_TIER_PARTITION);
        assert_string_equal(answer.allocation.pipe, "GPU-1/pipe/g1");
        assert_string_equal(answer.allocation.partition, "GPU-1/AAAA=");
        assert_int_equal(answer.allocation.sms, 24);
        error_raise(&failed.error, ERROR_NOT_FOUND, "there is no daemon 'x'");
        answer = pass_answer(&failed);
        assert_false(answer.ok);
        assert_int_equal(answer.error.kind, ERROR_NOT_FOUND);
        assert_string_equal(answer.error.text, "there is no daemon 'x'");
}

static void test_a_tenants_text_cannot_spoil_a_status(void **state UNUSED)
{
        char text[MPS_MESSAGE_MAX / 1024];
        struct mps_client client = {.pid = 1, .allocation = "\xff\x1b[2J\n", .memory = 0};
        struct mps_daemon_status daemon = {
                .name = "a", .resource = "r", .state = MPS_READY, .clients = &client, .n_clients = 1};
        struct mps_status status = {.daemons = &daemon, .n_daemons = 1};
        const struct mps_answer sent = {.is_status = true, .status = &status};
        struct mps_answer answer = pass_answer(&sent);

        assert_string_equal(answer.status->daemons[0].clients[0].allocation, "??[2J ");
        mps_status_free(answer.status);
        memset(text, '\xc3', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        client.allocation = text;
        answer = pass_answer(&sent);
        assert_int_equal(strlen(answer.status->daemons[0].clients[0].allocation), 1024);
        mps_status_free(answer.status);
}

static const struct {
        const char *line;
        const char *text;
} wrong_answers[] = {
        {"{}", "answer: neither a status nor an answer"},
        {"{\"id\":1}", "answer: neither a status nor an answer"},
        {"{\"id\":1,\"ok\":1}", "answer: ok: must be true or false"},
        {"{\"id\":1,\"ok\":false}", "answer: error: missing"},
        {"{\"id\":1,\"ok\":false,\"error\":\"x\"}", "answer: kind: missing"},
        {"{\"id\":1,\"ok\":true,\"granted\":{\"pipe\":\"/etc\"}}", "answer: granted: pipe: " PATH_RULE},
        {"{\"status\":{\"daemons\":[{\"name\":\"a\"}]}}", "answer: status: daemons[0]: resource: missing"},
        {"{\"status\":{\"daemons\":[{\"name\":\"a\",\"resource\":\"r\",\"state\":\"well\"}]}}",
                "answer: status: daemons[0]: state: is none of the known words, of which 'off' is one"},
        {"{\"status\":{\"daemons\":[{\"name\":\"a\",\"resource\":\"r\",\"clients\":[{\"pid\":-1}]}]}}",
                "answer: status: daemons[0]: clients[0]: pid: -1, must be a number from 0 to 2147483647"},
        {"{\"status\":{\"daemons\":[],\"sharedMemory\":{\"usedBytes\":-1}}}",
                "answer: status: sharedMemory: usedBytes: -1, must be a number from 0 to 9223372036854775807"},
};

static void test_a_wrong_answer_is_refused_with_what_is_wrong(void **state UNUSED)
{
        struct mps_answer answer;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(wrong_answers); i++)
                assert_fails(
                        mps_answer_read(&answer, &arena, wrong_answers[i].line, strlen(wrong_answers[i].line), &err),
                        &err, ERROR_INVALID, wrong_answers[i].text);
}

/* ---- metrics ---- */

static void assert_has(const char *text, const char *line)
{
        if (!strstr(text, line))
                fail_msg("'%s' is not in:\n%s", line, text);
}

static void test_metrics_have_the_daemons(void **state UNUSED)
{
        _free_ char *text = mps_status_metrics(&whole);

        assert_has(text, "# TYPE warpshare_mps_daemon_state gauge\n");
        assert_has(text,
                "warpshare_mps_daemon_state{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\",state=\"ready\"} 1\n");
        assert_has(
                text, "warpshare_mps_daemon_state{daemon=\"GPU-3\",resource=\"nvidia.com/gpu.x\",state=\"ready\"} 0\n");
        assert_has(
                text, "warpshare_mps_daemon_state{daemon=\"GPU-3\",resource=\"nvidia.com/gpu.x\",state=\"fault\"} 1\n");
        assert_has(
                text, "warpshare_mps_daemon_restarts_total{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\"} 3\n");
        assert_has(text, "warpshare_mps_daemon_servers{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\"} 2\n");
        assert_has(text,
                "warpshare_mps_daemon_active_thread_ratio{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\"} 0.05\n");
        assert_has(text,
                "warpshare_mps_daemon_memory_limit_bytes{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\"} "
                "1703936000\n");
        assert_has(text,
                "warpshare_mps_unit_clients{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\",unit=\"GPU-1\"} 1\n");
        assert_has(text,
                "warpshare_mps_unit_clients{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\",unit=\"GPU-2\"} 1\n");
        assert_has(text,
                "warpshare_mps_unit_memory_bytes{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\",unit=\"GPU-1\"} "
                "1073741824\n");
        assert_has(text,
                "warpshare_mps_unit_max_clients{daemon=\"nvidia.com/gpu\",resource=\"nvidia.com/gpu\",unit=\"GPU-2\"} 48\n");
        assert_has(text, "warpshare_mps_shared_memory_size_bytes 65536\n");
        assert_has(text, "warpshare_mps_shared_memory_used_bytes 61440\n");
        assert_has(text, "warpshare_mps_shared_memory_files_max 100\n");
        assert_has(text, "warpshare_mps_shared_memory_files 7\n");
        assert_has(
                text, "warpshare_mps_shared_memory_used_bytes{daemon=\"GPU-3\",resource=\"nvidia.com/gpu.x\"} 1024\n");
        assert_null(strstr(text, "warpshare_mps_shared_memory_files{daemon=\"nvidia.com/gpu\""));
}

static void test_a_client_without_a_unit_counts_where_the_daemon_has_one(void **state UNUSED)
{
        struct mps_client client = {.pid = 1, .memory = UINT64_MAX};
        struct mps_daemon_status daemon = {
                .name = "GPU-1", .resource = "r\"\\", .units = units, .n_units = 1, .clients = &client, .n_clients = 1};
        struct mps_status status = {.daemons = &daemon, .n_daemons = 1};
        _free_ char *text = mps_status_metrics(&status);

        assert_has(text, "warpshare_mps_unit_clients{daemon=\"GPU-1\",resource=\"r\\\"\\\\\",unit=\"GPU-1\"} 1\n");
        assert_has(text, "warpshare_mps_unit_memory_bytes{daemon=\"GPU-1\",resource=\"r\\\"\\\\\",unit=\"GPU-1\"} 0\n");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_teardown(test_what_is_wanted_arrives_as_it_was, empty_arena),
                cmocka_unit_test_teardown(test_what_is_granted_arrives_with_what_is_wanted, empty_arena),
                cmocka_unit_test_teardown(test_nothing_may_be_wanted, empty_arena),
                cmocka_unit_test_teardown(test_an_allocation_arrives_as_it_was, empty_arena),
                cmocka_unit_test_teardown(test_the_other_requests_arrive_as_they_were, empty_arena),
                cmocka_unit_test_teardown(test_unknown_members_are_ignored, empty_arena),
                cmocka_unit_test_teardown(test_a_wrong_request_is_refused_with_what_is_wrong, empty_arena),
                cmocka_unit_test_teardown(test_a_status_arrives_as_it_was, empty_arena),
                cmocka_unit_test_teardown(test_an_answer_arrives_as_it_was, empty_arena),
                cmocka_unit_test_teardown(test_a_tenants_text_cannot_spoil_a_status, empty_arena),
                cmocka_unit_test_teardown(test_a_wrong_answer_is_refused_with_what_is_wrong, empty_arena),
                cmocka_unit_test(test_metrics_have_the_daemons),
                cmocka_unit_test(test_a_client_without_a_unit_counts_where_the_daemon_has_one),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
