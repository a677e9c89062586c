/*
 * Containers that hold devices of several resources and do not get all of them: looked for in kubelet's record when
 * something was allocated, and told once each, in the log and as an event of the pod. kubelet's list is asked for the
 * pod's name.
 */
#include <string.h>

#include "base/log.h"
#include "node/ledger/parts.h"
#include "plan/several.h"

/* kubelet has entered an allocation by then, and those of the container's other resources. */
#define POLL_MS UINT64_C(1500)
#define MAX_REPORTED ((size_t)4096)

static void several_report(struct ledger *ledger, const struct checkpoint_entry *entry, const char *fault)
{
        const struct holder *holder =
                ledger->holders ? holders_find(ledger->holders, entry->resource, entry->devices[0]) : NULL;
        bool is_named = holder && holder->pod;

        log_warn("a container sees less than it was allocated",
                LOG_STR("event", node_event_reason(NODE_EVENT_POD_GETS_LESS)),
                LOG_STR("pod", is_named ? holder->pod : "-"),
                LOG_STR("namespace", is_named ? holder->pod_namespace : "-"), LOG_STR("pod_uid", entry->pod_uid),
                LOG_STR("container", entry->container), LOG_STR("reason", fault));
        if (is_named) {
                const struct node_event_pod pod = {holder->pod_namespace, holder->pod, entry->pod_uid};

                node_events_report_pod(ledger->options.events, &pod, NODE_EVENT_POD_GETS_LESS, "Container %.63s: %s.",
                        entry->container, fault);
        }
}

static const char *key_of(struct arena *arena, const struct checkpoint_entry *entry)
{
        return arena_printf(arena, "%s\n%s", entry->pod_uid, entry->container);
}

static void forget_reported(struct ledger *ledger)
{
        map_done(&ledger->reported_several);
        arena_done(&ledger->reported_several_arena);
}

/* How many are new; they are told where |reports|. */
static size_t several_poll(struct ledger *ledger, bool reports)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct several_fault *faults;
        struct checkpoint record;
        size_t n_new = 0;
        size_t count;

        if (!ledger->plan || !ledger_read_checkpoint(ledger, &arena, &record))
                return 0;
        count = several_faults(&faults, &arena, ledger->plan, &record);
        for (size_t i = 0; i < count; i++) {
                if (map_find(&ledger->reported_several, key_of(&arena, faults[i].entry)))
                        continue;
                n_new++;
                if (!reports)
                        continue;
                if (ledger->reported_several.count >= MAX_REPORTED)
                        forget_reported(ledger);
                map_add(&ledger->reported_several, key_of(&ledger->reported_several_arena, faults[i].entry), ledger);
                several_report(ledger, faults[i].entry, faults[i].text);
        }
        return n_new;
}

/* Without an answer, kubelet's previous list is used. */
static void on_several_listed(const struct error *err UNUSED, void *data)
{
        several_poll(data, true);
}

void ledger_on_several_timer(uv_timer_t *timer)
{
        struct ledger *ledger = timer->data;

        if (several_poll(ledger, false) == 0)
                return;
        if (ledger->pods)
                ledger_list(ledger, on_several_listed, ledger);
        else
                several_poll(ledger, true);
}

void ledger_check_several_soon(struct ledger *ledger)
{
        uv_timer_t *timer = &ledger->several_timer;

        if (!ledger->closing && ledger->plan && ledger->plan->n_resources > 1 && !uv_is_active((uv_handle_t *)timer))
                uv_timer_start(timer, ledger_on_several_timer, POLL_MS, 0);
}

void ledger_forget_several(struct ledger *ledger)
{
        uv_timer_stop(&ledger->several_timer);
        forget_reported(ledger);
}
