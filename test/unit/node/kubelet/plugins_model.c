// SPDX-License-Identifier: Apache-2.0
/*
 * Two agents of a node, of which one serves, and a kubelet that does whatever a kubelet may: it refuses to register, is
 * silent, or answers and forgets, cuts streams and connections, starts anew with an empty folder, or with another one.
 * Plans come with more resources or fewer, units fail, ids are unavailable, agents come and go.
 *
 *   always    one agent serves; who asked for a list has just what the plan says; an answer to Allocate is for ids of
 *             the plan; nobody hears of a resource that the plan does not have
 *   refused   nobody asks more often than the back-off lets him
 *   in a calm each resource of the plan is registered and watched, once; none is registered again, no other socket is
 *             there, and no request is open
 *   at last   nothing is left: no descriptor, no socket
 *
 * The clock is the model's (own_clock.h), the sockets are real. A failure names its seed.
 */
#include "unit.h"

#include "chance.h"
#include "own_clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/log.h"
#include "node/kubelet/plugin.h"
#include "node/kubelet/plugins.h"
#include "node/kubelet/registration.h"
#include "plan/mps_limits.h"
#include "plan/node.h"
#include "wild_kubelet.h"

#define GPUS 3
#define AGENTS 2
#define PLANS 3       /* of an agent, alive at once: node/kubelet/plugins.h */
#define POLL_MS 5000  /* node/kubelet/plugins.h */
#define CALM_MS 45000 /* longer than the longest wait for anything */

enum { N_RUNS = 30, N_STEPS = 100 };

struct agent {
        struct plugins *plugins; /* NULL: there is none */
        bool is_closing;
        struct node nodes[PLANS];
        size_t n_plans;
        const struct plan *plan;
};

struct open_bind {
        broker_bound_fn *bound;
        broker_started_fn *started;
        void *context;
        char unit[16];
};

static struct world {
        struct chance *chance;
        uint64_t seed;
        unsigned int step;
        char folder[64];
        char socket[96];
        uv_loop_t loop;
        struct agent agents[AGENTS];
        struct unit_health health;
        unsigned int unavailable; /* by position, modulo 8 */
        bool flags[WILD_IDS];
        bool answers_late;
        struct open_bind binds[64];
        size_t n_binds;

        int64_t noticed_at; /* own_clock_ms: all agents have seen that the folder is another one */
} world;

#define check(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u: not true: %s", world.seed, world.step,           \
                                #condition);                                                                           \
                        abort(); /* not reached: for who reads it */                                                   \
                }                                                                                                      \
        } while (0)

static unsigned int draw(uint64_t below)
{
        return (unsigned int)chance_draw(world.chance, below);
}

static bool happens(uint64_t n)
{
        return chance_happens(world.chance, n);
}

/* ---- the broker ---- */

static const bool *unavailable(const struct resource *resource, void *data UNUSED)
{
        for (size_t i = 0; i < resource->n_devices; i++)
                world.flags[i] = world.unavailable >> i % 8 & 1;
        return world.flags;
}

static void answer_bind(struct open_bind bind)
{
        const struct allocate_binding binding = {.allocation = "g1", .unit = bind.unit, .tier = MPS_TIER_VERIFIED};
        struct error err;

        (void)!error_set(&err, ERROR_EXHAUSTED, "no unit has room");
        if (bind.started)
                bind.started(happens(4) ? &err : NULL, bind.context);
        else if (bind.bound && happens(4))
                bind.bound(&err, NULL, bind.context);
        else if (bind.bound)
                bind.bound(NULL, &binding, bind.context);
}

static void answer_binds(void)
{
        while (world.n_binds > 0) {
                struct open_bind first = world.binds[0];

                memmove(world.binds, world.binds + 1, --world.n_binds * sizeof(first));
                answer_bind(first);
        }
}

static void ask(struct open_bind bind)
{
        if (!world.answers_late)
                answer_bind(bind);
        else
                world.binds[world.n_binds++] = bind;
        check(world.n_binds < ARRAY_SIZE(world.binds));
}

static void on_bind(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
        void *context, void *data UNUSED)
{
        struct open_bind bind = {.bound = bound, .context = context};

        for (size_t i = 0; i < n_ids; i++)
                check(map_find(&resource->by_id, ids[i]));
        snprintf(bind.unit, sizeof(bind.unit), "%.5s", ids[0]);
        ask(bind);
}

static void on_start(const char *resource UNUSED, const char *const *ids UNUSED, size_t n_ids UNUSED,
        broker_started_fn *started, void *context, void *data UNUSED)
{
        ask((struct open_bind){.started = started, .context = context});
}

static const struct broker broker = {.unavailable = unavailable, .bind = on_bind, .start = on_start};

static void pass(int64_t ms)
{
        own_clock_pass(&world.loop, ms);
}

/* It removes what it finds, as kubelet does, but perhaps not at once. */
static void rewild_start(void)
{
        wild_stop();
        pass(0);
        if (happens(2))
                pass(draw(8000));
        if (happens(2))
                wild_each_file(PLUGIN_SOCKET_PREFIX, true);
        wild_start();
}

static void replace_folder(void)
{
        wild_stop();
        pass(0);
        wild_each_file("", true);
        assert_int_equal(rmdir(world.folder), 0);
        world.noticed_at = INT64_MAX;
        if (happens(2))
                pass(draw(8000));
        assert_int_equal(mkdir(world.folder, 0755), 0);
        world.noticed_at = own_clock_ms + POLL_MS;
        if (happens(2))
                pass(draw(8000));
        wild_start();
}

/* ---- requests ---- */

static struct wild_endpoint *draw_endpoint(void)
{
        size_t first = kubelet.n_endpoints ? draw(kubelet.n_endpoints) : 0;

        for (size_t i = 0; i < kubelet.n_endpoints; i++) {
                struct wild_endpoint *endpoint = &kubelet.endpoints[(first + i) % kubelet.n_endpoints];

                if (endpoint->watch)
                        return endpoint;
        }
        return NULL;
}

static void request(void)
{
        struct wild_endpoint *endpoint = draw_endpoint();
        char *ids[2];

        if (!endpoint || endpoint->n_ids == 0)
                return;
        for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
                ids[i] = endpoint->ids[draw(endpoint->n_ids)].id;
        if (happens(4))
                wild_start_container(endpoint, ids, 1 + draw(2));
        else
                wild_allocate(endpoint, ids, 1 + draw(2));
}

/* ---- the agents ---- */

static struct agent *serving(void)
{
        struct agent *found = NULL;

        for (size_t i = 0; i < AGENTS; i++) {
                struct agent *agent = &world.agents[i];

                if (!agent->plugins || agent->is_closing || !plugins_is_serving(agent->plugins))
                        continue;
                check(!found || own_clock_ms <= world.noticed_at);
                found = agent;
        }
        return found;
}

static void apply(struct agent *agent)
{
        struct node *node = &agent->nodes[agent->n_plans++ % PLANS];

        if (node->plan)
                node_done(node); /* nobody has it any more */
        *node = node_new(1 + draw(GPUS));
        node_share(node, SHARING_MPS, 1 + draw(4));
        node->section.provisioning = PROVISIONING_WEIGHTED;
        node->section.scope = SCOPE_INDIVIDUAL;
        node->section.daemon_scope = DAEMON_SCOPE_NODE;
        node->section.reserve = RESERVE_NONE;
        node->section.max_per_request = node->shared.replicas;
        node->config.devices.lists = happens(2) ? DEVICE_LIST_ENVVAR : DEVICE_LIST_CDI_CRI;
        node->config.kubelet.socket = world.socket;
        assert_ok(node_plan(node), &node->err);
        plugins_apply(agent->plugins, node->plan);
        agent->plan = node->plan;
}

static void start_agent(struct agent *agent)
{
        const struct plugins_options options = {.loop = &world.loop,
                .kubelet_socket = world.socket,
                .health = &world.health,
                .broker = &broker,
                .data = agent};
        struct error err;

        assert_ok(plugins_new(&agent->plugins, &options, &err), &err);
        apply(agent);
}

static void on_agent_closed(void *data)
{
        struct agent *agent = data;

        for (size_t i = 0; i < PLANS; i++)
                node_done(&agent->nodes[i]);
        *agent = (struct agent){0};
}

static void stop_agent(struct agent *agent)
{
        agent->is_closing = true;
        plugins_close(agent->plugins, on_agent_closed, agent);
}

static void refresh(void)
{
        for (size_t i = 0; i < AGENTS; i++)
                if (world.agents[i].plugins && !world.agents[i].is_closing)
                        plugins_refresh(world.agents[i].plugins);
}

static void disturb_units(void)
{
        static const char *const uuids[GPUS] = {"GPU-0", "GPU-1", "GPU-2"};
        const char *uuid = uuids[draw(GPUS)];

        if (happens(2))
                world.unavailable = draw(256);
        else
                unit_health_set(&world.health, uuid, unit_health_find(&world.health, uuid) != NULL, "Xid 79");
        refresh();
}

static void disturb_agent(bool stops)
{
        struct agent *agent = &world.agents[draw(AGENTS)];

        if (!agent->plugins)
                start_agent(agent);
        else if (!agent->is_closing && stops)
                stop_agent(agent);
        else if (!agent->is_closing)
                apply(agent);
}

/* ---- what has to be so ---- */

static bool is_wanted_healthy(const struct resource *resource, const struct device *device)
{
        size_t position = (size_t)(device - resource->devices);

        return !(world.unavailable >> position % 8 & 1) &&
               !unit_health_find(&world.health, resource->units[device->unit].uuid);
}

static void check_list(const struct wild_endpoint *endpoint, const struct resource *resource)
{
        size_t n_found = 0;

        for (size_t i = 0; i < endpoint->n_ids; i++) {
                const struct device *device = map_find(&resource->by_id, endpoint->ids[i].id);

                check(endpoint->ids[i].is_healthy == (device && is_wanted_healthy(resource, device)));
                n_found += device != NULL;
        }
        check(n_found == resource->n_devices);
}

static void check_all(void)
{
        const struct agent *agent = serving();

        if (own_clock_ms <= world.noticed_at)
                return;
        for (size_t i = 0; i < kubelet.n_endpoints; i++) {
                const struct wild_endpoint *endpoint = &kubelet.endpoints[i];
                const struct resource *resource = agent ? plan_find(agent->plan, endpoint->resource) : NULL;

                if (!endpoint->watch)
                        continue;
                check(resource && endpoint->has_list);
                check(endpoint->calls_at_start == mps_limits_at_start(agent->plan, resource));
                check_list(endpoint, resource);
        }
}

/* As many as the back-off lets each resource ask, and once more each time that kubelet's socket comes. */
static void be_refused(void)
{
        unsigned int before = kubelet.n_registers;
        int64_t ms = 20000 + draw(40000);
        unsigned int most = 8 + (unsigned int)(ms / (int64_t)(REGISTRATION_LAST_RETRY_MS * 4 / 5));

        kubelet.manner = WILD_REFUSES;
        pass(ms);
        check(kubelet.n_registers - before <= most * GPUS);
}

static size_t count_watched(const struct plan *plan)
{
        size_t count = 0;

        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct wild_endpoint *endpoint = wild_find(plan->resources[i].name);

                count += endpoint && endpoint->watch;
        }
        return count;
}

/* Resources of |next| that kubelet has to hear of anew. */
static unsigned int count_new(const struct plan *plan, const struct plan *next)
{
        unsigned int count = 0;

        for (size_t i = 0; i < next->n_resources; i++) {
                const struct resource *resource = plan_find(plan, next->resources[i].name);

                count += !resource ||
                         mps_limits_at_start(plan, resource) != mps_limits_at_start(next, &next->resources[i]);
        }
        return count;
}

/* Nobody disturbs: kubelet hears of each change once. */
static void change_plan_in_peace(struct agent *agent)
{
        unsigned int most = kubelet.n_registers;

        for (unsigned int n = 1 + draw(2); n > 0; n--) {
                const struct plan *plan = agent->plan;

                apply(agent);
                most += count_new(plan, agent->plan);
                if (happens(2))
                        pass(0);
        }
        pass(3000);
        check_all();
        check(count_watched(agent->plan) == agent->plan->n_resources);
        check(kubelet.n_registers <= most);
}

static void have_calm(void)
{
        struct agent *agent;
        unsigned int n_registers;

        kubelet.manner = WILD_TAKES;
        world.answers_late = false;
        answer_binds();
        if (!kubelet.server)
                wild_start();
        pass(CALM_MS); /* an agent that closes has closed then */
        if (!world.agents[0].plugins)
                start_agent(&world.agents[0]);
        pass(CALM_MS);
        agent = serving();
        check(agent);
        check(count_watched(agent->plan) == agent->plan->n_resources);
        check(wild_count_watches() == agent->plan->n_resources && kubelet.n_open_requests == 0 && world.n_binds == 0);
        n_registers = kubelet.n_registers;
        pass(CALM_MS);
        check(serving() == agent && kubelet.n_registers == n_registers);
        check(count_watched(agent->plan) == agent->plan->n_resources);
        check(wild_each_file(PLUGIN_SOCKET_PREFIX, false) <= agent->plan->n_resources);
        check_all();
        change_plan_in_peace(agent);
}

static void disturb_kubelet(void)
{
        struct wild_endpoint *endpoint = draw_endpoint();

        switch (draw(8)) {
        case 0:
                wild_stop();
                break;
        case 1:
                if (happens(2))
                        replace_folder();
                break;
        case 2:
                if (endpoint)
                        wild_cut(endpoint);
                break;
        case 3:
                if (endpoint)
                        wild_unwatch(endpoint);
                break;
        case 4:
                wild_each_file(PLUGIN_SOCKET_PREFIX, true);
                break;
        default:
                rewild_start();
                break;
        }
}

static void make_step(void)
{
        switch (draw(14)) {
        case 0 ... 2:
                pass(draw(3000));
                break;
        case 3:
                pass(draw(30000));
                break;
        case 4:
                disturb_kubelet();
                break;
        case 5:
                kubelet.manner = happens(2) ? WILD_TAKES : draw(WILD_MANNERS);
                break;
        case 6 ... 7:
                disturb_agent(false);
                break;
        case 8:
                disturb_units();
                break;
        case 9:
                disturb_agent(true);
                break;
        case 10 ... 11:
                request();
                break;
        case 12:
                world.answers_late = !world.answers_late;
                if (!world.answers_late)
                        answer_binds();
                break;
        case 13:
                if (happens(4))
                        be_refused();
                break;
        }
}

static size_t count_descriptors(void)
{
        size_t count = 0;

        for (int fd = 0; fd < 256; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

static void begin(struct chance *chance, uint64_t seed)
{
        world = (struct world){.chance = chance, .seed = seed};
        log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
        signal(SIGPIPE, SIG_IGN);
        strcpy(world.folder, "/dev/shm/warpshare-plugins-XXXXXX");
        assert_non_null(mkdtemp(world.folder));
        snprintf(world.socket, sizeof(world.socket), "%s/kubelet.sock", world.folder);
        uv_loop_init(&world.loop);
        wild_begin(&world.loop, world.folder);
        kubelet.is_old = happens(2);
}

static void end(void)
{
        for (size_t i = 0; i < AGENTS; i++)
                if (world.agents[i].plugins && !world.agents[i].is_closing)
                        stop_agent(&world.agents[i]);
        answer_binds();
        pass(CALM_MS);
        check(!world.agents[0].plugins && !world.agents[1].plugins);
        check(wild_count_watches() == 0);
        check(wild_each_file(PLUGIN_SOCKET_PREFIX, false) == 0);
        wild_stop();
        pass(0);
        check(uv_loop_close(&world.loop) == 0);
        check(kubelet.n_open_requests == 0);
        unit_health_clear(&world.health);
        check(rmdir(world.folder) == 0);
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        size_t n_descriptors;

        uv_loop_init(&world.loop); /* libuv keeps some of its own */
        uv_loop_close(&world.loop);
        n_descriptors = count_descriptors();
        begin(chance, seed);
        start_agent(&world.agents[0]);
        for (; world.step < n_steps && kubelet.n_endpoints + 200 < WILD_ENDPOINTS && chance_step(chance);
                world.step++) {
                make_step();
                pass(0);
                check_all();
                if (happens(20))
                        have_calm();
        }
        have_calm();
        end();
        check(count_descriptors() == n_descriptors);
}

#ifdef FUZZING

FUZZ_MODEL(run)

#else

static void test_whatever_kubelet_does_it_comes_to_see_the_plan(void **state UNUSED)
{
        unsigned int n_registers = 0, n_requests = 0, n_answers = 0;

        if (chance_run_named(run, 10 * N_STEPS))
                return;
        for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
                chance_run_seed(run, seed, N_STEPS);
                n_registers += kubelet.n_registers;
                n_requests += kubelet.n_requests;
                n_answers += kubelet.n_answers;
        }
        print_message("# registrations %u, requests %u, answers %u\n", n_registers, n_requests, n_answers);
        assert_true(n_answers > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whatever_kubelet_does_it_comes_to_see_the_plan),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
