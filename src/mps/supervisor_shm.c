/*
 * Looks how full the shared memory is: at every look by one call; whose files fill it, which takes longer, when it comes to be full
 * and then once in a while.
 */
#include "base/log.h"
#include "mps/supervisor_parts.h"

#define LOOKS_BETWEEN_COUNTS 30U

static void tell(const struct mps_shm *shm, bool was_full)
{
        _free_ char *text = mps_shm_text(shm);

        if (shm->is_full && !was_full)
                log_warn(
                        "the shared memory of MPS is almost full: new clients and servers fail on every GPU when it is",
                        LOG_STR("what", text));
        else if (was_full && !shm->is_full)
                log_info("the shared memory of MPS has room again", LOG_STR("what", text));
}

void supervisor_look_at_shm(struct mps_supervisor *supervisor)
{
        struct mps_shm shm;
        struct error err;

        if (supervisor->is_closing || mps_shm_look(&shm, supervisor->root, &err) < 0)
                return; /* doctor tells why */
        mps_shm_judge(&shm, &supervisor->shm);
        if (shm.is_full &&
                (!supervisor->shm.is_full || supervisor->looks - supervisor->shm_counted >= LOOKS_BETWEEN_COUNTS)) {
                supervisor->shm_counted = supervisor->looks;
                if (mps_shm_count(&shm, supervisor->root, &err) < 0)
                        log_debug("whose files are in the shared memory is not known", LOG_ERR(&err));
        }
        if (shm.is_full != supervisor->shm.is_full)
                tell(&shm, supervisor->shm.is_full);
        if (!mps_shm_is_same(&shm, &supervisor->shm))
                supervisor_note(supervisor, false);
        supervisor->shm = shm;
}
