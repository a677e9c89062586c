// SPDX-License-Identifier: Apache-2.0
#include "node/report/node_page.h"

#include <math.h>

#include "base/text.h"
#include "base/data/json_fields.h"

const struct report_process report_process_unknown = {.pid = NAN, .memory_used = NAN, .sm = NAN};
const struct report_share report_share_unknown = {.replicas = NAN,
        .memory_limit = NAN,
        .thread_percent = NAN,
        .memory_used = NAN,
        .memory_peak = NAN,
        .sm = NAN,
        .memory_controller = NAN,
        .idle_since = NAN,
        .seconds = NAN,
        .sm_seconds = NAN,
        .energy = NAN};
const struct report_other report_other_unknown = {.memory_used = NAN, .sm = NAN};
const struct report_unit report_unit_unknown = {
        .replicas = NAN, .granted = NAN, .reserved = NAN, .memory = NAN, .memory_used = NAN, .utilization = NAN};
const struct report_gpu report_gpu_unknown = {
        .memory = NAN, .memory_used = NAN, .utilization = NAN, .temperature = NAN, .power = NAN, .power_limit = NAN};

static bool node_page_is_any(const char *text UNUSED)
{
        return true;
}

/*
 * Accepts each text and cleans it. The page is shown in terminals, and parts of it come from tenants: one bad name must
 * not make the whole page invalid.
 */
static const struct json_text any = {node_page_is_any, REPORT_TEXT_MAX, "text of at most ", true};

#define HISTORY(type, key, member) JSON_REALS(key, type, member.values, member.n_values, REPORT_HISTORY_MAX)

static const struct json_field process_fields[] = {
        JSON_REAL("pid", struct report_process, pid),
        JSON_TEXT("name", struct report_process, name, any),
        JSON_REAL("memoryUsed", struct report_process, memory_used),
        JSON_REAL("sm", struct report_process, sm),
};
static const struct json_shape process_shape = JSON_SHAPE(struct report_process, process_fields);

static const struct json_field share_fields[] = {
        JSON_TEXT("namespace", struct report_share, pod_namespace, any),
        JSON_TEXT("pod", struct report_share, pod, any),
        JSON_TEXT("container", struct report_share, container, any),
        JSON_TEXT("claim", struct report_share, claim, any),
        JSON_TEXT("podUid", struct report_share, pod_uid, any),
        JSON_REAL("replicas", struct report_share, replicas),
        JSON_REAL("memoryLimit", struct report_share, memory_limit),
        JSON_REAL("threadPercent", struct report_share, thread_percent),
        JSON_REAL("memoryUsed", struct report_share, memory_used),
        JSON_REAL("memoryPeak", struct report_share, memory_peak),
        JSON_REAL("sm", struct report_share, sm),
        JSON_REAL("memoryController", struct report_share, memory_controller),
        JSON_REAL("idleSince", struct report_share, idle_since),
        JSON_REAL("seconds", struct report_share, seconds),
        JSON_REAL("smSeconds", struct report_share, sm_seconds),
        JSON_REAL("energy", struct report_share, energy),
        JSON_ITEMS("processes", struct report_share, processes, n_processes, process_shape, 0, REPORT_PROCESSES_MAX,
                .leaves_out = true),
        HISTORY(struct report_share, "history", sm_history),
        HISTORY(struct report_share, "memoryHistory", memory_history),
};
const struct json_shape report_share_shape = JSON_SHAPE(struct report_share, share_fields);

static const struct json_field other_fields[] = {
        JSON_TEXT("by", struct report_other, by, any, .is_needed = true),
        JSON_REAL("memoryUsed", struct report_other, memory_used),
        JSON_REAL("sm", struct report_other, sm),
        JSON_ITEMS("processes", struct report_other, processes, n_processes, process_shape, 0, REPORT_PROCESSES_MAX,
                .leaves_out = true),
};
static const struct json_shape other_shape = JSON_SHAPE(struct report_other, other_fields);

static const struct json_field unit_fields[] = {
        JSON_TEXT("uuid", struct report_unit, uuid, any, .is_needed = true),
        JSON_TEXT("index", struct report_unit, index, any),
        JSON_TEXT("profile", struct report_unit, profile, any),
        JSON_TEXT("resource", struct report_unit, resource, any),
        JSON_TEXT("sharing", struct report_unit, sharing, any),
        JSON_TEXT("by", struct report_unit, by, any),
        JSON_BOOL("draining", struct report_unit, draining, .has = offsetof(struct report_unit, draining)),
        JSON_REAL("replicas", struct report_unit, replicas),
        JSON_REAL("granted", struct report_unit, granted),
        JSON_REAL("reserved", struct report_unit, reserved),
        JSON_REAL("memory", struct report_unit, memory),
        JSON_REAL("memoryUsed", struct report_unit, memory_used),
        JSON_REAL("utilization", struct report_unit, utilization),
        JSON_BOOL("healthy", struct report_unit, healthy, .has = offsetof(struct report_unit, has_health)),
        JSON_TEXT("reason", struct report_unit, reason, any),
        HISTORY(struct report_unit, "history", sm_history),
        HISTORY(struct report_unit, "memoryHistory", memory_history),
        JSON_ITEMS("shares", struct report_unit, shares, n_shares, report_share_shape, 0, REPORT_SHARES_MAX),
        JSON_ITEMS(
                "others", struct report_unit, others, n_others, other_shape, 0, REPORT_OTHERS_MAX, .leaves_out = true),
};
const struct json_shape report_unit_shape = JSON_SHAPE(struct report_unit, unit_fields);

static const struct json_field gpu_fields[] = {
        JSON_TEXT("uuid", struct report_gpu, uuid, any, .is_needed = true),
        JSON_TEXT("index", struct report_gpu, index, any),
        JSON_TEXT("model", struct report_gpu, model, any),
        JSON_REAL("memory", struct report_gpu, memory),
        JSON_REAL("memoryUsed", struct report_gpu, memory_used),
        JSON_REAL("utilization", struct report_gpu, utilization),
        JSON_REAL("temperature", struct report_gpu, temperature),
        JSON_REAL("power", struct report_gpu, power),
        JSON_REAL("powerLimit", struct report_gpu, power_limit),
        JSON_ITEMS("units", struct report_gpu, units, n_units, report_unit_shape, 0, REPORT_UNITS_MAX),
};
const struct json_shape report_gpu_shape = JSON_SHAPE(struct report_gpu, gpu_fields);

static const struct json_field event_fields[] = {
        JSON_REAL("time", struct report_event, time),
        JSON_TEXT("kind", struct report_event, kind, any),
        JSON_TEXT("reason", struct report_event, reason, any),
        JSON_TEXT("unit", struct report_event, unit, any),
        JSON_TEXT("text", struct report_event, text, any),
};
const struct json_shape report_event_shape = JSON_SHAPE(struct report_event, event_fields);

static const struct json_field page_fields[] = {
        JSON_UINT("version", struct node_page, version, 1, UINT16_MAX),
        JSON_TEXT("node", struct node_page, node, any),
        JSON_TEXT("agent", struct node_page, agent, any),
        JSON_REAL("time", struct node_page, time),
        JSON_TEXT("driver", struct node_page, driver, any),
        JSON_TEXT("configuration", struct node_page, configuration, any),
        JSON_TEXT("ownersUnknown", struct node_page, owners_unknown, any),
        JSON_ITEMS("gpus", struct node_page, gpus, n_gpus, report_gpu_shape, 0, REPORT_GPUS_MAX, .is_needed = true),
        JSON_ITEMS("events", struct node_page, events, n_events, report_event_shape, 0, REPORT_EVENTS_MAX),
};
static const struct json_shape page_shape = JSON_SHAPE(struct node_page, page_fields);

double report_unit_granted(const struct report_unit *unit)
{
        double sum = NAN;

        for (size_t i = 0; i < unit->n_shares; i++)
                if (!isnan(unit->shares[i].replicas))
                        sum = isnan(sum) ? unit->shares[i].replicas : sum + unit->shares[i].replicas;
        return isnan(unit->granted) || sum > unit->granted ? sum : unit->granted;
}

char *node_page_write(const struct node_page *page, bool is_indented)
{
        json_t *object = json_object();

        json_fields_put(object, &page_shape, page);
        return json_fields_print(object, JSON_REAL_PRECISION(15) | (is_indented ? JSON_INDENT(2) : JSON_COMPACT));
}

int node_page_read(struct node_page *ret, struct arena *arena, const char *text, size_t size, struct error *err)
{
        struct json_in in = {.arena = arena, .err = err};
        struct node_page page = {0};
        json_t *root;

        if (size > NODE_PAGE_MAX)
                return error_set(
                        err, ERROR_INVALID, "the page of a node: %zu bytes, must be at most %zu", size, NODE_PAGE_MAX);
        root = json_fields_load(&in, text, size);
        json_fields_take(&in, root, &page_shape, &page);
        json_decref(root);
        if (in.is_bad)
                return error_prefix(err, "the page of a node");
        *ret = page;
        return 0;
}
