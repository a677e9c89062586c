// SPDX-License-Identifier: Apache-2.0
/*
 * A node on which everything happens: pods come and go, the configuration changes, kubelet answers late, not, or starts
 * anew, the supervisor loses what it made or was told, daemons and GPUs fail, a GPU goes and comes back, the disk is
 * full, the time of day is set, and the agent ends in the middle of it, with its file, without it, or with one that
 * somebody has damaged. The model is the containers that kubelet runs, with what each was answered; the ledger has to
 * agree.
 *
 *   always    no GPU has given away more threads or memory than it has; who runs has the allocation that was answered:
 *             its id, its unit, and, but while its GPU is away, its limits
 *   restart   an agent that ends as it should leaves a file from which the next one knows the same
 *   in a calm nobody else has one, and the supervisor was told of just these, and has made them
 *
 * Runs are told apart by a seed, which a failure names; WARPSHARE_SEED=<n> runs only that one, at ten times the length.
 */
#include "chance.h"
#include "rig.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define GPUS 2
#define MEMORY_MIB (24 * 1024)
#define GATHERING_MS 5000 /* with the time it may take for a list, what a kubelet is given that has just started */
#define CALM_MS 70000     /* longer than the longest wait for another try */

enum { N_RUNS = 24, N_STEPS = 250 };

static struct model {
        uint64_t seed;
        struct chance *chance;
        unsigned int step;
        unsigned int n_pods;
        int64_t gathers_at; /* rig.clock: when a kubelet that has started knows its pods */
        bool is_disk_full;
        bool is_gpu_away; /* GPU-1 */
        unsigned int replicas;
        /* of each container, as it was answered */
        struct promise {
                unsigned int threads_permille;
                uint64_t limit_mib;
        } promised[FAKE_PODS];
        unsigned int n_started, n_refused, n_restarts, n_gpus_lost;
} model;

#define check(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u: not true: %s; held: %s", model.seed, model.step, \
                                #condition, rig_allocations());                                                        \
        } while (0)

static uint64_t draw(uint64_t below)
{
        return chance_draw(model.chance, below);
}

/* One in |n|. */
static bool happens(uint64_t n)
{
        return chance_happens(model.chance, n);
}

/* ---- what has to be so ---- */

static bool is_alive(const struct fake_container *container)
{
        return container->is_running && container->allocation[0];
}

static bool is_away(const char *unit)
{
        return model.is_gpu_away && strcmp(unit, "GPU-1") == 0;
}

static void check_rooms(void)
{
        static const char *const units[GPUS] = {"GPU-0", "GPU-1"};

        for (size_t i = 0; i < GPUS; i++) {
                unsigned int permille = 0;
                uint64_t mib = 0;

                for (size_t j = 0; j < kubelet.n_containers; j++)
                        if (is_alive(&kubelet.containers[j]) && strcmp(kubelet.containers[j].unit, units[i]) == 0) {
                                permille += model.promised[j].threads_permille;
                                mib += model.promised[j].limit_mib;
                        }
                check(permille <= 1000 && mib <= MEMORY_MIB);
        }
}

/* Of the container, by the ledger. */
static const struct ledger_allocation *find(
        const struct ledger_allocation *all, size_t count, const struct fake_container *container)
{
        for (size_t i = 0; i < count; i++)
                if (strcmp(all[i].allocation->id, container->allocation) == 0)
                        return &all[i];
        return NULL;
}

/* How many there are. */
static size_t check_kept(void)
{
        const struct ledger_allocation *all;
        size_t count = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);
        size_t alive = 0;

        for (size_t i = 0; i < kubelet.n_containers; i++) {
                const struct fake_container *container = &kubelet.containers[i];
                const struct ledger_allocation *found;

                if (!is_alive(container))
                        continue;
                alive++;
                found = find(all, count, container);
                check(found && strcmp(found->allocation->unit, container->unit) == 0);
                check(found && found->allocation->n_devices == container->n_ids);
                if (is_away(container->unit))
                        continue;
                check(found && found->threads_permille == model.promised[i].threads_permille);
                check(found && found->limit_mib == model.promised[i].limit_mib);
        }
        return alive;
}

static void check_supervisor(size_t alive)
{
        bool is_made = supervisor.tier >= MPS_TIER_PARTITION;

        check(supervisor.is_reported && supervisor.reported.count == (is_made ? alive : 0));
        check(supervisor.made.count == supervisor.reported.count);
        for (size_t i = 0; i < kubelet.n_containers; i++) {
                const struct fake_container *container = &kubelet.containers[i];
                const struct fake_allocation *made;

                if (!is_alive(container) || !is_made)
                        continue;
                made = fake_allocations_find(&supervisor.made, container->allocation);
                check(fake_allocations_find(&supervisor.reported, container->allocation) != NULL);
                check(made && strcmp(made->unit, container->unit) == 0);
                check(made && made->threads_permille == model.promised[i].threads_permille);
        }
}

static void check_all(void)
{
        check_rooms();
        check_kept();
}

/* ---- what kubelet does ---- */

static void pass(int64_t ms)
{
        int64_t until = rig.clock + ms;

        if (kubelet.is_starting && model.gathers_at <= until) {
                rig_pass(MAX(model.gathers_at - rig.clock, 0));
                fake_kubelet_gather();
        }
        rig_pass(until - rig.clock);
}

static bool is_free(const char *id)
{
        for (size_t i = 0; i < kubelet.n_containers; i++)
                for (size_t j = 0; kubelet.containers[i].is_running && j < kubelet.containers[i].n_ids; j++)
                        if (strcmp(kubelet.containers[i].ids[j], id) == 0)
                                return false;
        return true;
}

/* Of any GPUs, as when kubelet has no preference of ours. "" where there are not that many. */
static const char *choose_ids(uint64_t count)
{
        const struct resource *resource = rig_resource();
        const char *text = "";
        size_t first = resource->n_devices ? draw(resource->n_devices) : 0;
        size_t stride = resource->n_devices % 7 ? 7 : 1;

        for (size_t i = 0; count > 0 && i < resource->n_devices; i++) {
                const char *id = resource->devices[(first + i * stride) % resource->n_devices].id;

                if (!is_free(id))
                        continue;
                text = arena_printf(&rig.arena, "%s%s%s", text, *text ? " " : "", id);
                count--;
        }
        return count ? "" : text;
}

/* What a container that was just given something has. */
static void note_promise(const struct fake_container *container)
{
        const struct ledger_allocation *all;
        size_t count = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);
        const struct ledger_allocation *found = find(all, count, container);

        check(found && found->threads_permille > 0 && found->limit_mib > 0);
        if (found)
                model.promised[container - kubelet.containers] =
                        (struct promise){found->threads_permille, found->limit_mib};
}

static void start_pod(void)
{
        const char *ids = choose_ids(1 + draw(3));
        char name[24];
        const struct fake_container *container;

        if (!*ids || kubelet.n_containers + 2 >= FAKE_PODS)
                return;
        snprintf(name, sizeof(name), "pod-%u", model.n_pods++);
        container = happens(5) ? rig_allocate_init(name, ids) : rig_allocate(name, ids);
        pass(500); /* kubelet does one after the other */
        /* It may wait for kubelet's list, and some more times for its record. */
        for (int i = 0; i < 6 && !container->is_answered; i++) {
                if (happens(4))
                        fake_kubelet_refuse();
                else
                        fake_kubelet_answer();
                pass(500);
        }
        check(container->is_answered);
        if (is_alive(container))
                note_promise(container);
        else
                fake_kubelet_end_pod(name); /* refused, or given a unit that is away, which nobody shares now */
        model.n_started += container->is_running;
        model.n_refused += !container->is_running;
}

static void end_pod(void)
{
        const struct fake_container *container;

        if (kubelet.n_containers == 0)
                return;
        container = &kubelet.containers[draw(kubelet.n_containers)];
        fake_kubelet_end_pod(container->pod);
}

/* ---- trouble ---- */

static void disturb_kubelet(void)
{
        switch (draw(4)) {
        case 0:
                kubelet.to = FAKE_REFUSES;
                break;
        case 1:
                kubelet.to = FAKE_ANSWERS;
                break;
        case 2:
                kubelet.takes_lists = !kubelet.takes_lists;
                break;
        case 3:
                fake_kubelet_restart();
                model.gathers_at = rig.clock + (int64_t)draw(GATHERING_MS);
                break;
        }
}

/* Answers are late by some seconds, as long as kubelet may take. */
static void be_slow(void)
{
        enum fake_answers before = kubelet.to;

        kubelet.to = FAKE_IS_SILENT;
        pass((int64_t)draw(4500));
        if (happens(2))
                end_pod();
        else
                start_pod();
        while (kubelet.n_questions)
                if (happens(2))
                        fake_kubelet_answer_as_asked();
                else
                        fake_kubelet_answer();
        kubelet.to = before;
}

static void disturb_supervisor(void)
{
        switch (draw(4)) {
        case 0:
                supervisor.allocations = happens(2)   ? FAKE_ALLOCATIONS_IT
                                         : happens(2) ? FAKE_ALLOCATIONS_NOT
                                                      : FAKE_LOSES_IT;
                break;
        case 1:
                supervisor.loses_releases = !supervisor.loses_releases;
                break;
        case 2:
                fake_supervisor_restart();
                break;
        case 3:
                supervisor.unit_at_fault = happens(2) ? NULL : happens(2) ? "GPU-0" : "GPU-1";
                fake_supervisor_report();
                break;
        }
}

static void fill_or_empty_disk(void)
{
        if (model.is_disk_full)
                rig_empty_disk();
        else
                rig_fill_disk();
        model.is_disk_full = !model.is_disk_full;
}

/* Half of it, or one byte of it other. */
static void damage_file(void)
{
        _free_ char *text = rig_read_file();
        size_t length = text ? strlen(text) : 0;

        if (length == 0)
                return;
        if (happens(2))
                text[draw(length)] = '\0';
        else
                text[draw(length)] = (char)(1 + draw(127));
        rig_write_file(text);
}

static int compare_lines(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All that is on record of an allocation, in the order of their ids. */
static const char *describe_allocations(void)
{
        const struct ledger_allocation *all;
        size_t count = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);
        const char **lines = ARENA_ARRAY(&rig.arena, const char *, count);
        const char *text = "";

        for (size_t i = 0; i < count; i++) {
                const struct allocation *allocation = all[i].allocation;

                lines[i] = arena_printf(&rig.arena, "%s %s %u %ju %lld:", allocation->id,
                        allocation->unit ? allocation->unit : "-", all[i].threads_permille, (uintmax_t)all[i].limit_mib,
                        (long long)allocation->since);
                for (size_t j = 0; j < allocation->n_devices; j++)
                        lines[i] = arena_printf(&rig.arena, "%s %s", lines[i], allocation->devices[j]);
        }
        if (count)
                qsort(lines, count, sizeof(*lines), compare_lines);
        for (size_t i = 0; i < count; i++)
                text = arena_printf(&rig.arena, "%s%s\n", text, lines[i]);
        return text;
}

/*
 * During a rollout, what has no id of its own left may be forgotten: it is read into a resource that has fewer ids
 * (plan/allocations.c: forget_oldest()).
 */
static void check_same(const char *before, const char *after)
{
        const char *line = after;

        if (rig_resource()->n_draining == 0) {
                check(strcmp(before, after) == 0);
                return;
        }
        for (; *line; line += strcspn(line, "\n") + 1)
                check(strstr(before, arena_strndup(&rig.arena, line, strcspn(line, "\n") + 1)));
}

/* Without its file, or with another one, only where kubelet tells the new one at once what it is about. */
static void restart_agent(void)
{
        bool loses_file = model.is_disk_full || happens(4);
        bool is_killed = happens(2);
        const char *before;

        if (model.is_disk_full) {
                fill_or_empty_disk();
                is_killed = true;
        }
        before = is_killed || loses_file ? NULL : describe_allocations();
        if (is_killed)
                rig_kill();
        else
                rig_stop();
        if (loses_file && happens(2))
                unlink(rig.file);
        else if (loses_file)
                damage_file();
        if (happens(3))
                end_pod();
        rig.date += (int64_t)draw(7200000) - 3600000;
        rig_start();
        if (before)
                check_same(before, describe_allocations());
        model.n_restarts++;
        kubelet.to = FAKE_ANSWERS;
        pass(0);
}

static void move_gpu(bool is_away)
{
        model.n_gpus_lost += is_away;
        model.is_gpu_away = is_away;
        rig_change_gpus(model.replicas, is_away ? GPUS - 1 : GPUS);
}

/* The plan that is in force follows what is held; kubelet has to answer for that. */
static void change_plan(void)
{
        if (kubelet.is_starting || kubelet.to != FAKE_ANSWERS || kubelet.n_questions)
                return;
        switch (draw(4)) {
        case 0:
                model.replicas = 2 + (unsigned int)draw(5);
                rig_change_gpus(model.replicas, model.is_gpu_away ? GPUS - 1 : GPUS);
                break;
        case 1:
                rig_review();
                break;
        default:
                move_gpu(!model.is_gpu_away);
                break;
        }
}

static void have_calm(void)
{
        kubelet.to = FAKE_ANSWERS;
        kubelet.takes_lists = true;
        supervisor.allocations = FAKE_ALLOCATIONS_IT;
        supervisor.loses_releases = false;
        supervisor.unit_at_fault = NULL;
        fake_supervisor_report();
        rig_set_health("GPU-0", true);
        rig_set_health("GPU-1", true);
        if (model.is_disk_full)
                fill_or_empty_disk();
        pass(CALM_MS);
        if (model.is_gpu_away)
                move_gpu(false);
        else
                rig_review();
        pass(CALM_MS);
        check_rooms();
        if (kubelet.n_containers) {
                size_t alive = check_kept();
                const struct ledger_allocation *all;

                check(ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all) == alive);
                check_supervisor(alive);
        }
        check(*rig_unavailable() == '\0' || (rig.rollout && rig.rollout->n_pending > 0));
}

static void make_step(void)
{
        const char *gpu;

        switch (draw(17)) {
        case 0 ... 4:
                start_pod();
                break;
        case 5 ... 7:
                end_pod();
                break;
        case 8:
                pass((int64_t)draw(12000));
                break;
        case 9:
                disturb_kubelet();
                break;
        case 10:
                be_slow();
                break;
        case 11:
                disturb_supervisor();
                break;
        case 12:
                if (happens(2))
                        restart_agent();
                break;
        case 13:
                fill_or_empty_disk();
                break;
        case 14:
                rig.date += (int64_t)draw(7200000) - 3600000;
                break;
        case 15:
                gpu = happens(2) ? "GPU-0" : "GPU-1";
                rig_set_health(gpu, unit_health_find(&rig.health, gpu) != NULL);
                break;
        case 16:
                change_plan();
                break;
        }
        rig_settle();
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        static const enum rig_shares kinds[] = {RIG_NAMESPACES, RIG_PARTITIONS, RIG_VERIFIED};
        enum rig_shares shares = kinds[chance_draw(chance, ARRAY_SIZE(kinds))];
        void *state = &shares;

        model = (struct model){.seed = seed, .chance = chance, .replicas = 4};
        rig_begin(&state);
        for (; model.step < n_steps && kubelet.n_containers + 4 < FAKE_PODS && chance_step(chance); model.step++) {
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

static void test_whatever_happens_running_containers_keep_what_was_promised(void **state UNUSED)
{
        unsigned int n_started = 0;
        unsigned int n_refused = 0;
        unsigned int n_restarts = 0;
        unsigned int n_gpus_lost = 0;

        if (chance_run_named(run, 10 * N_STEPS))
                return;
        for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
                chance_run_seed(run, seed, N_STEPS);
                n_started += model.n_started;
                n_refused += model.n_refused;
                n_restarts += model.n_restarts;
                n_gpus_lost += model.n_gpus_lost;
        }
        print_message("# started %u, refused %u, agents started anew %u, GPUs lost %u\n", n_started, n_refused,
                n_restarts, n_gpus_lost);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whatever_happens_running_containers_keep_what_was_promised),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
