#include "ledger/parts.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "kubelet/convert.h"

#define SAVE_MS UINT64_C(100)
/* After a failure, longer each time. */
#define SAVE_RETRY_MS UINT64_C(1000)
#define SAVE_RETRY_MAX_MS UINT64_C(60000)

/* ---- books ---- */

struct book *holdings_find_book_among(struct book *books, size_t n_books, const char *name)
{
        for (size_t i = 0; i < n_books; i++)
                if (!books[i].is_leaving && strcmp(books[i].resource->name, name) == 0)
                        return &books[i];
        return NULL;
}

struct book *holdings_find_book(const struct holdings *holdings, const char *name)
{
        return holdings_find_book_among(holdings->books, holdings->n_books, name);
}

const struct mps_daemon_status *holdings_find_daemon(const struct holdings *holdings, const char *unit)
{
        return holdings->status ? mps_status_find_unit(holdings->status, unit) : NULL;
}

static bool is_ready(const struct holdings *holdings, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = holdings_find_daemon(holdings, unit->uuid);

        if (!unit->shared)
                return true;
        /* What is ready may be the daemon of before, that is about to end. */
        return daemon && daemon->state == MPS_READY &&
               (holdings->status->generation == holdings->generation || !map_find(&holdings->renewed, unit->uuid));
}

static bool takes_containers(const struct holdings *holdings, const struct unit *unit)
{
        return !unit->is_kept && is_ready(holdings, unit) &&
               holdings->options.is_healthy(unit->uuid, holdings->options.data);
}

void holdings_keep_back(struct holdings *holdings, struct book *book)
{
        const struct resource *resource = book->resource;
        const bool *hidden;

        for (size_t i = 0; i < resource->n_units; i++)
                grants_set_unit_health(
                        book->grants, resource->units[i].uuid, takes_containers(holdings, &resource->units[i]));
        hidden = grants_hidden(book->grants);
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                bool ready = is_ready(holdings, unit);

                for (size_t at = unit->first_device; at < unit->first_device + unit->replicas; at++)
                        book->kept_back[at] = !ready || hidden[at];
        }
}

/*
 * Soon: neither this container's answer nor the next one's waits for the disk, which takes milliseconds where a file replaces
 * another. What a crash loses kubelet's list still has.
 */
void holdings_note_change(struct holdings *holdings, struct book *book)
{
        book->changed = true;
        holdings_keep_back(holdings, book);
        if (!holdings->closing && !uv_is_active((uv_handle_t *)&holdings->save_timer))
                uv_timer_start(&holdings->save_timer, holdings_on_save, SAVE_MS, 0);
        holdings->options.on_change(holdings->options.data);
}

static char *book_path(const struct holdings *holdings, const struct resource *resource)
{
        char *path = xasprintf("%s/grants-%s.json", holdings->directory, resource->name);

        for (char *at = path + strlen(holdings->directory) + 1; *at; at++)
                if (*at == '/')
                        *at = '_';
        return path;
}

/* One file a name, whatever the terms. */
static char *write_books(const struct holdings *holdings, const char *name)
{
        struct arena scratch = ARENA_INIT;
        const struct grants **grants = ARENA_ARRAY(&scratch, const struct grants *, holdings->n_books);
        size_t count = 0;
        char *text;

        for (size_t i = 0; i < holdings->n_books; i++)
                if (strcmp(holdings->books[i].resource->name, name) == 0)
                        grants[count++] = holdings->books[i].grants;
        text = grants_write_all(grants, count);
        arena_done(&scratch);
        return text;
}

static void mark_saved(struct holdings *holdings, const char *name)
{
        for (size_t i = 0; i < holdings->n_books; i++)
                if (strcmp(holdings->books[i].resource->name, name) == 0)
                        holdings->books[i].changed = false;
}

/* False: it has to be tried again. */
static bool save_book(struct holdings *holdings, const struct book *book)
{
        _free_ char *path = book_path(holdings, book->resource);
        _free_ char *text = write_books(holdings, book->resource->name);
        struct error err;

        if (file_write_private(path, text, strlen(text), &err) < 0) {
                complain(&holdings->bad_book, "the allocation record cannot be written, will try again", &err);
                return false;
        }
        complaint_settle(&holdings->bad_book);
        mark_saved(holdings, book->resource->name);
        return true;
}

void holdings_on_save(uv_timer_t *timer)
{
        struct holdings *holdings = timer->data;
        bool is_saved = true;

        for (size_t i = 0; i < holdings->n_books; i++)
                if (holdings->books[i].changed)
                        is_saved &= save_book(holdings, &holdings->books[i]);
        holdings->save_ms = is_saved            ? 0
                            : holdings->save_ms ? MIN(holdings->save_ms * 2, SAVE_RETRY_MAX_MS)
                                                : SAVE_RETRY_MS;
        if (!is_saved && !holdings->closing)
                uv_timer_start(&holdings->save_timer, holdings_on_save, holdings->save_ms, 0);
}

void holdings_load_book(struct holdings *holdings, struct book *book)
{
        _free_ char *path = book_path(holdings, book->resource);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read_private(path, GRANTS_TEXT_MAX, &text, &err) < 0) {
                if (err.kind != ERROR_NOT_FOUND)
                        log_warn("the allocation record cannot be read", LOG_STR("file", path), LOG_ERR(&err));
                return;
        }
        if (grants_read(book->grants, text.data, text.size, holdings_clock(holdings), &err) < 0)
                log_warn("the allocation record is ignored", LOG_STR("file", path), LOG_ERR(&err));
}

/* ---- what kubelet says ---- */

/* What was made for a grant goes with it; where nothing was, the daemon says so, and that is all. */
static void on_made_released(const struct error *err UNUSED, void *data UNUSED)
{
}

struct sync {
        struct holdings *holdings;
        size_t released;
};

static void on_released(const char *id, void *data)
{
        struct sync *sync = data;

        sync->released++;
        mps_link_release(sync->holdings->link, id, on_made_released, NULL);
}

/* An entry belongs to the book by whose terms it was made. */
static bool is_of_book(const struct book *book, const char *id)
{
        const struct device *device = map_find(&book->resource->by_id, id);

        if (book->is_leaving || device)
                return device && !book->resource->units[device->unit].is_kept;
        for (size_t i = 0; i < book->resource->n_leaving; i++)
                if (map_find(&book->resource->leaving[i].by_id, id))
                        return false;
        return true;
}

static size_t keep_own(const struct book *book, struct grants_held *held, size_t n_held)
{
        size_t kept = 0;

        for (size_t i = 0; i < n_held; i++)
                if (held[i].n_devices && is_of_book(book, held[i].devices[0]))
                        held[kept++] = held[i];
        return kept;
}

void holdings_sync_book(struct holdings *holdings, struct book *book, int64_t as_of)
{
        struct sync sync = {.holdings = holdings};
        struct arena scratch = ARENA_INIT;
        struct grants_held *held;
        size_t n_held = holders_of(holdings->holders, book->resource->name, &scratch, &held);
        size_t before = grants_count(book->grants);

        n_held = keep_own(book, held, n_held);
        for (size_t i = 0; i < n_held; i++) {
                const struct grant *known = grants_of_device(book->grants, held[i].devices[0]);

                if (held[i].answer && (!known || known->is_read))
                        convert_read_answer(held[i].answer, &scratch, &held[i].id, &held[i].texts);
        }
        grants_sync(book->grants, held, n_held, as_of, on_released, &sync);
        arena_done(&scratch);
        if (sync.released || grants_count(book->grants) != before)
                holdings_note_change(holdings, book);
}
