/* Handles the reports of the monitor besides inventories: changes of health in the log, calls that hang, samples. */
#pragma once

#include "agent/modules.h"
#include "base/log.h"
#include "gpu/monitor.h"

/* Zeroed at first. */
struct agent_gpus {
        struct complaint no_events;
        uint64_t hangs_total;
};

uint64_t agent_gpus_hangs_total(const struct agent_gpus *gpus);
/* Returns a sentence for /healthz that the caller frees; NULL: no problem. */
char *agent_gpus_find_problem(const struct agent *agent);

/* Callbacks of the monitor, and of the ledger. */
void agent_gpus_after_health(const char *uuid, bool healthy, const char *reason, uint64_t xid, void *data);
void agent_gpus_on_unheard(const char *reason, void *data);
void agent_gpus_on_hang(const struct gpu_hang *hang, bool has_returned, void *data);
void agent_gpus_on_samples(struct gpu_samples *samples, void *data);
