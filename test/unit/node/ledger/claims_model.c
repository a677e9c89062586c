// SPDX-License-Identifier: Apache-2.0
/*
 * DRA claims on GPU-1 in any order: prepared, given back, answered late, with a supervisor that loses what it made or
 * is away, daemons that fail or do not end, and an agent that ends in the middle of it.
 *
 *   always    each claim has one answer at most; those that were given fit beside each other: not more memory or
 *             threads than there are, nobody beside one that has the unit alone, shares by MPS never beside whole
 *             units; a share has its daemon, a whole unit none
 *   in a calm every claim is answered, and the supervisor has made just what is held
 *
 * A failure names its seed; WARPSHARE_SEED=<n> runs only that one.
 */
#include "chance.h"
#include "rig.h"

#include <inttypes.h>

#include "node/ledger/claims.h"

#define UNIT "GPU-1"
#define MEMORY_MIB (24 * 1024)

enum { N_CLAIMS = 5, N_RUNS = 60, N_STEPS = 250 };

struct slot {
        char uid[8], id[8];
        struct ledger_claim_device device;
        bool is_asked;
        bool is_awaited;
        bool is_held;
        char daemon[24]; /* that it was given, "": none */
        enum mps_tier tier;
};

static struct model {
        struct chance *chance;
        uint64_t seed;
        unsigned int step;
        struct slot slots[N_CLAIMS];
        unsigned int n_held, n_refused, n_restarts;
} model;

#define check(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u: not true: %s", model.seed, model.step,           \
                                #condition);                                                                           \
        } while (0)

static uint64_t draw(uint64_t below)
{
        return chance_draw(model.chance, below);
}

static bool happens(uint64_t n)
{
        return chance_happens(model.chance, n);
}

/* ---- what has to be so ---- */

static const struct ledger_claim_state *find_state(const struct ledger_claim_state *all, size_t count, const char *uid)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(all[i].claim->uid, uid) == 0)
                        return &all[i];
        return NULL;
}

static void check_known(void)
{
        const struct ledger_claim_state *all;
        size_t count = ledger_claims(rig.ledger, &rig.arena, &all);
        size_t n_asked = 0;

        for (size_t i = 0; i < N_CLAIMS; i++) {
                const struct ledger_claim_state *state = find_state(all, count, model.slots[i].uid);

                n_asked += model.slots[i].is_asked;
                check(!state == !model.slots[i].is_asked);
                check(!state || state->is_held == model.slots[i].is_held);
        }
        check(count == n_asked);
}

static void check_room(void)
{
        uint64_t mib = 0;
        unsigned int permille = 0, n_shared = 0, n_whole = 0, n_alone = 0;

        for (size_t i = 0; i < N_CLAIMS; i++) {
                const struct ledger_claim_device *device = &model.slots[i].device;

                if (!model.slots[i].is_held)
                        continue;
                n_alone += device->is_alone;
                n_whole += !device->is_shared;
                n_shared += device->is_shared;
                mib += device->is_shared ? device->limit_mib : 0;
                permille += device->is_shared ? device->threads_permille : 0;
        }
        check(mib <= MEMORY_MIB && permille <= 1000);
        check(n_alone <= 1 && (n_alone == 0 || n_whole + n_shared == 1));
        check(n_shared == 0 || n_whole == 0);
}

/* As words: "GPU-1" is one of "GPU-0 GPU-1". */
static bool is_wanted(const char *daemon)
{
        const char *wanted = fake_supervisor_wanted();
        size_t length = strlen(daemon);

        for (const char *at = wanted; (at = strstr(at, daemon)); at++)
                if ((at == wanted || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
                        return true;
        return false;
}

static void check_daemons(void)
{
        for (size_t i = 0; i < N_CLAIMS; i++) {
                const struct slot *slot = &model.slots[i];

                if (!slot->is_held)
                        continue;
                if (slot->device.is_shared)
                        check(*slot->daemon && is_wanted(slot->daemon));
                else
                        check(!*slot->daemon && !is_wanted(UNIT) && !is_wanted("gpu.warpshare.dev"));
        }
}

static void check_all(void)
{
        check_known();
        check_room();
        check_daemons();
}

/* Nobody is left waiting, and nothing is left over. */
static void check_calm(void)
{
        size_t n_made = 0;

        for (size_t i = 0; i < N_CLAIMS; i++) {
                const struct slot *slot = &model.slots[i];
                const struct fake_allocation *made = fake_allocations_find(&supervisor.made, slot->id);

                check(!slot->is_awaited);
                n_made += made != NULL;
                if (slot->is_held && slot->tier >= MPS_TIER_PARTITION)
                        check(made && made->limit_mib == slot->device.limit_mib &&
                                made->threads_permille == slot->device.threads_permille);
                if (!slot->is_asked || !slot->device.is_shared || supervisor.tier < MPS_TIER_PARTITION)
                        check(!made);
        }
        check(supervisor.is_reported && supervisor.reported.count == n_made && supervisor.made.count == n_made);
}

/* ---- what happens ---- */

static void on_claimed(const struct error *err, const struct ledger_claimed *claimed, void *data)
{
        struct slot *slot = data;

        check(slot->is_asked && slot->is_awaited && !err == (claimed != NULL));
        slot->is_awaited = false;
        slot->is_held = !err;
        model.n_held += !err;
        model.n_refused += err != NULL;
        if (err)
                return;
        slot->tier = claimed->tier;
        snprintf(slot->daemon, sizeof(slot->daemon), "%s", claimed->daemon ? claimed->daemon : "");
}

static struct ledger_claim_device draw_device(struct slot *slot)
{
        struct ledger_claim_device device = {.id = slot->id, .unit = UNIT};

        device.is_shared = !happens(4);
        device.is_alone = !device.is_shared && happens(2);
        device.threads_permille = device.is_shared ? 1 + (unsigned int)draw(500) : 1000;
        device.limit_mib = device.is_shared ? draw(16) * 1024 : 0;
        return device;
}

/* kubelet asks for the same as often as it likes. */
static void claim(struct slot *slot)
{
        struct ledger_claim asked = {.uid = slot->uid, .name = slot->uid, .devices = &slot->device, .n_devices = 1};
        const struct ledger_claim_pod pod = {.uid = "uid-train", .name = "train"};

        if (!slot->is_asked)
                slot->device = draw_device(slot);
        if (happens(2)) {
                asked.pods = &pod;
                asked.n_pods = 1;
        }
        slot->is_asked = slot->is_awaited = true;
        slot->is_held = false;
        ledger_claim(rig.ledger, &asked, on_claimed, slot);
}

static void unclaim(struct slot *slot)
{
        slot->is_asked = slot->is_awaited = slot->is_held = false;
        ledger_unclaim(rig.ledger, slot->uid);
}

static void keep_held(void)
{
        struct ledger_claim kept[N_CLAIMS];
        struct ledger_claim_device devices[N_CLAIMS];
        size_t count = 0;

        for (size_t i = 0; i < N_CLAIMS; i++) {
                struct slot *slot = &model.slots[i];

                slot->is_awaited = false;
                slot->is_asked = slot->is_held;
                if (!slot->is_held)
                        continue;
                devices[count] = slot->device;
                devices[count].tier = slot->tier;
                devices[count].daemon = *slot->daemon ? slot->daemon : NULL;
                kept[count] = (struct ledger_claim){
                        .uid = slot->uid, .name = slot->uid, .devices = &devices[count], .n_devices = 1};
                count++;
        }
        ledger_keep_claims(rig.ledger, kept, count);
}

/* The record of claims is not the ledger's; of those that had no answer, kubelet asks again. */
static void restart_agent(void)
{
        if (happens(2))
                rig_kill();
        else
                rig_stop();
        rig.date += 1000; /* a start takes its time, by which generations are told apart */
        rig_open();
        keep_held();
        rig_apply(rig.plan);
        model.n_restarts++;
}

/* A daemon is at fault, or one that is not wanted does not end, or nobody tells. */
static void disturb_daemons(void)
{
        supervisor.unit_at_fault = supervisor.unit_that_drains = NULL;
        supervisor.is_behind = false;
        switch (draw(5)) {
        case 0:
                supervisor.unit_at_fault = UNIT;
                break;
        case 1:
                if (!is_wanted(UNIT))
                        supervisor.unit_that_drains = UNIT;
                break;
        case 2:
                supervisor.is_absent = happens(2);
                fake_supervisor_vanish();
                return;
        case 3:
                supervisor.is_behind = true;
                break;
        default:
                break;
        }
        fake_supervisor_report();
}

static void disturb_supervisor(void)
{
        static const enum fake_granting ways[] = {
                FAKE_ALLOCATIONS_IT, FAKE_ALLOCATIONS_LATE, FAKE_ALLOCATIONS_NOT, FAKE_LOSES_IT};

        fake_supervisor_answer();
        supervisor.allocations = ways[draw(ARRAY_SIZE(ways))];
        supervisor.loses_releases = happens(3);
        if (happens(3))
                fake_supervisor_restart();
}

static void have_calm(void)
{
        supervisor.unit_at_fault = supervisor.unit_that_drains = NULL;
        supervisor.is_behind = supervisor.is_absent = supervisor.loses_releases = false;
        supervisor.allocations = FAKE_ALLOCATIONS_IT;
        fake_supervisor_answer();
        fake_supervisor_report();
        rig_pass(2 * LEDGER_CLAIM_WAIT_MS);
        ledger_ask(rig.ledger); /* what was lost is made good with the next list */
        rig_settle();
        check_calm();
}

static void make_step(void)
{
        struct slot *slot = &model.slots[draw(N_CLAIMS)];

        switch (draw(12)) {
        case 0 ... 4:
                claim(slot);
                break;
        case 5 ... 6:
                unclaim(slot);
                break;
        case 7:
                disturb_daemons();
                break;
        case 8:
                disturb_supervisor();
                break;
        case 9:
                fake_supervisor_answer();
                fake_supervisor_report();
                break;
        case 10:
                rig_pass((int64_t)draw(40000));
                break;
        case 11:
                restart_agent();
                break;
        }
        rig_settle();
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        static const enum rig_shares kinds[] = {RIG_CLAIMS, RIG_CLAIM_NAMESPACES, RIG_CLAIMS_ONE_DAEMON};
        enum rig_shares shares = kinds[chance_draw(chance, ARRAY_SIZE(kinds))];
        void *state = &shares;

        model = (struct model){.seed = seed, .chance = chance};
        for (size_t i = 0; i < N_CLAIMS; i++) {
                snprintf(model.slots[i].uid, sizeof(model.slots[i].uid), "u%zu", i);
                snprintf(model.slots[i].id, sizeof(model.slots[i].id), "c%zu", i);
        }
        rig_begin(&state);
        keep_held();
        for (; model.step < n_steps && chance_step(chance); model.step++) {
                make_step();
                check_all();
                if (happens(20))
                        have_calm();
        }
        have_calm();
        rig_end(&state);
}

#ifdef FUZZING

FUZZ_MODEL(run)

#else

static void test_claims_in_any_order_never_have_more_of_a_unit_than_there_is(void **state UNUSED)
{
        unsigned int n_held = 0, n_refused = 0, n_restarts = 0;

        if (chance_run_named(run, N_STEPS))
                return;
        for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
                chance_run_seed(run, seed, N_STEPS);
                n_held += model.n_held;
                n_refused += model.n_refused;
                n_restarts += model.n_restarts;
        }
        print_message("# held %u, refused %u, agents started anew %u\n", n_held, n_refused, n_restarts);
        assert_true(n_held > N_RUNS && n_refused > N_RUNS && n_restarts > N_RUNS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_claims_in_any_order_never_have_more_of_a_unit_than_there_is),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
