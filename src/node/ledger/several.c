// SPDX-License-Identifier: Apache-2.0
#include "node/ledger/several.h"

#include "base/log.h"
#include "plan/several.h"

/* kubelet has entered an allocation by then, and those of the container's other resources. */
#define POLL_MS UINT64_C(1500)
#define MAX_REPORTED ((size_t)4096)

static void several_report(const struct ledger_core *core, const struct checkpoint_entry *entry, const char *fault)
{
        const struct holder *holder = holdings_find_named(&core->holdings, entry);

        log_warn("a container sees less than it was allocated",
                LOG_STR("event", node_event_reason(NODE_EVENT_POD_GETS_LESS)),
                LOG_STR("pod", holder ? holder->pod : "-"), LOG_STR("namespace", holder ? holder->pod_namespace : "-"),
                LOG_STR("pod_uid", entry->pod_uid), LOG_STR("container", entry->container), LOG_STR("reason", fault));
        if (holder) {
                const struct node_event_pod pod = {holder->pod_namespace, holder->pod, entry->pod_uid};

                node_events_report_pod(core->options.events, &pod, NODE_EVENT_POD_GETS_LESS, "Container %.63s: %s.",
                        entry->container, fault);
        }
}

static const char *several_key_of(struct arena *arena, const struct checkpoint_entry *entry)
{
        return arena_printf(arena, "%s\n%s", entry->pod_uid, entry->container);
}

static void several_forget_reported(struct several *several)
{
        map_done(&several->reported);
        arena_done(&several->arena);
}

/* Returns the number of new faults, and reports them if |reports|. */
static size_t several_poll(struct several *several, bool reports)
{
        const struct ledger_core *core = several->core;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct several_fault *faults;
        struct checkpoint record;
        size_t n_new = 0;
        size_t count;

        if (!core->plan || !holdings_read_record(&core->holdings, &arena, &record))
                return 0;
        count = several_faults(&faults, &arena, core->plan, &record);
        for (size_t i = 0; i < count; i++) {
                if (map_find(&several->reported, several_key_of(&arena, faults[i].entry)))
                        continue;
                n_new++;
                if (!reports)
                        continue;
                if (several->reported.count >= MAX_REPORTED)
                        several_forget_reported(several);
                map_add(&several->reported, several_key_of(&several->arena, faults[i].entry), several);
                several_report(core, faults[i].entry, faults[i].text);
        }
        return n_new;
}

/* Without an answer, kubelet's previous list is used. */
static void on_several_listed(const struct error *err UNUSED, void *data)
{
        several_poll(data, true);
}

static void on_several_timer(uv_timer_t *timer)
{
        struct several *several = container_of(timer, struct several, timer);

        if (several_poll(several, false) == 0)
                return;
        if (holdings_folder(&several->core->holdings))
                holdings_list(&several->core->holdings, on_several_listed, several);
        else
                several_poll(several, true);
}

void several_check_soon(struct several *several)
{
        const struct ledger_core *core = several->core;

        if (!core->is_closing && core->plan && core->plan->n_resources > 1 &&
                !uv_is_active((uv_handle_t *)&several->timer))
                uv_timer_start(&several->timer, on_several_timer, POLL_MS, 0);
}

void several_forget(struct several *several)
{
        uv_timer_stop(&several->timer);
        several_forget_reported(several);
}

void several_init(struct several *several, struct ledger_core *core)
{
        *several = (struct several){.core = core};
        uv_timer_init(core->options.loop, &several->timer);
}

void several_close(struct several *several, struct closing *closing)
{
        several_forget_reported(several);
        closing_close(closing, &several->timer);
}
