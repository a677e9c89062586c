#include "agent/dra_metrics.h"

#include <string.h>

#define MIB ((double)(1024 * 1024))

static double claim_limit(const struct ledger_claim_device *device)
{
        return (double)device->limit_mib * MIB;
}

static double claim_threads(const struct ledger_claim_device *device)
{
        return device->threads_permille / 1000.0;
}

static const struct {
        const char *name;
        const char *help;
        double (*value)(const struct ledger_claim_device *device);
} claim_families[] = {
        {"warpshare_dra_claim_memory_limit_bytes",
                "Device memory that containers with the claim may use on the unit; 0: no limit.", claim_limit},
        {"warpshare_dra_claim_active_thread_ratio",
                "Part of the unit's threads that containers with the claim may use, from 0 to 1.", claim_threads},
};

static void put_claim(struct exposition *to, const struct ledger_claim_state *state,
        const struct ledger_claim_device *device, double value)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *slash = strchr(state->claim->name, '/');

        exposition_sample(to,
                EXPOSITION_LABELS(
                        {"namespace", arena_strndup(&arena, state->claim->name, (size_t)(slash - state->claim->name))},
                        {"claim", slash + 1}, {"uid", state->claim->uid}, {"unit", device->unit},
                        {"allocation", device->id},
                        {"tier", state->is_held && device->is_shared ? mps_tier_name(device->tier) : NULL},
                        {"state", state->is_held ? "held" : "waiting"}),
                value);
}

static void put_claims(struct exposition *to, const struct ledger_claim_state *claims, size_t n_claims)
{
        for (size_t i = 0; i < ARRAY_SIZE(claim_families); i++) {
                exposition_family(to, claim_families[i].name, EXPOSITION_GAUGE, claim_families[i].help);
                for (size_t j = 0; j < n_claims; j++)
                        for (size_t k = 0; k < claims[j].claim->n_devices; k++) {
                                const struct ledger_claim_device *device = &claims[j].claim->devices[k];

                                put_claim(to, &claims[j], device, claim_families[i].value(device));
                        }
        }
}

static void put_offer(struct exposition *to, const struct dra_measures *dra)
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

static void put_calls(struct exposition *to, const struct dra_prepare_counts *calls)
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

void dra_metrics_put(
        struct exposition *to, const struct dra_measures *dra, const struct ledger_claim_state *claims, size_t n_claims)
{
        exposition_family(to, "warpshare_dra_registered", EXPOSITION_GAUGE,
                "1 if kubelet has accepted the DRA driver and has not refused it since, else 0.");
        exposition_sample(to, EXPOSITION_LABELS(), dra->is_registered);
        exposition_family(to, "warpshare_dra_slices_ready", EXPOSITION_GAUGE,
                "1 if the node's ResourceSlices in the API server are as they should be, else 0.");
        exposition_sample(to, EXPOSITION_LABELS(), dra->has_slices);
        put_offer(to, dra);
        put_calls(to, &dra->calls);
        put_claims(to, claims, n_claims);
}
