/* How full the shared memory is: the node's, and that of each daemon which has its own. */
#include "mps/supervisor/parts.h"

#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "mps/supervisor/shm_mount.h"

#define MOUNTINFO_MAX ((size_t)4 * 1024 * 1024)

void supervisor_poll_shm(struct mps_supervisor *supervisor)
{
        _free_ char *path = xasprintf("%s/shm", supervisor->root);
        bool has_news;

        if (supervisor->is_closing)
                return;
        has_news = mps_shm_watch_poll(&supervisor->shm, path, NULL);
        for (size_t i = 0; i < supervisor->n_runs; i++)
                has_news |= mps_run_poll_shm(supervisor->runs[i]);
        if (has_news)
                supervisor_note(supervisor, false);
}

/* Together they may have as much as the node's shared memory would: each daemon gets a share by its units. */
uint64_t supervisor_shm_kib(const struct mps_run *run, void *data)
{
        const struct mps_supervisor *supervisor = data;
        size_t n_units = 0;

        if (supervisor->options.shm_kib)
                return supervisor->options.shm_kib;
        for (size_t i = 0; i < supervisor->wanted.n_daemons; i++)
                n_units += supervisor->wanted.daemons[i].n_units;
        return mps_shm_machine_kib() * mps_run_settings(run)->n_units / MAX(n_units, (size_t)1);
}

const char *supervisor_find_enter_shm(const struct mps_supervisor_options *options)
{
        _cleanup_(strbuf_done) struct strbuf mountinfo = STRBUF_INIT;
        char root[PATH_MAX];
        struct error err;

        if (!options->enter_shm || !realpath(options->root, root) ||
                file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &mountinfo, &err) < 0)
                return NULL;
        if (mps_shm_is_seen_by_others(mountinfo.data, root, mps_shm_mounts_of(1) == mps_shm_mounts_of(getpid())))
                return options->enter_shm;
        log_info("all MPS daemons use one shared memory of the node: mounts made here are not visible to other "
                 "containers",
                LOG_STR("root", options->root));
        return NULL;
}
