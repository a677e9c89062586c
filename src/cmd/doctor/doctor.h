// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare doctor: checks one by one what a node needs, and what is known to go wrong on it. It changes nothing.
 *
 * A check is a function that examines one thing and reports findings. Checks share nothing, and run in a process of
 * their own with a deadline each (base/io/worker.h), since NVML, a control daemon or a network file system may block
 * for ever.
 */
#pragma once

#include <jansson.h>

#include "config/config.h"
#include "node/status/api.h"

enum verdict {
        DOCTOR_OK,
        DOCTOR_NOTE,    /* works, but has a limit to know about; or fails only in some containers */
        DOCTOR_WRONG,   /* something does not work */
        DOCTOR_SKIPPED, /* cannot be checked here */
};

struct doctor {
        const struct config *config;
        const char *mps_root; /* from mps_find_root() */
};

/* Called by a check: the finding, what it means and what to do; the last two may be NULL. */
void doctor_report(struct doctor *doctor, enum verdict verdict, const char *means, const char *todo, const char *format,
        ...) PRINTF_LIKE(5, 6);

/* Report a check that passed, and one that cannot be made here, without anything to add. */
#define doctor_ok(doctor, ...) doctor_report(doctor, DOCTOR_OK, NULL, NULL, __VA_ARGS__)
#define doctor_skip(doctor, ...) doctor_report(doctor, DOCTOR_SKIPPED, NULL, NULL, __VA_ARGS__)

/* ---- findings as text, also for `kubectl warpshare doctor` ---- */

/*
 * Each is an object with "verdict" ("ok", "note", "wrong" or "skipped"), "check" and "found", and perhaps "means" and
 * "todo".
 */
size_t findings_count(const json_t *findings, const char *verdict);

/*
 * |is_table|: for people, what is wrong first, in lines as wide as the terminal; what several of them mean, or need,
 * stands below the first one. Else as one JSON object, in the order of the checks.
 */
void findings_print(json_t *findings, bool is_table);

/* ---- for checks that ask the API server (api.c): one GET after the other, each within five seconds ---- */

/*
 * Begins a visit. Returns false where no API server can be asked, after it has reported that as wrong, with |means|.
 * Call api_visit_end() in any case.
 */
bool doctor_visit(struct doctor *doctor, struct api_visit *visit, const char *means);

/* |query| may be NULL. */
void doctor_ask(struct api_visit *visit, const char *path, const char *query, struct api_answer *ret);

/* ---- the checks: their names and functions, in an order in which each can rely on earlier ones ---- */

#define DOCTOR_CHECKS(CHECK)                                                                                           \
        CHECK("driver", doctor_check_driver)                                                                           \
        CHECK("device-nodes", doctor_check_device_nodes)                                                               \
        CHECK("gpus", doctor_check_gpus)                                                                               \
        CHECK("plan", doctor_check_plan)                                                                               \
        CHECK("tiers", doctor_check_tiers)                                                                             \
        CHECK("compute-mode", doctor_check_compute_mode)                                                               \
        CHECK("kubelet", doctor_check_kubelet)                                                                         \
        CHECK("pod-resources", doctor_check_pod_resources)                                                             \
        CHECK("agent", doctor_check_agent)                                                                             \
        CHECK("other-plugins", doctor_check_other_plugins)                                                             \
        CHECK("containers", doctor_check_containers)                                                                   \
        CHECK("cdi", doctor_check_cdi)                                                                                 \
        CHECK("toolkit", doctor_check_toolkit)                                                                         \
        CHECK("declared", doctor_check_declared)                                                                       \
        CHECK("dra", doctor_check_dra)                                                                                 \
        CHECK("mig", doctor_check_mig)                                                                                 \
        CHECK("mps-control", doctor_check_control_program)                                                             \
        CHECK("mps-root", doctor_check_mps_root)                                                                       \
        CHECK("mps-parents", doctor_check_mps_parents)                                                                 \
        CHECK("selinux", doctor_check_selinux)                                                                         \
        CHECK("shm", doctor_check_shm)                                                                                 \
        CHECK("mps-daemons", doctor_check_daemons)                                                                     \
        CHECK("automatic-mount", doctor_check_automatic_mount)                                                         \
        CHECK("host-pid", doctor_check_host_pid)                                                                       \
        CHECK("open-files", doctor_check_open_files)                                                                   \
        CHECK("cgroup", doctor_check_cgroup)

#define DOCTOR_DECLARE(name, run) void run(struct doctor *doctor);
DOCTOR_CHECKS(DOCTOR_DECLARE)
#undef DOCTOR_DECLARE

/* ---- of MPS (mps.c) ---- */

/*
 * True if no configuration is named and `warpshare mps` answers: doctor runs in that container, which has neither the
 * agent's configuration nor kubelet's folders.
 */
bool doctor_is_at_supervisor(const struct doctor *doctor);
