// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "rollout_node.h"

/* A plan in words: what one entry of the configuration shares, or none. */
struct share_text {
        enum sharing_strategy strategy;
        unsigned int replicas;
        const char *rename;
        enum provisioning provisioning;
        enum daemon_scope daemon_scope;
        enum sharing_scope scope;
        const char *only; /* the GPU that is listed; NULL: all */
};

#define WHOLE                                                                                                          \
        {                                                                                                              \
                .strategy = SHARING_NONE                                                                               \
        }
#define SLICES(n, ...)                                                                                                 \
        {                                                                                                              \
                .strategy = SHARING_TIME_SLICING, .replicas = (n), __VA_ARGS__                                         \
        }
#define MPS(n, ...)                                                                                                    \
        {                                                                                                              \
                .strategy = SHARING_MPS, .replicas = (n), __VA_ARGS__                                                  \
        }

#define GPUS 2

static struct node make_node(const struct share_text *text)
{
        struct node node = node_new(GPUS);
        struct shared_resource *entry;
        struct device_ref *ref;
        struct sharing_section *section;

        if (text->strategy == SHARING_NONE)
                return node;
        entry = node_add_entry(&node, text->strategy, "nvidia.com/gpu", text->replicas);
        section = node.sections[text->strategy];
        entry->rename = text->rename;
        section->provisioning = text->provisioning;
        section->daemon_scope = text->daemon_scope;
        section->scope = text->scope;
        section->fail_requests_greater_than_one =
                text->strategy == SHARING_MPS && text->provisioning == PROVISIONING_UNIFORM;
        if (text->only) {
                ref = ARENA_NEW(&node.arena, struct device_ref);
                *ref = (struct device_ref){.uuid = text->only, .mig = -1};
                entry->devices = (struct device_selector){.kind = SELECT_LIST, .refs = ref, .n_refs = 1};
        }
        return node;
}

struct change {
        const char *title;
        struct share_text from;
        struct share_text to;
        const char *held; /* "gpu GPU-0::1, …" */
        const char *served;
        const char *pending;
        const char *served_later; /* when the first of |held| is over */
};

static void hold_all(struct rollout_rig *rig, const char *text)
{
        char *copy = arena_strdup(&rig->arena, text);
        char *rest;

        for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
                char *device;

                item += *item == ' ';
                device = strchr(item, ' ');
                *device++ = '\0';
                rig_hold(rig, arena_printf(&rig->arena, "nvidia.com/%s", item), device, "team/pod/main");
        }
}

static const struct change changes[] = {
        {"more time slices are there at once", SLICES(2), SLICES(4), "gpu GPU-0::1", "gpu: as wanted", "",
                "gpu: as wanted"},
        {"fewer time slices keep those in use, and give no more than the new number", SLICES(4), SLICES(2),
                "gpu GPU-0::3, gpu GPU-0::2, gpu GPU-0::0", "gpu: GPU-0*2[0 1! +2 +3] GPU-1*2[0 1]",
                "gpu GPU-0: time-slicing -> time-slicing, 2 replicas, 3 of team/pod/main",
                "gpu: GPU-0*2[0 1! +2] GPU-1*2[0 1]"},
        {"one slice fewer in use makes one free again", SLICES(4), SLICES(2), "gpu GPU-0::0, gpu GPU-0::2",
                "gpu: GPU-0*2[0 1! +2] GPU-1*2[0 1]",
                "gpu GPU-0: time-slicing -> time-slicing, 2 replicas, 2 of team/pod/main",
                "gpu: GPU-0*2[0 1! +2] GPU-1*2[0 1]"},
        {"where nothing else is free, ids of before go with their container", SLICES(4), SLICES(1),
                "gpu GPU-0::3, gpu GPU-1::2", "gpu: GPU-0*1[0! +3!] GPU-1*1[0! +2!]",
                "gpu GPU-0: time-slicing -> time-slicing, 1 replicas, 1 of team/pod/main; "
                "gpu GPU-1: time-slicing -> time-slicing, 1 replicas, 1 of team/pod/main",
                "gpu: GPU-0*1[0] GPU-1*1[0! +2]"},
        {"a whole GPU in use is not sliced, the other is", WHOLE, SLICES(2), "gpu GPU-0",
                "gpu: GPU-1*2[0 1] ~GPU-0[all]",
                "gpu GPU-0: whole -> time-slicing, 2 replicas (waits), 1 of team/pod/main", "gpu: as wanted"},
        {"slices in use become no whole GPU", SLICES(2), WHOLE, "gpu GPU-0::1, gpu GPU-0::0",
                "gpu: GPU-1[all] ~GPU-0[0 1]", "gpu GPU-0: time-slicing -> whole (waits), 2 of team/pod/main",
                "gpu: GPU-1[all] ~GPU-0[0]"},
        {"slices in use get no MPS daemon", SLICES(4), MPS(4), "gpu GPU-0::1", "gpu: GPU-1*4[0 1 2 3] ~GPU-0[1]",
                "gpu GPU-0: time-slicing -> mps uniform, 4 replicas (waits), 1 of team/pod/main", "gpu: as wanted"},
        {"a daemon in use stays as it is", MPS(4), SLICES(4), "gpu GPU-0::1", "gpu: GPU-1*4[0 1 2 3] leaving GPU-0*4",
                "gpu GPU-0: mps uniform, 4 replicas -> time-slicing, 4 replicas (waits), 1 of team/pod/main",
                "gpu: as wanted"},
        {"limits in use stay as they are", MPS(4), MPS(2), "gpu GPU-0::1, gpu GPU-0::3",
                "gpu: GPU-1*2[0 1] leaving GPU-0*4[1 3]",
                "gpu GPU-0: mps uniform, 4 replicas -> mps uniform, 2 replicas (waits), 2 of team/pod/main",
                "gpu: GPU-1*2[0 1] leaving GPU-0*4[3]"},
        {"ids of limits in use count as long as another is to be had", MPS(4), MPS(1), "gpu GPU-1::0, gpu GPU-0::3",
                "gpu: leaving GPU-0*4 GPU-1*4",
                "gpu GPU-0: mps uniform, 4 replicas -> mps uniform, 1 replicas (waits), 1 of team/pod/main; "
                "gpu GPU-1: mps uniform, 4 replicas -> mps uniform, 1 replicas (waits), 1 of team/pod/main",
                "gpu: GPU-1*1[0] leaving GPU-0*4[3]"},
        {"another provisioning waits for who has the old one", MPS(4), MPS(4, .provisioning = PROVISIONING_WEIGHTED),
                "gpu GPU-1::0", "gpu: GPU-0*4[0 1 2 3] leaving GPU-1*4",
                "gpu GPU-1: mps uniform, 4 replicas -> mps weighted, 4 replicas (waits), 1 of team/pod/main",
                "gpu: as wanted"},
        {"MPS by the same terms goes over under its holders", MPS(4), MPS(4), "gpu GPU-0::1", "gpu: as wanted", "",
                "gpu: as wanted"},
        {"one daemon for all waits as one", MPS(4, .daemon_scope = DAEMON_SCOPE_RESOURCE),
                MPS(2, .daemon_scope = DAEMON_SCOPE_RESOURCE), "gpu GPU-0::1", "gpu: leaving GPU-0*4 GPU-1*4",
                "gpu GPU-0: mps uniform, 4 replicas, one daemon for all units -> mps uniform, 2 replicas, one daemon for all "
                "units (waits), 1 of team/pod/main",
                "gpu: as wanted"},
        {"one daemon for all starts when no unit is held", MPS(4), MPS(4, .daemon_scope = DAEMON_SCOPE_RESOURCE),
                "gpu GPU-0::1", "gpu: leaving GPU-0*4",
                "gpu GPU-0: mps uniform, 4 replicas -> mps uniform, 4 replicas, one daemon for all units (waits), 1 of team/pod/main",
                "gpu: as wanted"},
        {"one daemon for the node waits as one", MPS(4, .scope = SCOPE_INDIVIDUAL, .daemon_scope = DAEMON_SCOPE_NODE),
                MPS(2, .scope = SCOPE_INDIVIDUAL, .daemon_scope = DAEMON_SCOPE_NODE), "gpu0 GPU-0::1",
                "gpu0: leaving GPU-0*4; gpu1: leaving GPU-1*4",
                "gpu0 GPU-0: mps uniform, 4 replicas, one daemon for the node -> mps uniform, 2 replicas, one daemon for the "
                "node (waits), 1 of team/pod/main",
                "gpu0: as wanted; gpu1: as wanted"},
        {"one daemon for the node starts when no unit of any resource is held", MPS(4, .scope = SCOPE_INDIVIDUAL),
                MPS(4, .scope = SCOPE_INDIVIDUAL, .daemon_scope = DAEMON_SCOPE_NODE), "gpu0 GPU-0::1",
                "gpu0: leaving GPU-0*4; gpu1:",
                "gpu0 GPU-0: mps uniform, 4 replicas -> mps uniform, 4 replicas, one daemon for the node (waits), 1 of team/pod/main",
                "gpu0: as wanted; gpu1: as wanted"},
        {"under a new name there is what the old one leaves", SLICES(2), SLICES(2, .rename = "nvidia.com/new"),
                "gpu GPU-0::1", "new: GPU-0*2[0 1!] GPU-1*2[0 1]; gpu: ~GPU-0[1!]",
                "gpu GPU-0: time-slicing -> time-slicing, 2 replicas of nvidia.com/new, 1 of team/pod/main",
                "new: as wanted"},
        {"a daemon in use keeps its name", MPS(2), MPS(2, .rename = "nvidia.com/new"), "gpu GPU-0::1",
                "new: GPU-1*2[0 1]; gpu: leaving GPU-0*2",
                "gpu GPU-0: mps uniform, 2 replicas -> mps uniform, 2 replicas of nvidia.com/new (waits), 1 of team/pod/main",
                "new: as wanted"},
        {"a name a unit: the one that is not held is the same", SLICES(2, .scope = SCOPE_INDIVIDUAL),
                SLICES(1, .scope = SCOPE_INDIVIDUAL), "gpu0 GPU-0::1, gpu0 GPU-0::0",
                "gpu0: GPU-0*1[0 +1!]; gpu1: as wanted",
                "gpu0 GPU-0: time-slicing -> time-slicing, 1 replicas, 2 of team/pod/main",
                "gpu0: as wanted; gpu1: as wanted"},
        {"from one name to a name a unit", SLICES(2), SLICES(2, .scope = SCOPE_INDIVIDUAL), "gpu GPU-0::1",
                "gpu0: GPU-0*2[0 1!]; gpu1: as wanted; gpu: ~GPU-0[1!]",
                "gpu GPU-0: time-slicing -> time-slicing, 2 replicas of nvidia.com/gpu0, 1 of team/pod/main",
                "gpu0: as wanted; gpu1: as wanted"},
        {"a unit that another entry takes", SLICES(2, .rename = "nvidia.com/a", .only = "GPU-0"),
                SLICES(2, .rename = "nvidia.com/a", .only = "GPU-1"), "a GPU-0::1, gpu GPU-1",
                "gpu: ~GPU-1[all!]; a: ~GPU-0[1!]",
                "a GPU-0: time-slicing -> whole of nvidia.com/gpu (waits), 1 of team/pod/main; "
                "gpu GPU-1: whole -> time-slicing, 2 replicas of nvidia.com/a (waits), 1 of team/pod/main",
                "gpu: GPU-0[all] ~GPU-1[all]; a:"},
        {"a GPU that is gone", SLICES(2), SLICES(2), "gpu GPU-9::1", "gpu: GPU-0*2[0 1] GPU-1*2[0 1] ~GPU-9[1!]",
                "gpu GPU-9: time-slicing -> gone, 1 of team/pod/main", "gpu: as wanted"},
        {"what others hold is none of ours", SLICES(2), SLICES(4), "other GPU-77::1", "gpu: as wanted", "",
                "gpu: as wanted"},
};

static void test_every_change_with_holders(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                const struct change *change = &changes[i];
                _cleanup_(node_done) struct node from = make_node(&change->from);
                _cleanup_(node_done) struct node to = make_node(&change->to);
                _cleanup_(rig_end) struct rollout_rig rig = {0};
                const char *later;

                assert_ok(node_plan(&from), &from.err);
                assert_ok(node_plan(&to), &to.err);
                rig_promise(&rig, from.plan);
                hold_all(&rig, change->held);
                rig_judge(&rig, to.plan);
                if (strcmp(rig_describe(&rig, to.plan), change->served) != 0)
                        print_message("%s:\n", change->title);
                assert_string_equal(rig_describe(&rig, to.plan), change->served);
                assert_string_equal(rig_describe_pending(&rig), change->pending);
                rig_release(&rig, rig.held[0].device);
                rig_judge(&rig, to.plan);
                later = rig_describe(&rig, to.plan);
                if (strcmp(later, change->served_later) != 0)
                        print_message("%s, later:\n", change->title);
                assert_string_equal(later, change->served_later);
        }
}

/* An agent that starts while a GPU is lost has no such GPU. */
static void test_a_gpu_that_is_away_keeps_what_was_promised_while_it_is_held(void **state UNUSED)
{
        const struct share_text shared = MPS(4);
        _cleanup_(node_done) struct node whole = make_node(&shared);
        _cleanup_(node_done) struct node less = make_node(&shared);
        _cleanup_(rig_end) struct rollout_rig rig = {0};

        less.inventory.n_gpus = 1;
        assert_ok(node_plan(&whole), &whole.err);
        assert_ok(node_plan(&less), &less.err);
        rig_promise(&rig, whole.plan);
        rig.all_is_held = true; /* kubelet has not been asked yet */
        rig_judge(&rig, less.plan);
        assert_int_equal(rig.rollout->absent.count, 1);
        rig.all_is_held = false;
        hold_all(&rig, "gpu GPU-1::1");
        for (int i = 0; i < 2; i++) {
                rig_judge(&rig, less.plan);
                assert_string_equal(
                        rig_describe_pending(&rig), "gpu GPU-1: mps uniform, 4 replicas -> gone, 1 of team/pod/main");
        }
        rig_judge(&rig, whole.plan);
        assert_string_equal(rig_describe(&rig, whole.plan), "gpu: as wanted");
        rig_judge(&rig, less.plan);
        assert_int_equal(rig.rollout->absent.count, 1);
        rig_release(&rig, "GPU-1::1");
        rig_judge(&rig, less.plan);
        assert_int_equal(rig.rollout->absent.count, 0);
}

static void test_without_holders_every_change_is_at_once(void **state UNUSED)
{
        for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
                _cleanup_(node_done) struct node from = make_node(&changes[i].from);
                _cleanup_(node_done) struct node to = make_node(&changes[i].to);
                _cleanup_(rig_end) struct rollout_rig rig = {0};

                assert_ok(node_plan(&from), &from.err);
                assert_ok(node_plan(&to), &to.err);
                rig_promise(&rig, from.plan);
                rig_judge(&rig, to.plan);
                assert_ptr_equal(rig.rollout->plan, to.plan);
                assert_int_equal(rig.rollout->n_pending, 0);
        }
}

static void test_going_back_finds_the_old_terms_as_they_were(void **state UNUSED)
{
        const struct share_text first = MPS(4);
        const struct share_text second = MPS(2);
        _cleanup_(node_done) struct node from = make_node(&first);
        _cleanup_(node_done) struct node to = make_node(&second);
        _cleanup_(rig_end) struct rollout_rig rig = {0};

        assert_ok(node_plan(&from), &from.err);
        assert_ok(node_plan(&to), &to.err);
        rig_promise(&rig, from.plan);
        rig_hold(&rig, "nvidia.com/gpu", "GPU-0::3", NULL);
        rig_judge(&rig, to.plan);
        assert_string_equal(rig_describe(&rig, to.plan), "gpu: GPU-1*2[0 1] leaving GPU-0*4[3]");
        rig_judge(&rig, from.plan);
        assert_string_equal(rig_describe(&rig, from.plan), "gpu: as wanted");
        assert_string_equal(rig_describe_pending(&rig), "");
}

static void test_several_changes_on_top_of_each_other_keep_each_holders_terms(void **state UNUSED)
{
        const struct share_text texts[] = {MPS(4), MPS(8), MPS(2), SLICES(3)};
        struct node nodes[ARRAY_SIZE(texts)];
        _cleanup_(rig_end) struct rollout_rig rig = {0};

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                nodes[i] = make_node(&texts[i]);
                assert_ok(node_plan(&nodes[i]), &nodes[i].err);
        }
        rig_promise(&rig, nodes[0].plan);
        rig_hold(&rig, "nvidia.com/gpu", "GPU-0::3", NULL);
        rig_judge(&rig, nodes[1].plan);
        rig_hold(&rig, "nvidia.com/gpu", "GPU-1::7", NULL);
        rig_judge(&rig, nodes[2].plan);
        assert_string_equal(rig_describe(&rig, nodes[2].plan), "gpu: leaving GPU-0*4 GPU-1*8");
        rig_judge(&rig, nodes[3].plan);
        assert_string_equal(rig_describe(&rig, nodes[3].plan), "gpu: leaving GPU-0*4 GPU-1*8");
        rig_release(&rig, "GPU-0::3");
        rig_judge(&rig, nodes[3].plan);
        assert_string_equal(rig_describe(&rig, nodes[3].plan), "gpu: GPU-0*3[0 1 2] leaving GPU-1*8");
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                node_done(&nodes[i]);
}

static void test_daemons_stay_unchanged_until_kubelets_list_is_known(void **state UNUSED)
{
        const struct share_text first = MPS(4);
        const struct share_text second = MPS(2);
        _cleanup_(node_done) struct node from = make_node(&first);
        _cleanup_(node_done) struct node to = make_node(&second);
        _cleanup_(rig_end) struct rollout_rig rig = {.all_is_held = true};

        assert_ok(node_plan(&from), &from.err);
        assert_ok(node_plan(&to), &to.err);
        rig_promise(&rig, from.plan);
        rig_judge(&rig, to.plan);
        assert_string_equal(rig_describe(&rig, to.plan), "gpu: leaving GPU-0*4 GPU-1*4");
        rig_judge(&rig, from.plan);
        assert_string_equal(rig_describe(&rig, from.plan), "gpu: as wanted");
}

static void test_without_a_record_what_is_held_under_mps_is_taken_for_what_is_wanted(void **state UNUSED)
{
        const struct share_text text = MPS(4);
        _cleanup_(node_done) struct node node = make_node(&text);
        _cleanup_(rig_end) struct rollout_rig rig = {.is_unknown = true};

        assert_ok(node_plan(&node), &node.err);
        rig_hold(&rig, "nvidia.com/gpu", "GPU-0::3", NULL);
        rig_judge(&rig, node.plan);
        assert_string_equal(rig_describe(&rig, node.plan), "gpu: as wanted");
        rig_release(&rig, "GPU-0::3");
        rig_hold(&rig, "nvidia.com/gpu", "GPU-0", NULL); /* whole, which is never MPS */
        rig_judge(&rig, node.plan);
        assert_string_equal(rig_describe(&rig, node.plan), "gpu: GPU-1*4[0 1 2 3] ~GPU-0[all]");
}

static void test_a_gpu_and_its_mig_devices_wait_for_one_another(void **state UNUSED)
{
        _cleanup_(node_done) struct node whole = node_new(2);
        _cleanup_(node_done) struct node mixed = node_new(2);
        _cleanup_(rig_end) struct rollout_rig rig = {0};

        node_add_mig(&whole, 0, "1g.5gb");
        node_add_mig(&mixed, 0, "1g.5gb");
        mixed.config.mig_strategy = MIG_STRATEGY_MIXED;
        assert_ok(node_plan(&whole), &whole.err);
        assert_ok(node_plan(&mixed), &mixed.err);
        rig_promise(&rig, whole.plan);
        rig_hold(&rig, "nvidia.com/gpu", "GPU-0", NULL);
        rig_judge(&rig, mixed.plan);
        assert_string_equal(rig_describe(&rig, mixed.plan), "gpu: GPU-1[all] ~GPU-0[all]; mig-1g.5gb:");
        rig_release(&rig, "GPU-0");
        rig_judge(&rig, mixed.plan);
        assert_string_equal(rig_describe(&rig, mixed.plan), "gpu: as wanted; mig-1g.5gb: as wanted");
        rig_hold(&rig, "nvidia.com/mig-1g.5gb", "MIG-0-0", NULL);
        rig_judge(&rig, whole.plan);
        assert_string_equal(rig_describe(&rig, whole.plan), "gpu: GPU-1[all]; mig-1g.5gb: ~MIG-0-0[all!]");
}

/* Nobody new gets any of it here, and who offers it to claims sees by what is pending that it is not free yet. */
static void test_a_gpu_that_goes_to_dra_waits_for_its_containers(void **state UNUSED)
{
        static const struct device_ref refs[] = {{.uuid = "GPU-0"}};
        const struct share_text text = MPS(4);
        _cleanup_(node_done) struct node before = make_node(&text);
        _cleanup_(node_done) struct node after = make_node(&text);
        _cleanup_(rig_end) struct rollout_rig rig = {0};

        after.config.dra = (struct config_dra){
                .enabled = true, .devices = {.kind = SELECT_LIST, .refs = refs, .n_refs = ARRAY_SIZE(refs)}};
        assert_ok(node_plan(&before), &before.err);
        assert_ok(node_plan(&after), &after.err);
        rig_promise(&rig, before.plan);
        rig_hold(&rig, "nvidia.com/gpu", "GPU-0::3", "team/pod/main");
        rig_judge(&rig, after.plan);
        assert_string_equal(rig_describe(&rig, after.plan), "gpu: GPU-1*4[0 1 2 3] leaving GPU-0*4[3]");
        assert_string_equal(
                rig_describe_pending(&rig), "gpu GPU-0: mps uniform, 4 replicas -> DRA, 1 of team/pod/main");
        rig_release(&rig, "GPU-0::3");
        rig_judge(&rig, after.plan);
        assert_string_equal(rig_describe(&rig, after.plan), "gpu: as wanted");
        assert_int_equal(rig.rollout->n_pending, 0);
}

static void test_names_that_were_never_ours_are_left_alone(void **state UNUSED)
{
        const struct share_text text = SLICES(2);
        _cleanup_(node_done) struct node node = make_node(&text);
        _cleanup_(rig_end) struct rollout_rig rig = {0};

        assert_ok(node_plan(&node), &node.err);
        rig_hold(&rig, "example.com/vgpu", "GPU-0::1", NULL);
        rig_hold(&rig, "nvidia.com/hostdev", "0000:3b:00.0", NULL);
        rig_judge(&rig, node.plan);
        assert_string_equal(rig_describe(&rig, node.plan), "gpu: as wanted");
        rig.names[rig.n_names++] = "example.com/vgpu"; /* it was ours */
        rig_judge(&rig, node.plan);
        assert_int_equal(rig.rollout->n_pending, 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_change_with_holders),
                cmocka_unit_test(test_a_gpu_that_is_away_keeps_what_was_promised_while_it_is_held),
                cmocka_unit_test(test_without_holders_every_change_is_at_once),
                cmocka_unit_test(test_going_back_finds_the_old_terms_as_they_were),
                cmocka_unit_test(test_several_changes_on_top_of_each_other_keep_each_holders_terms),
                cmocka_unit_test(test_daemons_stay_unchanged_until_kubelets_list_is_known),
                cmocka_unit_test(test_without_a_record_what_is_held_under_mps_is_taken_for_what_is_wanted),
                cmocka_unit_test(test_a_gpu_and_its_mig_devices_wait_for_one_another),
                cmocka_unit_test(test_a_gpu_that_goes_to_dra_waits_for_its_containers),
                cmocka_unit_test(test_names_that_were_never_ours_are_left_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
