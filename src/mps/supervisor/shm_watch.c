#include "mps/supervisor/shm_watch.h"

#include "base/alloc.h"
#include "base/log.h"

#define POLLS_BETWEEN_COUNTS 30U

static void log_change(const struct mps_shm *shm, bool was_full, const char *daemon)
{
        _free_ char *text = mps_shm_text(shm);

        if (shm->is_full && !was_full)
                log_warn("the shared memory of MPS is almost full: new clients and servers fail when it is",
                        LOG_STR("daemon", daemon ? daemon : "all of the node"), LOG_STR("what", text));
        else if (was_full && !shm->is_full)
                log_info("the shared memory of MPS has room again",
                        LOG_STR("daemon", daemon ? daemon : "all of the node"), LOG_STR("what", text));
}

bool mps_shm_watch_poll(struct mps_shm_watch *watch, const char *path, const char *daemon)
{
        const struct mps_shm before = watch->shm;
        struct mps_shm shm;
        struct error err;

        if (mps_shm_poll(&shm, path, &err) < 0)
                return false; /* doctor reports why */
        watch->polls++;
        mps_shm_judge(&shm, &before);
        if (shm.is_full && (!before.is_full || watch->polls - watch->counted >= POLLS_BETWEEN_COUNTS)) {
                watch->counted = watch->polls;
                if (mps_shm_count(&shm, path, &err) < 0)
                        log_debug("the owners of files in the shared memory are unknown", LOG_ERR(&err));
        }
        log_change(&shm, before.is_full, daemon);
        watch->shm = shm;
        return !mps_shm_is_same(&shm, &before);
}
