// SPDX-License-Identifier: Apache-2.0
#include "fake_events.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/strbuf.h"

#define EVENT_SIZE 1025 /* node/events/node_events.h cuts there */

struct node_events {
        struct strbuf pods;
        struct strbuf node;
        struct strbuf taken;
};
static struct node_events fake_events = {.pods = STRBUF_INIT, .node = STRBUF_INIT, .taken = STRBUF_INIT};

struct node_events *fake_events_begin(void)
{
        return &fake_events;
}

static const char *take(struct strbuf *events)
{
        strbuf_done(&fake_events.taken);
        fake_events.taken = *events;
        *events = (struct strbuf)STRBUF_INIT;
        return fake_events.taken.data;
}

const char *fake_events_of_pods(void)
{
        return take(&fake_events.pods);
}

const char *fake_events_of_node(void)
{
        return take(&fake_events.node);
}

void fake_events_end(void)
{
        strbuf_done(&fake_events.pods);
        strbuf_done(&fake_events.node);
        strbuf_done(&fake_events.taken);
        fake_events = (struct node_events){.pods = STRBUF_INIT, .node = STRBUF_INIT, .taken = STRBUF_INIT};
}

const char *node_event_reason(enum node_event event)
{
        switch (event) {
        case NODE_EVENT_MPS_NOTICE:
                return "MPSNotice";
        case NODE_EVENT_MPS_SHARED_MEMORY_HIDDEN:
                return "MPSSharedMemoryHidden";
        case NODE_EVENT_MPS_ALLOCATION_VIOLATED:
                return "MPSLimitViolated";
        case NODE_EVENT_MPS_CLIENT_UNKNOWN:
                return "MPSClientUnknown";
        case NODE_EVENT_MPS_CLIENT_SETTLED:
                return "MPSClientSettled";
        case NODE_EVENT_POD_GETS_LESS:
                return "PodGetsLess";
        case NODE_EVENT_DECLARATION_IGNORED:
                return "DeclarationIgnored";
        case NODE_EVENT_DECLARED_TOO_MUCH:
                return "DeclaredMemoryExceedsGPU";
        default:
                return "AnotherEvent";
        }
}

void node_events_report(struct node_events *events, enum node_event event, const char *format, ...)
{
        char text[EVENT_SIZE];
        va_list arguments;

        if (!events)
                return;
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        strbuf_printf(&events->node, "%s: %s\n", node_event_reason(event), text);
}

void node_events_report_pod(
        struct node_events *events, const struct node_event_pod *pod, enum node_event event, const char *format, ...)
{
        char text[EVENT_SIZE];
        va_list arguments;

        if (!events)
                return;
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        strbuf_printf(&events->pods, "%s/%s %s: %s\n", pod->namespace, pod->name, node_event_reason(event), text);
}
