// SPDX-License-Identifier: Apache-2.0
/*
 * One setting of a control daemon: how it is read, how it is set, and whether an answer shows it as it was set. Pure:
 * mps/supervisor/daemon_settings.c sends the commands.
 *
 * A daemon shows memory limits from 1 GiB on as whole GiB, rounded down. What a server of the older interface reports
 * about itself was never seen on hardware, so a rounded percentage of it is accepted.
 */
#pragma once

#include "base/error.h"
#include "mps/wire/status.h"
#include "plan/mps_wanted.h"

enum mps_setting_kind {
        MPS_SETTING_NONE, /* a command that is only sent */
        MPS_SETTING_THREADS,
        MPS_SETTING_LIMIT,
        MPS_SETTING_NAMESPACE, /* both, of a container's namespace */
};

struct mps_setting {
        enum mps_setting_kind kind;
        bool is_v3;      /* the commands are words of the v3 interface, else lines of the older one */
        const char *set; /* settings that one command sets, or that one answer shows, have an equal one */
        const char *get; /* NULL: the setting is not read back */
        bool may_fail;   /* a namespace that exists already cannot be created */
        unsigned int permille;
        uint64_t limit_mib; /* of a namespace: 0 for none, as above */
        const char *unit;   /* of a limit */
        pid_t server;       /* 0: the daemon's default */
        const char *server_name;
        const char *name; /* of the namespace */
        const char *what; /* "memory limit of GPU-…" */
};

/* ---- the older interface; |server| 0: the default ---- */

struct mps_setting mps_setting_threads(struct arena *arena, pid_t server, unsigned int permille);
/*
 * Names the unit by its ordinal, the position in the daemon's CUDA_VISIBLE_DEVICES: old programs read a UUID as device
 * 0.
 */
struct mps_setting mps_setting_limit(struct arena *arena, pid_t server, size_t ordinal, const struct mps_unit *unit);

/* ---- v3 ---- */

/* The server for clients that name none, and its limits, which one command sets. */
struct mps_setting mps_setting_v3_create(struct arena *arena, const char *server, const char *unit);
void mps_setting_v3_default(struct mps_setting ret[2], struct arena *arena, const char *server, unsigned int permille,
        const struct mps_unit *unit);
/* The limits of a namespace that is being made, as many as are returned. One command sets both. */
size_t mps_setting_v3_new_namespace(struct mps_setting ret[2], struct arena *arena, const char *server,
        const struct mps_allocation_request *wanted);
/* The limits of a namespace that exists. |list| is the command that shows all of them. */
struct mps_setting mps_setting_v3_namespace(
        struct arena *arena, const char *server, const struct mps_allocation_request *wanted, const char *list);

/* ---- answers ---- */

enum mps_setting_outcome {
        MPS_SETTING_SAME,
        MPS_SETTING_OTHER,   /* |err| says what differs: after the first setting what was set, later what changed */
        MPS_SETTING_UNCLEAR, /* the answer cannot be read: |err| says why, unless the server or the namespace is gone */
};
enum mps_setting_outcome mps_setting_check(
        const struct mps_setting *setting, const char *answer, bool is_first, struct error *err);

/* The answer hides a small change. */
bool mps_setting_is_blurred(const struct mps_setting *setting);
