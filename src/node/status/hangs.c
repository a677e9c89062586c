#include "node/status/hangs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

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
