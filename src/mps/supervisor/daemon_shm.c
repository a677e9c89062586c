/*
 * Chooses a /dev/shm for a daemon: its own, or the node's. The choice is made when the daemon's folder is created, and
 * holds as long as the folder: containers have it mounted for their whole life, and kubelet gives a restarted container
 * the same mount. If the supervisor may not mount, or is configured not to, it changes an existing choice to the node's
 * shared memory and logs which containers lose theirs.
 */
#include "mps/supervisor/daemon_parts.h"

#include <unistd.h>

#include "base/log.h"
#include "mps/supervisor/shm_left.h"
#include "mps/supervisor/shm_mount.h"

#define POLLS_BETWEEN_REMOVALS 30U /* a minute with the default interval */
/* Other work of the loop comes between two slices. */
#define SLICE_MS 3U
#define PAUSE_MS UINT64_C(1)

void run_stop_removing(struct mps_run *run)
{
        const size_t count = mps_shm_left_free(TAKE_PTR(run->left));

        uv_timer_stop(&run->slice);
        if (count)
                log_info("files that ended containers left in the shared memory of an MPS daemon were removed",
                        LOG_STR("name", run->name), LOG_UINT("files", count));
}

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
        if (mps_shm_mount(run->folder.shm, context->shm_kib(run, context->data), &is_mounted, err) < 0) {
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

static void on_slice(uv_timer_t *timer)
{
        struct mps_run *run = timer->data;

        if (mps_run_has_clients(run) || mps_shm_left_run(run->left, SLICE_MS))
                run_stop_removing(run);
        else if (!run->is_closing_file)
                uv_timer_start(&run->slice, on_slice, PAUSE_MS, 0);
}

static void on_file_closed(uv_fs_t *request)
{
        struct mps_run *run = request->data;

        uv_fs_req_cleanup(request);
        run->is_closing_file = false;
        if (run->left)
                uv_timer_start(&run->slice, on_slice, 0, 0);
        run_release(run);
}

/* In a thread of libuv, one file after the other. */
static void close_large(int fd, void *data)
{
        struct mps_run *run = data;

        run->file.data = run;
        if (uv_fs_close(run->context->loop, &run->file, fd, on_file_closed) < 0) {
                close(fd);
                return;
        }
        run->is_closing_file = true;
        run->open++;
}

/*
 * Its own folder counts as one file. A removal that has not ended after a minute begins anew, since others may use files
 * by then.
 */
static void remove_left(struct mps_run *run)
{
        if (run->shm.shm.files <= 1 || mps_run_has_clients(run) || run->shm.polls % POLLS_BETWEEN_REMOVALS ||
                run->is_closing_file)
                return;
        run_stop_removing(run);
        run->left = mps_shm_left_new(&(struct mps_shm_left_options){.path = run->folder.shm,
                .daemon = run->launch ? mps_launch_pid(run->launch) : 0,
                .age_s = MPS_SHM_LEFT_AGE_S,
                .close = close_large,
                .data = run});
        if (run->left)
                uv_timer_start(&run->slice, on_slice, 0, 0);
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
