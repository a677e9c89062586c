#include "mps/supervisor/usage.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "gpu/hangs.h"
#include "gpu/process_list.h"

#define PROCESSES_MAX 4096U
#define POLLS_WITHOUT_CLIENTS 5U /* without clients NVML is asked once in so many polls */

struct mps_usage *mps_usage_free(struct mps_usage *usage)
{
        if (usage) {
                arena_done(&usage->arena);
                free(usage);
        }
        return NULL;
}

static bool usage_is_lost(nvmlReturn_t code)
{
        return code == NVML_ERROR_GPU_IS_LOST || code == NVML_ERROR_NOT_FOUND || code == NVML_ERROR_GPU_NOT_FOUND;
}

/* A driver that cannot list processes may still have the GPU, so ask for its memory, which every driver can report. */
static nvmlReturn_t read_processes_of(
        const struct nvml *nvml, nvmlDevice_t device, unsigned int *count, struct gpu_listed_process *listed)
{
        const nvmlReturn_t code = gpu_process_list(nvml, device, GPU_PROCESS_MPS, listed, count);
        nvmlMemory_t memory;
        nvmlReturn_t other;

        if (code == NVML_SUCCESS || usage_is_lost(code))
                return code;
        other = NVML_CALL(nvml, device_get_memory, device, &memory);
        return usage_is_lost(other) ? other : code;
}

static void take_processes(struct mps_usage *usage, const struct gpu_listed_process *listed, size_t count)
{
        struct mps_usage_process *processes = ARENA_ARRAY(&usage->arena, struct mps_usage_process, count);

        for (size_t i = 0; i < count; i++) {
                processes[i].pid = (pid_t)listed[i].pid;
                processes[i].memory = listed[i].memory;
        }
        usage->processes = processes;
        usage->n_processes = count;
}

void mps_usage_read(struct mps_usage *usage, const struct nvml *nvml, const char *uuid)
{
        _free_ struct gpu_listed_process *listed = xcalloc(PROCESSES_MAX, sizeof(*listed));
        unsigned int count = PROCESSES_MAX;
        nvmlDevice_t device;
        nvmlReturn_t code;
        struct error err;

        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, uuid);
        code = NVML_CALL(nvml, device_get_by_uuid, uuid, &device);
        if (code == NVML_SUCCESS)
                code = read_processes_of(nvml, device, &count, listed);
        if (usage_is_lost(code)) {
                nvml_fail(nvml, code, "NVML", &err);
                usage->lost = arena_strdup(&usage->arena, err.text);
        }
        if (code == NVML_SUCCESS)
                take_processes(usage, listed, count);
}

void mps_usage_pack(struct pack *pack, struct mps_usage *usage)
{
        pack_text(pack, &usage->lost);
        PACK(pack, usage->n_processes);
        PACK_ARRAY(pack, usage->processes, usage->n_processes);
}

bool mps_usage_is_same(const struct mps_usage *a, const struct mps_usage *b)
{
        if (!text_is_same(a->lost, b->lost) || a->n_processes != b->n_processes)
                return false;
        for (size_t i = 0; i < a->n_processes; i++)
                if (a->processes[i].pid != b->processes[i].pid || a->processes[i].memory != b->processes[i].memory)
                        return false;
        return true;
}

uint64_t mps_usage_of(const struct mps_usage *usage, int64_t now, pid_t pid)
{
        for (size_t i = 0; mps_usage_is_fresh(usage, now) && i < usage->n_processes; i++)
                if (usage->processes[i].pid == pid)
                        return usage->processes[i].memory;
        return UINT64_MAX;
}

/* ---- the units of daemons ---- */

struct usage_unit {
        struct nvml_request request;
        struct mps_usages *usages;
        char *uuid;
        struct mps_usage *usage; /* NULL: not known */
        int64_t asked_at;
        bool is_asked;
        bool is_held;     /* at the last poll, by a daemon that runs */
        bool has_crashed; /* the process that was asked last */
        struct list link; /* usages->units */
};

static int serve_usage(struct nvml_serving *serving, struct pack *question, struct pack *answer, struct error *err)
{
        struct mps_usage usage = {.arena = ARENA_INIT};
        const struct nvml *nvml;
        const char *uuid;

        pack_text(question, &uuid);
        if (nvml_serving_open(serving, &nvml, err) < 0)
                return -1;
        mps_usage_read(&usage, nvml, uuid);
        serving->must_close = usage.lost != NULL;
        mps_usage_pack(answer, &usage);
        arena_done(&usage.arena);
        return 0;
}

static int64_t usage_now_ms(void)
{
        return (int64_t)clock_now_ms();
}

uint64_t mps_usages_memory(const struct mps_usages *usages, const char *uuid, pid_t pid)
{
        const int64_t now = usage_now_ms();
        uint64_t memory = UINT64_MAX;

        LIST_FOR_EACH(link, &usages->units) {
                const struct usage_unit *unit = container_of(link, struct usage_unit, link);

                if (memory == UINT64_MAX && (!uuid || strcmp(unit->uuid, uuid) == 0))
                        memory = mps_usage_of(unit->usage, now, pid);
        }
        return memory;
}

static void report_if_lost(const struct usage_unit *unit)
{
        const struct mps_daemons *daemons = unit->usages->daemons;

        for (size_t i = 0; unit->usage->lost && i < daemons->n_items; i++)
                if (mps_daemon_holds(daemons->items[i], unit->uuid)) {
                        _free_ char *reason = xasprintf("its unit %s is lost: %s", unit->uuid, unit->usage->lost);

                        mps_daemon_lose(daemons->items[i], reason);
                }
}

static void take_usage(struct usage_unit *unit, struct pack *answer)
{
        struct mps_usage *usage = xcalloc(1, sizeof(*usage));
        bool is_new;

        answer->arena = &usage->arena;
        mps_usage_pack(answer, usage);
        usage->asked_at = unit->asked_at;
        /* Figures that were too old were reported as unknown. */
        is_new = !mps_usage_is_fresh(unit->usage, usage_now_ms()) || !mps_usage_is_same(unit->usage, usage);
        mps_usage_free(unit->usage);
        unit->usage = usage;
        report_if_lost(unit);
        if (is_new)
                unit->usages->owner.changed(false, unit->usages->owner.data);
}

/* NVML does not answer: do not report old figures. */
static void forget_if_old(struct usage_unit *unit)
{
        if (!unit->usage || mps_usage_is_fresh(unit->usage, usage_now_ms()))
                return;
        unit->usage = mps_usage_free(unit->usage);
        unit->usages->owner.changed(false, unit->usages->owner.data);
}

static bool is_any_asked(const struct mps_usages *usages)
{
        LIST_FOR_EACH(link, &usages->units)
                if (container_of(link, struct usage_unit, link)->is_asked)
                        return true;
        return false;
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

static void free_usage(struct usage_unit *unit)
{
        list_remove(&unit->link);
        mps_usage_free(unit->usage);
        free(unit->uuid);
        free(unit);
}

void mps_usages_done(struct mps_usages *usages)
{
        while (!list_is_empty(&usages->units))
                free_usage(container_of(usages->units.next, struct usage_unit, link));
}

static struct usage_unit *find_usage(struct mps_usages *usages, const char *uuid)
{
        struct usage_unit *unit;

        LIST_FOR_EACH(link, &usages->units) {
                unit = container_of(link, struct usage_unit, link);
                if (strcmp(unit->uuid, uuid) == 0)
                        return unit;
        }
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
                container_of(link, struct usage_unit, link)->is_held = false;
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
        struct list *next;
        bool is_due;

        find_held_units(usages);
        /* Without clients the next round is far, and a GPU that a process has opened cannot be reset. */
        if (!usages->has_clients && !is_any_asked(usages))
                nvml_pool_renew(usages->nvml);
        is_due = usages->polls++ % POLLS_WITHOUT_CLIENTS == 0 || usages->has_clients;
        for (struct list *link = usages->units.next; link != &usages->units; link = next) {
                struct usage_unit *unit = container_of(link, struct usage_unit, link);

                next = link->next;
                if (unit->is_asked)
                        forget_if_old(unit);
                else if (!unit->is_held)
                        free_usage(unit);
                else if (is_due)
                        ask_usage(unit);
        }
}
