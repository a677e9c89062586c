#include "fake_events.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/strbuf.h"

struct node_events {
        struct strbuf pods;
        struct strbuf taken;
};
static struct node_events fake_events = {.pods = STRBUF_INIT, .taken = STRBUF_INIT};

struct node_events *fake_events_begin(void)
{
        return &fake_events;
}

const char *fake_events_of_pods(void)
{
        strbuf_done(&fake_events.taken);
        fake_events.taken = fake_events.pods;
        fake_events.pods = (struct strbuf)STRBUF_INIT;
        return fake_events.taken.data;
}

void fake_events_end(void)
{
        strbuf_done(&fake_events.pods);
        strbuf_done(&fake_events.taken);
        fake_events = (struct node_events){.pods = STRBUF_INIT, .taken = STRBUF_INIT};
}

const char *node_event_reason(enum node_event event)
{
        return event == NODE_EVENT_MPS_NOTICE ? "MPSNotice" : "AnotherEvent";
}

void node_events_report(struct node_events *events UNUSED, enum node_event event UNUSED, const char *format UNUSED, ...)
{
}

void node_events_report_pod(
        struct node_events *events, const struct node_event_pod *pod, enum node_event event, const char *format, ...)
{
        char text[256];
        va_list arguments;

        if (!events)
                return;
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        strbuf_printf(&events->pods, "%s/%s %s: %s\n", pod->namespace, pod->name, node_event_reason(event), text);
}
