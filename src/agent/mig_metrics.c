#include "agent/mig_metrics.h"

static void put_state(struct exposition *to, const struct agent_mig_measures *mig)
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

void mig_metrics_put(struct exposition *to, const struct agent_mig_measures *mig)
{
        put_state(to, mig);
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
        exposition_family(to, "warpshare_mig_withdrawn_gpus", EXPOSITION_GAUGE,
                "GPUs of which something is withdrawn, since their MIG geometry is to change.");
        exposition_sample(to, EXPOSITION_LABELS(), (double)mig->n_withdrawn);
        exposition_family(to, "warpshare_mig_holders", EXPOSITION_GAUGE,
                "Containers and claims that hold what is withdrawn; the change waits for them.");
        exposition_sample(to, EXPOSITION_LABELS(), (double)mig->n_holders);
}
