#include "node/status/log.h"

#include <inttypes.h>

#include "base/log.h"
#include "plan/allocations.h"

void node_log_config(const struct config *config)
{
        _free_ char *text = config_print(config);

        log_block(LOG_INFO, "Running with config:", text); /* NVIDIA's words: people search for them */
}

void node_log_inventory(const struct inventory *inventory)
{
        log_info("GPUs found", LOG_UINT("gpus", inventory->n_gpus), LOG_STR("driver", inventory->driver_version));
        for (size_t i = 0; i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                if (gpu->failure)
                        log_warn("GPU cannot be used", LOG_UINT("index", gpu->index), LOG_STR("gpu", gpu->uuid),
                                LOG_STR("reason", gpu->failure));
                else
                        log_info("GPU", LOG_UINT("index", gpu->index), LOG_STR("gpu", gpu->uuid),
                                LOG_STR("name", gpu->name), LOG_UINT("memory_mib", gpu->memory >> 20),
                                LOG_INT("numa", gpu->numa_node), LOG_UINT("mig", gpu->n_mig_devices));
        }
}

static void report_reserve(const struct resource *resource)
{
        size_t reserved = allocations_n_reserved(resource);

        if (reserved)
                LOG_AT(allocations_reserved_is_much(resource) ? LOG_WARN : LOG_INFO,
                        "replicas are reserved, so that each request finds one unit with room",
                        LOG_STR("resource", resource->name), LOG_UINT("advertised", resource->n_devices - reserved),
                        LOG_UINT("reserved", reserved), LOG_UINT("maxPerRequest", resource->max_per_request),
                        LOG_STR("way_out", ALLOCATIONS_LEVER));
}

void node_log_plan(const struct plan *plan)
{
        if (plan->n_resources == 0 && !plan->claimable)
                log_info("No devices found. Waiting indefinitely."); /* NVIDIA's words */
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                log_info("resource", LOG_STR("name", resource->name),
                        LOG_STR("sharing", sharing_strategy_name(resource->strategy)),
                        LOG_UINT("units", resource->n_units), LOG_UINT("devices", resource->n_devices));
                report_reserve(resource);
        }
}

/*
 * An Xid is logged with NVIDIA's text. node/kubelet/plugin.c logs that the device is unhealthy, because it knows for
 * which resource.
 */
void node_log_health(const char *uuid, bool healthy, const char *reason, uint64_t xid)
{
        _free_ char *text = NULL;

        if (healthy) {
                log_info("healthy again", LOG_STR("unit", uuid));
        } else if (xid) {
                text = xasprintf(
                        "XidCriticalError: Xid=%" PRIu64 " on Device=%s; marking device as unhealthy.", xid, uuid);
                log_warn(text, LOG_STR("reason", reason));
        } else {
                log_warn("unhealthy", LOG_STR("unit", uuid), LOG_STR("reason", reason));
        }
}
