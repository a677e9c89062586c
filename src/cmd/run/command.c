// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare run: starts a program in a share of a GPU, on a machine where `warpshare mps --standalone` shares them. It
 * chooses a unit, takes the share (shares.h), and becomes the program, with the variables by which MPS holds it to
 * that.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mps_value.h"
#include "base/text.h"
#include "cmd/cli/columns.h"
#include "cmd/commands.h"
#include "cmd/mps/command.h"
#include "cmd/run/shares.h"
#include "plan/mps_limits.h"
#include "plan/share.h"

enum { EXIT_NO_PROGRAM = 127, EXIT_NOT_STARTED = 126 }; /* as a shell's */

#define WAIT_MAX UINT64_C(604800) /* a week */
#define AGAIN_MS 200
#define MIB (UINT64_C(1) << 20)

enum { SHARE, THREADS, MEMORY, GPU, WAIT, SHOW, DIRECTORY };

static const struct option own[] = {
        [SHARE] = COMMAND_TEXT("share", "", "PART", "how much of one GPU's threads and memory: 0.3 or 30%"),
        [THREADS] = COMMAND_TEXT("threads", "", "PERCENT", "of its threads, instead of what --share says: 30"),
        [MEMORY] = COMMAND_TEXT("memory", "", "QUANTITY", "of its memory, instead of what --share says: 10Gi"),
        [GPU] = COMMAND_TEXT("gpu", "", "INDEX|UUID",
                "this GPU or MIG device (0, 0:1, GPU-…); else that which has the least left and room for it"),
        [WAIT] = COMMAND_TEXT("wait", "0", "SECONDS", "how long to wait for room"),
        [SHOW] = COMMAND_FLAG("show", "list GPUs and shares, and end"),
        [DIRECTORY] = COMMAND_TEXT("mps-directory", STANDALONE_ROOT, "PATH", "that of 'warpshare mps --standalone'",
                .environment = {"WARPSHARE_MPS_DIRECTORY"}),
};

/* ---- what is asked for ---- */

/* "0.3", "30%": above 0 and at most 1, in permille. */
static bool read_part(const char *text, unsigned int *ret)
{
        _free_ char *copy = xstrdup(text);
        size_t length = strlen(text);
        char *end;
        double part;

        if (length && text[length - 1] == '%') {
                copy[length - 1] = '\0';
                return mps_value_threads(copy, ret);
        }
        errno = 0;
        part = strtod(text, &end);
        if (!length || *end || errno || !(part > 0) || part > 1 || text[strspn(text, "0123456789.")])
                return false;
        *ret = (unsigned int)(part * 1000 + 0.5);
        return *ret > 0;
}

static int run_read_request(
        struct run_share *ret, uint64_t *ret_wait, const struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        uint64_t bytes;

        *ret = (struct run_share){.unit = *values[GPU] ? values[GPU] : NULL, .pid = getpid()};
        if (*values[SHARE] && !read_part(values[SHARE], &ret->threads_permille))
                return error_set(err, ERROR_INVALID,
                        "share: '%.40s' is no part of a GPU, which is above 0 and at most 1: 0.3, or 30%%",
                        values[SHARE]);
        if (*values[THREADS] && !mps_value_threads(values[THREADS], &ret->threads_permille))
                return error_set(err, ERROR_INVALID,
                        "threads: '%.40s' is no percentage above 0 and at most 100, as 30 or 33.3", values[THREADS]);
        if (!ret->threads_permille)
                return error_set(err, ERROR_INVALID,
                        "how much of a GPU? --share 0.3 for 30 %% of threads and memory, or --threads and --memory");
        if (*values[MEMORY] &&
                (!quantity_value(values[MEMORY], &bytes) || bytes / MIB < SHARE_LEAST_MIB || bytes / MIB > UINT32_MAX))
                return error_set(err, ERROR_INVALID,
                        "memory: '%.40s' is no quantity of at least %" PRIu64
                        "Mi, which a CUDA program needs for itself, as 10Gi or 512Mi",
                        values[MEMORY], SHARE_LEAST_MIB);
        if (*values[MEMORY])
                ret->memory_mib = bytes / MIB;
        return command_number(call, WAIT, " of seconds", 0, WAIT_MAX, ret_wait, err);
}

/* ---- the share ---- */

/* 0: |*ret_unit| has room, and the share is held from now on. */
static int try_share(const struct run_unit **ret_unit, struct run_share *share, struct arena *arena, const char *root,
        struct error *err)
{
        const struct run_share request = *share;
        const struct run_share *held;
        struct lock lock = LOCK_INIT;
        struct run_units units;
        size_t n_held;
        int fd;
        int rc = -1;

        if (run_units_read(&units, arena, root, err) < 0 || run_shares_lock(&lock, root, err) < 0)
                return -1;
        if (run_shares_read(&held, &n_held, arena, root, err) == 0)
                *ret_unit = run_choose(&units, held, n_held, &request, err);
        else
                *ret_unit = NULL;
        if (*ret_unit) {
                share->unit = (*ret_unit)->uuid;
                share->memory_mib = run_memory_mib(*ret_unit, &request);
                rc = run_shares_hold(&fd, root, share, err);
        }
        lock_release(&lock);
        return rc;
}

static int take_share(const struct run_unit **ret_unit, struct run_share *share, uint64_t wait, struct arena *arena,
        const char *root, struct error *err)
{
        const struct timespec pause = {.tv_nsec = AGAIN_MS * 1000000L};

        for (uint64_t waited = 0;; waited += AGAIN_MS) {
                if (try_share(ret_unit, share, arena, root, err) == 0)
                        return 0;
                if (err->kind != ERROR_EXHAUSTED || waited >= wait * 1000)
                        return -1;
                if (waited == 0)
                        fprintf(stderr, "warpshare run: %s; waiting\n", err->text);
                nanosleep(&pause, NULL);
        }
}

/* ---- the program ---- */

static void set_environment(
        const struct run_unit *unit, const struct run_share *share, const char *root, struct arena *arena)
{
        const char *fraction = mps_limits_fraction(arena, share->memory_mib, unit->memory_bytes);

        setenv("CUDA_VISIBLE_DEVICES", unit->uuid, 1);
        setenv("CUDA_MPS_PIPE_DIRECTORY", arena_printf(arena, "%s/%s/pipe", root, unit->daemon), 1);
        setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", mps_limits_threads(arena, share->threads_permille), 1);
        setenv("WARPSHARE_THREAD_PERCENTAGE",
                arena_printf(arena, "%u.%u", share->threads_permille / 10, share->threads_permille % 10), 1);
        if (!share->memory_mib)
                return;
        setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", mps_limits_memory(arena, &share->memory_mib, 1), 1);
        setenv("WARPSHARE_MEMORY_LIMIT_MIB", arena_printf(arena, "%" PRIu64, share->memory_mib), 1);
        if (fraction)
                setenv("WARPSHARE_FRACTION", fraction, 1);
}

/* ---- --show ---- */

static void show_unit(struct columns *table, const struct run_unit *unit, const struct run_share *held, size_t n_held)
{
        unsigned int permille;
        uint64_t mib;

        run_sum(unit, held, n_held, &permille, &mib);
        columns_add(table, "%s", unit->index);
        columns_add(table, "%s", unit->name);
        columns_add(table, "%u.%u %%", permille / 10, permille % 10);
        columns_add(table, "%" PRIu64 " of %" PRIu64 " MiB", mib, unit->memory_mib);
        columns_add(table, "-");
        columns_add(table, "-");
        columns_add(table, "-");
        for (size_t i = 0; i < n_held; i++) {
                const struct run_share *share = &held[i];

                if (strcmp(share->unit, unit->uuid) != 0)
                        continue;
                columns_add(table, " ");
                columns_add(table, " ");
                columns_add(table, "%u.%u %%", share->threads_permille / 10, share->threads_permille % 10);
                columns_add(table, "%" PRIu64 " MiB", share->memory_mib);
                columns_add(table, "%d", (int)share->pid);
                columns_add(table, "%u", (unsigned int)share->uid);
                columns_add(table, "%s", share->program ? share->program : "-");
        }
}

static int run_show(const char *root, struct arena *arena, struct error *err)
{
        static const struct column columns[] = {{"GPU", false}, {"NAME", false}, {"THREADS", true}, {"MEMORY", true},
                {"PID", true}, {"USER", true}, {"PROGRAM", false}};
        struct lock lock = LOCK_INIT;
        struct strbuf text = STRBUF_INIT;
        const struct run_share *held;
        struct run_units units;
        struct columns table;
        size_t n_held;
        int rc;

        if (run_units_read(&units, arena, root, err) < 0 || run_shares_lock(&lock, root, err) < 0)
                return -1;
        rc = run_shares_read(&held, &n_held, arena, root, err);
        lock_release(&lock);
        if (rc < 0)
                return -1;
        columns_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < units.n_units; i++)
                show_unit(&table, &units.units[i], held, n_held);
        columns_print(&text, &table, "", command_wants_colours());
        fputs(text.data, stdout);
        strbuf_done(&text);
        columns_done(&table);
        return 0;
}

/* ---- the command ---- */

static int run_in_share(struct command_call *call, struct error *err)
{
        const char *root = call->values[DIRECTORY];
        char **program = call->after;
        struct run_share share;
        const struct run_unit *unit;
        uint64_t wait;

        if (command_is_set(call, SHOW))
                return run_show(root, &call->arena, err);
        if (run_read_request(&share, &wait, call, err) < 0)
                return COMMAND_REFUSED;
        if (!program || !*program)
                return command_refuse(err, "which program? 'warpshare run --share 0.3 -- PROGRAM'");
        share.program = *program;
        if (take_share(&unit, &share, wait, &call->arena, root, err) < 0)
                return COMMAND_FAILED;
        set_environment(unit, &share, root, &call->arena);
        execvp(*program, program);
        error_raise_errno(err, errno, "start '%s'", *program);
        command_fail(call->command, err);
        return err->kind == ERROR_NOT_FOUND ? EXIT_NO_PROGRAM : EXIT_NOT_STARTED;
}

const struct command command_run_in_share = {
        .name = "run",
        .summary = "start a program in a share of a GPU, on a machine without Kubernetes",
        .run = run_in_share,
        .ends_at_dashes = true,
        .shared = command_none,
        COMMAND_OWN(own),
        .program = "warpshare run",
        .help = "usage: warpshare run --share PART [OPTION...] -- PROGRAM [ARGUMENT...]\n"
                "       warpshare run --show\n"
                "\n"
                "Starts a program in a share of a GPU, on a machine without Kubernetes where 'warpshare mps --standalone'\n"
                "runs. MPS holds the program to its share, and other shares run beside it on the same GPU. The share is\n"
                "free again when the program and all that it has started have ended.\n"
                "\n"
                "    $ warpshare run --share 0.3 -- python3 train.py\n"
                "    $ warpshare run --threads 50 --memory 10Gi --wait 3600 -- ./simulate\n"
                "\n"
                "Shares that 'warpshare run' gives never add up to more than a GPU has. Who starts programs past it is\n"
                "not held to anything, so it is for users who want to share (docs/standalone.md).\n"
                "\n"
                "The program gets CUDA_VISIBLE_DEVICES, CUDA_MPS_PIPE_DIRECTORY, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE and\n"
                "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, and, as a container of Kubernetes does, WARPSHARE_THREAD_PERCENTAGE,\n"
                "WARPSHARE_MEMORY_LIMIT_MIB and WARPSHARE_FRACTION. Status 126 or 127: it could not be started; 1: no share; else its own.\n"
                "\n",
};
