#include "node/ledger/parts.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "node/kubelet/convert.h"

#define SAVE_MS UINT64_C(100)
/* After a failure, longer each time. */
#define SAVE_RETRY_MS UINT64_C(1000)
#define SAVE_RETRY_MAX_MS UINT64_C(60000)

/* ---- resources under MPS ---- */

struct ledger_resource *ledger_find_shared_among(struct ledger_resource *shared, size_t n_shared, const char *name)
{
        for (size_t i = 0; i < n_shared; i++)
                if (!shared[i].is_draining && strcmp(shared[i].resource->name, name) == 0)
                        return &shared[i];
        return NULL;
}

struct ledger_resource *ledger_find_shared(const struct ledger *ledger, const char *name)
{
        return ledger_find_shared_among(ledger->shared, ledger->n_shared, name);
}

const struct mps_daemon_status *ledger_find_daemon(const struct ledger *ledger, const char *unit)
{
        return ledger->status ? mps_status_find_unit(ledger->status, unit) : NULL;
}

/* Otherwise the daemon that is there may be the previous one, which is about to end. */
bool ledger_is_current(const struct ledger *ledger, const char *unit)
{
        return ledger->status->generation == ledger->generation || !map_find(&ledger->renewed, unit);
}

static bool is_ready(const struct ledger *ledger, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = ledger_find_daemon(ledger, unit->uuid);

        if (!unit->shared)
                return true;
        return daemon && daemon->state == MPS_READY && ledger_is_current(ledger, unit->uuid);
}

static bool takes_containers(const struct ledger *ledger, const struct unit *unit)
{
        return !unit->is_kept && is_ready(ledger, unit) && !unit_health_find(ledger->options.health, unit->uuid);
}

void ledger_update_unavailable(struct ledger *ledger, struct ledger_resource *shared)
{
        const struct resource *resource = shared->resource;
        const bool *unavailable;

        for (size_t i = 0; i < resource->n_units; i++)
                allocations_set_unit_health(
                        shared->allocations, resource->units[i].uuid, takes_containers(ledger, &resource->units[i]));
        unavailable = allocations_reserved_ids(shared->allocations);
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                bool ready = is_ready(ledger, unit);

                for (size_t at = unit->first_device; at < unit->first_device + unit->replicas; at++)
                        shared->unavailable[at] = !ready || unavailable[at];
        }
}

/*
 * The file is written a moment later, so that no answer waits for the disk, which takes milliseconds to replace a file.
 * After a crash, kubelet's list has what the file lacks.
 */
void ledger_note_change(struct ledger *ledger, struct ledger_resource *shared)
{
        shared->changed = true;
        ledger_update_unavailable(ledger, shared);
        if (!ledger->closing && !uv_is_active((uv_handle_t *)&ledger->save_timer))
                uv_timer_start(&ledger->save_timer, ledger_on_save, SAVE_MS, 0);
        ledger->options.on_change(ledger->options.data);
}

#define FILE_PREFIX "allocations"
#define OLD_FILE_PREFIX "grants" /* of earlier versions */

static char *allocations_path(const struct ledger *ledger, const char *prefix, const char *resource)
{
        char *path = xasprintf("%s/%s-%s.json", ledger->directory, prefix, resource);

        for (char *at = path + strlen(ledger->directory) + 1; *at; at++)
                if (*at == '/')
                        *at = '_';
        return path;
}

/* One file a name, whatever the sharing policy. */
static char *write_all_allocations(const struct ledger *ledger, const char *name)
{
        struct arena scratch = ARENA_INIT;
        const struct allocations **allocations = ARENA_ARRAY(&scratch, const struct allocations *, ledger->n_shared);
        size_t count = 0;
        char *text;

        for (size_t i = 0; i < ledger->n_shared; i++)
                if (strcmp(ledger->shared[i].resource->name, name) == 0)
                        allocations[count++] = ledger->shared[i].allocations;
        text = allocations_write_all(allocations, count);
        arena_done(&scratch);
        return text;
}

static void mark_saved(struct ledger *ledger, const char *name)
{
        for (size_t i = 0; i < ledger->n_shared; i++)
                if (strcmp(ledger->shared[i].resource->name, name) == 0)
                        ledger->shared[i].changed = false;
}

/* False: try again later. */
static bool save_allocations(struct ledger *ledger, const struct ledger_resource *shared)
{
        _free_ char *path = allocations_path(ledger, FILE_PREFIX, shared->resource->name);
        _free_ char *old_path = allocations_path(ledger, OLD_FILE_PREFIX, shared->resource->name);
        _free_ char *text = write_all_allocations(ledger, shared->resource->name);
        struct error err;

        if (file_write_private(path, text, strlen(text), &err) < 0) {
                complain(&ledger->bad_record, "the allocation record cannot be written, will try again", &err);
                return false;
        }
        unlink(old_path);
        complaint_settle(&ledger->bad_record);
        mark_saved(ledger, shared->resource->name);
        return true;
}

void ledger_on_save(uv_timer_t *timer)
{
        struct ledger *ledger = timer->data;
        bool is_saved = true;

        for (size_t i = 0; i < ledger->n_shared; i++)
                if (ledger->shared[i].changed)
                        is_saved &= save_allocations(ledger, &ledger->shared[i]);
        ledger->save_ms = is_saved ? 0 : ledger->save_ms ? MIN(ledger->save_ms * 2, SAVE_RETRY_MAX_MS) : SAVE_RETRY_MS;
        if (!is_saved && !ledger->closing)
                uv_timer_start(&ledger->save_timer, ledger_on_save, ledger->save_ms, 0);
}

static char *recorded_path(const struct ledger *ledger, const char *resource)
{
        _free_ char *new_path = allocations_path(ledger, FILE_PREFIX, resource);
        _free_ char *old_path = allocations_path(ledger, OLD_FILE_PREFIX, resource);

        /* This version removes the old file when it writes. So if there is one, an older version wrote it last. */
        return access(old_path, F_OK) == 0 ? TAKE_PTR(old_path) : TAKE_PTR(new_path);
}

void ledger_load_allocations(struct ledger *ledger, struct ledger_resource *shared)
{
        _free_ char *path = recorded_path(ledger, shared->resource->name);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read_private(path, ALLOCATIONS_TEXT_MAX, &text, &err) < 0) {
                if (err.kind != ERROR_NOT_FOUND)
                        log_warn("the allocation record cannot be read", LOG_STR("file", path), LOG_ERR(&err));
                return;
        }
        if (allocations_read(shared->allocations, text.data, text.size, ledger_clock(ledger), &err) < 0)
                log_warn("the allocation record is ignored", LOG_STR("file", path), LOG_ERR(&err));
}

void ledger_each_recorded(const struct ledger *ledger, const char *resource,
        void (*each)(const struct allocation *allocation, void *data), void *data)
{
        _free_ char *path = recorded_path(ledger, resource);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error ignored; /* it is told when the allocations are loaded */

        if (file_read_private(path, ALLOCATIONS_TEXT_MAX, &text, &ignored) == 0)
                (void)!allocations_each(text.data, text.size, each, data, &ignored);
}

/* ---- what kubelet says ---- */

/* The daemon removes what it made for the allocation; an error only says that it had made nothing. */
static void on_made_released(const struct error *err UNUSED, void *data UNUSED)
{
}

static void on_released(const char *id, void *data)
{
        const struct ledger *ledger = data;

        mps_link_release(ledger->link, id, on_made_released, NULL);
}

/* The resource |name| that has an allocation with the device id |id|; NULL: none has, or several. */
static const struct ledger_resource *find_owner(const struct ledger *ledger, const char *name, const char *id)
{
        const struct ledger_resource *owner = NULL;

        for (size_t i = 0; i < ledger->n_shared; i++) {
                const struct ledger_resource *shared = &ledger->shared[i];

                if (strcmp(shared->resource->name, name) != 0 || !allocations_of_device(shared->allocations, id))
                        continue;
                if (owner)
                        return NULL;
                owner = shared;
        }
        return owner;
}

#define UUID_CHARACTERS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"

/* The UUID in |texts| that the node does not have now; NULL: none, or they name a unit that it has. */
static const char *find_away(const struct ledger *ledger, struct arena *arena, const char *texts)
{
        const char *away = NULL;

        for (const char *at = texts; *at; at += strcspn(at, UUID_CHARACTERS)) {
                size_t length = strspn(at, UUID_CHARACTERS);
                const char *word = arena_strndup(arena, at, length);

                at += length;
                if (inventory_has(ledger->plan->inventory, word))
                        return NULL;
                if (text_starts_with(word, "GPU-") || text_starts_with(word, "MIG-"))
                        away = word;
        }
        return away;
}

static void read_answer(const struct ledger *ledger, struct arena *arena, struct allocations_held *held)
{
        if (!held->answer || held->texts)
                return;
        convert_read_answer(held->answer, arena, &held->id, &held->texts);
        if (held->id && held->texts)
                held->away = find_away(ledger, arena, held->texts);
}

/* The resource |name| that has the unit in the answer: the first one, while it is away; NULL: not known. */
static const struct ledger_resource *find_by_answer(
        const struct ledger *ledger, const char *name, const struct allocations_held *held)
{
        for (size_t i = 0; held->id && held->texts && i < ledger->n_shared; i++) {
                const struct resource *resource = ledger->shared[i].resource;

                if (strcmp(resource->name, name) != 0)
                        continue;
                if (held->away)
                        return &ledger->shared[i];
                for (size_t j = 0; j < resource->n_units; j++)
                        if (!resource->units[j].is_kept && strstr(held->texts, resource->units[j].uuid))
                                return &ledger->shared[i];
        }
        return NULL;
}

/*
 * An entry belongs to the resource that has its allocation. Where the record of that was lost, what was answered says
 * it, and else its first id, by the sharing policy under which that is; what is held of a unit that is kept was made
 * under none then.
 */
static bool is_of_shared(const struct ledger *ledger, const struct ledger_resource *shared, struct arena *arena,
        struct allocations_held *held)
{
        const struct resource *resource = shared->resource;
        const char *id = held->devices[0];
        const struct ledger_resource *owner = find_owner(ledger, resource->name, id);
        const struct device *device = map_find(&resource->by_id, id);

        if (!owner) {
                read_answer(ledger, arena, held);
                owner = find_by_answer(ledger, resource->name, held);
        }
        if (owner)
                return owner == shared;
        if (shared->is_draining || device)
                return device && !resource->units[device->unit].is_kept;
        for (size_t i = 0; i < resource->n_draining; i++)
                if (map_find(&resource->draining[i].by_id, id))
                        return false;
        return true;
}

static size_t keep_own(const struct ledger *ledger, const struct ledger_resource *shared, struct arena *arena,
        struct allocations_held *held, size_t n_held)
{
        size_t kept = 0;

        for (size_t i = 0; i < n_held; i++)
                if (held[i].n_devices && is_of_shared(ledger, shared, arena, &held[i]))
                        held[kept++] = held[i];
        return kept;
}

void ledger_sync_allocations(struct ledger *ledger, struct ledger_resource *shared, int64_t as_of)
{
        struct arena scratch = ARENA_INIT;
        struct allocations_held *held;
        size_t n_held = holders_of(ledger->holders, shared->resource->name, &scratch, &held);
        bool has_changed;

        n_held = keep_own(ledger, shared, &scratch, held, n_held);
        for (size_t i = 0; i < n_held; i++) {
                const struct allocation *known = allocations_of_device(shared->allocations, held[i].devices[0]);

                if (!known || known->is_read)
                        read_answer(ledger, &scratch, &held[i]);
        }
        has_changed = allocations_sync(shared->allocations, held, n_held, as_of, on_released, ledger);
        arena_done(&scratch);
        if (has_changed)
                ledger_note_change(ledger, shared);
}
