/*
 * Chooses a /dev/shm for a daemon: its own, or the node's. The choice is made when the daemon's folder is created, and
 * holds as long as the folder: containers have it mounted for their whole life, and kubelet gives a restarted container
 * the same mount. If the supervisor may not mount, or is configured not to, it changes an existing choice to the node's
 * shared memory and logs which containers lose theirs.
 */
#include "mps/supervisor/daemon_parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "mps/supervisor/shm_left.h"
#include "mps/supervisor/shm_mount.h"

#define POLLS_BETWEEN_REMOVALS 30U /* a minute with the default interval */
#define REMOVAL_DEADLINE_MS UINT64_C(20000)

int run_prepare_shm(struct mps_run *run, bool is_new, struct error *err)
{
        const struct mps_run_context *context = run->context;
        bool is_mounted;

        run_stop_removing(run); /* its new process may use other files */
        run->has_own_shm = false;
        if (!context->enter_shm && access(run->folder.shm, F_OK) == 0)
                log_warn(
                        "an MPS daemon had shared memory of its own, and has that of the node now: containers that started before cannot "
                        "connect any more (error 805): end them",
                        LOG_STR("name", run->name));
        if (!context->enter_shm || (!is_new && access(run->folder.shm, F_OK) < 0))
                return 0;
        if (mps_shm_mount(run->folder.path, context->shm_kib(run, context->data), &is_mounted, err) < 0) {
                if (!is_new)
                        return -1;
                log_warn("an MPS daemon has no shared memory of its own and uses the node's: a tenant who fills that "
                         "keeps clients off every GPU",
                        LOG_STR("name", run->name), LOG_ERR(err));
                return 0;
        }
        if (is_mounted)
                mps_folder_label(run->folder.shm);
        run->has_own_shm = true;
        return 0;
}

void run_find_shm(struct mps_run *run)
{
        run->has_own_shm = mps_shm_is_of(mps_launch_pid(run->launch), run->folder.shm);
}

/* ---- what ended containers left ---- */

static void ask_to_remove(struct mps_run *run);

static void on_left_removed(
        struct worker_request *request, const struct error *err, const void *answer, size_t size UNUSED)
{
        struct mps_run *run = container_of(request, struct mps_run, removal);
        struct mps_shm_left_answer said = {.is_over = true};

        run->is_removing = false;
        if (err)
                log_warn("what ended containers left in the shared memory of an MPS daemon stays there",
                        LOG_STR("name", run->name), LOG_ERR(err));
        else
                memcpy(&said, answer, sizeof(said));
        if (said.removed)
                log_info("files that ended containers left in the shared memory of an MPS daemon were removed",
                        LOG_STR("name", run->name), LOG_UINT("files", said.removed));
        if (!said.is_over && !mps_run_has_clients(run))
                ask_to_remove(run);
}

static void ask_to_remove(struct mps_run *run)
{
        struct mps_shm_left *left = &run->left;

        left->daemon = run->launch ? mps_launch_pid(run->launch) : 0;
        left->age_s = MPS_SHM_LEFT_AGE_S;
        snprintf(left->path, sizeof(left->path), "%s", run->folder.shm);
        run->removal = (struct worker_request){
                .message = left, .size = sizeof(*left), .deadline_ms = REMOVAL_DEADLINE_MS, .done = on_left_removed};
        run->is_removing = true;
        worker_ask(run->context->cleaner, &run->removal);
}

void run_stop_removing(struct mps_run *run)
{
        if (run->is_removing)
                worker_cancel(run->context->cleaner, &run->removal);
        run->is_removing = false;
}

/* Its own folder counts as one file. */
static void remove_left(struct mps_run *run)
{
        if (mps_run_has_clients(run))
                run_stop_removing(run);
        else if (!run->is_removing && run->shm.shm.files > 1 && run->shm.polls % POLLS_BETWEEN_REMOVALS == 0)
                ask_to_remove(run);
}

bool mps_run_poll_shm(struct mps_run *run)
{
        bool has_news;

        if (!run->has_own_shm)
                return false;
        has_news = mps_shm_watch_poll(&run->shm, run->folder.shm, run->name);
        remove_left(run);
        return has_news;
}
