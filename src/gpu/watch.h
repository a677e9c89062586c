/*
 * Watches the GPUs of a node: keeps NVML open, registers for events, and keeps the inventory and the health of its
 * units up to date. It blocks in NVML and knows nothing of threads or loops: gpu/monitor.c runs it on a thread and
 * delivers its mail.
 *
 * The inventory and the health outlive the library: after closing and opening again, a watch continues. While NVML
 * cannot be used, the units are known but reported as unhealthy. Their stored health does not change, so healthy units
 * are healthy again when NVML is back.
 *
 * On WSL and Tegra the inventory is fixed; nothing is opened, and there are no steps.
 *
 * Each reading of the inventory also checks the files of gpu/driver_change.h. If the driver was replaced, or the kernel
 * has other GPUs than NVML counted, the watch |is_outdated|: it must be closed and opened again.
 */
#pragma once

#include "gpu/call_trace.h"
#include "gpu/driver_change.h"
#include "gpu/hangs.h"
#include "gpu/mail.h"
#include "gpu/nvml.h"
#include "gpu/paths.h"
#include "gpu/platform.h"
#include "gpu/sample.h"
#include "gpu/units.h"

/* As in struct gpu_monitor_options, but without defaults, except for |probe_ms|. */
struct watch_options {
        const char *library;
        struct gpu_paths paths;
        enum platform_choice discovery;
        platform_load_fn *can_load;
        uint64_t wait_ms;
        uint64_t probe_ms;
        uint64_t refresh_ms;
        uint64_t empty_ms;
        uint64_t unheard_ms;
        uint64_t sample_ms;                 /* 0: nothing is sampled */
        const struct health_policy *policy; /* the first one, copied */
        struct call_trace *trace;           /* records the driver calls of the watch; or NULL */
};

/* The GPUs whose events arrive, with their event set. By UUID, so that it is valid for any inventory. */
struct watch_ears {
        nvmlEventSet_t set; /* NULL: none */
        struct watch_ear {
                nvmlDevice_t device;
                char uuid[CALL_GPU_SIZE];
        } * gpus;
        size_t n_gpus;
};

struct watch {
        const struct watch_options *options;
        struct health_policy policy;
        enum platform platform;
        struct nvml *nvml;           /* NULL: closed */
        struct inventory *inventory; /* the last one read, completed with earlier knowledge; NULL: none yet */
        struct units units;
        struct watch_ears ears;
        nvmlEventSet_t disowned; /* NULL: none; another watch may have taken it over */
        struct error set_error;  /* why there is no event set; ERROR_NONE: there is one, or the driver does not support
                                  * events */
        struct skips skips;      /* GPUs that are not asked, since they hang */
        bool is_heir;            /* not opened yet; its state comes from another watch */
        bool has_heard;          /* the last wait ended with an event: others may have come with it */
        bool must_sweep;         /* the waits fail: probe all, and leave out the GPU that is the cause */
        uint64_t refresh_at_ms;
        uint64_t sweep_at_ms;      /* earliest time of the next probe of all GPUs because of a failing wait */
        unsigned int wait_errors;  /* failed waits in a row */
        uint64_t wait_failures;    /* failed waits in total */
        uint64_t unheard_since_ms; /* time of the first failed wait in a row */
        bool is_unheard;           /* for so long that all GPUs count as unhealthy */
        char unheard[200];         /* why no events arrive, once it is to be reported; empty: they arrive */

        struct gpu_samples *samples; /* of the GPUs that were read in this round; NULL: none yet */
        size_t n_sampled;            /* so many positions of the inventory are done */
        uint64_t sample_at_ms;       /* when a round is due */
        struct gpu_xid *xids;        /* all that came */
        size_t n_xids;

        bool is_outdated; /* close it and open it again */
        bool must_report; /* report the inventory, even if it has not changed */
        bool was_away;    /* since the library was opened, the driver was replaced or was unusable */
        bool is_out;      /* all units were reported as unhealthy, since NVML cannot be used */
        uint64_t empty_since_ms;
        char *library_path;       /* of the library loaded last; NULL: none was */
        struct driver_mark mark;  /* when that was loaded */
        struct driver_mark stale; /* the driver that watch_is_stale() reported last */
        struct driver_gpus gpus;  /* the kernel's GPUs when NVML was initialised */
        unsigned int nvml_count;  /* the number of GPUs that NVML counted then */
        uint64_t recount_at_ms;   /* when to open again because the two numbers differ; HEALTH_NEVER */
        uint64_t recount_ms;
};

void watch_init(struct watch *watch, const struct watch_options *options);
void watch_done(struct watch *watch);

/*
 * |heir|, just initialised, continues for |from|, which is stuck inside a call that must not return meanwhile
 * (call_trace_dismiss()). It takes over what is known of GPUs, health and driver; |with_ears|: also the event set, so
 * that no event is lost. After this, |from| may only be released, and only when the heir is open; otherwise the driver
 * may drop the set.
 */
void watch_inherit(struct watch *heir, struct watch *from, bool with_ears);

/*
 * Sets the GPUs that must not be asked from now on. Units of a GPU that is new in |skips|, or has another reason, are
 * reported as unhealthy before any call is made. A GPU that is no longer in |skips| is read and probed at once.
 */
void watch_set_skips(struct watch *watch, const struct skips *skips, struct mail *mail);

/*
 * Opens the library without asking about any GPU; an heir then handles the events that arrived meanwhile. After an
 * error the library is closed. Call watch_begin() next, which reads the inventory and registers for events. The
 * inventory is put into |mail| if it has changed, if |report| is true, and when NVML is usable again. If there is no
 * GPU, the watch is open but has no steps. If all GPUs disappear at once, this counts as a driver that is not ready (an
 * error) until |empty_ms| have passed.
 */
int watch_open(struct watch *watch, bool report, struct mail *mail, struct error *err) MUST_USE;
int watch_begin(struct watch *watch, struct mail *mail, struct error *err) MUST_USE;
void watch_close(struct watch *watch);

static inline bool watch_is_fixed(const struct watch *watch)
{
        return watch->platform != PLATFORM_NVML;
}

static inline bool watch_has_gpus(const struct watch *watch)
{
        return watch->inventory && watch->inventory->n_gpus > 0;
}

/* NVML cannot be used: reports every known unit as unhealthy, once; again if the inventory was requested meanwhile. */
void watch_put_out(struct watch *watch, const char *reason, struct mail *mail);

/*
 * After a close: the old library is still in this process although another driver is installed, so only a new process
 * can load the new one. True once per such driver.
 */
bool watch_is_stale(struct watch *watch);

/* After a device event: reads the inventory again and checks the driver, as soon as there are no further events. */
void watch_poll(struct watch *watch);

/* Sets the policy; also probes the units that were not probed while checks were disabled. */
void watch_set_policy(struct watch *watch, const struct health_policy *policy);

/* Reads the inventory again and puts it into |mail| under the same conditions. After an error, close the watch. */
int watch_refresh(struct watch *watch, bool report, struct mail *mail, struct error *err) MUST_USE;

/*
 * A step of the watch has three parts; each puts its news into |mail|. After an error, close the watch.
 *
 * The first part waits for an event, for at most |wait_ms|, and makes no call about a GPU, so its news can be reported
 * even if a GPU hangs. |ret_sleep_ms| is how long the caller must sleep before the next step, if NVML does not support
 * events or returns errors at once. The second part takes the events that came with that one, without waiting; NVML may
 * be slow to say that there are none. The third makes the probes and readings that are due. With a faulty GPU this
 * takes long, so the news of each part must be delivered before the next.
 */
int watch_listen(struct watch *watch, uint64_t *ret_sleep_ms, struct mail *mail, struct error *err) MUST_USE;
void watch_hear_rest(struct watch *watch, struct mail *mail);
int watch_do_due(struct watch *watch, struct mail *mail, struct error *err) MUST_USE;
