/*
 * Partitions and namespaces of containers. This is the only place that compares the wanted ones with the existing ones.
 *
 * The rule:
 *
 *   1. An entry is wanted from the agent's request, or from the agent's list of allocations, until it is released, or
 *      until it is missing in that list. The ledger alone decides that (node/ledger/granted.h).
 *   2. It exists if it was created in the current process of its daemon.
 *   3. As soon as that process accepts commands, what is wanted and does not exist is created; what exists and is not
 *      wanted is removed; what is neither is forgotten.
 *   4. A partition that was never created is created for its own request only: its container finds it by an id.
 *   5. There is one request for an entry at a time; others wait for it.
 *   6. A failure is retried after 1 s, then after twice the time, at most a minute; a new process is asked at once.
 *
 * Example: container g1 has a namespace of 30 % in process 4711 of its daemon, and g2 ends while it still has a client.
 * g1 is wanted and exists: nothing to do. g2 exists and is not wanted: its removal fails, and is tried again after 1,
 * 2, 4 s. The daemon dies and is process 4712 after that. g1 does not exist there: it is created anew, under the same
 * path, where the container finds it. g2 neither exists nor is wanted: it is forgotten.
 */
#include "mps/supervisor/requests.h"

#include <string.h>

#include "base/log.h"
#include "base/map.h"

#define RETRY_MS UINT64_C(1000)
#define RETRY_MAX_MS UINT64_C(60000)

struct allocation_entry {
        struct list link; /* supervisor->allocations */
        struct arena arena;
        struct mps_record_allocation value; /* pid 0: not created yet */
        unsigned int failures;              /* in a row, in one process of the daemon */
        uint64_t asked_start;               /* start time of the process that was asked last */
        uint64_t due_ms;
        char *problem; /* why it cannot be created; NULL: no problem known */
};

/* ---- allocations ---- */

static struct allocation_entry *find_entry(const struct mps_supervisor *supervisor, const char *id)
{
        LIST_FOR_EACH(link, &supervisor->allocations) {
                struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (strcmp(entry->value.request.id, id) == 0)
                        return entry;
        }
        return NULL;
}

static void free_entry(struct allocation_entry *entry)
{
        struct arena arena = entry->arena;

        list_remove(&entry->link);
        free(entry->problem);
        arena_done(&arena);
}

/* Replaces an entry of the same id. */
static struct allocation_entry *put_entry(struct mps_supervisor *supervisor, const struct mps_record_allocation *value)
{
        struct allocation_entry *old = find_entry(supervisor, value->request.id);
        struct arena arena = ARENA_INIT;
        struct allocation_entry *entry = ARENA_NEW(&arena, struct allocation_entry);

        entry->value = *value;
        mps_allocation_request_copy(&entry->value.request, &arena, &value->request);
        mps_allocation_copy(&entry->value.allocation, &arena, &value->allocation);
        entry->arena = arena;
        list_append(&supervisor->allocations, &entry->link);
        if (old)
                free_entry(old);
        return entry;
}

static bool is_current(const struct mps_run *run, const struct mps_record_allocation *allocation)
{
        struct mps_record_daemon process;

        return mps_run_record(run, &process) && process.pid == allocation->pid &&
               process.start_time == allocation->start_time;
}

/* The container still has the partition that an earlier process created. */
static bool is_another(const struct allocation_entry *old, const char *partition)
{
        return old && old->value.pid &&
               (!old->value.allocation.partition || strcmp(old->value.allocation.partition, partition) != 0);
}

/* A namespace has the same path again, so its container finds it. */
void supervisor_allocations_made(struct request *request, const struct mps_record_daemon *process)
{
        const struct allocation_entry *old = find_entry(request->supervisor, request->wanted.id);
        const char *partition = request->allocation.partition;
        const struct mps_record_allocation value = {
                .request = request->wanted,
                .allocation = request->allocation,
                .pid = process->pid,
                .start_time = process->start_time,
                .is_void = partition && is_another(old, partition),
                .is_over = request->is_unwanted,
        };

        put_entry(request->supervisor, &value);
        request_end(request, NULL);
        supervisor_note(request->supervisor, true);
}

void supervisor_allocations_removed(struct request *request, const struct error *err)
{
        struct allocation_entry *entry = find_entry(request->supervisor, request->wanted.id);

        if (entry && !err)
                free_entry(entry);
        request_end(request, err);
        supervisor_note(request->supervisor, true);
}

/* ---- requests ---- */

/* The running request for this entry, or NULL; other requests wait for it. */
static struct request *find_request(const struct mps_supervisor *supervisor, const char *id)
{
        LIST_FOR_EACH(link, &supervisor->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->kind != REQUEST_TERMINATE && !request->is_waiting && strcmp(request->wanted.id, id) == 0)
                        return request;
        }
        return NULL;
}

static bool makes_parts(const struct mps_run *run)
{
        return mps_run_options(run) & (MPS_CAN_PARTITION | MPS_CAN_NAMESPACE);
}

static void start_allocation(struct request *request)
{
        struct mps_supervisor *supervisor = request->supervisor;
        struct allocation_entry *entry = find_entry(supervisor, request->wanted.id);
        struct mps_control *control;

        request->is_waiting = false;
        control = request_control(request, request->wanted.daemon);
        if (!control)
                return;
        if (entry)
                entry->value.is_over = request->is_unwanted;
        if (!makes_parts(request->run)) {
                request->allocation.tier = mps_run_tier(request->run); /* nothing needs to be created */
                request_end(request, NULL);
        } else if (entry && is_current(request->run, &entry->value)) {
                mps_allocation_copy(&request->allocation, &request->arena, &entry->value.allocation);
                request_end(request, NULL);
        } else {
                request_make(request, control);
        }
}

void mps_supervisor_allocation(struct mps_supervisor *supervisor, const struct mps_allocation_request *wanted,
        mps_granted_fn *done, void *data)
{
        const bool is_busy = find_request(supervisor, wanted->id) != NULL;
        struct request *request = request_new(supervisor, REQUEST_ALLOCATION, data);

        request->granted = done;
        mps_allocation_request_copy(&request->wanted, &request->arena, wanted);
        request->is_waiting = is_busy;
        if (!is_busy)
                start_allocation(request);
}

/* Entries whose retry is due. */
static void start_waiting(struct mps_supervisor *supervisor)
{
        LIST_FOR_EACH(link, &supervisor->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->is_waiting && !find_request(supervisor, request->wanted.id))
                        start_allocation(request);
        }
}

/* May free the entry. |done| may be NULL. */
static void allocations_release(
        struct mps_supervisor *supervisor, struct allocation_entry *entry, mps_done_fn *done, void *data)
{
        struct mps_run *run = supervisor_find(supervisor, entry->value.request.daemon);
        struct mps_control *control = run && is_current(run, &entry->value) ? mps_run_control(run) : NULL;
        struct request *request = request_new(supervisor, REQUEST_RELEASE, data);

        entry->value.is_over = true;
        request->done = done;
        mps_allocation_request_copy(&request->wanted, &request->arena, &entry->value.request);
        if (control) {
                request->run = run;
                request_remove(request, &entry->value, control);
                return;
        }
        free_entry(entry); /* what it had ended with the process, or was never created */
        request_end(request, NULL);
        supervisor_note(supervisor, true);
}

void mps_supervisor_release(struct mps_supervisor *supervisor, const char *id, mps_done_fn *done, void *data)
{
        struct allocation_entry *entry = find_entry(supervisor, id);
        struct request *request;

        if (entry && !find_request(supervisor, id)) {
                allocations_release(supervisor, entry, done, data);
                return;
        }
        /* If a request is running for it, it is removed when that ends; otherwise there is nothing to remove. */
        if (entry)
                entry->value.is_over = true;
        LIST_FOR_EACH(link, &supervisor->requests) {
                struct request *asked = container_of(link, struct request, link);

                if (asked->kind == REQUEST_ALLOCATION && strcmp(asked->wanted.id, id) == 0)
                        asked->is_unwanted = true;
        }
        request = request_new(supervisor, REQUEST_RELEASE, data);
        request->done = done;
        request->wanted.id = arena_strdup(&request->arena, id);
        request_end(request, NULL);
        supervisor_note(supervisor, true);
}

/* ---- reconciling ---- */

void mps_supervisor_hold(
        struct mps_supervisor *supervisor, const struct mps_allocation_request *wanted, size_t n_wanted)
{
        struct map ids = {0};
        bool is_new = false;

        for (size_t i = 0; i < n_wanted; i++)
                map_add(&ids, wanted[i].id, supervisor);
        LIST_FOR_EACH(link, &supervisor->requests) {
                struct request *request = container_of(link, struct request, link);

                if (request->kind == REQUEST_ALLOCATION)
                        request->is_unwanted = !map_find(&ids, request->wanted.id);
        }
        LIST_FOR_EACH(link, &supervisor->allocations) {
                struct allocation_entry *entry = container_of(link, struct allocation_entry, link);
                const bool is_over = !map_find(&ids, entry->value.request.id);

                is_new |= entry->value.is_over != is_over;
                entry->value.is_over = is_over;
        }
        map_done(&ids);
        for (size_t i = 0; i < n_wanted; i++)
                if (!find_entry(supervisor, wanted[i].id) && !find_request(supervisor, wanted[i].id)) {
                        put_entry(supervisor, &(const struct mps_record_allocation){.request = wanted[i]});
                        is_new = true;
                }
        if (is_new)
                supervisor_note(supervisor, true);
        supervisor_allocations_reconcile(supervisor);
}

static uint64_t now_ms(const struct mps_supervisor *supervisor)
{
        return uv_now(supervisor->options.loop);
}

/* The entry's daemon, if its current process is ready for such commands. */
static struct mps_run *find_ready_run(const struct mps_supervisor *supervisor, const struct allocation_entry *entry)
{
        struct mps_run *run = supervisor_find(supervisor, entry->value.request.daemon);

        return run && mps_run_is_ready(run) && makes_parts(run) ? run : NULL;
}

/*
 * A container finds its namespace by path, whoever created it. It finds a partition by an id, so a partition that was
 * never created before belongs to no container.
 */
static bool is_of_use(const struct mps_run *run, const struct allocation_entry *entry)
{
        return mps_run_options(run) & MPS_CAN_NAMESPACE || entry->value.pid;
}

static void make_missing(struct mps_supervisor *supervisor, const struct allocation_entry *entry)
{
        struct request *request = request_new(supervisor, REQUEST_ALLOCATION, NULL);
        struct mps_control *control;

        mps_allocation_request_copy(&request->wanted, &request->arena, &entry->value.request);
        control = request_control(request, request->wanted.daemon);
        if (control)
                request_make(request, control);
}

/* May free the entry. */
static void reconcile_entry(struct mps_supervisor *supervisor, struct allocation_entry *entry)
{
        struct mps_run *run = supervisor_find(supervisor, entry->value.request.daemon);
        const bool is_there = run && is_current(run, &entry->value);
        struct mps_record_daemon process;

        if (find_request(supervisor, entry->value.request.id))
                return;
        if (entry->value.is_over && !is_there) {
                allocations_release(supervisor, entry, NULL, NULL);
                return;
        }
        run = find_ready_run(supervisor, entry);
        if (!run || entry->value.is_over != is_there || !mps_run_record(run, &process))
                return;
        if (entry->asked_start != process.start_time) {
                entry->asked_start = process.start_time;
                entry->failures = 0;
                entry->due_ms = 0;
        }
        if (entry->due_ms > now_ms(supervisor))
                return;
        if (entry->value.is_over)
                allocations_release(supervisor, entry, NULL, NULL);
        else if (is_of_use(run, entry))
                make_missing(supervisor, entry);
}

static void on_reconcile(uv_timer_t *timer)
{
        supervisor_allocations_reconcile(timer->data);
}

static void allocations_arm(struct mps_supervisor *supervisor)
{
        uint64_t due = UINT64_MAX;

        LIST_FOR_EACH(link, &supervisor->allocations) {
                const struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (entry->due_ms > now_ms(supervisor))
                        due = MIN(due, entry->due_ms);
        }
        if (due == UINT64_MAX)
                uv_timer_stop(&supervisor->reconcile);
        else
                uv_timer_start(&supervisor->reconcile, on_reconcile, due - now_ms(supervisor), 0);
}

void supervisor_allocations_reconcile(struct mps_supervisor *supervisor)
{
        struct list *next;

        start_waiting(supervisor);
        if (supervisor->is_closing || supervisor->is_restoring)
                return;
        for (struct list *link = supervisor->allocations.next; link != &supervisor->allocations; link = next) {
                next = link->next; /* this frees no entry except its own, and adds none */
                reconcile_entry(supervisor, container_of(link, struct allocation_entry, link));
        }
        allocations_arm(supervisor);
}

/* A caller gets the error and retries by itself, so only an entry that was created before is retried here. */
void supervisor_allocations_note_outcome(const struct request *request)
{
        struct mps_supervisor *supervisor = request->supervisor;
        struct allocation_entry *entry =
                request->kind == REQUEST_TERMINATE ? NULL : find_entry(supervisor, request->wanted.id);
        uint64_t ms;

        if (!entry)
                return;
        if (request->err.kind == ERROR_NONE) {
                entry->failures = 0;
                entry->due_ms = 0;
                free(TAKE_PTR(entry->problem));
                return;
        }
        ms = MIN(RETRY_MS << MIN(entry->failures, 6U), RETRY_MAX_MS);
        entry->due_ms = now_ms(supervisor) + ms + (uv_hrtime() / 1000) % (ms / 10 + 1);
        if (entry->failures++ == 0) {
                log_warn(request->kind == REQUEST_ALLOCATION
                                 ? "a container's partition or namespace is missing, and is "
                                   "created later"
                                 : "a container's partition or namespace stays for now, and "
                                   "is removed later",
                        LOG_STR("daemon", entry->value.request.daemon), LOG_STR("allocation", entry->value.request.id),
                        LOG_ERR(&request->err));
                supervisor_note(supervisor, true); /* so that others see when the problem is over */
        }
        if (request->kind == REQUEST_ALLOCATION) {
                free(entry->problem);
                entry->problem = xstrdup(request->err.text);
        }
}

void supervisor_allocations_describe(
        const struct mps_supervisor *supervisor, struct arena *arena, struct mps_daemon_status *daemon)
{
        const struct allocation_entry *first = NULL;
        size_t n_missing = 0;
        size_t n_void = 0;

        LIST_FOR_EACH(link, &supervisor->allocations) {
                const struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (entry->value.is_over || strcmp(entry->value.request.daemon, daemon->name) != 0)
                        continue;
                n_void += entry->value.is_void;
                n_missing += entry->problem != NULL;
                if (entry->problem && !first)
                        first = entry;
        }
        if (n_void && !daemon->notice)
                daemon->notice = arena_printf(arena,
                        "the SM partitions of %zu containers ended with an earlier process of its control daemon: "
                        "restart their pods",
                        n_void);
        else if (first && !daemon->notice)
                daemon->notice = arena_printf(arena,
                        "the partitions or namespaces of %zu containers cannot be created, will try again: %s",
                        n_missing, first->problem);
}

static bool has_namespace(const struct allocation_entry *entry, const struct mps_run *run)
{
        return entry->value.allocation.tier == MPS_TIER_NAMESPACE &&
               strcmp(entry->value.request.daemon, mps_run_name(run)) == 0 && is_current(run, &entry->value);
}

size_t supervisor_allocations_list_namespaces(
        const struct mps_run *run, struct arena *arena, struct mps_allocation_request **ret, void *data)
{
        const struct mps_supervisor *supervisor = data;
        size_t count = 0;

        LIST_FOR_EACH(link, &supervisor->allocations)
                count += has_namespace(container_of(link, struct allocation_entry, link), run);
        *ret = ARENA_ARRAY(arena, struct mps_allocation_request, count);
        count = 0;
        LIST_FOR_EACH(link, &supervisor->allocations) {
                const struct allocation_entry *entry = container_of(link, struct allocation_entry, link);

                if (has_namespace(entry, run))
                        mps_allocation_request_copy(&(*ret)[count++], arena, &entry->value.request);
        }
        return count;
}

/* ---- end ---- */

void supervisor_allocations_done(struct mps_supervisor *supervisor)
{
        while (!list_is_empty(&supervisor->allocations))
                free_entry(container_of(supervisor->allocations.next, struct allocation_entry, link));
}

void supervisor_allocations_fill_record(const struct mps_supervisor *supervisor, struct mps_record *record)
{
        size_t count = 0;

        LIST_FOR_EACH(link, &supervisor->allocations)
                count++;
        record->allocations = ARENA_ARRAY(&record->arena, struct mps_record_allocation, count);
        LIST_FOR_EACH(link, &supervisor->allocations)
                record->allocations[record->n_allocations++] = container_of(link, struct allocation_entry, link)->value;
}

void supervisor_allocations_read_record(struct mps_supervisor *supervisor, const struct mps_record *record)
{
        for (size_t i = 0; i < record->n_allocations; i++)
                put_entry(supervisor, &record->allocations[i]);
}
