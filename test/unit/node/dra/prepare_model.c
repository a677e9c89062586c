// SPDX-License-Identifier: Apache-2.0
/*
 * Any sequence of calls, of calls that kubelet gives up, late answers, failures, kills and reboots over a few claims.
 * What kubelet believes to be prepared is allocated and has its CDI file at any time; and when all is quiet, ledger,
 * CDI files and record are exactly that, and what the next agent's ledger is told is what is on record.
 *
 * The seeds are fixed: a failure says which, and WARPSHARE_SEED=n runs that one alone.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chance.h"
#include "node/dra/wanted.h"
#include "fake_node.h"

#define N_CLAIMS 4
#define N_SEEDS 150
#define N_ACTIONS 120

/* What kubelet knows of a claim. */
enum belief {
        UNPREPARED,
        PREPARED,
        UNCLEAR, /* a call has failed, or never came back: it prepares again or unprepares */
};

struct slot {
        struct model *model;
        enum belief belief;
        bool is_called; /* a call is not answered */
        bool is_prepare;
};

struct model {
        struct fake_node node;
        struct slot slots[N_CLAIMS];
        struct chance *chance;
        size_t n_devices; /* of each claim */
        unsigned int boot;
        unsigned int prepared, failed, killed; /* that the model does something */
};

static unsigned int draw(struct model *model, unsigned int count)
{
        return (unsigned int)chance_draw(model->chance, count);
}

static void on_done(const struct dra_claim *claim, const struct error *err, void *data)
{
        struct slot *slot = data;

        assert_true(slot->is_called);
        slot->is_called = false;
        slot->belief = err ? UNCLEAR : slot->is_prepare ? PREPARED : UNPREPARED;
        assert_int_equal(claim != NULL, slot->belief == PREPARED);
        if (claim)
                assert_int_equal(claim->n_results, slot->model->n_devices);
        slot->model->prepared += slot->belief == PREPARED;
        slot->model->failed += slot->belief == UNCLEAR;
}

static void call(struct model *model, size_t i, bool is_prepare)
{
        const struct dra_claim claim = fake_claim(i);
        struct slot *slot = &model->slots[i];

        slot->is_called = true;
        slot->is_prepare = is_prepare;
        if (!is_prepare)
                slot->belief = UNCLEAR;
        (is_prepare ? dra_prepare_claim : dra_unprepare_claim)(model->node.prepare, &claim, on_done, slot);
}

static void start(struct model *model)
{
        char boot_id[32];

        snprintf(boot_id, sizeof(boot_id), "boot-%u", model->boot);
        fake_start(&model->node, boot_id);
}

/* What was asked for may still be done, or not. */
static void kill_driver(struct model *model)
{
        for (size_t i = 0; i < model->node.n_asked; i++)
                if (draw(model, 2))
                        fake_change(&model->node, i);
        fake_stop(&model->node);
        model->killed++;
        for (size_t i = 0; i < N_CLAIMS; i++)
                if (model->slots[i].is_called) {
                        model->slots[i].is_called = false;
                        if (model->slots[i].belief != PREPARED)
                                model->slots[i].belief = UNCLEAR;
                }
}

static void reboot(struct model *model)
{
        kill_driver(model);
        fake_clear_held(&model->node);
        if (draw(model, 2))
                fake_clear_cdi(&model->node);
        model->boot++;
        for (size_t i = 0; i < N_CLAIMS; i++)
                if (model->slots[i].belief == PREPARED)
                        model->slots[i].belief = UNCLEAR;
}

static void answer_one(struct model *model)
{
        struct fake_node *node = &model->node;
        size_t i = draw(model, (unsigned int)node->n_asked);
        struct error err;

        if (draw(model, 4)) {
                fake_answer(node, i);
                return;
        }
        error_raise(&err, ERROR_UNAVAILABLE, "refused by the model");
        if (draw(model, 2)) /* done and yet refused: an answer that was lost */
                fake_change(node, i);
        fake_refuse(node, i, &err);
}

/* Kubelet's stream has ended: what is not begun to be made fails, the rest goes on. */
static void give_up(struct model *model, size_t i)
{
        const struct dra_claim claim = fake_claim(i);

        dra_prepare_abandon(model->node.prepare, &claim);
}

static void lose_cdi_file(struct model *model, size_t i)
{
        char path[256];

        fake_path_of_cdi(&model->node, i, path);
        unlink(path);
        if (model->slots[i].belief == PREPARED)
                model->slots[i].belief = UNCLEAR;
}

static void act(struct model *model)
{
        unsigned int what = draw(model, 22);
        size_t i = draw(model, N_CLAIMS);

        model->node.fails_writes = draw(model, 8) == 0;
        model->node.fails_removals = draw(model, 8) == 0;
        if (what == 0)
                reboot(model);
        else if (what == 1)
                kill_driver(model);
        else if (what == 2 && !model->slots[i].is_called)
                lose_cdi_file(model, i);
        else if (what < 11 && !model->slots[i].is_called)
                call(model, i, draw(model, 5) > 1);
        else if (what < 13 && model->node.prepare)
                give_up(model, i);
        else if (model->node.n_asked > 0)
                answer_one(model);
        if (!model->node.prepare)
                start(model);
}

static unsigned int mask_of_believed(const struct model *model)
{
        unsigned int mask = 0;

        for (size_t i = 0; i < N_CLAIMS; i++)
                if (model->slots[i].belief == PREPARED)
                        mask |= 1U << i;
        return mask;
}

/* Held, with the CDI file of the same allocation. */
static void check_believed(const struct model *model)
{
        for (size_t i = 0; i < N_CLAIMS; i++)
                if (model->slots[i].belief == PREPARED) {
                        assert_int_not_equal(fake_held_number(&model->node, i), 0);
                        assert_int_equal(fake_cdi_number(&model->node, i), fake_held_number(&model->node, i));
                }
}

/* Nothing fails any more, and kubelet makes up its mind about each claim. */
static void settle(struct model *model)
{
        model->node.fails_writes = false;
        model->node.fails_removals = false;
        while (model->node.n_asked > 0)
                fake_answer(&model->node, 0);
        model->node.answers_at_once = true;
        for (size_t i = 0; i < N_CLAIMS; i++)
                if (model->slots[i].belief == UNCLEAR)
                        call(model, i, draw(model, 2));
        for (size_t i = 0; i < N_CLAIMS; i++)
                if (model->slots[i].belief == UNCLEAR) /* its claim is refused */
                        call(model, i, false);
}

/* The ledger of the next agent is told of each device once, with all that the claim has of it. */
static void check_booked(const struct model *model)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct ledger_claim claim;

        for (size_t i = 0; i < dra_record_count(model->node.record); i++) {
                const struct dra_claim *recorded = dra_record_at(model->node.record, i);
                uint64_t mib = 0;

                dra_booking_make(&claim, &arena, recorded);
                assert_in_range(claim.n_devices, 1, model->n_devices);
                for (size_t j = 0; j < recorded->n_results; j++)
                        mib += recorded->results[j].memory_bytes >> 20;
                for (size_t j = 0; j < claim.n_devices; j++) {
                        mib -= claim.devices[j].limit_mib;
                        for (size_t k = 0; k < j; k++)
                                assert_string_not_equal(claim.devices[j].id, claim.devices[k].id);
                }
                assert_int_equal(mib, 0);
        }
}

static void check_quiet(const struct model *model)
{
        unsigned int believed = mask_of_believed(model);

        check_believed(model);
        check_booked(model);
        assert_int_equal(model->node.n_asked, 0);
        assert_int_equal(fake_mask_held(&model->node), believed);
        assert_int_equal(fake_mask_cdi(&model->node), believed);
        assert_int_equal(fake_mask_record(&model->node, DRA_CLAIM_PREPARED), believed);
        assert_int_equal(fake_mask_record(&model->node, DRA_CLAIM_STARTED), 0);
        for (size_t i = 0; i < N_CLAIMS; i++)
                assert_int_not_equal(model->slots[i].belief, UNCLEAR);
}

static void run(struct chance *chance, size_t n_actions, struct model *model)
{
        struct error err;

        /* The last is refused: its containers would need two MPS daemons. */
        static const char *const shapes[] = {"gpu-0-shared", "gpu-0", "gpu-0-shared gpu-0-shared",
                "gpu-0-shared gpu-0-shared gpu-0-shared", "gpu-0-shared gpu-1-shared"};
        size_t shape = chance_draw(chance, ARRAY_SIZE(shapes));

        *model = (struct model){.chance = chance, .n_devices = 1};
        fake_init(&model->node);
        model->node.devices = shapes[shape];
        for (const char *at = shapes[shape]; *at; at++)
                model->n_devices += *at == ' ';
        for (size_t i = 0; i < N_CLAIMS; i++)
                model->slots[i].model = model;
        start(model);
        for (size_t i = 0; i < n_actions && chance_step(chance); i++) {
                act(model);
                check_believed(model);
        }
        settle(model);
        /* Who starts now reads the same. */
        fake_stop(&model->node);
        start(model);
        assert_int_equal(dra_record_refresh(model->node.record, &err), 0);
        check_quiet(model);
        fake_done(&model->node);
}

#ifdef FUZZING

static void run_bytes(struct chance *chance, uint64_t seed UNUSED, unsigned int n_steps)
{
        struct model model;

        run(chance, n_steps, &model);
}

FUZZ_MODEL(run_bytes)

#else

static void test_when_all_is_quiet_there_is_what_kubelet_believes(void **state UNUSED)
{
        const char *only = getenv("WARPSHARE_SEED");
        unsigned int prepared = 0, failed = 0, killed = 0;
        struct model model;

        for (unsigned int seed = 1; seed <= N_SEEDS; seed++) {
                struct chance chance = chance_of_seed(seed);

                if (only && (unsigned int)atoi(only) != seed)
                        continue;
                print_message("# seed %u\n", seed);
                run(&chance, N_ACTIONS, &model);
                prepared += model.prepared;
                failed += model.failed;
                killed += model.killed;
        }
        if (only)
                return;
        assert_in_range(prepared, N_SEEDS, UINT32_MAX);
        assert_in_range(failed, N_SEEDS, UINT32_MAX);
        assert_in_range(killed, N_SEEDS, UINT32_MAX);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_when_all_is_quiet_there_is_what_kubelet_believes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
