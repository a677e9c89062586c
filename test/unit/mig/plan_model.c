// SPDX-License-Identifier: Apache-2.0
/*
 * A GPU of any model that gets one MIG configuration after the other, while others make, divide and destroy instances
 * beside: what is planned is carried out here, without a driver.
 *
 *   always    what stays was there, what does not stay goes, and nothing is both; all instances have a place of their
 *             own that their profile allows, and no more compute slices than there are; the devices are those that are
 *             wanted, each of them and no others; who wants what is there changes nothing; it takes no second
 *   a problem leaves everything as it is, and has a reason
 *
 * A failure names its seed; WARPSHARE_SEED=<n> runs only that one.
 */
#include "unit.h"

#include "chance.h"
#include "model_gpu.h"

#include <inttypes.h>
#include <time.h>

#include "mig/plan.h"

#define INSTANCES_MAX 16
#define WANTED_MAX 4
#define SECOND_NS INT64_C(1000000000)

enum { N_RUNS = 60, N_STEPS = 60 };

static struct world {
        struct chance *chance;
        uint64_t seed;
        unsigned int step;
        const struct model *model;
        struct arena arena;
        struct mig_node_gpu gpu;
        struct mig_gpu_instance instances[INSTANCES_MAX];
        struct mig_gpu_device devices[INSTANCES_MAX][MIG_SHAPE_SLICES];
        unsigned int n_fit, n_not;
} world;

#define check(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u on %s: not true: %s", world.seed, world.step,     \
                                world.model->key, #condition);                                                         \
        } while (0)

static unsigned int draw(uint64_t below)
{
        return (unsigned int)chance_draw(world.chance, below);
}

/* ---- what is on the GPU ---- */

static struct mig_shape whole_of(const struct mig_gpu_profile *profile)
{
        return (struct mig_shape){.computes = {profile->slices}, .n_computes = 1};
}

static void add_instance(const struct mig_gpu_profile *profile, unsigned int start, const struct mig_shape *shape)
{
        struct mig_geometry *geometry = &world.gpu.geometry;
        size_t at = geometry->n_instances++;

        assert_true(at < INSTANCES_MAX);
        for (size_t i = 0; i < shape->n_computes; i++)
                world.devices[at][i] = (struct mig_gpu_device){"MIG", (unsigned int)i, shape->computes[i]};
        world.instances[at] = (struct mig_gpu_instance){.id = (unsigned int)at,
                .profile = profile,
                .placement = {start, profile->placements[0].size},
                .devices = world.devices[at],
                .n_devices = shape->n_computes};
}

static void drop_instance(size_t at)
{
        size_t last = --world.gpu.geometry.n_instances;

        world.instances[at] = world.instances[last];
        memcpy(world.devices[at], world.devices[last], sizeof(world.devices[at]));
        world.instances[at].devices = world.devices[at];
}

static uint64_t mask_of(unsigned int start, unsigned int size)
{
        return ((UINT64_C(1) << size) - 1) << start;
}

/* Of a profile, also where it is divided: which may begin there, and how much of the GPU's slices it has. */
static void take_place(uint64_t *used, unsigned int *slices, const struct mig_gpu_profile *profile, unsigned int start)
{
        bool is_possible = false;

        for (size_t i = 0; i < profile->n_placements; i++)
                is_possible = is_possible || profile->placements[i].start == start;
        check(is_possible && (*used & mask_of(start, profile->placements[0].size)) == 0);
        *used |= mask_of(start, profile->placements[0].size);
        *slices += profile->slices;
        check(*slices <= world.model->compute_slices);
}

/* ---- what others do ---- */

enum { ENGINES = 4 };

static unsigned int engines_of(const struct mig_gpu_profile *profile, size_t kind)
{
        const unsigned int engines[ENGINES] = {profile->attributes.decoders, profile->attributes.encoders,
                profile->attributes.jpegs, profile->attributes.ofas};

        return engines[kind];
}

/* The driver has room for one more beside those that are there: places aside. */
static bool has_room(const struct mig_gpu_profile *profile)
{
        const struct mig_geometry *geometry = &world.gpu.geometry;
        unsigned int slices = profile->slices, n_same = 1;
        unsigned int used[ENGINES], all[ENGINES] = {0};

        for (size_t kind = 0; kind < ENGINES; kind++) {
                used[kind] = engines_of(profile, kind);
                for (size_t i = 0; i < geometry->n_profiles; i++)
                        all[kind] =
                                MAX(all[kind], engines_of(&geometry->profiles[i], kind) * geometry->profiles[i].max);
        }
        for (size_t i = 0; i < geometry->n_instances; i++) {
                const struct mig_gpu_profile *other = world.instances[i].profile;

                slices += other->slices;
                n_same += other == profile;
                for (size_t kind = 0; kind < ENGINES; kind++)
                        used[kind] += engines_of(other, kind);
        }
        for (size_t kind = 0; kind < ENGINES; kind++)
                if (used[kind] > all[kind])
                        return false;
        return slices <= world.model->compute_slices && n_same <= profile->max;
}

static void make_instance(void)
{
        const struct mig_geometry *geometry = &world.gpu.geometry;
        const struct mig_gpu_profile *profile = &geometry->profiles[draw(geometry->n_profiles)];
        unsigned int start = profile->placements[draw(profile->n_placements)].start;
        struct mig_shape shape = {.n_computes = 0};
        uint64_t used = 0;
        unsigned int left = profile->slices;

        for (size_t i = 0; i < geometry->n_instances; i++)
                used |= mask_of(world.instances[i].placement.start, world.instances[i].placement.size);
        if ((used & mask_of(start, profile->placements[0].size)) || !has_room(profile))
                return;
        /* Whole, divided, or with room for more compute instances, also without any. */
        if (draw(2))
                shape = whole_of(profile);
        else
                for (unsigned int n; left > 0 && (n = draw(left + 1)) > 0; left -= n)
                        mig_shape_add(&shape, n);
        add_instance(profile, start, &shape);
}

/* ---- what is wanted ---- */

static struct mig_wanted want_anything(struct mig_wanted_count counts[INSTANCES_MAX])
{
        const struct mig_geometry *geometry = &world.gpu.geometry;
        struct mig_wanted wanted = {.is_named = draw(8) != 0, .is_enabled = draw(8) != 0, .counts = counts};
        size_t n = wanted.is_enabled ? draw(WANTED_MAX + 1) : 0;

        for (size_t i = 0; i < n; i++) {
                const struct mig_gpu_profile *profile = &geometry->profiles[draw(geometry->n_profiles)];
                struct mig_wanted_count count = {profile->name, 1 + draw(4), draw(2) ? draw(profile->slices) : 0};
                bool is_there = false;

                for (size_t j = 0; j < wanted.n_counts; j++)
                        is_there = is_there || (strcmp(counts[j].profile, count.profile) == 0 &&
                                                       counts[j].compute == count.compute);
                if (!is_there)
                        counts[wanted.n_counts++] = count;
        }
        return wanted;
}

static void want_one_more(struct mig_wanted *wanted, struct mig_wanted_count *counts, struct mig_wanted_count one)
{
        for (size_t i = 0; i < wanted->n_counts; i++)
                if (strcmp(counts[i].profile, one.profile) == 0 && counts[i].compute == one.compute) {
                        counts[i].count++;
                        return;
                }
        counts[wanted->n_counts++] = one;
}

/* Just what is there. False: somebody made what no configuration can want. */
static bool want_the_same(struct mig_wanted *ret, struct mig_wanted_count *counts)
{
        *ret = (struct mig_wanted){.is_named = true, .is_enabled = true, .counts = counts};
        for (size_t i = 0; i < world.gpu.geometry.n_instances; i++) {
                const struct mig_gpu_instance *instance = &world.instances[i];

                if (instance->n_devices == 0)
                        return false;
                for (size_t j = 0; j < instance->n_devices; j++) {
                        unsigned int compute = mig_device_compute(instance, j);

                        if (compute > 4)
                                return false;
                        want_one_more(ret, counts, (struct mig_wanted_count){instance->profile->name, 1, compute});
                }
        }
        return true;
}

/* ---- what has to be so ---- */

static const struct mig_gpu_profile *profile_of(const char *name)
{
        const struct mig_geometry *geometry = &world.gpu.geometry;

        for (size_t i = 0; i < geometry->n_profiles; i++)
                if (strcmp(geometry->profiles[i].name, name) == 0)
                        return &geometry->profiles[i];
        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u: no profile %s", world.seed, world.step, name);
        return &geometry->profiles[0];
}

static void check_partition(const struct mig_plan_gpu *plan)
{
        size_t n_instances = world.gpu.geometry.n_instances;

        check(plan->n_stays + plan->n_goes == n_instances);
        for (size_t i = 0; i < n_instances; i++) {
                unsigned int times = 0;

                for (size_t j = 0; j < plan->n_stays; j++)
                        times += plan->stays[j] == &world.instances[i];
                for (size_t j = 0; j < plan->n_goes; j++)
                        times += plan->goes[j] == &world.instances[i];
                check(times == 1);
        }
}

/* Takes the instance's devices from what is wanted. */
static void count_devices(struct mig_wanted_count *left, size_t n_left, const struct mig_gpu_instance *instance)
{
        check(instance->n_devices > 0);
        for (size_t i = 0; i < instance->n_devices; i++) {
                unsigned int compute = mig_device_compute(instance, i);
                bool is_wanted = false;

                for (size_t j = 0; j < n_left && !is_wanted; j++)
                        if (strcmp(left[j].profile, instance->profile->name) == 0 && left[j].compute == compute &&
                                left[j].count > 0) {
                                left[j].count--;
                                is_wanted = true;
                        }
                check(is_wanted);
        }
}

static void check_result(const struct mig_plan_gpu *plan, const struct mig_wanted *wanted)
{
        struct mig_wanted_count left[INSTANCES_MAX];
        uint64_t used = 0;
        unsigned int slices = 0;

        if (wanted->n_counts)
                memcpy(left, wanted->counts, wanted->n_counts * sizeof(*left));
        for (size_t i = 0; i < world.gpu.geometry.n_instances; i++) {
                take_place(&used, &slices, world.instances[i].profile, world.instances[i].placement.start);
                count_devices(left, wanted->n_counts, &world.instances[i]);
        }
        for (size_t i = 0; i < wanted->n_counts; i++)
                check(left[i].count == 0);
        check(plan->wanted->is_enabled || world.gpu.geometry.n_instances == 0);
}

static void carry_out(const struct mig_plan_gpu *plan)
{
        for (size_t i = world.gpu.geometry.n_instances; i-- > 0;) {
                bool stays = false;

                for (size_t j = 0; j < plan->n_stays; j++)
                        stays = stays || plan->stays[j] == &world.instances[i];
                /* From the last one on, so that those that |stays| points to do not move. */
                if (!stays)
                        world.instances[i].profile = NULL;
        }
        for (size_t i = world.gpu.geometry.n_instances; i-- > 0;)
                if (!world.instances[i].profile)
                        drop_instance(i);
        for (size_t i = 0; i < plan->n_made; i++) {
                const struct mig_gpu_profile *profile = profile_of(plan->made[i].profile);
                const struct mig_shape whole = whole_of(profile);

                check(plan->made[i].size == profile->placements[0].size);
                add_instance(
                        profile, plan->made[i].start, plan->made[i].shape.n_computes ? &plan->made[i].shape : &whole);
        }
        world.gpu.geometry.is_enabled = world.gpu.geometry.is_pending_enabled = plan->wanted->is_enabled;
}

static int64_t cpu_time(void)
{
        struct timespec now;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static struct mig_plan_gpu plan_one(const struct mig_wanted *wanted)
{
        const struct mig_node node = {.gpus = &world.gpu, .n_gpus = 1, .driver_version = "580.10"};
        int64_t begin = cpu_time();
        struct mig_plan plan;

        mig_plan_build(&plan, &world.arena, &node, wanted);
        check(cpu_time() - begin < SECOND_NS);
        check(plan.fits == !plan.gpus[0].problem && plan.changes == plan.gpus[0].changes);
        check_partition(&plan.gpus[0]);
        return plan.gpus[0];
}

static void configure(void)
{
        struct mig_wanted_count counts[INSTANCES_MAX * MIG_SHAPE_SLICES];
        struct mig_wanted wanted = want_anything(counts);
        struct mig_plan_gpu plan = plan_one(&wanted);

        world.n_fit += !plan.problem;
        world.n_not += plan.problem != NULL;
        if (plan.problem || !wanted.is_named) {
                check(plan.n_goes == 0 && plan.n_made == 0 && !plan.changes);
                check(!plan.problem || *plan.problem);
                return;
        }
        carry_out(&plan);
        check_result(&plan, &wanted);
        plan = plan_one(&wanted);
        check(!plan.problem && !plan.changes);
}

static void make_step(void)
{
        struct mig_wanted_count counts[INSTANCES_MAX * MIG_SHAPE_SLICES];
        struct mig_wanted same;
        struct mig_plan_gpu plan;

        if (draw(2)) {
                configure();
        } else if (world.gpu.geometry.is_enabled) {
                if (draw(4))
                        make_instance();
                else if (world.gpu.geometry.n_instances)
                        drop_instance(draw(world.gpu.geometry.n_instances));
                if (!want_the_same(&same, counts))
                        return;
                plan = plan_one(&same);
                check(!plan.problem && !plan.changes);
        }
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        size_t n_models = 0;

        world = (struct world){.chance = chance, .seed = seed};
        while (model_at(n_models))
                n_models++;
        do
                world.model = model_at(draw(n_models));
        while (world.model->n_profiles == 0);
        world.gpu = model_gpu(&world.arena, 0, world.model->key);
        world.gpu.geometry.instances = world.instances;
        for (; world.step < n_steps && chance_step(chance); world.step++)
                make_step();
        arena_done(&world.arena);
}

#ifdef FUZZING

FUZZ_MODEL(run)

#else

static void test_any_configuration_after_any_other_has_a_place_for_all_that_it_wants(void **state UNUSED)
{
        unsigned int n_fit = 0, n_not = 0;

        if (chance_run_named(run, N_STEPS))
                return;
        for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
                chance_run_seed(run, seed, N_STEPS);
                n_fit += world.n_fit;
                n_not += world.n_not;
        }
        print_message("# fit %u, do not fit %u\n", n_fit, n_not);
        assert_true(n_fit > N_RUNS && n_not > N_RUNS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_configuration_after_any_other_has_a_place_for_all_that_it_wants),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
