// SPDX-License-Identifier: Apache-2.0
/*
 * The plan as a table: a block per resource, with one line for all units that are alike, and the share for each number
 * of replicas.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli/columns.h"
#include "cmd/plan/view.h"
#include "plan/share.h"
#include "plan/capability.h"
#include "plan/allocations.h"

struct look {
        struct strbuf *text;
        const struct plan_view *view;
        bool has_colours;
};

static const char *table_colour(const struct look *look, const char *code)
{
        return look->has_colours ? code : "";
}

#define BOLD "\033[1m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

/* ---- units that are alike ---- */

static const char *what(const struct unit *unit)
{
        return unit->mig && unit->mig->profile ? unit->mig->profile : unit->gpu->name;
}

static unsigned int table_clients_of(const struct look *look, const struct unit *unit)
{
        return capability_clients(unit, look->view->plan->inventory->driver_version);
}

static bool is_alike(const struct look *look, const struct unit *a, const struct unit *b)
{
        return strcmp(a->gpu->name, b->gpu->name) == 0 && strcmp(what(a), what(b)) == 0 && a->memory == b->memory &&
               a->replicas == b->replicas && a->shared == b->shared && sm_count(a) == sm_count(b) &&
               a->gpu->compute_major == b->gpu->compute_major && unit_is_divided(a) == unit_is_divided(b) &&
               table_clients_of(look, a) == table_clients_of(look, b);
}

/* The first unit of |resource| that is like this one. */
static bool is_first(const struct look *look, const struct resource *resource, size_t position)
{
        for (size_t i = 0; i < position; i++)
                if (is_alike(look, &resource->units[i], &resource->units[position]))
                        return false;
        return true;
}

/* The last number of an index, "3" or "0:3"; -1: none. |*ret_prefix|: bytes before it. */
static long last_number(const char *index, size_t *ret_prefix)
{
        const char *colon = strrchr(index, ':');
        const char *number = colon ? colon + 1 : index;
        char *end;
        long value = strtol(number, &end, 10);

        *ret_prefix = (size_t)(number - index);
        return end != number && !*end ? value : -1;
}

static bool follows(const char *a, const char *b)
{
        size_t prefix_a;
        size_t prefix_b;
        long number_a = last_number(a, &prefix_a);
        long number_b = last_number(b, &prefix_b);

        return number_a >= 0 && number_b == number_a + 1 && prefix_a == prefix_b && strncmp(a, b, prefix_a) == 0;
}

/* "0-3", "0:0-6, 2:1". */
static void put_run(struct strbuf *text, const char *first, const char *last)
{
        size_t prefix;

        strbuf_printf(text, "%s%s", text->size ? ", " : "", first);
        last_number(last, &prefix);
        if (first != last)
                strbuf_printf(text, "-%s", last + prefix);
}

static char *list_kind(const struct look *look, const struct resource *resource, const struct unit *kind)
{
        struct strbuf text = STRBUF_INIT;
        const char *first = NULL;
        const char *last = NULL;

        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];

                if (!is_alike(look, unit, kind))
                        continue;
                if (last && !follows(last, unit->index)) {
                        put_run(&text, first, last);
                        first = NULL;
                }
                last = unit->index;
                if (!first)
                        first = last;
        }
        put_run(&text, first, last);
        return strbuf_take(&text);
}

/* ---- cells ---- */

static void add_mib(struct columns *columns, uint64_t mib, const char *none)
{
        if (mib)
                columns_add(columns, "%" PRIu64 " MiB", mib);
        else
                columns_add(columns, "%s", none);
}

static void add_permille(struct columns *columns, unsigned int permille)
{
        columns_add(columns, "%u.%u %%", permille / 10, permille % 10);
}

static void add_count(struct columns *columns, unsigned int count)
{
        if (count)
                columns_add(columns, "%u", count);
        else
                columns_add(columns, "-");
}

/* ---- devices of DRA ---- */

#define MIB (UINT64_C(1) << 20)

static uint64_t dra_consumed(const struct dra_device *device, const char *counter)
{
        for (size_t i = 0; i < device->n_consumes; i++)
                if (strcmp(device->consumes[i].name, counter) == 0)
                        return device->consumes[i].value;
        return 0;
}

bool plan_dra_excludes(const struct dra_device *a, const struct dra_device *b)
{
        const struct dra_counter_set *set = a->counter_set;

        if (!set || set != b->counter_set || strcmp(a->name, b->name) == 0)
                return false;
        for (size_t i = 0; i < set->n_counters; i++)
                if (dra_consumed(a, set->counters[i].name) + dra_consumed(b, set->counters[i].name) >
                        set->counters[i].value)
                        return true;
        return false;
}

/* "79296 MiB (9912)", "100 % (10)", "4 (1)"; "-" for what the device does not have. */
static void add_capacity(
        struct columns *columns, const struct dra_device *device, const char *name, uint64_t one, const char *what)
{
        const struct dra_capacity *capacity = dra_device_capacity(device, name);

        if (!capacity)
                columns_add(columns, "-");
        else if (capacity->has_policy)
                columns_add(
                        columns, "%" PRIu64 "%s (%" PRIu64 ")", capacity->value / one, what, capacity->preset / one);
        else
                columns_add(columns, "%" PRIu64 "%s", capacity->value / one, what);
}

static void add_excluded(struct columns *columns, const struct dra_layout *layout, const struct dra_device *device)
{
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;

        for (size_t i = 0; i < layout->n_devices; i++)
                if (plan_dra_excludes(device, &layout->devices[i]))
                        strbuf_printf(&list, "%s%s", list.size ? ", " : "", layout->devices[i].name);
        columns_add(columns, "%s", list.size ? list.data : "-");
}

/* A row for each device; the heads are its own. */
static void print_dra(struct strbuf *text, const struct dra_layout *layout, bool has_colours)
{
        static const struct column list[] = {{"DEVICE", false}, {"KIND", false}, {"MEMORY", true}, {"THREADS", true},
                {"CLIENTS", true}, {"SLOTS", true}, {"EXCLUDES", false}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < layout->n_devices; i++) {
                const struct dra_device *device = &layout->devices[i];

                columns_add(&columns, "%s", device->name);
                columns_add(&columns, "%s", dra_device_kind_name(device->kind));
                add_capacity(&columns, device, DRA_CAPACITY_MEMORY, MIB, " MiB");
                add_capacity(&columns, device, DRA_CAPACITY_THREADS, 1, " %");
                add_capacity(&columns, device, DRA_CAPACITY_CLIENTS, 1, "");
                add_capacity(&columns, device, DRA_CAPACITY_SLOTS, 1, "");
                add_excluded(&columns, layout, device);
        }
        columns_print(text, &columns, "  ", has_colours);
        columns_done(&columns);
}

/* ---- a resource ---- */

static void table_put_units(const struct look *look, const struct resource *resource)
{
        static const struct column list[] = {{"UNITS", false}, {"WHAT", false}, {"MEMORY", true}, {"RESERVED", true},
                {"SMS", true}, {"REPLICAS", true}, {"MAX CLIENTS", true}, {"TIER", false}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                bool is_mps = unit->shared && resource->strategy == SHARING_MPS;
                _free_ char *units = NULL;

                if (!is_first(look, resource, i))
                        continue;
                units = list_kind(look, resource, unit);
                columns_add(&columns, "%s", units);
                columns_add(&columns, "%s", what(unit));
                add_mib(&columns, unit->memory >> 20, "unknown");
                add_mib(&columns,
                        is_mps && resource->provisioning != PROVISIONING_UNIFORM ? share_reserve_mib(unit) : 0, "-");
                add_count(&columns, sm_count(unit));
                add_count(&columns, unit->shared ? unit->replicas : 0);
                add_count(&columns, is_mps ? table_clients_of(look, unit) : 0);
                columns_add(&columns, "%s", is_mps ? share_promise(look->view->plan, resource, unit) : "-");
        }
        columns_print(look->text, &columns, "  ", look->has_colours);
        columns_done(&columns);
}

/* The line for requests above the largest allowed one. */
static void add_refusal(struct columns *columns, const struct resource *resource, const struct unit *unit)
{
        unsigned int most = unit->replicas;

        while (most > 1 && plan_refusal(resource, most))
                most--;
        if (most == unit->replicas)
                return;
        columns_add(columns, "%s", "");
        columns_add(columns, "more than %u", most);
        columns_add(columns, "-");
        columns_add(columns, "-");
        columns_add(columns, "-");
        columns_add(columns, "refused by %s", plan_refusal(resource, most + 1));
}

static void table_add_share(
        const struct look *look, struct columns *columns, const struct resource *resource, const struct unit *unit)
{
        unsigned int counts[PLAN_VIEW_COUNTS_MAX];
        size_t n_counts = plan_counts_of(look->view, unit, counts);
        _free_ char *units = list_kind(look, resource, unit);

        if (unit_is_divided(unit)) {
                columns_add_row(
                        columns, units, "any", NULL, NULL, NULL, "at most one MIG device of it, whatever is asked for");
                return;
        }
        for (size_t i = 0; i < n_counts && !plan_refusal(resource, counts[i]); i++) {
                struct share share = share_of(resource, unit, counts[i]);

                columns_add(columns, "%s", i ? "" : units);
                columns_add(columns, "%u of %u", counts[i], unit->replicas);
                add_mib(columns, share.memory_mib, "no limit");
                add_permille(columns, share.threads_permille);
                add_count(columns, share.sms);
                columns_add(columns, "%s", "");
        }
        add_refusal(columns, resource, unit);
}

static void put_shares(const struct look *look, const struct resource *resource)
{
        static const struct column list[] = {{"UNITS", false}, {"CONTAINER HOLDS", true}, {"MEMORY", true},
                {"THREADS", true}, {"SMS", true}, {"", false}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < resource->n_units; i++)
                if (resource->units[i].shared && is_first(look, resource, i))
                        table_add_share(look, &columns, resource, &resource->units[i]);
        strbuf_putc(look->text, '\n');
        columns_print(look->text, &columns, "  ", look->has_colours);
        columns_done(&columns);
}

static void put_sharing(const struct look *look, const struct resource *resource)
{
        strbuf_printf(look->text, "  shared by %s", sharing_strategy_name(resource->strategy));
        if (resource->strategy == SHARING_MPS)
                strbuf_printf(look->text, ", provisioning %s", provisioning_name(resource->provisioning));
        strbuf_printf(look->text, ", placement %s", placement_name(resource->placement));
        if (resource->max_per_request)
                strbuf_printf(
                        look->text, ", at most %u replicas a container, always on one unit", resource->max_per_request);
        strbuf_puts(look->text, "\n");
}

/* A resource has one section for all its units (plan/plan.h). */
static void put_ceilings(const struct look *look, const struct resource *resource)
{
        const struct sharing_section *section = NULL;

        for (size_t i = 0; i < resource->n_units && !section; i++)
                if (resource->units[i].shared)
                        section = resource->units[i].shared->section;
        if (!section)
                return;
        strbuf_puts(look->text, "\n  A container that declares nothing has that share. A container may declare up to ");
        if (section->max_threads)
                strbuf_printf(look->text, "%u %% of the threads and ", section->max_threads);
        else
                strbuf_puts(look->text, "all of the threads and ");
        if (section->max_memory_mib)
                strbuf_printf(look->text, "%llu MiB.\n", (unsigned long long)section->max_memory_mib);
        else
                strbuf_puts(look->text, "all of the memory.\n");
}

/* How many replicas are reserved, and what would be advertised otherwise. */
static void put_reserve(const struct look *look, const struct resource *resource)
{
        static const struct column list[] = {{"WAY TO RESERVE FEWER", false}, {"ADVERTISED", true}, {"", false}};
        const bool is_much = allocations_reserved_is_much(resource);
        struct allocations_way ways[ALLOCATIONS_WAYS];
        const size_t n_ways = allocations_ways_out(resource, ways);
        struct columns columns;

        strbuf_printf(look->text,
                "  of %zu replicas: with more, a request for %u might find no unit with as many free replicas\n"
                "  %s%zu (%zu %%) are reserved for that%s\n\n",
                resource->n_devices, resource->max_per_request, is_much ? table_colour(look, BOLD) : "",
                allocations_n_reserved(resource), allocations_n_reserved(resource) * 100 / resource->n_devices,
                is_much ? table_colour(look, PLAIN) : "");
        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < n_ways; i++) {
                columns_add(&columns, "maxPerRequest: %u", ways[i].max_per_request);
                columns_add(&columns, "%zu", ways[i].advertised);
                columns_add(&columns, "%s", "");
        }
        columns_add(&columns, "reserve: none");
        columns_add(&columns, "%zu", resource->n_devices);
        columns_add(&columns, "a pod that asks for several may be refused");
        columns_add(&columns, "scope: individual");
        columns_add(&columns, "%zu", resource->n_devices);
        columns_add(&columns, "a resource for each unit");
        columns_add(&columns, "DRA (--dra)");
        columns_add(&columns, "all");
        columns_add(&columns, "claims of any size, from Kubernetes 1.36 on");
        columns_print(look->text, &columns, "    ", look->has_colours);
        columns_done(&columns);
        strbuf_putc(look->text, '\n');
}

static void table_put_resource(const struct look *look, const struct resource *resource)
{
        size_t advertised = plan_advertised(resource);

        strbuf_printf(look->text, "\n%s%s%s: %zu\n", table_colour(look, BOLD), resource->name,
                table_colour(look, PLAIN), advertised);
        if (advertised < resource->n_devices)
                put_reserve(look, resource);
        if (resource->strategy != SHARING_NONE)
                put_sharing(look, resource);
        strbuf_putc(look->text, '\n');
        table_put_units(look, resource);
        if (resource->strategy == SHARING_MPS)
                put_shares(look, resource);
        if (resource->provisioning == PROVISIONING_DECLARED)
                put_ceilings(look, resource);
        if (resource->strategy == SHARING_TIME_SLICING)
                strbuf_puts(look->text, "\n  Containers take turns: memory and threads have no limit, and several "
                                        "replicas of a unit are worth no more than one.\n");
        if (resource->strategy == SHARING_TIME_SLICING && resource->fail_requests_greater_than_one)
                strbuf_printf(look->text, "  A container that asks for more than one is refused by %s.\n",
                        plan_refusal(resource, 2));
}

/* ---- the whole plan ---- */

static void put_daemons(const struct look *look)
{
        static const struct column list[] = {
                {"DAEMON", false}, {"UNITS", false}, {"MOST MEMORY", true}, {"MOST THREADS", true}};
        const struct mps_wanted *wanted = &look->view->daemons;
        struct columns columns;

        if (wanted->n_daemons == 0)
                return;
        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < wanted->n_daemons; i++) {
                const struct mps_daemon_wanted *daemon = &wanted->daemons[i];

                for (size_t j = 0; j < daemon->n_units; j++) {
                        columns_add(&columns, "%s", j ? "" : daemon->name);
                        columns_add(&columns, "%s", daemon->units[j].index);
                        add_mib(&columns, daemon->units[j].limit_mib, "no limit");
                        add_permille(&columns, daemon->threads_permille);
                }
        }
        strbuf_printf(look->text,
                "\n"
                "%sMPS control daemons%s: %zu, and the most that each allows one client\n"
                "\n",
                table_colour(look, BOLD), table_colour(look, PLAIN), wanted->n_daemons);
        columns_print(look->text, &columns, "  ", look->has_colours);
        columns_done(&columns);
}

static void put_dra(const struct look *look)
{
        const struct dra_layout *layout = look->view->dra;

        if (!layout)
                return;
        strbuf_printf(look->text, "\n%sDRA driver %s%s: %zu device%s\n", table_colour(look, BOLD),
                look->view->plan->config->dra.driver_name, table_colour(look, PLAIN), layout->n_devices,
                layout->n_devices == 1 ? "" : "s");
        if (layout->n_devices > 0) {
                strbuf_puts(look->text, "  in parentheses: what a claim gets that requests none\n\n");
                print_dra(look->text, layout, look->has_colours);
        }
        if (layout->n_notes > 0)
                strbuf_putc(look->text, '\n');
        for (size_t i = 0; i < layout->n_notes; i++)
                strbuf_printf(look->text, "  %s\n", layout->notes[i]);
}

static void put_node(const struct look *look)
{
        const struct inventory *inventory = look->view->plan->inventory;
        const struct config *config = look->view->plan->config;

        strbuf_printf(look->text, "%zu GPU%s", inventory->n_gpus, inventory->n_gpus == 1 ? "" : "s");
        if (look->view->simulated)
                strbuf_printf(look->text, " (simulated: %s)", look->view->simulated);
        if (*inventory->driver_version)
                strbuf_printf(look->text, ", driver %s", inventory->driver_version);
        if (*config->path)
                strbuf_printf(look->text, ", config '%s'\n", config->path);
        else
                strbuf_puts(look->text, ", no config file\n");
}

void plan_table_print(struct strbuf *text, const struct plan_view *view, bool has_colours)
{
        const struct look look = {text, view, has_colours};

        put_node(&look);
        if (view->plan->n_resources == 0)
                strbuf_puts(text, view->dra && view->dra->n_devices > 0
                                          ? "\nno resource of the device plugin: DRA has all GPUs\n"
                                          : "\nno resource: nothing is advertised to kubelet\n");
        for (size_t i = 0; i < view->plan->n_resources; i++)
                table_put_resource(&look, &view->plan->resources[i]);
        put_daemons(&look);
        put_dra(&look);
        if (view->n_warnings)
                strbuf_putc(text, '\n');
        for (size_t i = 0; i < view->n_warnings; i++)
                strbuf_printf(text, "%swarning:%s %s\n", table_colour(&look, YELLOW), table_colour(&look, PLAIN),
                        view->warnings[i]);
}
