// SPDX-License-Identifier: Apache-2.0
#include "node/status/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/alloc.h"
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
                log_info("replicas are reserved, so that each request finds one unit with room",
                        LOG_STR("resource", resource->name), LOG_UINT("advertised", resource->n_devices - reserved),
                        LOG_UINT("reserved", reserved), LOG_UINT("maxPerRequest", resource->max_per_request));
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

/* ---- calls into NVML that do not return ---- */

#define TEXT_SIZE 256

static const char *hang_effect(const struct gpu_hang *hang)
{
        if (hang->is_waited_for)
                return "until the driver answers, the last known health of each GPU stays";
        if (hang->call.subject == CALL_ON_GPU)
                return "this GPU is unhealthy until it answers, and asked again from time to time; the others go on";
        return "what else there is of the GPUs goes on";
}

static void hangs_report(const struct gpu_hang *hang, struct node_events *events, uint64_t now_ms)
{
        char text[TEXT_SIZE];

        hang_print(&hang->call, text, sizeof(text));
        node_events_report(events, NODE_EVENT_NVML_CALL_HANGS, "%s has not returned for %" PRIu64 " s: %s", text,
                hang_seconds(&hang->call, now_ms), hang_effect(hang));
}

void node_hangs_report(const struct gpu_hang *hang, bool has_returned, struct node_events *events)
{
        uint64_t now_ms = clock_now_ms();
        enum node_event event = has_returned ? NODE_EVENT_NVML_CALL_RETURNED : NODE_EVENT_NVML_CALL_HANGS;
        const char *gpu = hang->call.name[0] ? hang->call.name : NULL;
        char text[TEXT_SIZE];

        if (!has_returned) {
                log_error("a call into NVML does not return", LOG_STR("event", node_event_reason(event)),
                        LOG_STR("call", hang->call.call), LOG_STR("gpu", gpu),
                        LOG_UINT("seconds", hang_seconds(&hang->call, now_ms)), LOG_STR("effect", hang_effect(hang)));
                hangs_report(hang, events, now_ms);
                return;
        }
        log_info("the call into NVML has returned", LOG_STR("event", node_event_reason(event)),
                LOG_STR("call", hang->call.call), LOG_STR("gpu", gpu),
                LOG_UINT("seconds", hang_seconds(&hang->call, now_ms)));
        hang_print(&hang->call, text, sizeof(text));
        node_events_report(
                events, event, "%s has returned after %" PRIu64 " s", text, hang_seconds(&hang->call, now_ms));
}

void node_hangs_report_all(const struct gpu_monitor *monitor, struct node_events *events)
{
        struct gpu_hang hangs[GPU_MONITOR_MAX_HANGS];
        size_t n_hangs = gpu_monitor_hangs(monitor, hangs);

        for (size_t i = 0; i < n_hangs; i++)
                hangs_report(&hangs[i], events, clock_now_ms());
}

char *node_hangs_explain(const struct gpu_hang *hangs, size_t n_hangs, uint64_t now_ms)
{
        const struct gpu_hang *worst = hangs;
        char text[TEXT_SIZE];

        if (n_hangs == 0)
                return NULL;
        for (size_t i = 1; i < n_hangs; i++)
                if (hangs[i].is_waited_for)
                        worst = &hangs[i];
        hang_print(&worst->call, text, sizeof(text));
        return xasprintf("%s has not returned for %" PRIu64 " s: %s", text, hang_seconds(&worst->call, now_ms),
                hang_effect(worst));
}
