/* warpshare mps uninstall: the command for cmd/uninstall/mps.h. */
#include <stdio.h>
#include <string.h>

#include "cmd/mps/command.h"
#include "cmd/uninstall/mps.h"

static const char *const shared[] = {
        "mps-directory", "mps-control", "driver-root-ctr-path", "nvml-library", "log-level", NULL};

static const char help[] =
        "usage: warpshare mps uninstall [OPTION...]\n"
        "\n"
        "Undoes MPS where no supervisor runs: ends the MPS daemons that a supervisor has left running (clients\n"
        "have five seconds), restores the compute mode of the GPUs, removes the memory limits of containers,\n"
        "removes MPS files and folders below the MPS directory, and unmounts its shared memory if no process uses\n"
        "it. What is in use or mounted stays, and is reported. May be run again.\n"
        "\n";

/* Returns how many things are left. */
static size_t mps_uninstall_print(const struct removals *removals, const char *root)
{
        size_t n_left = removals_count(removals, REMOVAL_LEFT);
        size_t n_removed = 0;

        for (size_t i = 0; i < removals->n_rows; i++) {
                const struct removal *row = &removals->rows[i];

                if (row->outcome == REMOVAL_LEFT)
                        printf("'%s' stays: %s\n", row->where, row->note);
                else if (row->outcome == REMOVAL_UNSEEN)
                        printf("'%s' cannot be seen: %s\n", row->where, row->note);
                else if (strcmp(row->what, MPS_REMOVAL_DAEMONS) == 0 || strcmp(row->what, MPS_REMOVAL_LIMITS) == 0)
                        printf("%s: %s\n", row->what, row->note);
                else
                        n_removed++;
        }
        if (n_removed > 0)
                printf("%zu files and folders of MPS were removed below '%s'\n", n_removed, root);
        else if (n_left == 0)
                printf("nothing of MPS is left below '%s'\n", root);
        return n_left;
}

static int mps_uninstall_run(struct command_call *call, struct error *err)
{
        const struct option_set *set = &call->set;
        const struct mps_removal_options options = {
                .root = option_set_value(set, "mps-directory"),
                .control = option_set_value(set, "mps-control"),
                .driver_root = option_set_value(set, "driver-root-ctr-path"),
                .nvml_library = option_set_value(set, "nvml-library"),
        };
        _cleanup_(removals_done) struct removals removals = {.is_dry = false};

        command_setup_log(set, "text");
        switch (mps_removal_run(&removals, &options, err)) {
        case 0:
                return mps_uninstall_print(&removals, options.root) > 0 ? EXIT_FAILED : 0;
        case MPS_REMOVAL_NOTHING:
                printf("'%s' is not there: nothing to do\n", options.root);
                return 0;
        case MPS_REMOVAL_BUSY:
                fprintf(stderr, "an MPS supervisor runs with '%s': end it first\n", options.root);
                return EXIT_FAILED;
        default:
                fprintf(stderr, "%s\n", err->text);
                return EXIT_FAILED;
        }
}

const struct command mps_command_uninstall = {
        .name = "uninstall",
        .summary = "undo all of it, where no supervisor runs",
        .run = mps_uninstall_run,
        .shared = shared,
        .program = "warpshare mps uninstall",
        .help = help,
};
