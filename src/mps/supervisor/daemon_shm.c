#include "mps/supervisor/daemon_shm.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "mps/supervisor/shm_mount.h"

#define POLLS_BETWEEN_REMOVALS 30U /* a minute with the default interval */
#define REMOVAL_DEADLINE_MS UINT64_C(20000)

int daemon_shm_prepare(struct daemon_shm *shm, uint64_t kib, bool is_new, struct error *err)
{
        const bool has_folder = access(shm->folder->shm, F_OK) == 0;
        bool is_mounted;

        daemon_shm_stop(shm); /* its new process may use other files */
        shm->is_own = false;
        if (!kib && has_folder)
                log_warn("an MPS daemon had shared memory of its own, and has that of the node now: containers that "
                         "started before cannot connect any more (error 805): end them",
                        LOG_STR("name", shm->name));
        if (!kib || (!is_new && !has_folder))
                return 0;
        if (mps_shm_mount(shm->folder->path, kib, &is_mounted, err) < 0) {
                if (!is_new)
                        return -1;
                log_warn("an MPS daemon has no shared memory of its own and uses the node's: a tenant who fills that "
                         "keeps clients off every GPU",
                        LOG_STR("name", shm->name), LOG_ERR(err));
                return 0;
        }
        if (is_mounted)
                mps_folder_label(shm->folder->shm);
        shm->is_own = true;
        return 0;
}

void daemon_shm_find(struct daemon_shm *shm, pid_t daemon)
{
        shm->is_own = mps_shm_is_of(daemon, shm->folder->shm);
}

/* ---- what ended containers left ---- */

static void ask_to_remove(struct daemon_shm *shm, pid_t daemon);

static void on_left_removed(
        struct worker_request *request, const struct error *err, const void *answer, size_t size UNUSED)
{
        struct daemon_shm *shm = container_of(request, struct daemon_shm, removal);
        struct mps_shm_left_answer result = {.is_over = true};

        shm->is_removing = false;
        if (err)
                log_warn("what ended containers left in the shared memory of an MPS daemon stays there",
                        LOG_STR("name", shm->name), LOG_ERR(err));
        else
                memcpy(&result, answer, sizeof(result));
        if (result.removed)
                log_info("files that ended containers left in the shared memory of an MPS daemon were removed",
                        LOG_STR("name", shm->name), LOG_UINT("files", result.removed));
        if (!result.is_over && !shm->has_clients)
                ask_to_remove(shm, shm->left.daemon);
}

static void ask_to_remove(struct daemon_shm *shm, pid_t daemon)
{
        struct mps_shm_left *left = &shm->left;

        left->daemon = daemon;
        left->age_s = MPS_SHM_LEFT_AGE_S;
        snprintf(left->path, sizeof(left->path), "%s", shm->folder->shm);
        shm->removal = (struct worker_request){
                .message = left, .size = sizeof(*left), .deadline_ms = REMOVAL_DEADLINE_MS, .done = on_left_removed};
        shm->is_removing = true;
        worker_ask(shm->cleaner, &shm->removal);
}

void daemon_shm_stop(struct daemon_shm *shm)
{
        if (shm->is_removing)
                worker_cancel(shm->cleaner, &shm->removal);
        shm->is_removing = false;
}

bool daemon_shm_poll(struct daemon_shm *shm, pid_t daemon, bool has_clients)
{
        bool has_news;

        if (!shm->is_own)
                return false;
        has_news = mps_shm_watch_poll(&shm->watch, shm->folder->shm, shm->name);
        shm->has_clients = has_clients;
        /* The daemon's own folder counts as one file. */
        if (has_clients)
                daemon_shm_stop(shm);
        else if (!shm->is_removing && shm->watch.shm.files > 1 && shm->watch.polls % POLLS_BETWEEN_REMOVALS == 0)
                ask_to_remove(shm, daemon);
        return has_news;
}
