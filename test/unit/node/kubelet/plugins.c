// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/io/lock.h"
#include "base/io/loop.h"
#include "node/kubelet/plugins.h"
#include "plan/checkpoint.h"
#include "plan/node.h"
#include "sim/kubelet/kubelet.h"

#define PATIENCE_MS 30000 /* for what comes at once, on the slowest machine */

/* Plugins and a kubelet in one loop, in a folder of their own. */
struct fixture {
        uv_loop_t loop;
        char folder[64];
        char socket[96];
        struct kubelet *kubelet;
        struct plugins *plugins;
        struct unit_health health;
        unsigned int least_allocatable; /* seen since it was set */
        unsigned int most_allocatable;  /* the same */
        unsigned int changes;           /* of what is allocatable */
        char answer[256];
        struct broker broker;
        unsigned int turns; /* that were told */
};

typedef bool condition_fn(struct fixture *f, size_t wanted);

struct wish {
        struct fixture *f;
        condition_fn *is_true;
        size_t wanted;
};

static bool is_granted(void *data)
{
        const struct wish *wish = data;

        return wish->is_true(wish->f, wish->wanted);
}

static bool comes_true(struct fixture *f, condition_fn *is_true, size_t wanted)
{
        struct wish wish = {f, is_true, wanted};

        return loop_run_until(&f->loop, is_granted, &wish, PATIENCE_MS);
}

static bool allocatable_is(struct fixture *f, size_t wanted)
{
        return kubelet_allocatable(f->kubelet, "nvidia.com/gpu") == wanted;
}

static bool never(void *data UNUSED)
{
        return false;
}

static void run_for(struct fixture *f, uint64_t ms)
{
        loop_run_until(&f->loop, never, NULL, ms);
}

static bool kubelet_is_closed(struct fixture *f, size_t wanted UNUSED)
{
        return !f->kubelet;
}

static bool plugins_are_closed(struct fixture *f, size_t wanted UNUSED)
{
        return !f->plugins;
}

static void on_kubelet_closed(void *data)
{
        ((struct fixture *)data)->kubelet = NULL;
}

static void on_plugins_closed(void *data)
{
        ((struct fixture *)data)->plugins = NULL;
}

static void on_change(const char *resource UNUSED, size_t capacity UNUSED, size_t allocatable, void *data)
{
        struct fixture *f = data;

        f->changes++;
        f->least_allocatable = MIN(f->least_allocatable, (unsigned int)allocatable);
        f->most_allocatable = MAX(f->most_allocatable, (unsigned int)allocatable);
}

static void start_kubelet(struct fixture *f)
{
        const struct kubelet_options options = {
                .loop = &f->loop, .directory = f->folder, .on_change = on_change, .data = f};
        struct error err;

        assert_ok(kubelet_new(&f->kubelet, &options, &err), &err);
}

static void stop_kubelet(struct fixture *f)
{
        kubelet_close(f->kubelet, on_kubelet_closed, f);
        assert_true(comes_true(f, kubelet_is_closed, 0));
}

static void on_serving(bool is_serving, void *data)
{
        struct fixture *f = data;

        assert_true(is_serving == plugins_is_serving(f->plugins));
        f->turns++;
}

static struct plugins_options options_of(struct fixture *f)
{
        return (struct plugins_options){.loop = &f->loop,
                .kubelet_socket = f->socket,
                .poll_ms = 500,
                .health = &f->health,
                .on_serving = on_serving,
                .data = f};
}

static void start_plugins(struct fixture *f)
{
        struct plugins_options options = options_of(f);
        struct error err;

        assert_ok(plugins_new(&f->plugins, &options, &err), &err);
}

static void stop_plugins(struct fixture *f)
{
        plugins_close(f->plugins, on_plugins_closed, f);
        assert_true(comes_true(f, plugins_are_closed, 0));
}

/* Sockets of ours in the folder. */
static size_t count_sockets(const struct fixture *f)
{
        DIR *directory = opendir(f->folder);
        const struct dirent *entry;
        size_t count = 0;

        while ((entry = readdir(directory)))
                count += strncmp(entry->d_name, "warpshare-", 10) == 0;
        closedir(directory);
        return count;
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
        strcpy(f->folder, "/tmp/warpshare-plugins-XXXXXX");
        if (!mkdtemp(f->folder))
                return -1;
        snprintf(f->socket, sizeof(f->socket), "%s/kubelet.sock", f->folder);
        uv_loop_init(&f->loop);
        *state = f;
        return 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char record[128];

        if (f->plugins)
                stop_plugins(f);
        if (f->kubelet)
                stop_kubelet(f);
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        assert_int_equal(count_sockets(f), 0);
        snprintf(record, sizeof(record), "%s/" CHECKPOINT_NAME, f->folder);
        unlink(record); /* where a pod ran */
        assert_int_equal(rmdir(f->folder), 0);
        unit_health_clear(&f->health);
        free(f);
        return 0;
}

static void set_health(struct fixture *f, const char *uuid, bool healthy)
{
        unit_health_set(&f->health, uuid, healthy, "Xid 79");
        plugins_refresh(f->plugins);
}

/* As the agent does it when the GPUs were read again: who is unhealthy is told next. */
static void apply_after_inventory(struct fixture *f, const struct plan *plan)
{
        plugins_settle(f->plugins);
        unit_health_clear(&f->health);
        plugins_apply(f->plugins, plan);
}

static void plan(struct node *node, unsigned int replicas)
{
        node_share(node, SHARING_TIME_SLICING, replicas);
        assert_ok(node_plan(node), &node->err);
}

static void test_a_plan_becomes_what_kubelet_counts(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(4);

        plan(&node, 20);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        assert_true(comes_true(f, allocatable_is, 80));
        assert_int_equal(kubelet_registrations(f->kubelet), 1);
        assert_int_equal(count_sockets(f), 1);
        stop_plugins(f);
        assert_true(comes_true(f, allocatable_is, 0));
        node_done(&node);
}

static void test_kubelet_may_come_after_the_agent(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(2);

        plan(&node, 3);
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        run_for(f, 50);
        start_kubelet(f);
        assert_true(comes_true(f, allocatable_is, 6));
        stop_plugins(f);
        node_done(&node);
}

static void test_health_goes_and_comes_in_one_message_each(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(4);

        plan(&node, 20);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        assert_true(comes_true(f, allocatable_is, 80));
        f->least_allocatable = 80;
        set_health(f, "GPU-2", false);
        set_health(f, "GPU-1", false);
        set_health(f, "GPU-1", true);
        assert_true(comes_true(f, allocatable_is, 60));
        run_for(f, 30);
        assert_int_equal(f->least_allocatable, 60); /* GPU-1's moment was never seen */
        set_health(f, "GPU-2", true);
        assert_true(comes_true(f, allocatable_is, 80));
        assert_int_equal(kubelet_registrations(f->kubelet), 1);
        stop_plugins(f);
        node_done(&node);
}

/* A new plan says anew who is unhealthy; who stays so is not shown healthy in between. */
static void test_a_new_plan_does_not_flash_an_unhealthy_gpu_as_healthy(void **state)
{
        struct fixture *f = *state;
        struct node first = node_new(2);
        struct node second = node_new(2);

        plan(&first, 5);
        plan(&second, 10);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, first.plan);
        set_health(f, "GPU-0", false);
        assert_true(comes_true(f, allocatable_is, 5));
        f->least_allocatable = 100;
        apply_after_inventory(f, second.plan);
        set_health(f, "GPU-0", false);
        assert_true(comes_true(f, allocatable_is, 10));
        run_for(f, 30);
        assert_int_equal(f->least_allocatable, 10);
        assert_int_equal(kubelet_registrations(f->kubelet), 1);
        stop_plugins(f);
        node_done(&first);
        node_done(&second);
}

static void test_of_two_plans_in_one_turn_each_is_shown_with_its_own_health(void **state)
{
        struct fixture *f = *state;
        struct node first = node_new(2);
        struct node second = node_new(2);

        plan(&first, 5);
        plan(&second, 10);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, first.plan);
        set_health(f, "GPU-0", false);
        assert_true(comes_true(f, allocatable_is, 5));
        f->most_allocatable = 0;
        apply_after_inventory(f, second.plan);
        set_health(f, "GPU-0", false);
        set_health(f, "GPU-1", false);
        apply_after_inventory(f, first.plan);
        set_health(f, "GPU-0", false);
        set_health(f, "GPU-1", false);
        assert_true(comes_true(f, allocatable_is, 0));
        run_for(f, 30);
        assert_int_equal(f->most_allocatable, 0);
        stop_plugins(f);
        node_done(&first);
        node_done(&second);
}

static void test_a_hundred_restarts_of_kubelet_are_survived(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(2);

        plan(&node, 2);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        for (int i = 0; i < 100; i++) {
                assert_true(comes_true(f, allocatable_is, 4));
                assert_int_equal(count_sockets(f), 1);
                stop_kubelet(f);
                start_kubelet(f);
        }
        assert_true(comes_true(f, allocatable_is, 4));
        stop_plugins(f);
        node_done(&node);
}

static void on_old_closed(void *data)
{
        *(bool *)data = true;
}

static bool flag_is_set(struct fixture *f UNUSED, size_t flag)
{
        return *(const bool *)flag;
}

/*
 * The race: two incarnations under one name, at a kubelet that lets the end of the old stream disconnect the new
 * plugin. The old agent's stream may end at any time after the new one registered.
 */
static void test_the_end_of_an_old_stream_does_not_leave_the_resource_at_zero(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(2);
        bool old_is_closed;

        plan(&node, 2);
        start_kubelet(f);
        for (int i = 0; i < 20; i++) {
                start_plugins(f);
                plugins_apply(f->plugins, node.plan);
                assert_true(comes_true(f, allocatable_is, 4));
                /* The old one begins to close, and in the same moment the new one starts; its lock comes free later. */
                old_is_closed = false;
                plugins_close(f->plugins, on_old_closed, &old_is_closed);
                start_plugins(f);
                plugins_apply(f->plugins, node.plan);
                assert_true(comes_true(f, flag_is_set, (size_t)&old_is_closed));
                assert_true(comes_true(f, allocatable_is, 4));
                run_for(f, 20);
                assert_int_equal(kubelet_allocatable(f->kubelet, "nvidia.com/gpu"), 4);
                stop_plugins(f);
        }
        node_done(&node);
}

/* ---- whose turn it is ---- */

static bool turns_are(struct fixture *f, size_t wanted)
{
        return f->turns == wanted;
}

static void remove_directory(const struct fixture *f)
{
        DIR *directory = opendir(f->folder);
        const struct dirent *entry;

        while ((entry = readdir(directory)))
                if (entry->d_name[0] != '.')
                        assert_int_equal(unlinkat(dirfd(directory), entry->d_name, 0), 0);
        closedir(directory);
        assert_int_equal(rmdir(f->folder), 0);
}

/* The lock is on the directory: in a new one, another agent may be faster. */
static void test_an_agent_that_loses_the_directory_serves_nothing_until_the_other_ends(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(2);
        struct lock other = LOCK_INIT;
        struct error err;

        plan(&node, 2);
        start_kubelet(f);
        start_plugins(f);
        assert_true(plugins_is_serving(f->plugins));
        plugins_apply(f->plugins, node.plan);
        assert_true(comes_true(f, allocatable_is, 4));
        stop_kubelet(f);
        remove_directory(f);
        assert_int_equal(mkdir(f->folder, 0750), 0);
        assert_int_equal(lock_take(&other, f->folder, &err), 0);
        assert_true(comes_true(f, turns_are, 1));
        assert_false(plugins_is_serving(f->plugins));
        plugins_apply(f->plugins, node.plan);
        start_kubelet(f);
        run_for(f, 300);
        assert_int_equal(kubelet_allocatable(f->kubelet, "nvidia.com/gpu"), 0);
        lock_release(&other);
        assert_true(comes_true(f, turns_are, 2));
        assert_true(plugins_is_serving(f->plugins));
        assert_true(comes_true(f, allocatable_is, 4));
        stop_plugins(f);
        node_done(&node);
}

/* Who served commands the node on, while there is no directory that anybody could have a lock on. */
static void test_a_directory_that_is_away_and_comes_back_leaves_the_turn_where_it_was(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(2);

        plan(&node, 2);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        assert_true(comes_true(f, allocatable_is, 4));
        stop_kubelet(f);
        remove_directory(f);
        run_for(f, 300);
        assert_true(plugins_is_serving(f->plugins));
        assert_int_equal(mkdir(f->folder, 0750), 0);
        start_kubelet(f);
        assert_true(comes_true(f, allocatable_is, 4));
        assert_int_equal(f->turns, 0);
        stop_plugins(f);
        node_done(&node);
}

/* Away and back before the old plugin has closed: the name is registered again only when it is gone. */
static void test_a_resource_renamed_there_and_back_is_not_registered_twice_at_once(void **state)
{
        struct fixture *f = *state;
        struct node plain = node_new(2);
        struct node renamed = node_new(2);

        plan(&plain, 2);
        node_share(&renamed, SHARING_TIME_SLICING, 2);
        renamed.shared.rename = "nvidia.com/gpu.shared";
        assert_ok(node_plan(&renamed), &renamed.err);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, plain.plan);
        assert_true(comes_true(f, allocatable_is, 4));
        for (int i = 0; i < 10; i++) {
                plugins_apply(f->plugins, renamed.plan);
                plugins_apply(f->plugins, plain.plan);
        }
        assert_true(comes_true(f, allocatable_is, 4));
        run_for(f, 300);
        assert_int_equal(kubelet_allocatable(f->kubelet, "nvidia.com/gpu"), 4);
        assert_int_equal(kubelet_allocatable(f->kubelet, "nvidia.com/gpu.shared"), 0);
        stop_plugins(f);
        node_done(&plain);
        node_done(&renamed);
}

/* In NVIDIA's plugin the first resource that fails keeps the ones after it from starting, for 30 s. */
static void test_a_resource_that_cannot_be_served_does_not_hold_up_the_others(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(2);
        struct resource resources[2];
        struct plan two;
        char name[160];

        plan(&node, 3);
        memset(name, 'x', sizeof(name) - 1); /* its socket would have a longer path than the kernel takes */
        name[sizeof(name) - 1] = '\0';
        memcpy(name, "nvidia.com/", 11);
        two = *node.plan;
        two.resources = resources;
        two.n_resources = 2;
        resources[0] = resources[1] = node.plan->resources[0];
        resources[0].name = name;
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, &two);
        assert_true(comes_true(f, allocatable_is, 6));
        assert_int_equal(kubelet_registrations(f->kubelet), 1);
        assert_int_equal(kubelet_capacity(f->kubelet, name), 0);
        stop_plugins(f);
        node_done(&node);
}

static void listen_deafly(const struct fixture *f)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->socket);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        close(fd);
}

/* In NVIDIA's plugin a retry that was armed comes even after a success, and restarts everything once more. */
static void test_a_retry_that_was_waited_for_is_forgotten_with_the_success(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(2);

        plan(&node, 3);
        listen_deafly(f); /* a kubelet that died: Register fails, again and again, with growing pauses */
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        run_for(f, 500);
        unlink(f->socket);
        start_kubelet(f);
        assert_true(comes_true(f, allocatable_is, 6));
        run_for(f, 1500);
        assert_int_equal(kubelet_registrations(f->kubelet), 1);
        stop_plugins(f);
        node_done(&node);
}

/*
 * The plan in force is applied once more when the next one was refused; GPUs that are gone are then said to be
 * unhealthy.
 */
static void test_the_same_plan_again_changes_nothing_but_the_health(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(4);

        plan(&node, 5);
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        set_health(f, "GPU-0", false);
        assert_true(comes_true(f, allocatable_is, 15));
        f->least_allocatable = 100;
        apply_after_inventory(f, node.plan);
        set_health(f, "GPU-0", false);
        set_health(f, "GPU-3", false);
        assert_true(comes_true(f, allocatable_is, 10));
        assert_int_equal(f->least_allocatable, 10);
        apply_after_inventory(f, node.plan);
        assert_true(comes_true(f, allocatable_is, 20));
        assert_int_equal(kubelet_registrations(f->kubelet), 1);
        assert_int_equal(kubelet_capacity(f->kubelet, "nvidia.com/gpu"), 20);
        stop_plugins(f);
        node_done(&node);
}

static void test_sockets_of_nvidias_plugin_are_left_alone_and_our_own_stale_ones_are_not(void **state)
{
        struct fixture *f = *state;
        struct sockaddr_un theirs = {.sun_family = AF_UNIX};
        struct sockaddr_un ours = {.sun_family = AF_UNIX};
        int fds[] = {socket(AF_UNIX, SOCK_STREAM, 0), socket(AF_UNIX, SOCK_STREAM, 0)};

        snprintf(theirs.sun_path, sizeof(theirs.sun_path), "%s/nvidia-gpu.sock", f->folder);
        snprintf(ours.sun_path, sizeof(ours.sun_path), "%s/warpshare-gpu-1-1.sock", f->folder);
        assert_int_equal(bind(fds[0], (struct sockaddr *)&theirs, sizeof(theirs)), 0);
        assert_int_equal(bind(fds[1], (struct sockaddr *)&ours, sizeof(ours)), 0);
        start_plugins(f);
        assert_int_equal(access(theirs.sun_path, F_OK), 0);
        assert_int_equal(access(ours.sun_path, F_OK), -1);
        stop_plugins(f);
        assert_int_equal(unlink(theirs.sun_path), 0);
        close(fds[0]);
        close(fds[1]);
}

/* ---- a broker ---- */

/* Ids that are kept back, and an answer that takes its time. */
struct keeper {
        bool unavailable[80];
        bool hides;
        broker_bound_fn *bound; /* owed, or NULL */
        void *context;
};

static const bool *keeper_unavailable(const struct resource *resource UNUSED, void *data)
{
        const struct keeper *keeper = data;

        return keeper->hides ? keeper->unavailable : NULL;
}

static void keeper_bind(const struct resource *resource UNUSED, const char *const *ids UNUSED, size_t n_ids UNUSED,
        broker_bound_fn *bound, void *context, void *data)
{
        struct keeper *keeper = data;

        assert_null(keeper->bound);
        keeper->bound = bound;
        keeper->context = context;
}

static void start_plugins_with(struct fixture *f, struct keeper *keeper)
{
        const struct broker broker = {.unavailable = keeper_unavailable, .bind = keeper_bind, .data = keeper};
        struct plugins_options options = options_of(f);
        struct error err;

        f->broker = broker;
        options.broker = &f->broker;
        assert_ok(plugins_new(&f->plugins, &options, &err), &err);
}

static void make_unavailable(struct keeper *keeper, size_t first, size_t count)
{
        keeper->hides = true;
        memset(keeper->unavailable, 0, sizeof(keeper->unavailable));
        memset(keeper->unavailable + first, true, count);
}

static void test_what_the_broker_keeps_back_is_not_allocatable(void **state)
{
        struct fixture *f = *state;
        struct keeper keeper = {0};
        struct node node = node_new(4);

        plan(&node, 20);
        make_unavailable(&keeper, 0, 12);
        start_kubelet(f);
        start_plugins_with(f, &keeper);
        plugins_apply(f->plugins, node.plan);
        assert_true(comes_true(f, allocatable_is, 68));
        assert_int_equal(kubelet_capacity(f->kubelet, "nvidia.com/gpu"), 80);
        assert_int_equal(f->changes, 1);
        make_unavailable(&keeper, 8, 10); /* other ones, and fewer; told with a unit that falls */
        set_health(f, "GPU-3", false);
        plugins_refresh(f->plugins);
        plugins_refresh(f->plugins);
        assert_true(comes_true(f, allocatable_is, 50));
        assert_int_equal(f->changes, 2);
        plugins_refresh(f->plugins); /* the same again */
        run_for(f, 30);
        keeper.hides = false;
        plugins_refresh(f->plugins);
        assert_true(comes_true(f, allocatable_is, 60));
        assert_int_equal(f->changes, 3);
        stop_plugins(f);
        node_done(&node);
}

static void on_answer(const V1beta1__ContainerAllocateResponse *options, const char *error, void *data)
{
        struct fixture *f = data;

        snprintf(f->answer, sizeof(f->answer), "%s", options ? options->envs[0]->value : error);
}

static void run_pod(struct fixture *f, const char *pod, size_t replicas)
{
        kubelet_run(f->kubelet, pod, &(struct kubelet_request){"nvidia.com/gpu", replicas}, 1, on_answer, f);
}

static bool is_answered(struct fixture *f, size_t wanted UNUSED)
{
        return f->answer[0] != '\0';
}

static void test_a_container_gets_its_gpu_or_the_reason_why_not(void **state)
{
        struct fixture *f = *state;
        struct node node = node_new(1);

        plan(&node, 4);
        node.config.placement = PLACEMENT_PACKED;
        start_kubelet(f);
        start_plugins(f);
        plugins_apply(f->plugins, node.plan);
        assert_true(comes_true(f, allocatable_is, 4));
        run_pod(f, "pod", 2);
        assert_true(comes_true(f, is_answered, 0));
        assert_string_equal(f->answer, "GPU-0");
        f->answer[0] = '\0';
        run_pod(f, "pod", 3);
        assert_true(comes_true(f, is_answered, 0));
        assert_string_equal(
                f->answer, "requested number of devices unavailable for nvidia.com/gpu. Requested: 3, Available: 2");
        stop_plugins(f);
        node_done(&node);
}

static bool broker_is_asked(struct fixture *f, size_t wanted UNUSED)
{
        return ((const struct keeper *)f->broker.data)->bound;
}

static void answer_bind(struct keeper *keeper)
{
        broker_bound_fn *bound = TAKE_PTR(keeper->bound);

        assert_non_null(bound);
        bound(NULL, &(const struct allocate_binding){.allocation = "g1"}, keeper->context);
}

/*
 * From kubelet's question to its answer, with another plan between, and a broker whose word comes too late for the
 * second.
 */
static void test_a_container_waits_for_the_broker_but_not_beyond_the_end_of_its_plugin(void **state)
{
        struct fixture *f = *state;
        struct keeper keeper = {0};
        struct node node = node_new(1);
        struct node other = node_new(1);

        plan(&node, 4);
        plan(&other, 8);
        start_kubelet(f);
        start_plugins_with(f, &keeper);
        plugins_apply(f->plugins, node.plan);
        assert_true(comes_true(f, allocatable_is, 4));
        run_pod(f, "pod", 2);
        assert_true(comes_true(f, broker_is_asked, 0));
        plugins_apply(f->plugins, other.plan);
        assert_true(comes_true(f, allocatable_is, 8));
        assert_string_equal(f->answer, "");
        answer_bind(&keeper);
        assert_true(comes_true(f, is_answered, 0));
        assert_string_equal(f->answer, "GPU-0");
        f->answer[0] = '\0';
        run_pod(f, "next", 2);
        assert_true(comes_true(f, broker_is_asked, 0));
        stop_plugins(f);
        assert_true(comes_true(f, is_answered, 0));
        assert_string_equal(f->answer, "resource 'nvidia.com/gpu' is being withdrawn");
        answer_bind(&keeper); /* to nobody */
        node_done(&node);
        node_done(&other);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_a_plan_becomes_what_kubelet_counts, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_kubelet_may_come_after_the_agent, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_health_goes_and_comes_in_one_message_each, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_new_plan_does_not_flash_an_unhealthy_gpu_as_healthy, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_of_two_plans_in_one_turn_each_is_shown_with_its_own_health, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_hundred_restarts_of_kubelet_are_survived, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_the_end_of_an_old_stream_does_not_leave_the_resource_at_zero, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_an_agent_that_loses_the_directory_serves_nothing_until_the_other_ends, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_directory_that_is_away_and_comes_back_leaves_the_turn_where_it_was, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_resource_renamed_there_and_back_is_not_registered_twice_at_once, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_resource_that_cannot_be_served_does_not_hold_up_the_others, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_retry_that_was_waited_for_is_forgotten_with_the_success, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_the_same_plan_again_changes_nothing_but_the_health, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_sockets_of_nvidias_plugin_are_left_alone_and_our_own_stale_ones_are_not, set_up,
                        tear_down),
                cmocka_unit_test_setup_teardown(test_a_container_gets_its_gpu_or_the_reason_why_not, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_what_the_broker_keeps_back_is_not_allocatable, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_container_waits_for_the_broker_but_not_beyond_the_end_of_its_plugin, set_up, tear_down),
        };

        signal(SIGPIPE, SIG_IGN); /* as the agent does */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
