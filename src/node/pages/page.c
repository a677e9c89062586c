// SPDX-License-Identifier: Apache-2.0
#include "node/pages/page.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"

#define COMM_MAX ((size_t)64) /* the kernel's limit is 16 bytes */

struct maker {
        const struct node_facts *facts;
        struct arena *arena;
};

/* ---- what is unknown ---- */

static double page_number(uint64_t value, double scale)
{
        return value == GPU_VALUE_UNKNOWN ? NAN : (double)value * scale;
}

static double known_percent(unsigned int percent)
{
        return percent == GPU_PERCENT_UNKNOWN ? NAN : percent / 100.0;
}

static double unless_0(uint64_t value, double scale)
{
        return value ? (double)value * scale : NAN;
}

static double unless_negative(double value)
{
        return value < 0 ? NAN : value;
}

/* ---- the past ---- */

static struct report_history read_ring(const struct maker *maker, const struct usage_ring *ring, double scale)
{
        uint32_t values[USAGE_RING_MINUTES];
        const size_t count = usage_ring_read(ring, usage_minute(maker->facts->usage->usage), values);
        double *list = ARENA_ARRAY(maker->arena, double, count);

        for (size_t i = 0; i < count; i++)
                list[i] = values[i] == USAGE_RING_NONE ? NAN : values[i] * scale;
        return (struct report_history){list, count};
}

static void add_past(const struct maker *maker, const struct usage_past *past, struct report_history *sm,
        struct report_history *memory)
{
        if (!past || !maker->facts->has_history)
                return;
        *sm = read_ring(maker, &past->sm_percent, 0.01);
        *memory = read_ring(maker, &past->memory_kib, 1024);
}

/* ---- processes ---- */

/* NULL: it has ended, or is not visible. */
static const char *page_name_of(const struct maker *maker, pid_t pid)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/proc/%d/comm", maker->facts->system_root, (int)pid);
        struct error err;

        if (file_read(path, COMM_MAX, &text, &err) < 0)
                return NULL;
        return arena_strndup(maker->arena, text.data, strcspn(text.data, "\n"));
}

static bool page_is_of(
        const struct node_usage_view *usage, const struct gpu_process *process, const struct usage_share *share)
{
        return usage_kind_of(process, usage->servers, usage->n_servers) == share->kind &&
               (share->kind != USAGE_POD || text_is_same(process->pod_uid, share->pod_uid));
}

static size_t list_processes(const struct maker *maker, const struct gpu_sample *sample,
        const struct usage_share *share, const struct report_process **ret)
{
        struct report_process *list;
        size_t count = 0;

        if (!maker->facts->has_processes || !sample)
                return 0;
        list = ARENA_ARRAY(maker->arena, struct report_process, sample->n_processes);
        for (size_t i = 0; i < sample->n_processes && count < REPORT_PROCESSES_MAX; i++) {
                const struct gpu_process *process = &sample->processes[i];

                if (page_is_of(maker->facts->usage, process, share))
                        list[count++] = (struct report_process){.pid = process->pid,
                                .name = process->is_visible ? page_name_of(maker, process->pid) : NULL,
                                .memory_used = page_number(process->memory, 1),
                                .sm = known_percent(process->sm_percent)};
        }
        *ret = list;
        return count;
}

/* Unix milliseconds of a moment of the samples' clock. */
static int64_t date_of(const struct node_facts *facts, uint64_t at_ms)
{
        return facts->now_ms - (int64_t)(facts->monotonic_ms - at_ms);
}

/* ---- who has what of a unit ---- */

/* A pod without processes uses nothing, unless hidden processes may be its own. The same rule is in usage_metrics.c. */
static void page_add_used(const struct maker *maker, const struct usage_row *row, const struct gpu_sample *sample,
        bool some_are_hidden, struct report_share *share)
{
        const struct usage_share *used = row->share;
        const bool is_read = sample && sample->has_processes;

        if (!used) {
                if (!maker->facts->usage->samples || some_are_hidden)
                        return;
                share->memory_used = is_read ? 0 : NAN;
                share->memory_peak = share->seconds = 0;
                return;
        }
        if (is_read) {
                share->memory_used = page_number(used->memory, 1);
                share->sm = known_percent(used->sm_percent);
                share->memory_controller = known_percent(used->memory_percent);
                if (used->idle_ms)
                        share->idle_since = floor((double)date_of(maker->facts, used->idle_ms) / 1000);
        }
        share->memory_peak = (double)used->memory_peak;
        share->seconds = used->seconds;
        share->sm_seconds = unless_negative(used->sm_seconds);
        share->energy = unless_negative(used->energy);
        share->n_processes = list_processes(maker, sample, used, &share->processes);
        add_past(maker, used->past, &share->sm_history, &share->memory_history);
}

static void page_add_shares(const struct maker *maker, struct report_unit *unit, const struct gpu_sample *sample)
{
        const struct node_usage_view *usage = maker->facts->usage;
        const bool some_are_hidden = node_usage_has_hidden(usage, unit->uuid);
        struct report_share *shares;
        size_t count = 0;

        for (size_t i = 0; i < usage->n_rows; i++)
                count += strcmp(usage->rows[i].unit, unit->uuid) == 0;
        count = MIN(count, (size_t)REPORT_SHARES_MAX);
        unit->shares = shares = ARENA_ARRAY(maker->arena, struct report_share, count);
        for (size_t i = 0; unit->n_shares < count; i++) {
                const struct usage_row *row = &usage->rows[i];
                struct report_share *share = &shares[unit->n_shares];

                if (strcmp(row->unit, unit->uuid) != 0)
                        continue;
                *share = report_share_unknown;
                share->pod_namespace = row->pod_namespace;
                share->pod = row->pod;
                share->container = row->container;
                share->claim = row->claim;
                share->pod_uid = row->pod_uid;
                share->replicas = unless_0(row->replicas, 1);
                share->memory_limit = unless_0(row->limit, 1);
                if (row->threads_permille < 1000)
                        share->thread_percent = unless_0(row->threads_permille, 0.1);
                page_add_used(maker, row, sample, some_are_hidden, share);
                unit->n_shares++;
        }
}

static void add_others(const struct maker *maker, struct report_unit *unit, const struct gpu_sample *sample)
{
        const struct node_usage_view *usage = maker->facts->usage;
        struct report_other *others = ARENA_ARRAY(maker->arena, struct report_other, REPORT_OTHERS_MAX);

        unit->others = others;
        for (size_t i = 0; sample && sample->has_processes && i < usage->n_shares; i++) {
                const struct usage_share *used = &usage->shares[i];
                struct report_other *other = &others[unit->n_others];

                if (used->kind == USAGE_POD || !used->n_processes || strcmp(used->unit, unit->uuid) != 0)
                        continue;
                *other = (struct report_other){.by = usage_kind_name(used->kind),
                        .memory_used = page_number(used->memory, 1),
                        .sm = known_percent(used->sm_percent)};
                other->n_processes = list_processes(maker, sample, used, &other->processes);
                unit->n_others++; /* one of each kind at most */
        }
        if (sample && usage_unattributed(sample) != GPU_VALUE_UNKNOWN)
                others[unit->n_others++] = (struct report_other){
                        .by = "unattributed", .memory_used = (double)usage_unattributed(sample), .sm = NAN};
}

/* ---- how it is shared ---- */

static double count_granted(const struct node_usage_view *usage, const char *uuid)
{
        size_t granted = 0;

        for (size_t i = 0; i < usage->n_rows; i++)
                if (strcmp(usage->rows[i].unit, uuid) == 0)
                        granted += usage->rows[i].replicas;
        return (double)granted;
}

/* As device_list_count() has it, of one unit. */
static double count_reserved(const struct device_list *list, const struct resource *resource, size_t unit)
{
        size_t reserved = 0;

        if (!list || list->resource != resource)
                return NAN;
        for (size_t i = 0; i < resource->n_devices && list->healthy[unit]; i++)
                reserved += resource->devices[i].unit == unit && !list->usable[i];
        return (double)reserved;
}

static void set_plugin(const struct node_facts *facts, struct report_unit *ret, const struct resource *resource,
        const struct unit *unit)
{
        const enum sharing_strategy strategy = unit->shared ? resource->strategy : SHARING_NONE;

        ret->by = "device-plugin";
        ret->resource = resource->name;
        ret->sharing = sharing_strategy_name(strategy);
        ret->replicas = unit->replicas;
        if (facts->is_serving && (strategy == SHARING_MPS || facts->usage->is_listed))
                ret->granted = count_granted(facts->usage, unit->uuid);
}

/* False: the resource does not have the unit, neither now nor for those who hold some of it. */
static bool add_plugin(const struct maker *maker, struct report_unit *ret, size_t position)
{
        const struct node_facts *facts = maker->facts;
        const struct resource *resource = &facts->plan->resources[position];
        const struct unit *unit = resource_find_unit(resource, ret->uuid);

        for (size_t i = 0; !unit && i < resource->n_draining; i++) {
                unit = resource_find_unit(&resource->draining[i], ret->uuid);
                if (unit)
                        set_plugin(facts, ret, &resource->draining[i], unit);
                ret->draining = unit;
        }
        if (!unit)
                return false;
        if (ret->draining)
                return true;
        set_plugin(facts, ret, resource, unit);
        ret->draining = unit->is_kept;
        ret->reserved = count_reserved(
                facts->lists ? facts->lists[position] : NULL, resource, (size_t)(unit - resource->units));
        return true;
}

static const char *sharing_by_claim(const struct ledger_claim *claim, const char *uuid)
{
        for (size_t i = 0; i < claim->n_devices; i++) {
                const struct ledger_claim_device *device = &claim->devices[i];

                if (strcmp(device->unit, uuid) == 0)
                        return sharing_strategy_name(device->is_shared  ? SHARING_MPS
                                                     : device->is_alone ? SHARING_NONE
                                                                        : SHARING_TIME_SLICING);
        }
        return NULL;
}

static void add_plan(const struct maker *maker, struct report_unit *unit)
{
        const struct plan *plan = maker->facts->plan;

        for (size_t i = 0; plan && i < plan->n_resources; i++)
                if (add_plugin(maker, unit, i))
                        return;
        if (!plan || !plan->claimable || !resource_find_unit(plan->claimable, unit->uuid))
                return;
        unit->by = "dra";
        for (size_t i = 0; i < maker->facts->n_claims && !unit->sharing; i++)
                unit->sharing = sharing_by_claim(maker->facts->claims[i].claim, unit->uuid);
}

static void add_health(const struct maker *maker, struct report_unit *unit, const char *failure)
{
        const struct unit_health *health = maker->facts->health;
        const struct unhealthy_unit *entry = health ? unit_health_find(health, unit->uuid) : NULL;

        if (!health)
                return;
        unit->has_health = true;
        unit->healthy = !entry && !failure;
        if (!unit->healthy)
                unit->reason = entry && *entry->reason ? entry->reason : failure;
}

/* ---- units and GPUs ---- */

static void make_unit(
        const struct maker *maker, struct report_unit *ret, const struct gpu *gpu, const struct mig_device *mig)
{
        const struct node_usage_view *usage = maker->facts->usage;
        const char *uuid = mig ? mig->uuid : gpu->uuid;
        const struct gpu_sample *sample = node_usage_find_sample(maker->facts->usage, uuid);

        *ret = report_unit_unknown;
        ret->uuid = uuid;
        ret->index = mig ? arena_printf(maker->arena, "%u:%u", gpu->index, mig->index)
                         : arena_printf(maker->arena, "%u", gpu->index);
        ret->profile = mig ? mig->profile : NULL;
        ret->memory = unless_0(mig ? mig->memory : gpu->memory, 1);
        if (sample) {
                if (sample->values[GPU_MEMORY_TOTAL] != GPU_VALUE_UNKNOWN)
                        ret->memory = (double)sample->values[GPU_MEMORY_TOTAL];
                ret->memory_used = page_number(sample->values[GPU_MEMORY_USED], 1);
                ret->utilization = page_number(sample->values[GPU_BUSY], 0.01);
        }
        add_plan(maker, ret);
        add_health(maker, ret, mig ? mig->failure : gpu->failure);
        page_add_shares(maker, ret, sample);
        add_others(maker, ret, sample);
        add_past(maker, usage->usage ? usage_past(usage->usage, uuid) : NULL, &ret->sm_history, &ret->memory_history);
}

static void make_gpu(const struct maker *maker, struct report_gpu *ret, const struct gpu *gpu)
{
        const struct gpu_sample *sample = node_usage_find_sample(maker->facts->usage, gpu->uuid);
        const bool has_devices = gpu->mig_enabled && gpu->n_mig_devices;
        struct report_unit *units;

        *ret = report_gpu_unknown;
        ret->uuid = gpu->uuid;
        ret->index = arena_printf(maker->arena, "%u", gpu->index);
        ret->model = *gpu->name ? gpu->name : NULL;
        ret->memory = unless_0(gpu->memory, 1);
        if (sample) {
                ret->memory_used = page_number(sample->values[GPU_MEMORY_USED], 1);
                ret->utilization = page_number(sample->values[GPU_BUSY], 0.01);
                ret->temperature = page_number(sample->values[GPU_TEMPERATURE], 1);
                ret->power = page_number(sample->values[GPU_POWER], 0.001);
                ret->power_limit = page_number(sample->values[GPU_POWER_LIMIT], 0.001);
        }
        ret->n_units = has_devices ? MIN(gpu->n_mig_devices, (size_t)REPORT_UNITS_MAX) : 1;
        ret->units = units = ARENA_ARRAY(maker->arena, struct report_unit, ret->n_units);
        for (size_t i = 0; i < ret->n_units; i++)
                make_unit(maker, &units[i], gpu, has_devices ? &gpu->mig_devices[i] : NULL);
}

/* ---- events ---- */

/* The unit whose UUID the text has. */
static const char *page_find_unit(const struct inventory *inventory, const char *text)
{
        for (size_t i = 0; inventory && i < inventory->n_gpus; i++) {
                const struct gpu *gpu = &inventory->gpus[i];

                for (size_t j = 0; j < gpu->n_mig_devices; j++)
                        if (strstr(text, gpu->mig_devices[j].uuid))
                                return gpu->mig_devices[j].uuid;
                if (strstr(text, gpu->uuid))
                        return gpu->uuid;
        }
        return NULL;
}

static void add_events(const struct maker *maker, struct node_page *page)
{
        const struct node_facts *facts = maker->facts;
        const size_t count = MIN(facts->n_events, (size_t)REPORT_EVENTS_MAX);
        struct report_event *events = ARENA_ARRAY(maker->arena, struct report_event, count);

        for (size_t i = 0; i < count; i++) {
                const struct node_event_record *record = &facts->events[facts->n_events - count + i];

                events[i] = (struct report_event){.time = (double)record->date_ms / 1000,
                        .kind = record->is_warning ? "Warning" : "Normal",
                        .reason = node_event_reason(record->event),
                        .unit = page_find_unit(facts->inventory, record->text),
                        .text = record->text};
        }
        page->events = events;
        page->n_events = count;
}

/* ---- the page ---- */

static double time_of_samples(const struct node_facts *facts)
{
        const struct gpu_samples *samples = facts->usage->samples;
        uint64_t newest_ms = 0;

        for (size_t i = 0; samples && i < samples->n_units; i++)
                newest_ms = MAX(newest_ms, samples->units[i].at_ms);
        return newest_ms ? (double)date_of(facts, newest_ms) / 1000 : NAN;
}

/* Looks at the units of |gpu| that have shares or processes. */
static void page_note_unknown(const struct maker *maker, const struct report_gpu *gpu, bool *ret_some, bool *ret_served)
{
        const struct node_usage_view *usage = maker->facts->usage;

        for (size_t i = 0; i < gpu->n_units; i++) {
                const char *uuid = gpu->units[i].uuid;
                const bool has_hidden = node_usage_has_hidden(usage, uuid);
                const bool is_served = node_usage_is_served(usage, uuid);

                *ret_some = *ret_some || has_hidden || (!is_served && gpu->units[i].n_shares > 0);
                *ret_served = *ret_served || (has_hidden && is_served);
        }
}

static const char *page_owners_unknown(const struct maker *maker, const struct node_page *page)
{
        bool some_are_unknown = false;
        bool also_of_mps = false;

        if (!maker->facts->is_apart || !maker->facts->usage->samples)
                return NULL;
        for (size_t i = 0; i < page->n_gpus; i++)
                page_note_unknown(maker, &page->gpus[i], &some_are_unknown, &also_of_mps);
        if (!some_are_unknown)
                return NULL;
        return also_of_mps ? "Without hostPID the agent cannot see who uses a GPU (chart: usage.hostPID=true)"
                           : "Without hostPID the agent sees who uses MPS only (chart: usage.hostPID=true)";
}

void node_page_make(struct node_page *ret, struct arena *arena, const struct node_facts *facts)
{
        const struct maker maker = {.facts = facts, .arena = arena};
        const struct inventory *inventory = facts->inventory;
        struct report_gpu *gpus;

        *ret = (struct node_page){.version = NODE_PAGE_VERSION,
                .node = facts->node,
                .agent = facts->agent,
                .time = time_of_samples(facts),
                .driver = inventory && *inventory->driver_version ? inventory->driver_version : NULL,
                .configuration = facts->configuration,
                .n_gpus = inventory ? MIN(inventory->n_gpus, (size_t)REPORT_GPUS_MAX) : 0};
        ret->gpus = gpus = ARENA_ARRAY(arena, struct report_gpu, ret->n_gpus);
        for (size_t i = 0; inventory && i < ret->n_gpus; i++)
                make_gpu(&maker, &gpus[i], &inventory->gpus[i]);
        ret->owners_unknown = page_owners_unknown(&maker, ret);
        add_events(&maker, ret);
}
