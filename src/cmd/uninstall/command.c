// SPDX-License-Identifier: Apache-2.0
#include "cmd/uninstall/uninstall.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/io/lock.h"
#include "cmd/cli/columns.h"
#include "cmd/cli/command.h"
#include "cmd/commands.h"
#include "cmd/mps/command.h"
#include "config/config.h"
#include "node/status/labels_publisher.h"

/* ---- the list ---- */

static void removals_done(struct removals *removals)
{
        free(removals->rows);
        arena_done(&removals->arena);
}

void removals_add(struct removals *removals, enum removal_outcome outcome, const char *what, const char *where,
        const char *note, ...)
{
        va_list args;

        removals->rows = xrealloc(removals->rows, (removals->n_rows + 1) * sizeof(*removals->rows));
        va_start(args, note);
        removals->rows[removals->n_rows++] = (struct removal){
                .what = arena_strdup(&removals->arena, what),
                .where = arena_strdup(&removals->arena, where),
                .outcome = outcome,
                .note = arena_vprintf(&removals->arena, note, args),
        };
        va_end(args);
}

void removals_end(struct removals *removals, const char *what, const char *where, const struct error *err)
{
        removals_add(removals, err ? REMOVAL_LEFT : REMOVAL_DONE, what, where, "%s", err ? err->text : "");
}

void removals_unlink(struct removals *removals, const char *what, const char *path, const char *left)
{
        if (!left && !removals->is_dry && unlink(path) < 0)
                left = strerror(errno);
        removals_add(removals, left ? REMOVAL_LEFT : REMOVAL_DONE, what, path, "%s", left ? left : "");
}

size_t removals_count(const struct removals *removals, enum removal_outcome outcome)
{
        size_t count = 0;

        for (size_t i = 0; i < removals->n_rows; i++)
                count += removals->rows[i].outcome == outcome;
        return count;
}

static const char *outcome_word(const struct removals *removals, enum removal_outcome outcome)
{
        static const char *const words[] = {
                [REMOVAL_DONE] = "removed",
                [REMOVAL_LEFT] = "left",
                [REMOVAL_ABSENT] = "was not there",
                [REMOVAL_UNSEEN] = "not checked",
        };

        return outcome == REMOVAL_DONE && removals->is_dry ? "would be removed" : words[outcome];
}

/* The table, one row each. */
static void removals_print(const struct removals *removals, struct strbuf *text)
{
        static const struct column list[] = {
                {.head = "WHAT"}, {.head = "OUTCOME"}, {.head = "WHERE"}, {.head = "NOTE"}};
        struct columns columns;

        columns_init(&columns, list, ARRAY_SIZE(list));
        for (size_t i = 0; i < removals->n_rows; i++) {
                const struct removal *row = &removals->rows[i];

                columns_add_row(&columns, row->what, outcome_word(removals, row->outcome),
                        *row->where ? row->where : NULL, *row->note ? row->note : NULL);
        }
        columns_print(text, &columns, "", false);
        columns_done(&columns);
}

/* ---- warpshare uninstall ---- */

enum { DRY_RUN, FORCE, OUTPUT };

static const struct option own[] = {
        [DRY_RUN] = COMMAND_FLAG("dry-run", "only show what is there and what would become of it"),
        [FORCE] = COMMAND_FLAG(
                "force", "go on although an agent runs here, and remove CDI specifications that are in use"),
        [OUTPUT] = COMMAND_OUTPUT,
};

static const char help[] =
        "usage: warpshare uninstall [OPTION...]\n"
        "\n"
        "Removes what is left on this node when the agent and 'warpshare mps' have ended: sockets in kubelet's\n"
        "directory, CDI specifications, labels ('warpshare labels --remove'), all of MPS ('warpshare mps\n"
        "uninstall'), records of the MIG manager, and Warpshare's taint, condition and annotations on the Node\n"
        "object. With --dra also the sockets of the DRA driver and its ResourceSlices; what is prepared for claims\n"
        "stays, and so does the MIG geometry. A table shows for each whether it was there, and what became of it.\n"
        "May be run again.\n"
        "\n"
        "Status 0: nothing is left. Status 1: something is, or an agent runs here.\n"
        "\n";

static const char more_help[] =
        "\nEvery option of 'warpshare agent' and its environment count as well: use those that the agent had.\n";

/* ---- MPS ---- */

static void remove_mps(struct removals *removals, const struct config *config)
{
        static const char what[] = "MPS";
        _free_ char *root = mps_find_root(config->mps.directory, config->mps.root, config->system_root);
        const struct mps_supervisor_options options = {
                .root = root,
                .control = config->mps.control,
                .driver_root = config->driver.mounted_root,
                .nvml_library = config->driver.nvml_library,
        };
        size_t n_before = removals->n_rows;
        struct error err;

        switch (mps_removal_run(removals, &options, &err)) {
        case 0:
                if (removals->n_rows == n_before)
                        removals_add(removals, REMOVAL_ABSENT, what, options.root, "%s", "");
                break;
        case MPS_REMOVAL_NOTHING:
                removals_add(removals, REMOVAL_ABSENT, what, options.root, "%s", "");
                break;
        case MPS_REMOVAL_BUSY:
                removals_add(removals, REMOVAL_LEFT, what, options.root,
                        "`warpshare mps` runs with it, and removing its files ends the programs of containers: end "
                        "it first");
                break;
        default:
                removals_add(removals, REMOVAL_LEFT, what, options.root, "%s", err.text);
        }
}

/* ---- labels ---- */

static void report_labels(
        enum labels_removal outcome, const char *what, const char *where, const char *note, void *data)
{
        static const enum removal_outcome outcomes[] = {
                [LABELS_REMOVED] = REMOVAL_DONE,
                [LABELS_LEFT] = REMOVAL_LEFT,
                [LABELS_ABSENT] = REMOVAL_ABSENT,
                [LABELS_UNSEEN] = REMOVAL_UNSEEN,
        };

        removals_add(data, outcomes[outcome], what, where, "%s", note);
}

/* ---- the report ---- */

static void uninstall_print_json(const struct removals *removals)
{
        static const char *const words[] = {
                [REMOVAL_DONE] = "removed",
                [REMOVAL_LEFT] = "left",
                [REMOVAL_ABSENT] = "absent",
                [REMOVAL_UNSEEN] = "unseen",
        };
        json_t *rows = json_array();

        for (size_t i = 0; i < removals->n_rows; i++) {
                const struct removal *row = &removals->rows[i];

                json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s}", "what", row->what, "where", row->where,
                                                    "outcome", words[row->outcome], "note", row->note));
        }
        command_print_json(json_pack("{s:b, s:o}", "dryRun", removals->is_dry, "things", rows), JSON_INDENT(2));
}

static void uninstall_print(const struct removals *removals, bool is_json)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (is_json) {
                uninstall_print_json(removals);
                return;
        }
        removals_print(removals, &text);
        fputs(text.data, stdout);
}

/* ---- the command ---- */

/* With a configuration that cannot be used, the options alone decide, so that everything is still removed. */
static const struct config *uninstall_read_config(struct option_set *set, struct arena *arena, struct error *err)
{
        const struct config *config;

        if (config_build(set, arena, &config, NULL, NULL, err) == 0)
                return config;
        fprintf(stderr, "warpshare uninstall: without the configuration file: %s\n", err->text);
        set->values[option_find("config-file")] = "";
        return config_build(set, arena, &config, NULL, NULL, err) == 0 ? config : NULL;
}

/* The lock is held while things are removed, so that no agent starts meanwhile. */
static int uninstall(const struct config *config, const struct command_call *call)
{
        _cleanup_(removals_done) struct removals removals = {.is_dry = command_is_set(call, DRY_RUN)};
        _free_ char *directory =
                *config->kubelet.socket ? file_folder(config->kubelet.socket) : xstrdup(CONFIG_DEVICE_PLUGINS);
        bool is_forced = command_is_set(call, FORCE);
        struct lock lock = LOCK_INIT;
        struct api_visit visit;
        struct error err;
        int rc = lock_take_within(&lock, directory, LOCK_PATIENCE_MS, &err);

        if (rc == LOCK_BUSY && !is_forced && !removals.is_dry) {
                fprintf(stderr, "an agent runs here (it has the lock on '%s'): end it first, or use --force\n",
                        directory);
                return EXIT_FAILED;
        }
        if (rc != LOCK_BUSY)
                uninstall_sockets(&removals, directory);
        else
                removals_add(&removals, REMOVAL_LEFT, "kubelet socket", directory, "an agent runs here");
        uninstall_cdi(&removals, config, directory, is_forced);
        if (config->dra.enabled)
                uninstall_dra(&removals, config, rc == LOCK_BUSY ? "an agent runs here" : NULL, is_forced);
        remove_mps(&removals, config);
        uninstall_mig(&removals, config->mig.state_directory, is_forced);
        api_visit_begin(&visit, config);
        labels_remove(&visit, config, "", removals.is_dry, report_labels, &removals);
        uninstall_mig_state(&removals, &visit, config->node.name);
        uninstall_node(&removals, &visit, config->node.name);
        if (config->dra.enabled)
                uninstall_slices(&removals, &visit, config);
        api_visit_end(&visit);
        lock_release(&lock);
        uninstall_print(&removals, command_has(call, OUTPUT, "json"));
        return removals_count(&removals, REMOVAL_LEFT) > 0 ? EXIT_FAILED : 0;
}

static int uninstall_run(struct command_call *call, struct error *err)
{
        const struct config *config;

        command_setup_log(&call->set, "text");
        config = uninstall_read_config(&call->set, &call->arena, err);
        return config ? uninstall(config, call) : COMMAND_FAILED;
}

const struct command command_uninstall = {
        .name = "uninstall",
        .summary = "remove what is left on this node and on its Node object",
        .run = uninstall_run,
        COMMAND_OWN(own),
        .program = "warpshare uninstall",
        .help = help,
        .more_help = more_help,
        .lists_own_only = true,
};

/* ---- warpshare mps uninstall ---- */

static const char *const mps_shared[] = {
        "mps-directory", "mps-control", "driver-root-ctr-path", "nvml-library", "log-level", NULL};

static const char mps_help[] =
        "usage: warpshare mps uninstall [OPTION...]\n"
        "\n"
        "Undoes MPS where no supervisor runs: ends the MPS daemons that a supervisor has left running (clients\n"
        "have five seconds), restores the compute mode of the GPUs, removes the memory limits of containers,\n"
        "removes MPS files and folders below the MPS directory, and unmounts its shared memory if no process uses\n"
        "it. Where there is no " CONFIG_MPS_DIRECTORY ", as on a machine without containers, that is " STANDALONE_ROOT
        ", which is\n"
        "removed itself after 'warpshare mps --standalone'. What is in use or mounted stays, and is reported. May be\n"
        "run again.\n"
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
        _free_ char *root = mps_find_root(option_set_value(set, "mps-directory"), "", "");
        const struct mps_supervisor_options options = {
                .root = root,
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
                if (strcmp(root, CONFIG_MPS_DIRECTORY) == 0)
                        puts("neither '" CONFIG_MPS_DIRECTORY "' nor '" STANDALONE_ROOT "' is there: nothing to do");
                else
                        printf("'%s' is not there: nothing to do\n", root);
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
        .shared = mps_shared,
        .program = "warpshare mps uninstall",
        .help = mps_help,
};
