// SPDX-License-Identifier: Apache-2.0
/*
 * A supervisor over daemons that do anything: they hang, die, answer rubbish, refuse settings, do not end, lose their
 * GPU or a file, and have clients that come and go. What is wanted changes, containers get partitions and give them
 * back, NVML is late, and the supervisor is killed and starts anew over what is there.
 *
 *   always    no daemon that had no fault is ended while it has clients; no unit has two daemons; who is ready runs and
 *             has answered; who was granted a partition has it, alone, as long as its daemon runs
 *   in a calm each daemon that is wanted is ready, with its settings; no other runs; nothing is made but what is held;
 *             each request has had one answer
 *   at last   nothing is left: no daemon, no descriptor
 *
 * The clock is the model's (own_clock.h). A failure names its seed; WARPSHARE_SEED=<n> runs only that one.
 */
#include "unit.h"

#include "chance.h"
#include "model_daemons.h"
#include "own_clock.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "mps/supervisor/allocations.h"
#include "mps/supervisor/supervisor.h"

#define IDS 8
#define CALM_MS 400000 /* longer than the longest wait for another try, and one that follows */

enum { N_RUNS = 16, N_STEPS = 100 };
enum layout { NOTHING, FIRST, BOTH, COMMON, N_LAYOUTS };

struct holding {
        char id[16];
        bool is_wanted, is_granted;
        unsigned int n_open;
        char unit[16], daemon[16];
        char partition[24];
        uint64_t start_time; /* of the daemon's process that has it */
};

static struct world {
        struct chance *chance;
        uint64_t seed;
        unsigned int step;
        char folder[64];
        char root[72];
        uv_loop_t loop;
        struct mps_supervisor *supervisor;
        enum layout layout;
        bool is_away; /* COMMON: the second unit cannot be used, as the agent sees it */
        unsigned int permille;
        uint64_t limit_mib;
        enum provisioning provisioning;
        uint64_t generation;
        struct holding holdings[IDS];
        unsigned int n_ids;
        unsigned int n_grants, n_restarts;
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

static void pass(int64_t ms)
{
        own_clock_pass(&world.loop, ms);
}

/* ---- what is wanted ---- */

static const char *const units[MODEL_UNITS] = {"GPU-0", "GPU-1"};

static size_t n_wanted(void)
{
        return world.layout == NOTHING ? 0 : world.layout == BOTH ? 2 : 1;
}

static const char *name_of(size_t daemon)
{
        return world.layout == COMMON ? "node" : units[daemon];
}

static void apply(void)
{
        struct mps_unit all[MODEL_UNITS];
        struct mps_daemon_wanted wanted[MODEL_UNITS];
        struct error err;

        for (size_t i = 0; i < MODEL_UNITS; i++)
                all[i] = (struct mps_unit){.uuid = units[i],
                        .gpu_uuid = units[i],
                        .index = i ? "1" : "0",
                        .name = "NVIDIA A100",
                        .memory = (uint64_t)40 << 30,
                        .replicas = 4,
                        .sms = 80,
                        .chunk_sms = 80 / MODEL_CHUNKS,
                        .limit_mib = world.limit_mib,
                        .clients = 60};
        for (size_t i = 0; i < n_wanted(); i++)
                wanted[i] = (struct mps_daemon_wanted){.name = name_of(i),
                        .resource = "nvidia.com/gpu",
                        .provisioning = world.provisioning,
                        .tier_limit = MPS_TIER_PARTITION,
                        .threads_permille = world.permille,
                        .units = &all[i],
                        .n_units = world.layout == COMMON && !world.is_away ? MODEL_UNITS : 1,
                        .away = &units[1],
                        .n_away = world.layout == COMMON && world.is_away};
        assert_ok(mps_supervisor_apply(
                          world.supervisor, &(struct mps_wanted){wanted, n_wanted()}, ++world.generation, &err),
                &err);
}

static void change_wanted(void)
{
        static const uint64_t limits[] = {0, 900, 6000};

        if (happens(2))
                world.layout = draw(N_LAYOUTS);
        if (happens(3))
                world.is_away = !world.is_away;
        if (happens(3))
                world.permille = 250 * (1 + draw(4));
        if (happens(3))
                world.limit_mib = limits[draw(ARRAY_SIZE(limits))];
        if (happens(8))
                world.provisioning = happens(3) ? PROVISIONING_UNIFORM : PROVISIONING_SM;
        apply();
}

/* ---- the supervisor ---- */

static void start_supervisor(void)
{
        const struct mps_supervisor_options options = {.loop = &world.loop,
                .root = world.root,
                .control = "/usr/bin/nvidia-cuda-mps-control",
                .driver_root = "",
                .nvml_library = "",
                .shm_kib = 1024};

        world.supervisor = mps_supervisor_new(&options);
}

static void on_closed(bool leaves_modes, void *data UNUSED)
{
        check(!leaves_modes);
        world.supervisor = NULL;
        for (size_t i = 0; i < IDS; i++)
                world.holdings[i].n_open = 0; /* who asked is told by the socket that breaks */
}

static char *pipe_of(const char *name)
{
        return xasprintf("%s/%s/pipe", world.root, name);
}

static struct model_daemon *daemon_of(const char *name)
{
        _free_ char *pipe = pipe_of(name);

        return model_daemon_at(pipe);
}

static bool runs_only_wanted(void)
{
        size_t count = 0;

        for (size_t i = 0; i < n_wanted(); i++)
                count += daemon_of(name_of(i)) != NULL;
        for (size_t i = 0; i < daemons.n_all; i++)
                count -= daemons.all[i].is_alive;
        return count == 0;
}

/* Of what is on record nothing is left, perhaps, or what was on record before: the disk was full since. */
static void restart_supervisor(void)
{
        const bool loses_record = happens(4);
        _free_ char *record = xasprintf("%s/state.json", world.root);
        _free_ char *before = xasprintf("%s/before.json", world.root);

        mps_supervisor_leave(world.supervisor, on_closed, NULL);
        pass(0);
        check(!world.supervisor);
        for (size_t i = 0; loses_record && i < daemons.n_all; i++)
                daemons.all[i].has_unknown = daemons.all[i].n_partitions > 0;
        unlink(loses_record ? record : before); /* each is another file: it is written by rename */
        if (!loses_record || happens(2))
                link(loses_record ? before : record, loses_record ? record : before);
        for (size_t i = happens(3) ? 0 : daemons.n_all; i < daemons.n_all; i++)
                if (daemons.all[i].is_alive && happens(2))
                        model_daemon_die(&daemons.all[i]);
        start_supervisor();
        if (happens(2))
                pass(draw(5000)); /* the agent comes later */
        if (loses_record || happens(2))
                apply();
        world.n_restarts++;
}

/* ---- what containers hold ---- */

static void on_granted(const struct error *err, const struct mps_allocation *made, void *data)
{
        struct holding *holding = data;
        const struct model_daemon *daemon = daemon_of(holding->daemon);

        check(holding->n_open > 0);
        holding->n_open--;
        holding->is_granted = !err && made->tier == MPS_TIER_PARTITION && holding->is_wanted && daemon;
        if (!holding->is_granted)
                return;
        world.n_grants++;
        holding->start_time = daemon->start_time;
        snprintf(holding->partition, sizeof(holding->partition), "%s", made->partition);
}

static void on_released(const struct error *err UNUSED, void *data)
{
        struct holding *holding = data;

        check(holding->n_open > 0);
        holding->n_open--;
}

static struct mps_allocation_request request_of(const struct holding *holding)
{
        return (struct mps_allocation_request){.id = holding->id,
                .daemon = holding->daemon,
                .unit = holding->unit,
                .threads_permille = 250,
                .sms = 20};
}

/* An id is that of one container, which is on one unit; but it may be asked for again, and be released meanwhile. */
static void grant_or_release(void)
{
        struct holding *holding = &world.holdings[draw(IDS)];
        struct mps_allocation_request request;

        if (holding->is_wanted && !happens(4)) {
                holding->is_wanted = holding->is_granted = false;
                holding->n_open++;
                mps_allocations_release(
                        mps_supervisor_allocations(world.supervisor), holding->id, on_released, holding);
                return;
        }
        if (!holding->is_wanted && holding->n_open == 0) {
                snprintf(holding->id, sizeof(holding->id), "g%u", world.n_ids++);
                snprintf(holding->unit, sizeof(holding->unit), "%s", units[draw(MODEL_UNITS)]);
                snprintf(holding->daemon, sizeof(holding->daemon), "%s",
                        world.layout == COMMON ? "node" : holding->unit);
        }
        holding->is_wanted = true;
        holding->n_open++;
        request = request_of(holding);
        mps_allocations_make(mps_supervisor_allocations(world.supervisor), &request, on_granted, holding);
}

static void tell_all(void)
{
        _free_ struct mps_allocation_request *all = xcalloc(IDS, sizeof(*all));
        size_t count = 0;

        for (size_t i = 0; i < IDS; i++)
                if (world.holdings[i].is_wanted)
                        all[count++] = request_of(&world.holdings[i]);
        mps_allocations_hold(mps_supervisor_allocations(world.supervisor), all, count);
}

/* ---- trouble ---- */

static struct model_daemon *draw_daemon(void)
{
        return model_daemon_of_unit(units[draw(MODEL_UNITS)]);
}

static void disturb_daemon(void)
{
        struct model_daemon *daemon = draw_daemon();

        if (!daemon)
                return;
        switch (draw(8)) {
        case 0:
                model_daemon_die(daemon);
                break;
        case 1:
                daemon->is_hung = !daemon->is_hung;
                daemon->is_disturbed = true;
                break;
        case 2:
                daemon->is_rubbish = !daemon->is_rubbish;
                daemon->is_disturbed = true;
                break;
        case 3:
                daemon->refuses = !daemon->refuses;
                daemon->is_disturbed = true;
                break;
        case 4:
                daemon->ends_never = true;
                break;
        case 5:
                daemon->permille = 10 * draw(100); /* somebody else sets it */
                daemon->is_disturbed = true;
                break;
        case 6:
                daemon->is_fault = daemon->n_clients > 0;
                daemon->is_disturbed |= daemon->is_fault;
                break;
        case 7:
                if (happens(2))
                        model_daemon_replace_door(daemon);
                break;
        }
}

static void move_client(void)
{
        struct model_daemon *daemon = draw_daemon();

        if (daemon && daemon->n_clients > 0 && happens(2))
                model_daemon_leave(daemon, draw(daemon->n_clients));
        else if (daemon && daemon->has_answered)
                model_daemon_join(daemon);
}

static void on_terminated(const struct error *err UNUSED, void *data UNUSED)
{
}

static void terminate_client(void)
{
        const struct model_daemon *daemon = draw_daemon();
        _free_ char *container = NULL;

        if (!daemon || daemon->n_clients == 0)
                return;
        container = xasprintf("c%d", (int)daemon->clients[0]);
        mps_allocations_terminate(mps_supervisor_allocations(world.supervisor),
                strchr(daemon->units, ',') ? "node" : daemon->units, daemon->clients[0],
                happens(4) ? "other" : container, on_terminated, NULL);
}

static void disturb_node(void)
{
        unsigned int unit = draw(MODEL_UNITS);

        switch (draw(3)) {
        case 0:
                daemons.fails_to_start = !daemons.fails_to_start;
                break;
        case 1:
                daemons.is_nvml_late = !daemons.is_nvml_late;
                if (!daemons.is_nvml_late)
                        model_answer_nvml();
                break;
        case 2:
                daemons.is_lost[unit] = !daemons.is_lost[unit];
                for (size_t i = 0; i < daemons.n_all; i++)
                        daemons.all[i].is_disturbed |= strstr(daemons.all[i].units, units[unit]) != NULL;
                break;
        }
}

/* ---- what has to be so ---- */

static const struct mps_daemon_status *status_of(const char *name)
{
        const struct mps_status *status = mps_supervisor_status(world.supervisor);

        for (size_t i = 0; i < status->n_daemons; i++)
                if (strcmp(status->daemons[i].name, name) == 0)
                        return &status->daemons[i];
        return NULL;
}

static size_t count_partitions(const struct model_daemon *daemon, const char *id)
{
        size_t count = 0;

        for (size_t i = 0; i < daemon->n_partitions; i++)
                count += strcmp(daemon->partitions[i].id, id) == 0;
        return count;
}

static void check_holdings(void)
{
        for (size_t i = 0; i < IDS; i++) {
                struct holding *holding = &world.holdings[i];
                const struct model_daemon *daemon = daemon_of(holding->daemon);

                if (!holding->is_granted)
                        continue;
                if (!daemon || daemon->start_time != holding->start_time) {
                        holding->is_granted = false; /* it went with its daemon */
                        continue;
                }
                check(count_partitions(daemon, holding->partition) == 1);
                for (size_t j = 0; j < i; j++)
                        check(!world.holdings[j].is_granted ||
                                strcmp(world.holdings[j].partition, holding->partition) != 0);
        }
}

static void check_all(void)
{
        const struct mps_status *status = mps_supervisor_status(world.supervisor);

        if (daemons.wrong)
                fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u: %s", world.seed, world.step, daemons.wrong);
        for (size_t i = 0; i < status->n_daemons; i++) {
                const struct model_daemon *daemon = daemon_of(status->daemons[i].name);

                check(status->daemons[i].state != MPS_READY || (daemon && daemon->has_answered));
        }
        check_holdings();
}

static void have_calm(void)
{
        daemons.fails_to_start = daemons.is_nvml_late = false;
        model_answer_nvml();
        for (size_t i = 0; i < MODEL_UNITS; i++)
                daemons.is_lost[i] = false;
        for (size_t i = 0; i < daemons.n_all; i++) {
                struct model_daemon *daemon = &daemons.all[i];

                daemon->is_hung = daemon->is_rubbish = daemon->refuses = daemon->ends_never = false;
                while (daemon->n_clients > 0)
                        model_daemon_leave(daemon, 0);
        }
        apply();
        tell_all();
        pass(CALM_MS);
        check_all();
        check(runs_only_wanted());
        check(mps_supervisor_status(world.supervisor)->n_daemons == n_wanted());
        for (size_t i = 0; i < n_wanted(); i++) {
                const struct mps_daemon_status *status = status_of(name_of(i));
                const struct model_daemon *daemon = daemon_of(name_of(i));
                size_t n_held = 0;

                check(status && status->state == MPS_READY);
                check(world.layout != COMMON || world.is_away || status->n_units == MODEL_UNITS);
                check(daemon && daemon->permille == world.permille && daemon->limit_mib[0] == world.limit_mib);
                for (size_t j = 0; j < IDS; j++)
                        n_held += world.holdings[j].is_wanted && strcmp(world.holdings[j].daemon, name_of(i)) == 0;
                check(daemon->n_partitions <= n_held || daemon->has_unknown);
        }
        for (size_t i = 0; i < IDS; i++)
                check(world.holdings[i].n_open == 0);
}

static void make_step(void)
{
        switch (draw(18)) {
        case 0 ... 2:
                pass(draw(5000));
                break;
        case 3:
                pass(draw(90000));
                break;
        case 4 ... 5:
                change_wanted();
                break;
        case 6 ... 7:
                disturb_daemon();
                break;
        case 8 ... 9:
                move_client();
                break;
        case 10:
                terminate_client();
                break;
        case 11 ... 14:
                grant_or_release();
                break;
        case 15:
                tell_all();
                break;
        case 16:
                disturb_node();
                break;
        case 17:
                restart_supervisor();
                break;
        }
        pass(0);
}

static size_t count_descriptors(void)
{
        size_t count = 0;

        for (int fd = 0; fd < 256; fd++)
                count += fcntl(fd, F_GETFD) >= 0;
        return count;
}

static int remove_one(const char *path, const struct stat *status UNUSED, int kind UNUSED, struct FTW *place UNUSED)
{
        return remove(path);
}

static void begin(struct chance *chance, uint64_t seed)
{
        world = (struct world){.chance = chance, .seed = seed, .permille = 1000, .provisioning = PROVISIONING_SM};
        log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
        strcpy(world.folder, "/dev/shm/warpshare-mps-XXXXXX");
        assert_non_null(mkdtemp(world.folder));
        snprintf(world.root, sizeof(world.root), "%s/mps", world.folder);
        assert_int_equal(mkdir(world.root, 0755), 0);
        uv_loop_init(&world.loop);
        model_daemons_begin(&world.loop);
        world.layout = draw(N_LAYOUTS);
        start_supervisor();
        apply();
}

static void end(void)
{
        mps_supervisor_close(world.supervisor, 0, on_closed, NULL);
        pass(CALM_MS);
        check(!world.supervisor);
        for (size_t i = 0; i < daemons.n_all; i++)
                check(!daemons.all[i].is_alive);
        model_daemons_end();
        uv_run(&world.loop, UV_RUN_DEFAULT);
        check(uv_loop_close(&world.loop) == 0);
        nftw(world.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        size_t n_descriptors;

        uv_loop_init(&world.loop); /* libuv keeps some of its own */
        uv_loop_close(&world.loop);
        n_descriptors = count_descriptors();
        begin(chance, seed);
        for (; world.step < n_steps && daemons.n_all + 40 < MODEL_DAEMONS && chance_step(chance); world.step++) {
                make_step();
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

static void test_whatever_daemons_do_what_is_wanted_comes_to_be(void **state UNUSED)
{
        unsigned int n_started = 0, n_grants = 0, n_restarts = 0;

        if (chance_run_named(run, 10 * N_STEPS))
                return;
        for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
                chance_run_seed(run, seed, N_STEPS);
                n_started += daemons.n_started;
                n_grants += world.n_grants;
                n_restarts += world.n_restarts;
        }
        print_message("# daemons started %u, partitions granted %u, supervisors started anew %u\n", n_started, n_grants,
                n_restarts);
        assert_true(n_grants > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whatever_daemons_do_what_is_wanted_comes_to_be),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
