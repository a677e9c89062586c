// SPDX-License-Identifier: Apache-2.0
#include "agent/mig.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/evict.h"
#include "agent/plans.h"
#include "agent/undecided.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/io/worker.h"
#include "node/dra/driver.h"
#include "node/ledger/claims.h"
#include "node/ledger/ledger.h"
#include "node/status/api.h"
#include "mig/run.h"
#include "node/status/mig_labels.h"

/* Between two looks at who holds what: a minute long, and then, since it may last for days. */
#define LOOK_MS UINT64_C(1000)
#define LOOKS 60U
#define LOOK_LATER_MS UINT64_C(10000)
/* kubelet may have begun an Allocate before it had the list without a unit; its answer is in the ledger by then. */
#define SETTLE_MS UINT64_C(2000)
/* Inventories until one was certainly read after the change: the first may have been on its way. */
#define READINGS 2U
#define HOLDERS_MAX 5U /* in one text */
#define CLOSE_MS UINT64_C(30000)
#define CLOSE_MARGIN_MS UINT64_C(3000) /* after WORKER_IDLE_MS, which runs in another program */
#define WITH_RESET "reset-or-reboot"
#define WITHOUT_RESET "reboot"

struct agent_mig {
        struct agent *agent;
        struct arena arena; /* of the options of |run| */
        struct mig_run *run;
        struct mig_labels *labels;
        struct evictions *evictions; /* NULL: no pods are evicted */
        struct undecided *undecided;
        const char *fallback;
        bool makes_devices; /* for claims */
        uv_timer_t timer;
        unsigned int looks;
        const struct plan *plan; /* in force; NULL: none yet */
        bool has_more_gpus;      /* since the configuration was planned */
        bool has_asked;          /* kubelet, who holds what is undecided */
        uint64_t withdrawn_ms;   /* since when no unit of the handover is in it; 0: one is */
        uint64_t closing_ms;     /* since when NVML is to be closed; 0: it is not */
        unsigned int readings;
        enum mig_phase phase; /* the last that was reported, as are the next two */
        enum mig_state state;
        char config[MIG_CONFIG_NAME_SIZE];
        int64_t since; /* of both, in seconds since the epoch */
        size_t n_holders;
};

static bool is_held_back(const struct agent_mig *mig, const char *unit)
{
        const struct mig_device *device;
        const struct gpu *gpu = inventory_find_unit(mig->plan->inventory, unit, &device);

        return gpu && mig_handover_takes(mig_run_handover(mig->run), gpu->uuid, unit);
}

/* ---- holders ---- */

struct look {
        const struct agent_mig *mig;
        struct names names;
        const char *last;
};

/* The same holder may have several devices, one after the other. */
static void mig_add_holder(struct look *look, const char *unit, const char *holder)
{
        if (look->last && strcmp(look->last, holder) == 0)
                return;
        look->last = holder;
        names_add(&look->names, "%s (%s)", holder, unit);
}

/*
 * |held->holder| is "namespace/pod/container", or has no pod's name. Kubelet's record has the UID as soon as the pod is
 * admitted.
 */
static void evict_holder(const struct agent_mig *mig, const struct rollout_held *held)
{
        _free_ char *text = xstrdup(held->holder);
        char *pod = strchr(text, '/');
        char *container = pod ? strchr(pod + 1, '/') : NULL;

        if (!mig->evictions || !container)
                return;
        *pod++ = *container = '\0';
        evictions_ask(mig->evictions, text, pod, held->pod_uid);
}

static void evict_users(const struct agent_mig *mig, const struct ledger_claim *claim)
{
        const char *slash = strchr(claim->name, '/');
        _free_ char *pod_namespace = NULL;

        if (!mig->evictions)
                return;
        pod_namespace = xasprintf("%.*s", (int)(slash - claim->name), claim->name);
        for (size_t i = 0; i < claim->n_pods; i++)
                evictions_ask(mig->evictions, pod_namespace, claim->pods[i].name, claim->pods[i].uid);
}

/* A fixed order, because the order of kubelet's list varies and the text becomes an annotation and an event. */
static int compare_held(const void *a, const void *b)
{
        const struct rollout_held *first = a;
        const struct rollout_held *second = b;
        int order = strcmp(first->holder ? first->holder : "", second->holder ? second->holder : "");

        return order ? order : strcmp(first->device, second->device);
}

static void mig_add_claims(struct look *look, struct arena *arena)
{
        const struct agent_mig *mig = look->mig;
        const struct ledger_claim_state *states;
        size_t n_states = ledger_claims(mig->agent->ledger, arena, &states);
        unsigned int n_before = look->names.count;

        for (size_t i = 0; i < n_states; i++)
                for (size_t j = 0; j < states[i].claim->n_devices; j++)
                        if (is_held_back(mig, states[i].claim->devices[j].unit)) {
                                mig_add_holder(look, states[i].claim->devices[j].unit,
                                        arena_printf(arena, "claim %s", states[i].claim->name));
                                evict_users(mig, states[i].claim);
                        }
        if (mig->evictions && look->names.count > n_before)
                dra_driver_read_pods(mig->agent->dra);
}

static enum ledger_word mig_find_holders(struct look *look, struct arena *arena)
{
        const struct agent_mig *mig = look->mig;
        struct rollout_held *held;
        size_t n_held;
        enum ledger_word word = ledger_held(mig->agent->ledger, arena, &held, &n_held);

        qsort(held, n_held, sizeof(*held), compare_held);
        for (size_t i = 0; i < n_held; i++) {
                int64_t replica;
                const char *unit =
                        arena_printf(arena, "%.*s", (int)device_id_split(held[i].device, &replica), held[i].device);

                if (held[i].unit && is_held_back(mig, held[i].unit))
                        unit = held[i].unit;
                if (!is_held_back(mig, unit))
                        continue;
                mig_add_holder(look, unit, held[i].holder ? held[i].holder : "a container that is being started");
                if (held[i].holder)
                        evict_holder(mig, &held[i]);
        }
        mig_add_claims(look, arena);
        return word;
}

/* No resource of the plan has a unit of the handover. */
static bool is_withdrawn(const struct agent_mig *mig)
{
        for (size_t i = 0; i < mig->plan->n_resources; i++)
                for (size_t j = 0; j < mig->plan->resources[i].n_units; j++)
                        if (is_held_back(mig, mig->plan->resources[i].units[j].uuid))
                                return false;
        return true;
}

static void explain(struct agent_mig *mig, struct look *look, enum ledger_word word)
{
        const char *refusal = mig->evictions ? evictions_refusal(mig->evictions) : "";

        if (word != LEDGER_LISTED)
                strbuf_printf(&look->names.text,
                        "%skubelet's pod-resources list, which says which pods have ended, is not available",
                        look->names.text.size ? "; " : "");
        if (*refusal)
                strbuf_printf(&look->names.text, "; %s", refusal);
        mig_run_explain(mig->run, look->names.text.data);
}

static void look_for_holders(struct agent_mig *mig)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        enum mig_phase phase = mig_run_manager(mig->run)->phase;
        struct look look = {.mig = mig, .names = NAMES_INIT(HOLDERS_MAX)};
        enum ledger_word word = mig_find_holders(&look, &arena);

        mig->n_holders = look.names.count;
        if (phase == MIG_RELEASING && look.names.count > 0) {
                mig_run_event(mig->run, MIG_EVENT_HELD, NULL);
        } else if (look.names.count > 0 || word == LEDGER_UNKNOWN) {
                if (look.names.count > 0)
                        strbuf_printf(&look.names.text, " %s it", look.names.count == 1 ? "has" : "have");
                explain(mig, &look, word);
        } else if (!mig->withdrawn_ms) {
                mig_run_explain(
                        mig->run, "the plan without the units that have to end is refused, so they are still offered");
        } else if (phase == MIG_WAITING && uv_now(&mig->agent->loop) - mig->withdrawn_ms >= SETTLE_MS) {
                mig_run_event(mig->run, MIG_EVENT_UNHELD, NULL);
        }
        names_done(&look.names);
}

/* ---- what is not decided ---- */

struct withdrawing {
        const struct agent_mig *mig;
        const struct rollout_held *held;
        size_t n_held;
        const struct ledger_claim_state *claims;
        size_t n_claims;
};

/* True if kubelet's last list, its checkpoint or a claim has the unit as held. */
static bool mig_is_held(const struct withdrawing *all, const char *unit)
{
        size_t length = strlen(unit);
        int64_t replica;

        for (size_t i = 0; i < all->n_held; i++) {
                const struct rollout_held *held = &all->held[i];

                if (held->unit ? strcmp(held->unit, unit) == 0
                               : device_id_split(held->device, &replica) == length &&
                                         strncmp(held->device, unit, length) == 0)
                        return true;
        }
        for (size_t i = 0; i < all->n_claims; i++)
                for (size_t j = 0; j < all->claims[i].claim->n_devices; j++)
                        if (strcmp(all->claims[i].claim->devices[j].unit, unit) == 0)
                                return true;
        return false;
}

static bool mig_withdraws(const struct gpu *gpu, const char *unit, void *data)
{
        const struct withdrawing *all = data;

        return mig_handover_takes(mig_run_handover(all->mig->run), gpu->uuid, unit) ||
               (undecided_has(all->mig->undecided, gpu->uuid) && !mig_is_held(all, unit));
}

static struct withdrawing find_withdrawn(const struct agent_mig *mig, struct arena *arena)
{
        struct withdrawing all = {.mig = mig};
        struct rollout_held *held;

        (void)ledger_held(mig->agent->ledger, arena, &held, &all.n_held);
        all.held = held;
        all.n_claims = ledger_claims(mig->agent->ledger, arena, &all.claims);
        return all;
}

/* Since the plan was made, a holder came or went. */
static bool has_other_holders(const struct agent_mig *mig)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct inventory *inventory = mig->plan->inventory;
        struct withdrawing all = find_withdrawn(mig, &arena);

        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (mig_withdraws(gpu, gpu->uuid, &all) != gpu->is_withdrawn)
                        return true;
                for (size_t j = 0; j < gpu->n_mig_devices; j++)
                        if (mig_withdraws(gpu, gpu->mig_devices[j].uuid, &all) != gpu->mig_devices[j].is_withdrawn)
                                return true;
        }
        return false;
}

/*
 * Ends the undecided state once the label is known and its configuration was planned or has failed. True: GPUs were
 * undecided until now.
 */
static bool mig_settle_undecided(struct agent_mig *mig)
{
        enum mig_phase phase = mig_run_manager(mig->run)->phase;

        return mig_labels_value(mig->labels)->is_known &&
               (phase == MIG_IDLE || phase == MIG_WAITING || phase == MIG_FAILED) && undecided_settle(mig->undecided);
}

static void on_undecided_passed(void *data)
{
        struct agent_mig *mig = data;

        agent_plans_make_again(mig->agent);
}

/* ---- releasing ---- */

/*
 * Returns a running MPS daemon that still serves a unit to be released, or NULL. A daemon of several units is restarted
 * without that unit.
 */
static const struct mps_daemon_status *find_daemon(const struct agent_mig *mig)
{
        struct ledger_measures measures;

        ledger_measure(mig->agent->ledger, &measures);
        for (size_t i = 0; measures.mps && i < measures.mps->n_daemons; i++) {
                const struct mps_daemon_status *daemon = &measures.mps->daemons[i];

                for (size_t j = 0; daemon->state != MPS_OFF && j < daemon->n_units; j++)
                        if (is_held_back(mig, daemon->units[j]))
                                return daemon;
        }
        return NULL;
}

/* ---- a reset ---- */

/* Why a reset must not be tried, or NULL. */
static const char *find_obstacle(const struct agent_mig *mig, const struct mps_status *mps)
{
        if (mig->makes_devices)
                return "no reset is tried where MIG devices are made for claims (dra.dynamicMig)";
        for (size_t i = 0; mps && i < mps->n_daemons; i++)
                if (mps->daemons[i].state != MPS_OFF)
                        return "no reset is tried while MPS serves other GPUs of the node";
        return NULL;
}

/* True: the change may proceed, with a reset or without one. */
static bool is_ready_for_reset(struct agent_mig *mig)
{
        uint64_t now_ms = uv_now(&mig->agent->loop);
        struct ledger_measures measures;
        const char *obstacle;

        if (!mig_run_handover(mig->run)->needs_reset)
                return true;
        ledger_measure(mig->agent->ledger, &measures);
        obstacle = find_obstacle(mig, measures.mps);
        if (!obstacle && !mig->closing_ms) {
                mig->closing_ms = now_ms;
                gpu_monitor_pause(mig->agent->monitor);
        }
        if (!obstacle && now_ms - mig->closing_ms >= CLOSE_MS)
                obstacle = "no reset was tried, since a call into NVML has not returned";
        if (obstacle) {
                mig_run_set_mode_change(mig->run, WITHOUT_RESET, obstacle);
                return true;
        }
        if (!gpu_monitor_is_paused(mig->agent->monitor) || !dra_driver_has_closed_nvml(mig->agent->dra) ||
                (measures.mps && now_ms - mig->closing_ms < WORKER_IDLE_MS + CLOSE_MARGIN_MS)) {
                mig_run_explain(mig->run, "NVML is being closed, so that the GPUs can be reset");
                return false;
        }
        mig_run_set_mode_change(mig->run, WITH_RESET, "");
        return true;
}

static void open_again(struct agent_mig *mig)
{
        if (!mig->closing_ms)
                return;
        mig->closing_ms = 0;
        gpu_monitor_resume(mig->agent->monitor);
}

static void look_for_daemons(struct agent_mig *mig)
{
        const struct mps_daemon_status *daemon = find_daemon(mig);
        _free_ char *text = NULL;

        if (!daemon) {
                if (is_ready_for_reset(mig))
                        mig_run_event(mig->run, MIG_EVENT_RELEASED, NULL);
                return;
        }
        text = xasprintf("the MPS daemon %s has not ended yet", daemon->name);
        mig_run_explain(mig->run, text);
}

/* ---- phases ---- */

static void on_mig_look(uv_timer_t *timer)
{
        struct agent_mig *mig = timer->data;

        if (++mig->looks == LOOKS)
                uv_timer_set_repeat(timer, LOOK_LATER_MS);
        if (mig_run_manager(mig->run)->phase == MIG_RELEASING && mig->plan)
                look_for_daemons(mig);
        else
                ledger_ask(mig->agent->ledger);
}

static void start_looking(struct agent_mig *mig)
{
        mig->looks = 0;
        uv_timer_start(&mig->timer, on_mig_look, 0, LOOK_MS);
}

static void follow_policy(struct agent_mig *mig)
{
        bool evicts = mig_labels_value(mig->labels)->evict && mig_run_manager(mig->run)->phase == MIG_WAITING;

        if (!evicts)
                mig->evictions = evictions_close(mig->evictions);
        else if (!mig->evictions)
                mig->evictions = evictions_new(agent_api_client(mig->agent->api));
}

static void mig_note_state(struct agent_mig *mig, const struct mig_manager *manager)
{
        if (manager->state == mig->state && strcmp(manager->config, mig->config) == 0)
                return;
        mig->state = manager->state;
        memcpy(mig->config, manager->config, sizeof(mig->config));
        mig->since = time(NULL);
}

static void mig_report_state(struct agent_mig *mig)
{
        const struct mig_manager *manager = mig_run_manager(mig->run);

        mig_note_state(mig, manager);
        mig_labels_put(mig->labels, manager->state, manager->reason);
        if (manager->phase == MIG_WAITING && *manager->reason)
                node_events_report(mig->agent->events, NODE_EVENT_MIG_CHANGE_PENDING,
                        "the MIG configuration '%s' waits: %s", manager->config, manager->reason);
        if (manager->phase == mig->phase)
                return;
        if (manager->phase == MIG_FAILED)
                node_events_report(mig->agent->events, NODE_EVENT_MIG_CHANGE_FAILED,
                        "the MIG configuration '%s' failed: %s", manager->config, manager->reason);
        else if (manager->phase == MIG_IDLE && manager->state == MIG_STATE_SUCCESS && mig->phase == MIG_RETAKING)
                node_events_report(mig->agent->events, NODE_EVENT_MIG_CHANGE_COMPLETED,
                        "the GPUs have the MIG configuration '%s'", manager->config);
        mig->phase = manager->phase;
}

static void mig_on_run_changed(bool has_begun, void *data)
{
        struct agent_mig *mig = data;
        enum mig_phase phase = mig_run_manager(mig->run)->phase;
        bool was_retaking = mig->phase == MIG_RETAKING;
        bool is_settled = has_begun && mig_settle_undecided(mig);

        if (phase != MIG_RELEASING && phase != MIG_APPLYING)
                open_again(mig);
        if ((has_begun && was_retaking) || (is_settled && phase != MIG_WAITING))
                agent_plans_make_again(mig->agent);
        mig_report_state(mig);
        if (!has_begun)
                return;
        uv_timer_stop(&mig->timer);
        follow_policy(mig);
        switch (phase) {
        case MIG_WAITING:
                mig->withdrawn_ms = 0;
                agent_plans_make_again(mig->agent);
                start_looking(mig);
                break;
        case MIG_RELEASING:
                start_looking(mig);
                break;
        case MIG_RETAKING:
                mig->readings = 0;
                gpu_monitor_rescan(mig->agent->monitor);
                break;
        default:
                break;
        }
}

static void on_mig_labels(void *data)
{
        struct agent_mig *mig = data;
        const char *config = mig_labels_value(mig->labels)->config;

        mig_run_set_first_state(mig->run, mig_labels_value(mig->labels)->first_state);
        mig_report_state(mig);
        follow_policy(mig);
        mig_run_want(mig->run, *config ? config : mig->fallback);
        if (mig_settle_undecided(mig)) /* nothing is wanted */
                agent_plans_make_again(mig->agent);
}

/* ---- public ---- */

void agent_mig_mark(struct agent_mig *mig, struct inventory *inventory)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct withdrawing all;
        bool has_new;

        if (!mig)
                return;
        has_new = undecided_look(mig->undecided, inventory);
        /* A plan that failed before the first inventory may have seen less. */
        mig->has_more_gpus |= has_new && (mig->plan || mig_run_manager(mig->run)->phase == MIG_FAILED);
        mig->has_asked = mig->has_asked && !has_new;
        all = find_withdrawn(mig, &arena);
        inventory_withdraw(inventory, mig_withdraws, &all);
}

bool agent_mig_is_undecided(const struct agent_mig *mig)
{
        return mig && undecided_has_any(mig->undecided);
}

void agent_mig_planned(struct agent_mig *mig, const struct plan *plan)
{
        bool was_withdrawn;

        if (!mig)
                return;
        /* A GPU that comes, or comes back, may be one that the configuration means. One that goes changes nothing. */
        mig->has_more_gpus |= mig_run_note_gpus(mig->run, plan->inventory->n_gpus);
        was_withdrawn = mig->withdrawn_ms;
        mig->plan = plan;
        if (!is_withdrawn(mig))
                mig->withdrawn_ms = 0;
        else if (!was_withdrawn)
                mig->withdrawn_ms = uv_now(&mig->agent->loop);
        if (agent_mig_is_undecided(mig) && !mig->has_asked) {
                mig->has_asked = true;
                ledger_ask(mig->agent->ledger);
        }
}

void agent_mig_held(struct agent_mig *mig)
{
        enum mig_phase phase = mig ? mig_run_manager(mig->run)->phase : MIG_IDLE;

        if (!mig || !mig->plan)
                return;
        if (agent_mig_is_undecided(mig) && has_other_holders(mig))
                agent_plans_make_again(mig->agent);
        if (phase == MIG_WAITING || phase == MIG_RELEASING)
                look_for_holders(mig);
}

void agent_mig_read(struct agent_mig *mig, bool is_fresh)
{
        if (!mig)
                return;
        if (mig->has_more_gpus) {
                mig->has_more_gpus = false;
                mig_run_event(mig->run, MIG_EVENT_AGAIN, NULL);
        }
        if (mig_settle_undecided(mig)) /* the plan has seen the GPU before the agent did */
                agent_plans_make_again(mig->agent);
        if (!is_fresh || mig_run_manager(mig->run)->phase != MIG_RETAKING)
                return;
        if (++mig->readings < READINGS)
                gpu_monitor_rescan(mig->agent->monitor);
        else
                mig_run_event(mig->run, MIG_EVENT_RETAKEN, NULL);
}

void agent_mig_measure(const struct agent_mig *mig, struct agent_mig_measures *ret)
{
        const struct mig_manager *manager = mig_run_manager(mig->run);
        bool is_waiting = manager->phase == MIG_WAITING || manager->phase == MIG_RELEASING;

        *ret = (struct agent_mig_measures){.manager = manager,
                .since = mig->since,
                .n_withdrawn = mig_run_handover(mig->run)->n_gpus,
                .n_holders = is_waiting ? mig->n_holders : 0};
}

struct agent_mig *agent_mig_new(struct agent *agent)
{
        const struct config *config = agent_plans_config(agent->plans);
        struct agent_mig *mig = xcalloc(1, sizeof(*mig));
        struct arena *arena = &mig->arena;
        const struct mig_run_options run = {
                .loop = &agent->loop,
                .program = *config->mig.program ? arena_strdup(arena, config->mig.program) : "/proc/self/exe",
                .reading = mig_run_reading(arena, config->driver.mounted_root, config->driver.nvml_library),
                .file = arena_strdup(arena, config->mig.file),
                .state_directory = arena_strdup(arena, config->mig.state_directory),
                .mode_change = WITHOUT_RESET,
                .changed = mig_on_run_changed,
                .data = mig,
        };
        const struct mig_labels_options labels = {
                .client = agent_api_client(agent->api),
                .watch = agent->watch,
                .node = config->node.name,
                .changed = on_mig_labels,
                .data = mig,
        };

        mig->agent = agent;
        mig->fallback = arena_strdup(arena, config->mig.fallback);
        mig->makes_devices = config->dra.enabled && config->dra.dynamic_mig;
        uv_timer_init(&agent->loop, &mig->timer);
        mig->timer.data = mig;
        mig->undecided = undecided_new(&agent->loop, on_undecided_passed, mig);
        mig->run = mig_run_new(&run);
        mig->labels = mig_labels_new(&labels);
        mig_run_begin(mig->run);
        return mig;
}

static void free_mig(uv_handle_t *handle)
{
        struct agent_mig *mig = handle->data;

        arena_done(&mig->arena);
        free(mig);
}

struct agent_mig *agent_mig_close(struct agent_mig *mig)
{
        if (!mig)
                return NULL;
        open_again(mig);
        mig->run = mig_run_close(mig->run);
        mig->labels = mig_labels_close(mig->labels);
        mig->evictions = evictions_close(mig->evictions);
        mig->undecided = undecided_close(mig->undecided);
        uv_close((uv_handle_t *)&mig->timer, free_mig);
        return NULL;
}
