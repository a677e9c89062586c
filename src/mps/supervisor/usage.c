// SPDX-License-Identifier: Apache-2.0
#include "mps/supervisor/usage.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pack.h"
#include "base/text.h"
#include "gpu/hangs.h"
#include "gpu/process_list.h"

#define PROCESSES_MAX 4096U
#define POLLS_WITHOUT_CLIENTS 5U /* without clients NVML is asked once in so many polls */

/* The figures of NVML about a unit. */
struct figures {
        const char *lost; /* why the unit does not exist any more, or NULL */
        const struct gpu_listed_process *processes;
        size_t n_processes;
};

struct usage_unit {
        struct nvml_request request;
        struct mps_usages *usages;
        char *uuid;
        struct arena arena; /* for |figures| */
        struct figures figures;
        bool is_known;
        int64_t known_at; /* when NVML was asked for |figures|, in milliseconds of the monotonic clock */
        int64_t asked_at;
        bool is_asked;
        bool is_held;     /* at the last poll, by a daemon that runs */
        bool has_crashed; /* the process that was asked last */
        struct list link; /* usages->units */
};

/* ---- in a process with NVML ---- */

static bool usage_is_lost(nvmlReturn_t code)
{
        return code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_GPU_NOT_FOUND;
}

/* A driver that cannot list processes may still have the GPU, so ask for its memory, which every driver can report. */
static nvmlReturn_t usage_list(
        const struct nvml *nvml, const char *uuid, struct gpu_listed_process *listed, unsigned int *count)
{
        nvmlDevice_t device;
        nvmlMemory_t memory;
        nvmlReturn_t code;
        nvmlReturn_t other;

        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, &device);
        if (code != NVML_SUCCESS)
                return code;
        code = gpu_process_list(nvml, device, GPU_PROCESS_MPS, listed, count);
        if (code == NVML_SUCCESS || usage_is_lost(code))
                return code;
        other = NVML_CALL(nvml, device_get_memory, device, &memory);
        return usage_is_lost(other) ? other : code;
}

static void pack_figures(struct pack *pack, struct figures *figures)
{
        pack_text(pack, &figures->lost);
        PACK(pack, figures->n_processes);
        PACK_ARRAY(pack, figures->processes, figures->n_processes);
}

static int serve_usage(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        _free_ struct gpu_listed_process *listed = xcalloc(PROCESSES_MAX, sizeof(*listed));
        struct figures figures = {.processes = listed};
        unsigned int count = PROCESSES_MAX;
        const struct nvml *nvml;
        struct error why;
        nvmlReturn_t code;
        const char *uuid;

        pack_text(question, &uuid);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        code = usage_list(nvml, uuid, listed, &count);
        if (usage_is_lost(code)) {
                nvml_fail(nvml, code, "NVML", &why);
                figures.lost = why.text;
                serving->must_close = true;
        }
        figures.n_processes = code == NVML_SUCCESS ? count : 0;
        pack_figures(answer, &figures);
        return 0;
}

/* ---- on the loop ---- */

static int64_t usage_now_ms(void)
{
        return (int64_t)clock_now_ms();
}

static struct usage_unit *usage_unit_of(struct list *link)
{
        return container_of(link, struct usage_unit, link);
}

static bool usage_is_fresh(const struct usage_unit *unit)
{
        return unit->is_known && usage_now_ms() - unit->known_at <= MPS_USAGE_FRESH_MS;
}

uint64_t mps_usages_memory(const struct mps_usages *usages, const char *uuid, pid_t pid)
{
        LIST_FOR_EACH(link, &usages->units) {
                const struct usage_unit *unit = usage_unit_of(link);
                const struct figures *figures = &unit->figures;

                if ((uuid && strcmp(unit->uuid, uuid) != 0) || !usage_is_fresh(unit))
                        continue;
                for (size_t i = 0; i < figures->n_processes; i++) {
                        const struct gpu_listed_process *process = &figures->processes[i];

                        if (process->pid == (unsigned int)pid && process->memory != UINT64_MAX)
                                return process->memory;
                }
        }
        return UINT64_MAX;
}

static void report_lost(const struct usage_unit *unit)
{
        const struct mps_daemons *daemons = unit->usages->daemons;
        _free_ char *reason = xasprintf("its unit %s is lost: %s", unit->uuid, unit->figures.lost);

        for (size_t i = 0; i < daemons->n_items; i++)
                if (mps_daemon_holds(daemons->items[i], unit->uuid))
                        mps_daemon_lose(daemons->items[i], reason);
}

static bool usage_is_same(const struct figures *a, const struct figures *b)
{
        if (!text_is_same(a->lost, b->lost) || a->n_processes != b->n_processes)
                return false;
        for (size_t i = 0; i < a->n_processes; i++)
                if (a->processes[i].pid != b->processes[i].pid || a->processes[i].memory != b->processes[i].memory)
                        return false;
        return true;
}

static void take_usage(struct usage_unit *unit, struct pack *answer)
{
        struct arena arena = ARENA_INIT;
        struct figures figures;
        bool is_new;

        answer->arena = &arena;
        pack_figures(answer, &figures);
        /* Figures that were too old were reported as unknown. */
        is_new = !usage_is_fresh(unit) || !usage_is_same(&unit->figures, &figures);
        arena_done(&unit->arena);
        unit->arena = arena;
        unit->figures = figures;
        unit->is_known = true;
        unit->known_at = unit->asked_at;
        if (figures.lost)
                report_lost(unit);
        if (is_new)
                unit->usages->owner.changed(false, unit->usages->owner.data);
}

/* NVML does not answer: do not report old figures. */
static void forget_if_old(struct usage_unit *unit)
{
        if (!unit->is_known || usage_is_fresh(unit))
                return;
        unit->is_known = false;
        unit->usages->owner.changed(false, unit->usages->owner.data);
}

static void on_usage(struct nvml_request *request, const struct error *err, struct pack *answer)
{
        struct usage_unit *unit = container_of(request, struct usage_unit, request);
        const bool has_crashed = err && err->kind != ERROR_TIMEOUT && *request->lost.call;

        unit->is_asked = false;
        if (!unit->usages->nvml)
                return;
        if (has_crashed && !unit->has_crashed)
                log_warn("a process that asks NVML was ended by it: the memory of clients is not known",
                        LOG_STR("unit", unit->uuid), LOG_ERR(err));
        unit->has_crashed = has_crashed;
        if (err)
                forget_if_old(unit);
        else
                take_usage(unit, answer);
}

static void ask_usage(struct usage_unit *unit)
{
        const char *uuid = unit->uuid;
        struct pack question;

        nvml_request_init(&unit->request, serve_usage, uuid, on_usage);
        question = pack_writer(&unit->request.question);
        pack_text(&question, &uuid);
        unit->asked_at = usage_now_ms();
        unit->is_asked = true;
        nvml_pool_ask(unit->usages->nvml, &unit->request);
}

/* ---- the units of daemons ---- */

static void free_usage(struct usage_unit *unit)
{
        list_remove(&unit->link);
        arena_done(&unit->arena);
        free(unit->uuid);
        free(unit);
}

void mps_usages_init(struct mps_usages *usages, struct nvml_pool *nvml, const struct mps_daemons *daemons,
        const struct mps_record_owner *owner)
{
        *usages = (struct mps_usages){.nvml = nvml, .daemons = daemons, .owner = *owner};
        list_init(&usages->units);
}

void mps_usages_done(struct mps_usages *usages)
{
        while (!list_is_empty(&usages->units))
                free_usage(usage_unit_of(usages->units.next));
}

static struct usage_unit *find_usage(struct mps_usages *usages, const char *uuid)
{
        struct usage_unit *unit;

        LIST_FOR_EACH(link, &usages->units)
                if (strcmp(usage_unit_of(link)->uuid, uuid) == 0)
                        return usage_unit_of(link);
        unit = xcalloc(1, sizeof(*unit));
        unit->usages = usages;
        unit->uuid = xstrdup(uuid);
        list_append(&usages->units, &unit->link);
        return unit;
}

/* Marks the units of daemons that run. */
static void find_held_units(struct mps_usages *usages)
{
        const struct mps_daemons *daemons = usages->daemons;
        struct mps_record_daemon process;

        LIST_FOR_EACH(link, &usages->units)
                usage_unit_of(link)->is_held = false;
        usages->has_clients = false;
        for (size_t i = 0; i < daemons->n_items; i++) {
                if (!mps_daemon_record(daemons->items[i], &process))
                        continue;
                usages->has_clients |= mps_daemon_has_clients(daemons->items[i]);
                for (size_t j = 0; j < process.settings.n_units; j++)
                        find_usage(usages, process.settings.units[j].uuid)->is_held = true;
        }
}

/* Without a client no memory is used; only check that the units still exist. */
void mps_usages_poll(struct mps_usages *usages)
{
        bool is_any_asked = false;
        struct list *next;
        bool is_due;

        find_held_units(usages);
        LIST_FOR_EACH(link, &usages->units)
                is_any_asked |= usage_unit_of(link)->is_asked;
        /* Without clients the next round is far, and a GPU that a process has opened cannot be reset. */
        if (!usages->has_clients && !is_any_asked)
                nvml_pool_renew(usages->nvml);
        is_due = usages->polls++ % POLLS_WITHOUT_CLIENTS == 0 || usages->has_clients;
        for (struct list *link = usages->units.next; link != &usages->units; link = next) {
                struct usage_unit *unit = usage_unit_of(link);

                next = link->next;
                if (unit->is_asked)
                        forget_if_old(unit);
                else if (!unit->is_held)
                        free_usage(unit);
                else if (is_due)
                        ask_usage(unit);
        }
}
