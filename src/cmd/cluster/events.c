#include "cmd/cluster/events.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "net/kube/list.h"
#include "net/kube/object.h"

#define EVENTS_LIMIT 500 /* an object has a few; kubelet and scheduler count repetitions up */

static const char *time_of(const json_t *event)
{
        const char *last = object_text(event, "lastTimestamp", NULL);
        const char *time = last ? last : object_text(event, "eventTime", NULL);

        return time ? time : "";
}

static int compare_events(const void *a, const void *b)
{
        return strcmp(time_of(*(json_t *const *)a), time_of(*(json_t *const *)b));
}

json_t *events_of(struct session *session, const char *kind, const char *namespace, const char *name)
{
        _cleanup_(strbuf_done) struct strbuf query = STRBUF_INIT;
        _free_ char *selector = xasprintf("involvedObject.kind=%s,involvedObject.name=%s", kind, name);
        _free_ char *path = object_collection("/api/v1", namespace ? namespace : "default", "events");
        json_t *items[EVENTS_LIMIT];
        json_t *sorted = NULL;
        json_t *answer;
        json_t *list;
        struct error err;
        size_t count;

        strbuf_printf(&query, "limit=%d", EVENTS_LIMIT);
        kube_list_select(&query, selector, NULL);
        if (session_get(session, path, query.data, &answer, &err) < 0)
                return NULL;
        list = json_object_get(answer, "items");
        count = MIN(json_array_size(list), (size_t)EVENTS_LIMIT);
        for (size_t i = 0; i < count; i++)
                items[i] = json_array_get(list, i);
        if (count > 0)
                qsort(items, count, sizeof(*items), compare_events);
        sorted = json_array();
        for (size_t i = 0; i < count; i++)
                json_array_append(sorted, items[i]);
        json_decref(answer);
        return sorted;
}
