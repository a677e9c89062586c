#include "agent/dra_metrics.h"

static void put_claims(struct exposition *to, const struct ledger_claim_state *claims, size_t n_claims)
{
        size_t n_held = 0;

        for (size_t i = 0; i < n_claims; i++)
                n_held += claims[i].is_held;
        exposition_family(to, "warpshare_dra_claims", EXPOSITION_GAUGE,
                "Claims that kubelet had prepared: held, or waiting for an MPS daemon.");
        exposition_sample(to, EXPOSITION_LABELS({"state", "held"}), (double)n_held);
        exposition_sample(to, EXPOSITION_LABELS({"state", "waiting"}), (double)(n_claims - n_held));
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
