// SPDX-License-Identifier: Apache-2.0
#include "rig.h"

#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "fake_events.h"
#include "base/io/loop.h"
#include "plan/allocate.h"
#include "plan/mps_limits.h"
#include "plan/sharing_policy.h"
#include "still.h"

#define GPUS 2
#define REPLICAS 4
#define PATIENCE_MS 60000

struct rig rig;

/* ---- time ---- */

static struct ledger_time read_clocks(void *data UNUSED)
{
        return (struct ledger_time){.clock = rig.clock, .date = rig.date};
}

static void move_time(uint64_t ms)
{
        rig.loop.time += ms;
        rig.clock += (int64_t)ms;
        rig.date += (int64_t)ms;
}

void rig_pass(int64_t ms)
{
        uint64_t left = (uint64_t)ms;

        rig_settle();
        for (struct still_next next; (next = still_find(&rig.loop, left)).timer; left -= next.due) {
                move_time(next.due);
                still_fire(next.timer);
                rig_settle();
        }
        move_time(left);
}

void rig_settle(void)
{
        bool is_quiet = false;

        while (!is_quiet) {
                size_t before = kubelet.n_questions;
                bool is_told = false;

                if (kubelet.to == FAKE_ANSWERS)
                        fake_kubelet_answer();
                else if (kubelet.to == FAKE_REFUSES)
                        fake_kubelet_refuse();
                if (api.to == FAKE_ANSWERS)
                        is_told = fake_api_answer();
                else if (api.to == FAKE_REFUSES)
                        is_told = fake_api_refuse();
                if (supervisor.allocations != FAKE_ALLOCATIONS_LATE)
                        fake_supervisor_answer();
                is_quiet = !is_told && (kubelet.n_questions == 0 || kubelet.n_questions == before);
        }
}

/* ---- the plan ---- */

static const struct {
        enum provisioning provisioning;
        enum sharing_scope scope;
        enum daemon_scope daemon_scope;
        unsigned int device_lists;
} kinds[] = {
        [RIG_VERIFIED] = {PROVISIONING_WEIGHTED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_PARTITIONS] = {PROVISIONING_SM, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_NAMESPACES] = {PROVISIONING_WEIGHTED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_NAMESPACES_EACH] = {PROVISIONING_WEIGHTED, SCOPE_INDIVIDUAL, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_STRICT] = {PROVISIONING_WEIGHTED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_CLAIMS] = {PROVISIONING_WEIGHTED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_CLAIM_NAMESPACES] = {PROVISIONING_WEIGHTED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_CLAIMS_ONE_DAEMON] = {PROVISIONING_WEIGHTED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_NODE] = {PROVISIONING_WEIGHTED, SCOPE_AGGREGATE, DAEMON_SCOPE_NODE, DEVICE_LIST_CDI_CRI},
        [RIG_NODE_EACH] = {PROVISIONING_WEIGHTED, SCOPE_INDIVIDUAL, DAEMON_SCOPE_NODE, DEVICE_LIST_CDI_CRI},
        [RIG_DECLARED] = {PROVISIONING_DECLARED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_CDI_CRI},
        [RIG_DECLARED_FITS] = {PROVISIONING_DECLARED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_CDI_CRI},
        [RIG_DECLARED_EACH] = {PROVISIONING_DECLARED, SCOPE_INDIVIDUAL, DAEMON_SCOPE_NODE, DEVICE_LIST_CDI_CRI},
        [RIG_DECLARED_ENVVAR] = {PROVISIONING_DECLARED, SCOPE_AGGREGATE, DAEMON_SCOPE_GPU, DEVICE_LIST_ENVVAR},
        [RIG_ENVVAR_EACH] = {PROVISIONING_WEIGHTED, SCOPE_INDIVIDUAL, DAEMON_SCOPE_NODE, DEVICE_LIST_ENVVAR},
};

static bool has_namespaces(enum rig_shares shares)
{
        return shares == RIG_NAMESPACES || shares == RIG_NAMESPACES_EACH || shares == RIG_CLAIM_NAMESPACES;
}

static void make_plan(struct node *node, enum rig_shares shares, unsigned int replicas, size_t n_gpus)
{
        static const struct device_ref gpu_1 = {.uuid = "GPU-1", .mig = -1};

        *node = node_new(n_gpus);
        node->config.dra.driver_name = "gpu.warpshare.dev";
        node->config.devices.metadata = true;
        node_share(node, SHARING_MPS, replicas);
        node->section.provisioning = kinds[shares].provisioning;
        node->section.scope = kinds[shares].scope;
        node->section.daemon_scope = kinds[shares].daemon_scope;
        node->section.refuses_overcommit = shares == RIG_DECLARED_FITS;
        node->section.reserve = shares == RIG_STRICT ? RESERVE_STRICT : RESERVE_NONE;
        node->shared.has_placement = true;
        node->shared.placement = PLACEMENT_SAME_GPU;
        node->section.guard = GUARD_TERMINATE;
        node->config.devices.lists = kinds[shares].device_lists;
        node->section.max_per_request = shares == RIG_STRICT ? 2 : replicas;
        node->inventory.driver_version = shares == RIG_PARTITIONS ? "590.10"
                                         : has_namespaces(shares) ? "615.10"
                                                                  : "580.10";
        if (shares == RIG_CLAIMS || shares == RIG_CLAIM_NAMESPACES || shares == RIG_CLAIMS_ONE_DAEMON)
                node->config.dra = (struct config_dra){.enabled = true,
                        .daemon_scope = shares == RIG_CLAIMS_ONE_DAEMON ? DAEMON_SCOPE_RESOURCE : DAEMON_SCOPE_GPU,
                        .driver_name = "gpu.warpshare.dev",
                        .devices = {.kind = SELECT_LIST, .refs = &gpu_1, .n_refs = 1},
                        .mps = true};
        for (size_t i = 0; i < n_gpus; i++)
                node->inventory.gpus[i].multiprocessors = 80;
        node->config.kubelet.socket = rig.socket;
        node->config.kubelet.pod_resources = rig.socket;
        node->config.kubelet.pods = "";
        node->config.mps.directory = rig.mps;
        node->config.cdi.root = rig.cdi;
        node->config.mps.control = "";
        assert_ok(node_plan(node), &node->err);
        kubelet.names_devices = mps_limits_at_start(node->plan, &node->plan->resources[0]);
}

/* ---- the agent ---- */

static void on_change(void *data UNUSED)
{
        rig.n_changes++;
}

static void judge(void)
{
        static const struct sharing_policy_list nothing;
        struct sharing_policy_list served;
        struct sharing_policy_list policies;
        size_t n_names = rig.plan->n_resources;
        const char **names = ARENA_ARRAY(&rig.arena, const char *, n_names);
        const struct rollout_previous previous = {
                .policies = &policies, .names = names, .n_names = n_names, .is_known = true};
        struct rollout *next;
        struct rollout_held *held;
        size_t n_held;

        for (size_t i = 0; i < n_names; i++)
                names[i] = arena_strdup(&rig.arena, rig.plan->resources[i].name);
        sharing_policy_of(&served, &rig.arena, rig.plan);
        sharing_policy_join(&policies, &rig.arena, &served, rig.rollout ? &rig.rollout->absent : &nothing);
        ledger_held(rig.ledger, &rig.arena, &held, &n_held);
        next = rollout_new(rig.wanted, &previous, held, n_held);
        rig.plan = next->plan;
        rig_apply(rig.plan);
        rollout_free(rig.rollout);
        rig.rollout = next;
}

static void on_held(void *data UNUSED)
{
        rig.n_held++;
        snprintf(rig.held, sizeof(rig.held), "%s", rig_held());
        if (rig.is_judging)
                judge();
        rig.is_judging = false;
}

void rig_review(void)
{
        rig.is_judging = true;
        ledger_ask(rig.ledger);
        rig_settle();
        assert_false(rig.is_judging);
}

void rig_change_gpus(unsigned int replicas, size_t n_gpus)
{
        struct node *changed = &rig.changed[rig.n_changed++ % ARRAY_SIZE(rig.changed)];

        if (changed->plan)
                node_done(changed); /* nobody has it any more */
        make_plan(changed, rig.shares, replicas, n_gpus);
        rig.wanted = changed->plan;
        rig_review();
}

void rig_change(unsigned int replicas)
{
        rig_change_gpus(replicas, GPUS);
}

void rig_set_health(const char *uuid, bool healthy)
{
        unit_health_set(&rig.health, uuid, healthy, "Xid 79");
        ledger_health_changed(rig.ledger, uuid);
}

static void on_closed(void *data UNUSED)
{
        rig.is_closed = true;
}

static bool is_closed(void *data UNUSED)
{
        return rig.is_closed;
}

void rig_apply(const struct plan *plan)
{
        ledger_apply(rig.ledger, plan);
        fake_supervisor_report();
}

void rig_open(void)
{
        const struct ledger_options options = {
                .loop = &rig.loop,
                .config = &rig.node.config,
                .on_change = on_change,
                .on_held = on_held,
                .events = fake_events_begin(),
                .client = fake_api_client(),
                .repeat = fake_kubelet_repeat,
                .health = &rig.health,
                .now = read_clocks,
        };
        struct error err;

        assert_ok(ledger_new(&rig.ledger, &options, &err), &err);
}

void rig_start(void)
{
        rig_open();
        rig_apply(rig.plan);
}

void rig_stop(void)
{
        rig.is_closed = false;
        ledger_close(rig.ledger, on_closed, NULL);
        assert_true(loop_run_until(&rig.loop, is_closed, NULL, PATIENCE_MS));
        rig.ledger = NULL;
}

void rig_kill(void)
{
        _free_ char *file = rig_read_file();

        rig_stop();
        unlink(rig.file);
        if (file)
                rig_write_file(file);
}

/* ---- the node ---- */

static enum mps_tier tier_of(enum rig_shares shares)
{
        return shares == RIG_PARTITIONS ? MPS_TIER_PARTITION
               : has_namespaces(shares) ? MPS_TIER_NAMESPACE
                                        : MPS_TIER_VERIFIED;
}

int rig_begin(void **state)
{
        memset(&rig, 0, sizeof(rig));
        log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
        rig.shares = *state ? *(const enum rig_shares *)*state : RIG_VERIFIED;
        strcpy(rig.folder, "/dev/shm/warpshare-ledger-XXXXXX");
        assert_non_null(mkdtemp(rig.folder));
        snprintf(rig.socket, sizeof(rig.socket), "%s/kubelet.sock", rig.folder);
        snprintf(rig.record, sizeof(rig.record), "%s/kubelet_internal_checkpoint", rig.folder);
        snprintf(rig.mps, sizeof(rig.mps), "%s/mps", rig.folder);
        snprintf(rig.away, sizeof(rig.away), "%s/away", rig.folder);
        snprintf(rig.cdi, sizeof(rig.cdi), "%s/cdi", rig.folder);
        snprintf(rig.file, sizeof(rig.file), "%s/allocations-nvidia.com_gpu.json", rig.mps);
        assert_int_equal(mkdir(rig.mps, 0755), 0);
        uv_loop_init(&rig.loop);
        rig.clock = 1000000;
        rig.date = INT64_C(1800000000000);
        fake_kubelet_begin(rig.socket, rig.record);
        fake_supervisor_begin(tier_of(rig.shares));
        make_plan(&rig.node, rig.shares, REPLICAS, GPUS);
        rig.wanted = rig.plan = rig.node.plan;
        rig_start();
        rig_pass(GRACE_MS);
        return 0;
}

static void remove_folder(const char *path)
{
        DIR *folder = opendir(path);
        const struct dirent *entry;

        while (folder && (entry = readdir(folder))) {
                _free_ char *file = xasprintf("%s/%s", path, entry->d_name);

                unlink(file);
        }
        if (folder) {
                closedir(folder);
                assert_int_equal(rmdir(path), 0);
        }
}

void rig_remove_metadata(void)
{
        _free_ char *folder = xasprintf("%s/metadata", rig.mps);

        remove_folder(folder);
}

int rig_end(void **state UNUSED)
{
        if (rig.ledger)
                rig_stop();
        uv_run(&rig.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&rig.loop), 0);
        fake_supervisor_end();
        fake_kubelet_end();
        fake_events_end();
        fake_api_end();
        rig_remove_metadata();
        remove_folder(rig.mps);
        remove_folder(rig.cdi);
        assert_int_equal(rmdir(rig.folder), 0);
        rollout_free(rig.rollout);
        for (size_t i = 0; i < ARRAY_SIZE(rig.changed); i++)
                node_done(&rig.changed[i]);
        node_done(&rig.node);
        unit_health_clear(&rig.health);
        arena_done(&rig.arena);
        return 0;
}

/* ---- containers ---- */

const struct resource *rig_resource(void)
{
        return &rig.plan->resources[0];
}

static const struct resource *resource_of(const char *ids)
{
        const char *id = arena_strndup(&rig.arena, ids, strcspn(ids, " "));

        for (size_t i = 0; i < rig.plan->n_resources; i++)
                if (map_find(&rig.plan->resources[i].by_id, id))
                        return &rig.plan->resources[i];
        return rig_resource();
}

static struct fake_container *ask(const char *pod, bool is_init, const char *ids)
{
        struct fake_container *container =
                fake_kubelet_allocate(ledger_broker(rig.ledger), resource_of(ids), pod, is_init, ids);

        rig_settle();
        return container;
}

struct fake_container *rig_allocate(const char *pod, const char *ids)
{
        return ask(pod, false, ids);
}

struct fake_container *rig_allocate_init(const char *pod, const char *ids)
{
        return ask(pod, true, ids);
}

struct fake_container *rig_run(const char *pod, const char *ids)
{
        struct fake_container *container = rig_allocate(pod, ids);

        if (!container->is_running)
                fail_msg("%s has no answer, or an error: %s", pod, container->error.text);
        return container;
}

const char *rig_start_container(struct fake_container *container)
{
        fake_kubelet_start(ledger_broker(rig.ledger), container);
        rig_settle();
        return container->is_waiting ? "it waits" : container->start_error.text;
}

/* ---- its device ---- */

const char *rig_device(const struct fake_container *container)
{
        _free_ char *path = xasprintf("%s/k8s.device-plugin.nvidia.com-mps-%s.json", rig.cdi, container->allocation);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        json_t *spec = json_load_file(path, 0, NULL);
        const json_t *device = json_array_get(json_object_get(spec, "devices"), 0);
        const json_t *variables = json_object_get(json_object_get(device, "containerEdits"), "env");
        const json_t *variable;
        size_t i;

        if (!spec)
                return NULL;
        assert_string_equal(json_string_value(json_object_get(spec, "kind")), CDI_KIND_MPS);
        assert_string_equal(json_string_value(json_object_get(device, "name")), container->allocation);
        json_array_foreach(variables, i, variable) strbuf_printf(&text, "%s\n", json_string_value(variable));
        json_decref(spec);
        return arena_strdup(&rig.arena, text.data);
}

static const char *value_of(const char *variables, const char *name)
{
        const char *at = strstr(variables, name);

        if (!at)
                return "-";
        at += strlen(name);
        return arena_strndup(&rig.arena, at, strcspn(at, "\n"));
}

const char *rig_limits(const struct fake_container *container)
{
        const char *variables = rig_device(container);

        if (!variables)
                return "none";
        return arena_printf(&rig.arena, "%s %s", value_of(variables, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="),
                value_of(variables, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="));
}

/* ---- what is to be seen ---- */

static const char *replica_of(const char *id)
{
        const char *end = strstr(id, "::");

        return end ? end + 2 : id;
}

const char *rig_allocations(void)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct ledger_allocation *all;
        size_t count = ledger_allocations(rig.ledger, rig_resource()->name, &rig.arena, &all);

        strbuf_printf(&text, "%s", "");
        for (size_t i = 0; i < count; i++) {
                const struct allocation *allocation = all[i].allocation;

                strbuf_printf(&text, "%s%s %s[", i ? ", " : "",
                        !all[i].holder       ? "?"
                        : all[i].holder->pod ? all[i].holder->pod
                                             : all[i].holder->pod_uid,
                        allocation->unit ? allocation->unit : "-");
                for (size_t j = 0; j < allocation->n_devices; j++)
                        strbuf_printf(&text, "%s%s", j ? " " : "", replica_of(allocation->devices[j]));
                strbuf_printf(&text, "]");
        }
        return arena_strdup(&rig.arena, text.data);
}

static int compare_held(const void *a, const void *b)
{
        return strcmp(((const struct rollout_held *)a)->device, ((const struct rollout_held *)b)->device);
}

const char *rig_held(void)
{
        static const char *const words[] = {
                [LEDGER_UNKNOWN] = "not told", [LEDGER_LISTED] = "told", [LEDGER_STALE] = "stale"};
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct rollout_held *held;
        size_t count;
        enum ledger_word word = ledger_held(rig.ledger, &rig.arena, &held, &count);

        strbuf_printf(&text, "%s:", words[word]);
        qsort(held, count, sizeof(*held), compare_held);
        for (size_t i = 0; i < count; i++)
                if (i == 0 || strcmp(held[i].device, held[i - 1].device) != 0)
                        strbuf_printf(&text, " %s%s%s", held[i].device, held[i].unit ? "@" : "",
                                held[i].unit ? held[i].unit : "");
        return arena_strdup(&rig.arena, text.data);
}

const char *rig_unavailable(void)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const struct broker *broker = ledger_broker(rig.ledger);
        const struct resource *resource = rig_resource();
        const bool *unavailable = broker->unavailable(resource, broker->data);

        strbuf_printf(&text, "%s", "");
        for (size_t i = 0; unavailable && i < resource->n_devices; i++)
                if (unavailable[i])
                        strbuf_printf(&text, "%s%s", text.size ? " " : "", resource->devices[i].id);
        return arena_strdup(&rig.arena, text.data);
}

/* ---- the file ---- */

char *rig_read_file(void)
{
        struct strbuf text = STRBUF_INIT;
        struct error err;

        if (access(rig.file, F_OK) < 0)
                return NULL;
        assert_ok(file_read(rig.file, ALLOCATIONS_TEXT_MAX, &text, &err), &err);
        return text.data;
}

void rig_write_file(const char *text)
{
        struct error err;

        assert_ok(file_write_private(rig.file, text, strlen(text), &err), &err);
}

void rig_fill_disk(void)
{
        assert_int_equal(rename(rig.mps, rig.away), 0);
}

void rig_empty_disk(void)
{
        assert_int_equal(rename(rig.away, rig.mps), 0);
}
