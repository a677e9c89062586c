/*
 * The parts of the monitor (gpu/monitor.h), which share one struct:
 *
 *   monitor.c          begins and ends, reads the inventory, asks anew, decides what is due
 *   monitor_health.c   events, probes, calls that hang: what they mean for the units
 *   monitor_samples.c  what the units do
 */
#pragma once

#include "base/list.h"
#include "gpu/listener.h"
#include "gpu/look.h"
#include "gpu/monitor.h"
#include "gpu/units.h"

struct uevent_watch;

/* Of all that is known of the node. */
struct monitor_reading {
        struct nvml_request request;
        struct gpu_monitor *monitor;
        struct call_info slow; /* the call that holds it up, once another reading has overtaken it */
        struct list link;      /* then, in |overtaken| */
};

struct gpu_monitor {
        struct gpu_monitor_options options; /* without 0 for defaults; the texts are its own */
        struct health_policy policy;
        struct nvml_pool *pool;
        struct listener *listener;
        struct uevent_watch *uevents; /* NULL: not available */
        uv_timer_t timer;             /* until something is due */

        /* What is known. */
        struct inventory *inventory; /* the last one read, completed with earlier knowledge; NULL: none yet */
        struct units units;
        struct hangs hangs;
        enum platform platform;
        unsigned int nvml_count;
        bool is_open;  /* the last reading was good */
        bool was_away; /* since then, the driver was replaced or was unusable */
        bool is_out;   /* all units were reported as unhealthy, since NVML cannot be used */
        bool has_mark;
        char *reported;          /* why it cannot, as it was reported last; NULL: it can */
        uint64_t empty_since_ms; /* since when all GPUs are gone; 0: they are not */
        struct driver_mark mark; /* of the driver that was read last */
        struct driver_gpus gpus;

        /* Reading. */
        struct monitor_reading *reading; /* NULL: none, or only such as were overtaken */
        struct list overtaken;           /* readings that a GPU, or a pair of them, holds up */
        bool is_patient;                 /* the next one waits for who was slow, so that it is read at all */
        bool has_answers;                /* what is being read answers all rescans so far */
        bool must_sweep;                 /* the waits for events fail: probe all, to find the GPU that is the cause */
        bool must_report;                /* report the inventory, even if it has not changed */
        bool owes_answer;                /* to a rescan */
        bool holds_report;               /* what was read is reported when its events are heard, or not soon */
        uint64_t held_since_ms;
        uint64_t read_since_ms;
        uint64_t overtake_at_ms; /* when to see what the reading is in */
        uint64_t refresh_at_ms;
        uint64_t retry_ms;
        uint64_t recount_at_ms; /* when to open NVML again because it counts other GPUs than the kernel; HEALTH_NEVER */
        uint64_t recount_ms;
        struct list trials; /* of GPUs that hung */

        /* Events. */
        struct listener_gpu *ears; /* as they were registered */
        size_t n_ears;
        bool is_registering;
        bool is_hearing_all; /* before it is known which there are */
        bool must_register;
        bool is_unheard;         /* for so long that all GPUs count as unhealthy */
        uint64_t register_at_ms; /* not before */
        uint64_t registered_ms;
        uint64_t sweep_at_ms; /* the same for the next sweep */
        uint64_t failed_waits;
        uint64_t unheard_since_ms; /* the first failed wait in a row; 0: they do not fail */
        char unheard[200];         /* why no events arrive, once that is reported; "": they arrive */

        struct list probes;

        /* Samples. */
        struct gpu_samples *samples; /* of the GPUs that were read in this round; NULL: none is under way */
        struct nvml_request sampling;
        size_t n_sampled; /* so many positions of the inventory are done */
        uint64_t sample_at_ms;
        struct gpu_xid *xids; /* all that came */
        size_t n_xids;

        bool wants_pause;
        bool is_closing;
        void (*closed)(void *data);
        void *closed_data;
};

/* Does what is due, and asks to be called again when something will be. */
void monitor_turn(struct gpu_monitor *monitor);
/* Reports the units whose health has changed; |all|: all that are unhealthy. */
void monitor_report_news(struct gpu_monitor *monitor, bool all);
/* NVML cannot be used: everything is closed, and searched for again. */
void monitor_give_up(struct gpu_monitor *monitor, const char *reason);
/* Reads by a process that opens NVML anew. */
void monitor_read_anew(struct gpu_monitor *monitor);
/* Answers rescans with what is known. */
void monitor_answer_from_memory(struct gpu_monitor *monitor);
static inline bool monitor_works(const struct gpu_monitor *monitor)
{
        return !monitor->is_closing && !monitor->wants_pause;
}

/* ---- monitor_health.c ---- */

/* The group of that GPU; NULL: there is none. |ret_gpu| may be NULL. */
struct unit_group *monitor_find_group(const struct gpu_monitor *monitor, const char *uuid, const struct gpu **ret_gpu);
/* A request failed because its process hung or crashed in |lost|. False: |err| is NULL, or says another reason. */
bool monitor_note_lost(struct gpu_monitor *monitor, const struct call_info *lost, const struct error *err);
void monitor_note_call(struct gpu_monitor *monitor, const struct call_info *call, bool has_crashed);
/* The driver answers again; or the GPU, or pairs of them. */
void monitor_end_hang(struct gpu_monitor *monitor, struct hang *hang);
void monitor_apply_findings(struct gpu_monitor *monitor, const struct look_finding *findings, size_t n_findings);
void monitor_init_listener(struct gpu_monitor *monitor);
/* Has those of the inventory heard that can be. */
void monitor_register(struct gpu_monitor *monitor);
/* Units whose events cannot arrive are unhealthy. */
void monitor_apply_ears(struct gpu_monitor *monitor);
bool monitor_needs_registering(struct gpu_monitor *monitor, bool is_news);
/* Probes, trials and registrations that are due. */
void monitor_ask_due(struct gpu_monitor *monitor, uint64_t now_ms);
uint64_t monitor_health_due_ms(const struct gpu_monitor *monitor);
/* Nothing is asked any more, and nobody is heard. */
void monitor_cancel_health(struct gpu_monitor *monitor);

/* ---- monitor_samples.c ---- */

void monitor_sample_due(struct gpu_monitor *monitor, uint64_t now_ms);
uint64_t monitor_samples_due_ms(const struct gpu_monitor *monitor);
void monitor_cancel_samples(struct gpu_monitor *monitor);
/* Of that GPU, whatever it means for its health. */
void monitor_count_xid(struct gpu_monitor *monitor, const char *gpu, uint64_t xid);
