#include "cmd/mig/under_way.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/proc.h"
#include "cmd/mig/reset.h"

static int reset(const char *const *uuids, size_t n_uuids, void *data, struct error *err)
{
        const struct mig_under_way *work = data;

        return mig_reset(uuids, n_uuids, option_set_value(work->set, "driver-root-ctr-path"), MIG_RESET_MS, err);
}

static void say_step(const char *step, void *data)
{
        const struct mig_under_way *work = data;

        if (!work->steps)
                return;
        fprintf(work->steps, "%s\n", step);
        fflush(work->steps);
}

int mig_under_way_open(struct mig_under_way *ret, const struct option_set *set, const char *state_directory,
        enum mig_mode_change mode_change, FILE *steps, struct error *err)
{
        _free_ char *path = xasprintf("%s" BOOT_ID_PATH, option_set_value(set, "system-root"));
        int rc;

        *ret = (struct mig_under_way){.set = set, .steps = steps};
        if (boot_id_read(&ret->boot_id, path, err) < 0)
                return -1;
        ret->options = (struct mig_change_options){.directory = state_directory,
                .library = option_set_value(set, "nvml-library"),
                .driver_root = option_set_value(set, "driver-root-ctr-path"),
                .boot_id = ret->boot_id,
                .may_wait = mode_change == MIG_MODE_REBOOT || mode_change == MIG_MODE_RESET_OR_REBOOT,
                .reset = mode_change == MIG_MODE_RESET || mode_change == MIG_MODE_RESET_OR_REBOOT ? reset : NULL,
                .report = say_step,
                .data = ret};
        rc = mig_change_open(&ret->change, &ret->options, err);
        if (rc == 0)
                return 0;
        free(ret->boot_id);
        return rc < 0 ? -1
                      : error_set(err, ERROR_UNAVAILABLE,
                                "another process changes the MIG geometry of this node now ('%s' is locked)",
                                state_directory);
}

void mig_under_way_close(struct mig_under_way *work)
{
        mig_change_close(&work->change);
        free(work->boot_id);
}

int mig_under_way_settle(struct mig_under_way *work, struct error *err)
{
        enum mig_change_end end;

        if (mig_change_resume(&work->change, &end, err) < 0) {
                if (access(work->change.path, F_OK) == 0)
                        return -1;
                say_step(err->text, work);
                return 0;
        }
        return end == MIG_CHANGE_WAITS ? mig_change_undo(&work->change, &end, err) : 0;
}
