// SPDX-License-Identifier: Apache-2.0
/*
 * A node with a scheduler and a kubelet of which nobody knows how they choose, under changes, arrivals, departures and
 * restarts of the agent that come in any order. What has to hold after every step stands in check().
 */
#include "unit.h"

#include "chance.h"
#include "rollout_node.h"
#include "plan/mps_wanted.h"

#define GPUS 3
#define STEPS 400
#define SEEDS 60

/* A container, with what it was promised. */
struct container {
        char resource[64];
        char device[64];
        size_t gpu;
        enum sharing_strategy strategy;
        unsigned int replicas;
        enum provisioning provisioning;
};

struct model {
        struct rollout_rig rig;
        struct node node; /* of the wanted plan */
        struct node previous;
        struct container containers[MAX_HELD];
        size_t n_containers;
        bool is_unseen; /* somebody has ended since the last judgement */
        struct chance *chance;
};

static unsigned int draw(struct model *model, unsigned int below)
{
        return (unsigned int)chance_draw(model->chance, below);
}

static void judge(struct model *model)
{
        model->rig.n_held = 0;
        for (size_t i = 0; i < model->n_containers; i++)
                rig_hold(&model->rig, model->containers[i].resource, model->containers[i].device, "team/pod/main");
        rig_judge(&model->rig, model->node.plan);
        model->is_unseen = false;
}

/* Each GPU by an entry of its own, in one of two names, or by none. */
static void change(struct model *model)
{
        static const char *const names[] = {NULL, "nvidia.com/gpu.other"};
        static const char *const uuids[] = {"GPU-0", "GPU-1", "GPU-2"};
        enum sharing_strategy strategy = draw(model, 2) ? SHARING_MPS : SHARING_TIME_SLICING;
        enum provisioning provisioning = draw(model, 2) ? PROVISIONING_UNIFORM : PROVISIONING_HALF;
        enum daemon_scope scope = draw(model, 4) ? DAEMON_SCOPE_GPU : DAEMON_SCOPE_RESOURCE + draw(model, 2);
        bool is_individual = draw(model, 4) == 0;

        /* The old one as long as anything of it may be in use: until the next judgement has stood. */
        node_done(&model->previous);
        model->previous = model->node;
        model->node = node_new(GPUS);
        for (size_t i = 0; i < GPUS; i++) {
                struct shared_resource *entry;
                struct device_ref *ref = ARENA_NEW(&model->node.arena, struct device_ref);

                if (draw(model, 4) == 0)
                        continue;
                entry = node_add_entry(&model->node, strategy, "nvidia.com/gpu", 2 + draw(model, 4));
                *ref = (struct device_ref){.uuid = uuids[i], .mig = -1};
                entry->devices = (struct device_selector){.kind = SELECT_LIST, .refs = ref, .n_refs = 1};
                entry->rename = names[draw(model, 2)];
        }
        if (model->node.sections[strategy]) {
                struct sharing_section *section = model->node.sections[strategy];

                section->provisioning = provisioning;
                section->daemon_scope = strategy == SHARING_MPS ? scope : DAEMON_SCOPE_GPU;
                section->scope = is_individual ? SCOPE_INDIVIDUAL : SCOPE_AGGREGATE;
                section->fail_requests_greater_than_one = true;
        }
        if (node_plan(&model->node) < 0) {
                /* Two names for one daemon, or what else a plan refuses: then the one before stays. */
                node_done(&model->node);
                model->node = model->previous;
                model->previous = node_new(1);
                return;
        }
        judge(model);
}

static bool is_taken(const struct model *model, const char *resource, const char *device)
{
        for (size_t i = 0; i < model->n_containers; i++)
                if (strcmp(model->containers[i].device, device) == 0 &&
                        strcmp(model->containers[i].resource, resource) == 0)
                        return true;
        return false;
}

/* It, or what it has of the terms of before. */
static const struct resource *draw_policy(struct model *model, const struct resource *resource)
{
        unsigned int which = draw(model, (unsigned int)resource->n_draining + 1);

        return which == 0 ? resource : &resource->draining[which - 1];
}

/* Any device that is healthy and free, as kubelet has them. */
static void arrive(struct model *model)
{
        const struct plan *plan = model->rig.rollout->plan;
        const struct resource *resource;
        const struct device *device;
        const struct unit *unit;
        struct container *container = &model->containers[model->n_containers];
        size_t at;

        if (plan->n_resources == 0 || model->n_containers == 40)
                return;
        resource = draw_policy(model, &plan->resources[draw(model, (unsigned int)plan->n_resources)]);
        if (resource->n_devices == 0)
                return;
        at = draw(model, (unsigned int)resource->n_devices);
        device = &resource->devices[at];
        unit = &resource->units[device->unit];
        if ((resource->unavailable && resource->unavailable[at]) || is_taken(model, resource->name, device->id))
                return;
        *container = (struct container){.gpu = (size_t)(unit->uuid[4] - '0'),
                .strategy = unit->shared               ? resource->strategy
                            : strstr(device->id, "::") ? SHARING_TIME_SLICING
                                                       : SHARING_NONE,
                .replicas = unit->replicas,
                .provisioning = resource->provisioning};
        snprintf(container->resource, sizeof(container->resource), "%s", resource->name);
        snprintf(container->device, sizeof(container->device), "%s", device->id);
        model->n_containers++;
        judge(model);
}

/* What it had is kubelet's to give from then on; the agent hears of it now, or with whatever comes next. */
static void depart(struct model *model, bool is_seen)
{
        unsigned int position = draw(model, (unsigned int)MAX(model->n_containers, 1));

        if (model->n_containers == 0)
                return;
        model->containers[position] = model->containers[--model->n_containers];
        model->is_unseen = true;
        if (is_seen)
                judge(model);
}

/* The next one has the file, and until kubelet has told, nothing else. */
static void restart(struct model *model)
{
        _free_ char *text = sharing_policy_write(&model->rig.policy, model->rig.names, model->rig.n_names);
        const char *const *names;
        struct error err;

        assert_ok(sharing_policy_read(
                          &model->rig.policy, &names, &model->rig.n_names, &model->rig.arena, text, strlen(text), &err),
                &err);
        for (size_t i = 0; i < model->rig.n_names; i++)
                model->rig.names[i] = names[i];
        judge(model);
}

/* ---- what has to hold ---- */

static const struct unit *find_policy(
        const struct plan *plan, const struct container *container, const struct resource **ret)
{
        const struct resource *resource = plan_find(plan, container->resource);
        const struct device *device;

        assert_non_null(resource); /* its name stays */
        device = map_find(&resource->by_id, container->device);
        *ret = resource;
        if (device)
                return &resource->units[device->unit];
        for (size_t i = 0; i < resource->n_draining; i++) {
                *ret = &resource->draining[i];
                device = map_find(&resource->draining[i].by_id, container->device);
                if (device)
                        return &resource->draining[i].units[device->unit];
        }
        fail_msg("%s of %s is gone while it is held", container->device, container->resource);
        return NULL;
}

/* The id stays, and what it is worth. */
static void check_container(const struct plan *plan, const struct container *container)
{
        const struct resource *resource;
        const struct unit *unit = find_policy(plan, container, &resource);

        if (container->strategy == SHARING_MPS) {
                assert_int_equal(resource->strategy, SHARING_MPS);
                assert_non_null(unit->shared);
                assert_int_equal(unit->replicas, container->replicas);
                assert_int_equal(resource->provisioning, container->provisioning);
        } else {
                assert_true(!unit->shared || resource->strategy == SHARING_TIME_SLICING);
        }
}

/* What the plan would give of a GPU, beyond what is in use; and nothing at all of one with holders of another kind. */
static void check_gpu(const struct model *model, size_t gpu)
{
        const struct plan *plan = model->rig.rollout->plan;
        size_t used = 0;
        enum sharing_strategy in_use = SHARING_NONE;

        for (size_t i = 0; i < model->n_containers; i++) {
                if (model->containers[i].gpu != gpu)
                        continue;
                in_use = model->containers[i].strategy;
                used++;
        }
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];
                size_t offered = 0;
                const struct unit *unit = NULL;

                for (size_t j = 0; j < resource->n_devices; j++) {
                        const struct unit *of = &resource->units[resource->devices[j].unit];

                        if ((size_t)(of->uuid[4] - '0') != gpu || (resource->unavailable && resource->unavailable[j]) ||
                                is_taken(model, resource->name, resource->devices[j].id))
                                continue;
                        assert_false(of->is_kept); /* only in use */
                        unit = of;
                        offered++;
                }
                if (offered == 0)
                        continue;
                assert_true(offered + used <= unit->replicas);
                assert_true(used == 0 || in_use == (unit->shared ? resource->strategy : SHARING_NONE));
        }
}

/* A resource whose units nobody holds otherwise is the wanted one, byte for byte. */
static void check_untouched(const struct model *model)
{
        const struct plan *wanted = model->node.plan;
        const struct plan *plan = model->rig.rollout->plan;

        for (size_t i = 0; i < wanted->n_resources; i++) {
                const struct resource *resource = plan_find(plan, wanted->resources[i].name);
                bool is_pending = wanted->resources[i].strategy == SHARING_MPS &&
                                  wanted->resources[i].daemon_scope != DAEMON_SCOPE_GPU;

                for (size_t j = 0; j < model->n_containers; j++)
                        is_pending = is_pending ||
                                     strcmp(model->containers[j].resource, wanted->resources[i].name) == 0 ||
                                     resource_find_unit(&wanted->resources[i],
                                             model->node.inventory.gpus[model->containers[j].gpu].uuid);
                /* A daemon for several units may be held through one of another name. */
                for (size_t j = 0; j < plan->n_resources; j++)
                        is_pending = is_pending || plan->resources[j].n_draining;
                if (!is_pending)
                        assert_true(resource->devices == wanted->resources[i].devices && !resource->unavailable);
        }
}

/* Of |resource|, or of what it has of the terms of before: what counts as healthy, and what of that nobody holds. */
static void count_devices(
        const struct model *model, const struct resource *resource, size_t *ret_healthy, size_t *ret_free)
{
        for (size_t i = 0; i < resource->n_devices; i++) {
                if (resource->unavailable && resource->unavailable[i])
                        continue;
                (*ret_healthy)++;
                *ret_free += !is_taken(model, resource->name, resource->devices[i].id);
        }
}

/*
 * The scheduler subtracts what pods ask for from what is healthy: it never finds more than there is, and where a
 * request is for one it finds all of it.
 */
static void check_scheduler(const struct model *model)
{
        const struct plan *plan = model->rig.rollout->plan;

        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];
                size_t requested = 0;
                size_t healthy = 0;
                size_t left = 0;

                count_devices(model, resource, &healthy, &left);
                for (size_t j = 0; j < resource->n_draining; j++)
                        count_devices(model, &resource->draining[j], &healthy, &left);
                for (size_t j = 0; j < model->n_containers; j++)
                        requested += strcmp(model->containers[j].resource, resource->name) == 0;
                assert_true(healthy <= left + requested);
                if (left > 0 && resource->fail_requests_greater_than_one)
                        assert_int_equal(healthy, left + requested);
        }
}

static bool holds_any(const struct model *model, const struct mps_daemon_wanted *daemon)
{
        for (size_t i = 0; i < model->n_containers; i++)
                for (size_t j = 0; j < daemon->n_units; j++)
                        if (strncmp(model->containers[i].device, daemon->units[j].uuid, strlen("GPU-0")) == 0)
                                return true;
        return false;
}

/* No unit has two daemons, and no name is that of two; and a daemon of several units has all of them. */
static void check_daemons(const struct model *model)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;
        struct mps_wanted in_the_end;

        mps_wanted_of(&wanted, &scratch, model->rig.rollout->plan);
        mps_wanted_of(&in_the_end, &scratch, model->node.plan);
        for (size_t i = 0; i < wanted.n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted.daemons[i];

                for (size_t j = 0; j < i; j++) {
                        assert_string_not_equal(daemon->name, wanted.daemons[j].name);
                        for (size_t k = 0; k < daemon->n_units * wanted.daemons[j].n_units; k++)
                                assert_string_not_equal(daemon->units[k % daemon->n_units].uuid,
                                        wanted.daemons[j].units[k / daemon->n_units].uuid);
                }
                for (size_t j = 0; j < in_the_end.n_daemons; j++)
                        if (strcmp(daemon->name, in_the_end.daemons[j].name) == 0 && !holds_any(model, daemon))
                                assert_true(mps_daemon_is_same(daemon, &in_the_end.daemons[j]));
        }
}

static void check(const struct model *model)
{
        if (model->is_unseen)
                return;
        check_daemons(model);
        check_scheduler(model);
        for (size_t i = 0; i < model->n_containers; i++)
                check_container(model->rig.rollout->plan, &model->containers[i]);
        for (size_t i = 0; i < GPUS; i++)
                check_gpu(model, i);
        check_untouched(model);
}

/* When all who hold anything have ended, the wanted plan is in force as it is. */
static void check_end(struct model *model)
{
        while (model->n_containers) {
                depart(model, true);
                check(model);
        }
        judge(model);
        assert_ptr_equal(model->rig.rollout->plan, model->node.plan);
        assert_int_equal(model->rig.rollout->n_pending, 0);
}

static void run(struct chance *chance, size_t n_steps)
{
        struct model model = {.chance = chance};

        model.node = node_new(GPUS);
        model.previous = node_new(1);
        assert_ok(node_plan(&model.node), &model.node.err);
        judge(&model);
        for (size_t i = 0; i < n_steps && chance_step(chance); i++) {
                unsigned int what = draw(&model, 100);

                if (what < 8)
                        change(&model);
                else if (what < 10)
                        restart(&model);
                else if (what < 60)
                        arrive(&model);
                else
                        depart(&model, what < 80);
                check(&model);
        }
        check_end(&model);
        rig_end(&model.rig);
        node_done(&model.previous);
        node_done(&model.node);
}

#ifdef FUZZING

static void run_bytes(struct chance *chance, uint64_t seed UNUSED, unsigned int n_steps)
{
        run(chance, n_steps);
}

FUZZ_MODEL(run_bytes)

#else

static void test_whatever_happens_no_container_loses_its_share_and_nothing_is_given_twice(void **state UNUSED)
{
        for (unsigned int seed = 0; seed < SEEDS; seed++) {
                struct chance chance = chance_of_seed(seed);

                run(&chance, STEPS);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whatever_happens_no_container_loses_its_share_and_nothing_is_given_twice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
