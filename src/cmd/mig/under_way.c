#include "cmd/mig/under_way.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "dra/prepared_record.h"

/* ---- a reset ---- */

/* nvidia-smi of the driver's root where it has one: it has to be of the driver's version. Does not return. */
_Noreturn static void exec_reset(const char *root, const char *list)
{
        _free_ char *installed = xasprintf("%s/usr/bin/nvidia-smi", root);
        const char *const argv[] = {"nvidia-smi", "--gpu-reset", "-i", list, NULL};

        dup2(STDERR_FILENO, STDOUT_FILENO);
        if (*root && strcmp(root, "/") != 0 && access(installed, X_OK) == 0 && (chroot(root) < 0 || chdir("/") < 0))
                fprintf(stderr, "chroot '%s': %s\n", root, strerror(errno));
        else
                execvp(argv[0], (char *const *)(uintptr_t)argv);
        fprintf(stderr, "nvidia-smi: %s\n", strerror(errno));
        _exit(127);
}

static int reset_by_nvidia_smi(const char *const *uuids, size_t n_uuids, void *data, struct error *err)
{
        const struct mig_under_way *work = data;
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;
        int status;
        pid_t pid;

        for (size_t i = 0; i < n_uuids; i++)
                strbuf_printf(&list, "%s%s", i ? "," : "", uuids[i]);
        fflush(NULL);
        pid = fork();
        if (pid < 0)
                return error_errno(err, errno, "start nvidia-smi");
        if (pid == 0)
                exec_reset(command_line_get(work->set, "driver-root-ctr-path"), list.data);
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return error_errno(err, errno, "wait for nvidia-smi");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                return 0;
        return error_set(err, ERROR_UNAVAILABLE,
                "'nvidia-smi --gpu-reset -i %s' ended with %s %d: end what holds the GPUs, or let their mode wait for a reboot",
                list.data, WIFEXITED(status) ? "status" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

/* ---- the change ---- */

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
        _free_ char *path = xasprintf("%s/proc/sys/kernel/random/boot_id", command_line_get(set, "system-root"));
        int rc;

        *ret = (struct mig_under_way){.set = set, .steps = steps};
        if (dra_record_boot_id(&ret->boot_id, path, err) < 0)
                return -1;
        ret->options = (struct mig_change_options){.directory = state_directory,
                .library = command_line_get(set, "nvml-library"),
                .driver_root = command_line_get(set, "driver-root-ctr-path"),
                .boot_id = ret->boot_id,
                .may_wait = mode_change == MIG_MODE_REBOOT,
                .reset = mode_change == MIG_MODE_RESET ? reset_by_nvidia_smi : NULL,
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
