/*
 * What kubelet says of who holds what, and how much of it can be believed: its list is an answer to a question, its record a file.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cmd/holdings_parts.h"

/* So long a kubelet that does not answer is taken for one that is about to. */
#define LIST_PATIENCE_MS INT64_C(60000)

int64_t holdings_clock(void)
{
        return (int64_t)(uv_hrtime() / 1000000);
}

/* kubelet makes the socket at its start. */
bool holdings_kubelet_is_young(const struct holdings *holdings)
{
        struct stat status;

        return stat(holdings->pod_resources, &status) < 0 || holdings_now() - status.st_ctime < LIST_GRACE_S;
}

/* kubelet's record beside its list. Without it, UIDs and init containers are unknown, and that is all. */
bool holdings_read_checkpoint(const struct holdings *holdings, struct arena *arena, struct checkpoint *ret)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read(holdings->checkpoint, CHECKPOINT_MAX, &text, &err) == 0 &&
                checkpoint_read(ret, arena, "", text.data, text.size, &err) == 0)
                return true;
        log_debug("kubelet's record of devices is not looked at", LOG_ERR(&err));
        return false;
}

void holdings_take_list(struct holdings *holdings, const struct pod_list *list)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint checkpoint;
        bool has_checkpoint = holdings_read_checkpoint(holdings, &scratch, &checkpoint);

        complaint_settle(&holdings->bad_list);
        holdings->is_refused = false;
        if (has_checkpoint)
                holdings_note_booked(holdings, &checkpoint);
        holders_free(holdings->holders);
        holdings->holders = holders_new(list, has_checkpoint ? &checkpoint : NULL);
        arena_done(&scratch);
        log_debug("kubelet has told which container holds what", LOG_UINT("containers", list->n_containers));
}

void holdings_note_refusal(struct holdings *holdings, const struct error *err)
{
        complain(&holdings->bad_list, "kubelet does not tell which container holds what, will ask again", err);
        if (!holdings->is_refused)
                holdings->refused_since = holdings_clock();
        holdings->is_refused = true;
}

const char *holdings_list_folder(const struct holdings *holdings)
{
        return holdings->pods ? holdings->pod_resources_folder : NULL;
}

static bool is_mounted(const struct holdings *holdings)
{
        return access(holdings->pod_resources_folder, F_OK) == 0 || errno != ENOENT;
}

bool holdings_can_ask(const struct holdings *holdings)
{
        if (!holdings->pods || !is_mounted(holdings))
                return false;
        return !holdings->is_refused || holdings_clock() - holdings->refused_since < LIST_PATIENCE_MS;
}

void holdings_sync_all(struct holdings *holdings)
{
        if (holdings_kubelet_is_young(holdings))
                return;
        for (size_t i = 0; i < holdings->n_books; i++)
                holdings_sync_book(holdings, &holdings->books[i], holdings_now() - LIST_GRACE_S);
}

static void on_listed(const struct error *err, const struct pod_list *list, void *data)
{
        struct holdings *holdings = data;

        if (err) {
                holdings_note_refusal(holdings, err);
                return;
        }
        holdings_take_list(holdings, list);
        holdings_sync_all(holdings);
}

static bool is_anything_held(const struct holdings *holdings)
{
        for (size_t i = 0; i < holdings->n_books; i++)
                if (grants_count(holdings->books[i].grants) > 0)
                        return true;
        return false;
}

void holdings_on_list_timer(uv_timer_t *timer)
{
        struct holdings *holdings = timer->data;

        if (holdings->pods && is_anything_held(holdings))
                pod_resources_list(holdings->pods, on_listed, holdings);
}
