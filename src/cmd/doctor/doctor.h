/*
 * warpshare doctor: checks one by one what a node needs, and what is known to go wrong on it. It changes nothing.
 *
 * A check is a function that examines one thing and reports findings. Checks share nothing, and run in a process of
 * their own with a deadline each (base/io/worker.h), since NVML, a control daemon or a network file system may block
 * for ever.
 */
#pragma once

#include "base/error.h"
#include "config/config.h"
#include "config/option.h"

enum verdict {
        DOCTOR_OK,
        DOCTOR_NOTE,    /* works, but has a limit to know about; or fails only in some containers */
        DOCTOR_WRONG,   /* something does not work */
        DOCTOR_SKIPPED, /* cannot be judged here */
};
const char *doctor_verdict_name(enum verdict verdict); /* "ok", "note", "wrong", "skipped" */

struct doctor {
        const struct config *config;
        const char *mps_root; /* from doctor_find_mps_root() */
};

struct doctor_check {
        const char *name;
        void (*run)(struct doctor *doctor);
};

/* In an order in which each check can rely on earlier ones. */
extern const struct doctor_check doctor_checks[];
extern const size_t doctor_check_count;

/* Called by a check: the finding, what it means and what to do; the last two may be NULL. */
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

/* toolkit.c */
void doctor_check_toolkit(struct doctor *doctor);

/* declared.c */
void doctor_check_declared(struct doctor *doctor);

/* dra.c */
void doctor_check_dra(struct doctor *doctor);

/* mig.c */
void doctor_check_mig(struct doctor *doctor);

/* mps.c */

/*
 * The MPS root as this process sees it: the folder that is mounted in containers (--mps-directory), or, on the host
 * itself, the configured folder below the system root. The caller frees.
 */
char *doctor_find_mps_root(const struct config *config);
/*
 * True if no configuration is named and `warpshare mps` answers: doctor runs in that container, which has neither the
 * agent's configuration nor kubelet's folders.
 */
bool doctor_is_at_supervisor(const struct doctor *doctor);
void doctor_check_control_program(struct doctor *doctor);
void doctor_check_mps_root(struct doctor *doctor);
void doctor_check_mps_parents(struct doctor *doctor);
void doctor_check_selinux(struct doctor *doctor);
void doctor_check_shm(struct doctor *doctor);
void doctor_check_daemons(struct doctor *doctor);
void doctor_check_automatic_mount(struct doctor *doctor);
