/*
 * warpshare doctor: what a node needs, and what is known to go wrong on it, looked at one by one. Nothing is changed.
 *
 * A check is a function that looks at one thing and tells what it found. Checks share nothing, and each runs in a process of its
 * own with a deadline: NVML, a control daemon or a network file system may keep it for ever.
 */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "config/config.h"
#include "config/option.h"

enum verdict {
        DOCTOR_OK,
        DOCTOR_NOTE,    /* works, but is worth knowing; or is wrong only in some containers */
        DOCTOR_WRONG,   /* something does not work */
        DOCTOR_SKIPPED, /* cannot be judged here */
};
const char *doctor_verdict_name(enum verdict verdict); /* "ok", "note", "wrong", "skipped" */

struct doctor {
        const struct config *config;
        const char *mps_root; /* as doctor_find_mps_root has it */
        FILE *out;            /* of the running check */
};

struct doctor_check {
        const char *name;
        void (*run)(struct doctor *doctor);
};

/* In the order in which they build on each other. */
extern const struct doctor_check doctor_checks[];
extern const size_t doctor_check_count;

/* From within a check: what was found, what that means and what to do about it; the last two may be NULL. */
void doctor_report(struct doctor *doctor, enum verdict verdict, const char *means, const char *todo, const char *format,
        ...) PRINTF_LIKE(5, 6);

/* ---- the checks ---- */

/* node.c */
void doctor_check_driver(struct doctor *doctor);
void doctor_check_device_nodes(struct doctor *doctor);
void doctor_check_gpus(struct doctor *doctor);
void doctor_check_plan(struct doctor *doctor);
void doctor_check_containers(struct doctor *doctor);
void doctor_check_compute_mode(struct doctor *doctor);
void doctor_check_tiers(struct doctor *doctor);
void doctor_check_host_pid(struct doctor *doctor);
void doctor_check_open_files(struct doctor *doctor);
void doctor_check_cgroup(struct doctor *doctor);

/* kubelet.c */
void doctor_check_kubelet(struct doctor *doctor);
void doctor_check_pod_resources(struct doctor *doctor);
void doctor_check_agent(struct doctor *doctor);
void doctor_check_other_plugins(struct doctor *doctor);
void doctor_check_cdi(struct doctor *doctor);

/* declared.c */
void doctor_check_declared(struct doctor *doctor);

/* mps.c */

/* The MPS root as this process sees it: where containers have it mounted (--mps-directory), or else, on the host itself, where the
 * configuration has it, below the system root. The caller frees. */
char *doctor_find_mps_root(const struct config *config);
/* No configuration is named, and `warpshare mps` answers: as in its container, which has neither the agent's configuration nor kubelet's folders. */
bool doctor_is_at_supervisor(const struct doctor *doctor);
void doctor_check_control_program(struct doctor *doctor);
void doctor_check_mps_root(struct doctor *doctor);
void doctor_check_mps_parents(struct doctor *doctor);
void doctor_check_selinux(struct doctor *doctor);
void doctor_check_shm(struct doctor *doctor);
void doctor_check_daemons(struct doctor *doctor);
void doctor_check_automatic_mount(struct doctor *doctor);
