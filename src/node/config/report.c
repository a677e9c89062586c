#include "node/config/report.h"

#include <inttypes.h>

#include "base/alloc.h"
#include "base/text.h"
#include "net/kube/object.h"

#define PREFIX "warpshare.dev/config"

static void report_put(json_t *annotations, const char *key, char *value)
{
        text_clean(value);
        json_object_set_new(annotations, key, json_string(value));
        free(value);
}

json_t *config_report_node(const char *node, const struct config_status *status)
{
        json_t *object = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "Node", "metadata", "name", node);
        json_t *annotations = object_make(object, "metadata", "annotations", NULL);

        if (status->name) {
                report_put(annotations, PREFIX, xstrdup(status->name));
                report_put(annotations, PREFIX "-source", xasprintf("%s, by %s", status->source, status->by));
                report_put(annotations, PREFIX "-generation", xasprintf("%" PRIu64, status->generation));
                report_put(annotations, PREFIX "-hash", xstrdup(status->hash));
        }
        report_put(annotations, PREFIX "-status",
                status->state == CONFIG_ACCEPTED ? xstrdup(config_state_name(status->state))
                                                 : xasprintf("%s: %s", config_state_name(status->state), status->why));
        return object;
}
