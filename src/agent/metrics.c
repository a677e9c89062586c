// SPDX-License-Identifier: Apache-2.0
#include "agent/metrics.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "net/metrics/exposition.h"
#include "mps/wire/message.h"

static double yes_or_no(bool value)
{
        return value ? 1 : 0;
}

/* A family of one sample without labels. */
static void metrics_put_value(
        struct exposition *to, const char *name, enum exposition_type type, double value, const char *help)
{
        exposition_family(to, name, type, help);
        exposition_sample(to, EXPOSITION_LABELS(), value);
}

static void put_build(struct exposition *to, const struct agent_metrics *metrics)
{
        exposition_family(
                to, "warpshare_build_info", EXPOSITION_GAUGE, "Always 1; its labels name version, commit and driver.");
        exposition_sample(to,
                EXPOSITION_LABELS({"version", metrics->version}, {"commit", metrics->commit},
                        {"driver_version", metrics->driver_version}),
                1);
}

/* ---- the configuration ---- */

static void put_config(struct exposition *to, const struct config_status *config)
{
        if (!config)
                return;
        exposition_family(
                to, "warpshare_config_info", EXPOSITION_GAUGE, "Always 1; its labels name the configuration in force.");
        if (config->name)
                exposition_sample(to,
                        EXPOSITION_LABELS({"name", config->name}, {"source", config->source}, {"by", config->by},
                                {"hash", config->hash}),
                        1);
        metrics_put_value(to, "warpshare_config_generation", EXPOSITION_GAUGE,
                config->name ? (double)config->generation : 0,
                "Configurations put in force so far, including this one; 0: none is in force.");
        exposition_family(to, "warpshare_config_status", EXPOSITION_GAUGE,
                "1 for the status of the newest configuration, accepted, refused or waiting; 0 for the others.");
        for (unsigned int i = 0; i <= CONFIG_REFUSED; i++)
                exposition_sample(to, EXPOSITION_LABELS({"status", config_state_name((enum config_state)i)}),
                        yes_or_no(config->state == (enum config_state)i));
}

/* ---- advertised devices ---- */

static void put_device_count(
        struct exposition *to, const struct agent_metrics_resource *of, const char *health, size_t count)
{
        exposition_sample(to, EXPOSITION_LABELS({"resource", of->resource->name}, {"health", health}), (double)count);
}

static void put_resources(struct exposition *to, const struct agent_metrics *metrics)
{
        exposition_family(to, "warpshare_resource_devices", EXPOSITION_GAUGE,
                "Devices of the resource, each once: healthy, reserved (of healthy units, advertised as unhealthy), "
                "unhealthy.");
        for (size_t i = 0; i < metrics->n_resources; i++) {
                const struct agent_metrics_resource *resource = &metrics->resources[i];

                put_device_count(to, resource, "healthy", resource->devices.healthy);
                put_device_count(to, resource, "reserved", resource->devices.reserved);
                put_device_count(to, resource, "unhealthy", resource->devices.unhealthy);
        }
        exposition_family(to, "warpshare_resource_units", EXPOSITION_GAUGE, "Units of the resource.");
        for (size_t i = 0; i < metrics->n_resources; i++)
                exposition_sample(to,
                        EXPOSITION_LABELS({"resource", metrics->resources[i].resource->name},
                                {"strategy", sharing_strategy_name(metrics->resources[i].resource->strategy)}),
                        (double)metrics->resources[i].resource->n_units);
}

static void put_pending(struct exposition *to, const struct agent_metrics *metrics)
{
        exposition_family(to, "warpshare_change_pending_devices", EXPOSITION_GAUGE,
                "Devices of the unit that containers hold under an earlier configuration; the change waits for them.");
        for (size_t i = 0; i < metrics->n_pending; i++) {
                const struct rollout_pending *pending = &metrics->pending[i];

                exposition_sample(to,
                        EXPOSITION_LABELS({"resource", pending->resource}, {"unit", pending->unit},
                                {"from", pending->from}, {"to", pending->to}),
                        (double)pending->n_devices);
        }
}

/* ---- families with one value for each unit ---- */

static double unit_healthy(const struct agent_metrics_resource *of, size_t unit)
{
        return yes_or_no(of->healthy[unit]);
}

static double unit_replicas(const struct agent_metrics_resource *of, size_t unit)
{
        return of->resource->units[unit].replicas;
}

static double metrics_unit_memory(const struct agent_metrics_resource *of, size_t unit)
{
        return (double)of->resource->units[unit].memory;
}

static const struct {
        const char *name;
        const char *help;
        double (*value)(const struct agent_metrics_resource *of, size_t unit);
} unit_families[] = {
        {"warpshare_unit_healthy", "1 if the unit can be used, else 0.", unit_healthy},
        {"warpshare_unit_replicas", "Replicas of the unit; 1: not shared.", unit_replicas},
        {"warpshare_unit_memory_bytes", "Memory of the unit; 0: unknown.", metrics_unit_memory},
};

static void metrics_put_units(struct exposition *to, const struct agent_metrics *metrics)
{
        for (size_t i = 0; i < ARRAY_SIZE(unit_families); i++) {
                exposition_family(to, unit_families[i].name, EXPOSITION_GAUGE, unit_families[i].help);
                for (size_t j = 0; j < metrics->n_resources; j++)
                        for (size_t k = 0; k < metrics->resources[j].resource->n_units; k++)
                                exposition_sample(to,
                                        EXPOSITION_LABELS({"resource", metrics->resources[j].resource->name},
                                                {"unit", metrics->resources[j].resource->units[k].uuid},
                                                {"index", metrics->resources[j].resource->units[k].index}),
                                        unit_families[i].value(&metrics->resources[j], k));
        }
}

/* ---- DRA ---- */

static void put_dra_claims(struct exposition *to, const struct ledger_claim_state *claims, size_t n_claims)
{
        size_t n_held = 0;

        for (size_t i = 0; i < n_claims; i++)
                n_held += claims[i].is_held;
        exposition_family(to, "warpshare_dra_claims", EXPOSITION_GAUGE,
                "Claims that kubelet had prepared: held, or waiting for an MPS daemon.");
        exposition_sample(to, EXPOSITION_LABELS({"state", "held"}), (double)n_held);
        exposition_sample(to, EXPOSITION_LABELS({"state", "waiting"}), (double)(n_claims - n_held));
}

static void put_dra_offer(struct exposition *to, const struct dra_measures *dra)
{
        exposition_family(
                to, "warpshare_dra_devices", EXPOSITION_GAUGE, "Devices in the node's ResourceSlices, by kind.");
        for (unsigned int kind = 0; dra->layout && kind <= DRA_DEVICE_MIG_CANDIDATE; kind++) {
                size_t count = 0;

                for (size_t i = 0; i < dra->layout->n_devices; i++)
                        count += dra->layout->devices[i].kind == (enum dra_device_kind)kind;
                exposition_sample(to, EXPOSITION_LABELS({"kind", dra_device_kind_name((enum dra_device_kind)kind)}),
                        (double)count);
        }
        exposition_family(to, "warpshare_dra_feature", EXPOSITION_GAUGE,
                "1 if the API server keeps what the feature gate is for, 0 if it drops it.");
        if (!dra->knows_features)
                return;
        exposition_sample(to, EXPOSITION_LABELS({"gate", "DRAConsumableCapacity"}), dra->features.consumable_capacity);
        exposition_sample(
                to, EXPOSITION_LABELS({"gate", "DRAPartitionableDevices"}), dra->features.partitionable_devices);
        exposition_sample(to, EXPOSITION_LABELS({"gate", "DRADeviceTaints"}), dra->features.device_taints);
}

static void put_dra_calls(struct exposition *to, const struct dra_prepare_counts *calls)
{
        exposition_family(to, "warpshare_dra_calls_total", EXPOSITION_COUNTER,
                "Claims that kubelet asked for since the agent began to serve, by outcome: done or refused.");
        exposition_sample(to, EXPOSITION_LABELS({"call", "prepare"}, {"outcome", "done"}), (double)calls->prepared);
        exposition_sample(
                to, EXPOSITION_LABELS({"call", "prepare"}, {"outcome", "refused"}), (double)calls->prepare_refused);
        exposition_sample(to, EXPOSITION_LABELS({"call", "unprepare"}, {"outcome", "done"}), (double)calls->unprepared);
        exposition_sample(
                to, EXPOSITION_LABELS({"call", "unprepare"}, {"outcome", "refused"}), (double)calls->unprepare_refused);
}

static void metrics_put_dra(
        struct exposition *to, const struct dra_measures *dra, const struct ledger_claim_state *claims, size_t n_claims)
{
        metrics_put_value(to, "warpshare_dra_registered", EXPOSITION_GAUGE, dra->is_registered,
                "1 if kubelet has accepted the DRA driver and has not refused it since, else 0.");
        metrics_put_value(to, "warpshare_dra_slices_ready", EXPOSITION_GAUGE, dra->has_slices,
                "1 if the node's ResourceSlices in the API server are as they should be, else 0.");
        put_dra_offer(to, dra);
        put_dra_calls(to, &dra->calls);
        put_dra_claims(to, claims, n_claims);
}

/* ---- the MIG manager ---- */

static void put_mig_state(struct exposition *to, const struct agent_mig_measures *mig)
{
        const char *config = *mig->manager->config ? mig->manager->config : NULL;

        exposition_family(to, "warpshare_mig_config_state", EXPOSITION_GAUGE,
                "1 for the state of the MIG configuration, as the node's label has it, 0 for the others.");
        for (unsigned int i = MIG_STATE_PENDING; i <= MIG_STATE_REBOOTING; i++)
                exposition_sample(to,
                        EXPOSITION_LABELS({"config", config}, {"state", mig_state_name((enum mig_state)i)}),
                        mig->manager->state == (enum mig_state)i);
        exposition_family(to, "warpshare_mig_config_state_since_seconds", EXPOSITION_GAUGE,
                "Since when the MIG configuration has been in that state, in seconds since the epoch.");
        if (mig->manager->state != MIG_STATE_NONE)
                exposition_sample(to, EXPOSITION_LABELS({"config", config}), (double)mig->since);
}

static void metrics_put_mig(struct exposition *to, const struct agent_mig_measures *mig)
{
        put_mig_state(to, mig);
        exposition_family(to, "warpshare_mig_phase", EXPOSITION_GAUGE,
                "1 for what the MIG manager does now, or waits for; 0 for the others.");
        for (unsigned int i = 0; i < MIG_N_PHASES; i++)
                exposition_sample(to, EXPOSITION_LABELS({"phase", mig_phase_name((enum mig_phase)i)}),
                        mig->manager->phase == (enum mig_phase)i);
        exposition_family(to, "warpshare_mig_changes_total", EXPOSITION_COUNTER,
                "Changes of the MIG geometry since the agent began to serve, by result: applied, refused (nothing was "
                "touched), failed, resumed.");
        for (unsigned int i = 0; i < MIG_N_RESULTS; i++)
                exposition_sample(to, EXPOSITION_LABELS({"result", mig_result_name((enum mig_result)i)}),
                        (double)mig->manager->results[i]);
        metrics_put_value(to, "warpshare_mig_withdrawn_gpus", EXPOSITION_GAUGE, (double)mig->n_withdrawn,
                "GPUs of which something is withdrawn, since their MIG geometry is to change.");
        metrics_put_value(to, "warpshare_mig_holders", EXPOSITION_GAUGE, (double)mig->n_holders,
                "Containers and claims that hold what is withdrawn; the change waits for them.");
}

/* ---- faults of daemons ---- */

static void put_faults(struct exposition *to, const struct mps_faults *faults)
{
        exposition_family(to, "warpshare_mps_faults_total", EXPOSITION_COUNTER,
                "Faults of the daemon by kind: server (a server reports FAULT), gone (no process), stuck (a process "
                "that does not respond).");
        for (size_t i = 0; faults && i < faults->n_counts; i++)
                for (size_t kind = 0; kind < MPS_FAULT_KINDS; kind++)
                        exposition_sample(to,
                                EXPOSITION_LABELS({"daemon", faults->counts[i].daemon},
                                        {"resource", faults->counts[i].resource}, {"unit", faults->counts[i].unit},
                                        {"kind", mps_fault_kind_name((enum mps_fault_kind)kind)}),
                                (double)faults->counts[i].totals[kind]);
}

/* Adds a pod that a fault concerns. Several containers of one pod are one series. */
static void put_fault_pod(struct exposition *to, struct map *seen, struct arena *arena,
        const struct mps_daemon_status *daemon, const struct ledger_allocation *allocation)
{
        const struct holder *holder = allocation->holder;

        if (!holder || !holder->pod ||
                !map_add(seen,
                        arena_printf(
                                arena, "%s|%s|%s", allocation->allocation->unit, holder->pod_namespace, holder->pod),
                        arena))
                return;
        exposition_sample(to,
                EXPOSITION_LABELS({"daemon", daemon->name}, {"unit", allocation->allocation->unit},
                        {"namespace", holder->pod_namespace}, {"pod", holder->pod}),
                1);
}

static void put_fault_pods(struct exposition *to, const struct agent_metrics *metrics)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(map_done) struct map seen = MAP_INIT;

        exposition_family(to, "warpshare_mps_fault_pod", EXPOSITION_GAUGE,
                "1 for each pod that holds replicas of a unit while the MPS daemon of the unit is at fault.");
        for (size_t i = 0; metrics->ledger.mps && i < metrics->n_resources; i++)
                for (size_t j = 0; j < metrics->resources[i].n_allocations; j++) {
                        const struct ledger_allocation *allocation = &metrics->resources[i].allocations[j];
                        const struct mps_daemon_status *daemon =
                                allocation->allocation->unit
                                        ? mps_status_find_unit(metrics->ledger.mps, allocation->allocation->unit)
                                        : NULL;

                        if (daemon && daemon->state == MPS_FAULT)
                                put_fault_pod(to, &seen, &arena, daemon, allocation);
                }
}

static void put_mps(struct exposition *to, const struct agent_metrics *metrics)
{
        metrics_put_value(to, "warpshare_mps_supervisor_up", EXPOSITION_GAUGE, yes_or_no(metrics->ledger.mps),
                "1 if the agent receives the status of `warpshare mps`, else 0.");
        if (metrics->ledger.mps)
                mps_status_expose(to, metrics->ledger.mps);
        put_faults(to, metrics->ledger.faults);
        put_fault_pods(to, metrics);
}

/* ---- the limit monitor ---- */

/*
 * A process may violate two limits, of memory and of threads. Violations with the same labels are counted in one
 * sample, because a series may have only one.
 */
struct violation_count {
        const struct limit_violation *violation;
        unsigned int count;
};

/* The labels of the violation as one text. */
static const char *violation_key(struct arena *arena, const struct limit_violation *violation)
{
        return arena_printf(arena, "%d|%s|%s|%s|%s|%s|%d", (int)violation->kind, violation->daemon,
                violation->unit ? violation->unit : "", violation->pod ? violation->pod : "",
                violation->pod_uid ? violation->pod_uid : "", violation->container_id ? violation->container_id : "",
                (int)violation->client);
}

/* Without a known owner it is not known either whether a limit is violated. */
static bool is_unknown(const struct limit_violation *violation)
{
        return violation->kind == LIMIT_VIOLATION_UNKNOWN;
}

static void put_violation(struct exposition *to, struct arena *arena, const struct violation_count *counted)
{
        const struct limit_violation *violation = counted->violation;
        const char *slash = violation->pod ? strchr(violation->pod, '/') : NULL;
        char pid[16];

        snprintf(pid, sizeof(pid), "%d", (int)violation->client);
        exposition_sample(to,
                EXPOSITION_LABELS({"kind", is_unknown(violation) ? NULL : limit_violation_kind_name(violation->kind)},
                        {"daemon", violation->daemon}, {"unit", violation->unit},
                        {"namespace",
                                slash ? arena_strndup(arena, violation->pod, (size_t)(slash - violation->pod)) : NULL},
                        {"pod", slash ? slash + 1 : violation->pod}, {"pod_uid", violation->pod_uid},
                        {"container_id", violation->container_id}, {"pid", violation->client ? pid : NULL}),
                counted->count);
}

/* The family of violations, or of processes whose owner is not known. */
static void put_standing(struct exposition *to, const struct agent_metrics *metrics, bool of_unknown)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(map_done) struct map by_key = MAP_INIT;
        struct violation_count *counts = ARENA_ARRAY(&arena, struct violation_count, metrics->ledger.n_standing);
        size_t n_counts = 0;

        for (size_t i = 0; i < metrics->ledger.n_standing; i++) {
                const struct limit_violation *violation = metrics->ledger.standing[i];
                const char *key = violation_key(&arena, violation);
                struct violation_count *counted = map_find(&by_key, key);

                if (is_unknown(violation) != of_unknown)
                        continue;
                if (!counted) {
                        counted = &counts[n_counts++];
                        counted->violation = violation;
                        map_add(&by_key, key, counted);
                }
                counted->count += of_unknown ? (unsigned int)violation->measured : 1;
        }
        for (size_t i = 0; i < n_counts; i++)
                put_violation(to, &arena, &counts[i]);
}

static void put_violations(struct exposition *to, const struct agent_metrics *metrics)
{
        exposition_family(to, "warpshare_limit_violations", EXPOSITION_GAUGE,
                "Limit violations at present: a process uses more than its container's allocation.");
        put_standing(to, metrics, false);
        exposition_family(to, "warpshare_mps_unknown_clients", EXPOSITION_GAUGE,
                "MPS clients at present whose owner is not known.");
        put_standing(to, metrics, true);
        exposition_family(to, "warpshare_limit_violations_total", EXPOSITION_COUNTER,
                "Limit violations that appeared since the agent started.");
        for (size_t kind = 0; kind < LIMIT_VIOLATION_UNKNOWN; kind++)
                exposition_sample(to,
                        EXPOSITION_LABELS({"kind", limit_violation_kind_name((enum limit_violation_kind)kind)}),
                        (double)metrics->ledger.violations_total[kind]);
        metrics_put_value(to, "warpshare_mps_clients_terminated_total", EXPOSITION_COUNTER,
                (double)metrics->ledger.clients_ended_total,
                "MPS clients that the limit monitor has terminated since the agent started.");
}

/* ---- calls into NVML that hang ---- */

static bool is_same_series(const struct worker_call *a, const struct worker_call *b)
{
        return strcmp(a->call, b->call) == 0 && a->subject == b->subject &&
               (a->subject != CALL_ON_GPU || a->index == b->index);
}

/* Two threads may hang in the same call. A series may have only one sample: the longest hang. */
static bool is_longest(const struct gpu_hang *hangs, size_t n_hangs, size_t position)
{
        const struct worker_call *own = &hangs[position].call;

        for (size_t i = 0; i < n_hangs; i++) {
                const struct worker_call *other = &hangs[i].call;

                if (i != position && is_same_series(own, other) &&
                        (other->since_ms < own->since_ms || (other->since_ms == own->since_ms && i < position)))
                        return false;
        }
        return true;
}

static void put_hangs(struct exposition *to, const struct agent_metrics *metrics)
{
        const struct gpu_hang *hangs = metrics->hangs;

        exposition_family(to, "warpshare_nvml_call_hanging_seconds", EXPOSITION_GAUGE,
                "How long a call into NVML has not returned, in seconds; only for calls of 10 s and more.");
        for (size_t i = 0; i < metrics->n_hangs; i++) {
                const struct worker_call *call = &hangs[i].call;
                bool has_gpu = call->subject == CALL_ON_GPU;
                char index[16];

                snprintf(index, sizeof(index), "%u", call->index);
                if (is_longest(hangs, metrics->n_hangs, i))
                        exposition_sample(to,
                                EXPOSITION_LABELS({"call", call->call}, {"gpu", call->name[0] ? call->name : NULL},
                                        {"index", has_gpu ? index : NULL}),
                                (double)hang_seconds(call, metrics->now_ms));
        }
        metrics_put_value(to, "warpshare_nvml_hangs_total", EXPOSITION_COUNTER, (double)metrics->hangs_total,
                "Calls into NVML that did not return within 10 s, since the agent started.");
        metrics_put_value(to, "warpshare_processes_left_behind", EXPOSITION_GAUGE, (double)metrics->n_left,
                "Processes of the agent that were killed and have not ended, since the kernel waits for a device.");
}

char *agent_metrics_write(const struct agent_metrics *metrics)
{
        struct exposition exposition = EXPOSITION_INIT;

        put_build(&exposition, metrics);
        put_config(&exposition, metrics->config);
        put_resources(&exposition, metrics);
        metrics_put_units(&exposition, metrics);
        put_pending(&exposition, metrics);
        if (metrics->dra)
                metrics_put_dra(&exposition, metrics->dra, metrics->claims, metrics->n_claims);
        if (metrics->mig)
                metrics_put_mig(&exposition, metrics->mig);
        put_mps(&exposition, metrics);
        put_violations(&exposition, metrics);
        metrics_put_value(&exposition, "warpshare_devices_held_twice", EXPOSITION_GAUGE,
                (double)metrics->ledger.n_twice, "Devices that kubelet has given to two pods, by its newest list.");
        usage_metrics_put(&exposition, metrics->usage);
        if (metrics->dcgm_host)
                dcgm_metrics_put(&exposition, metrics->usage, metrics->dcgm_host);
        metrics_put_value(&exposition, "warpshare_events_sent_total", EXPOSITION_COUNTER, (double)metrics->events.sent,
                "Kubernetes events that the API server accepted since the agent started: new events and repetitions.");
        metrics_put_value(&exposition, "warpshare_events_dropped_total", EXPOSITION_COUNTER,
                (double)metrics->events.dropped,
                "Kubernetes events that were dropped: too many at once, or refused or never accepted by the API server.");
        metrics_put_value(&exposition, "warpshare_health_event_failures_total", EXPOSITION_COUNTER,
                (double)metrics->failed_waits, "Waits for NVML's health events that failed, since the agent started.");
        put_hangs(&exposition, metrics);
        metrics_put_value(&exposition, "warpshare_agent_crashes_total", EXPOSITION_COUNTER,
                (double)metrics->crashes_total,
                "Times that a signal ended the agent and its parent started it again, since the container started.");
        return exposition_take(&exposition);
}
