/*
 * One node's GPUs under watch: NVML open, events registered, the inventory and the health of its units kept up to date. It
 * blocks in NVML and knows nothing of threads or loops: gpu/monitor.c runs it on a thread and carries its mail.
 *
 * The inventory and the health outlive the library: a watch that closed and opened again goes on where it was. While NVML
 * cannot be used after it could, the units are known and unhealthy, by no fault of theirs: health is not touched, and what
 * was healthy is so again when NVML is back.
 *
 * On WSL and Tegra the inventory is fixed; there is nothing to open, and nothing to step through.
 *
 * Whenever the inventory is read, the files of gpu/driver_change.h are looked at: if the driver was replaced, or the kernel has
 * other GPUs than NVML counted, the watch |is_outdated|, which only closing and opening it can mend.
 */
#pragma once

#include "gpu/call_trace.h"
#include "gpu/driver_change.h"
#include "gpu/hangs.h"
#include "gpu/mail.h"
#include "gpu/nvml.h"
#include "gpu/paths.h"
#include "gpu/platform.h"
#include "gpu/units.h"

/* As in struct gpu_monitor_options, but nothing is left to a default except |probe_ms|. */
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
        const struct health_policy *policy; /* the first one, copied */
        struct call_trace *trace;           /* what the watch is doing in the driver; or NULL */
};

/* The GPUs whose events arrive, and where. By UUID, so that it holds whatever the inventory is. */
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
        struct inventory *inventory; /* the last one read, completed by what was known before; NULL: none yet */
        struct units units;
        struct watch_ears ears;
        nvmlEventSet_t disowned; /* a set that another watch has taken over; NULL: none */
        struct error set_error;  /* why there is no event set; ERROR_NONE: there is one, or the driver has none */
        struct skips skips;      /* what is not asked, since it hangs */
        bool is_heir;            /* not opened yet, and what is known of the driver is another watch's */
        bool must_sweep;         /* the waits fail: probe all, and leave out who is to blame */
        uint64_t refresh_at_ms;
        uint64_t sweep_at_ms;      /* not before this are all GPUs probed for a failing wait */
        unsigned int wait_errors;  /* in a row */
        uint64_t wait_failures;    /* all of them */
        uint64_t unheard_since_ms; /* the first one in a row */
        bool is_unheard;           /* for so long that no GPU can be called healthy */
        char unheard[200];         /* why no events arrive, once that is worth telling; empty: they do */

        bool is_outdated; /* close it and open it again */
        bool must_report; /* the inventory, though it may be no news */
        bool was_away;    /* the driver was replaced, or could not be used, since the library was opened */
        bool is_out;      /* all units were told to be unhealthy, since NVML cannot be used */
        uint64_t empty_since_ms;
        char *library_path;       /* of the library loaded last; NULL: none was */
        struct driver_mark mark;  /* when that was loaded */
        struct driver_mark stale; /* what watch_is_stale() reported last */
        struct driver_gpus gpus;  /* when it was initialised */
        unsigned int nvml_count;  /* the same as NVML counted it */
        uint64_t recount_at_ms;   /* when to open again because the two differ; HEALTH_NEVER */
        uint64_t recount_ms;
};

void watch_init(struct watch *watch, const struct watch_options *options);
void watch_done(struct watch *watch);

/*
 * |heir|, just initialised, goes on where |from| is stuck inside a call, which must not return meanwhile (call_trace_dismiss()): with
 * what is known of GPUs, health and driver, and |with_ears| with the event set, so that no event is lost. |from| is then only to be
 * done with; before that, the heir has to be open, or the driver may forget the set.
 */
void watch_inherit(struct watch *heir, struct watch *from, bool with_ears);

/*
 * What must not be asked from now on. The units of a GPU that is new among them, or for another reason, are told to be unhealthy, before any call is made;
 * one that is no more among them is read and probed at once.
 */
void watch_set_skips(struct watch *watch, const struct skips *skips, struct mail *mail);

/*
 * Opens the library, without a question to a GPU; an heir then hears of what came meanwhile. An error leaves it closed. After it comes
 * watch_begin(), which reads the inventory and registers for events. The inventory is put into |mail| when it is news, when |report|
 * says so, and when NVML is back. When there is no GPU the watch is open, and there is nothing to step through; but GPUs that
 * are all gone at once are taken for a driver that is not ready, an error, until that has lasted for |empty_ms|.
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

/* NVML cannot be used: tells, once, of every known unit that it is unhealthy; again if the inventory was asked for meanwhile. */
void watch_put_out(struct watch *watch, const char *reason, struct mail *mail);

/*
 * After a close: the old library is still in this process although another driver is installed. Only a new process can load
 * that. True once for each such driver.
 */
bool watch_is_stale(struct watch *watch);

/* Something happened on the machine: read the inventory again, and look at the driver, once it has settled. */
void watch_poll(struct watch *watch);

/* Also probes what nobody looked at while there were no checks. */
void watch_set_policy(struct watch *watch, const struct health_policy *policy);

/* Reads the inventory again, and puts it into |mail| under the same conditions. An error ends the watch: close it. */
int watch_refresh(struct watch *watch, bool report, struct mail *mail, struct error *err) MUST_USE;

/*
 * A step of the watch in two parts, each of which puts what became known into |mail|; an error ends the watch.
 *
 * The first one waits for events, for at most |wait_ms|, and asks no GPU anything: so what it heard can be told even if that hangs. |ret_sleep_ms| is how long the caller must sleep before the next
 * step, because NVML cannot be waited on: it lacks events or returns errors at once. The second one probes and reads what is
 * due, which takes long where a GPU is ill: what the first one says must not wait for it.
 */
int watch_listen(struct watch *watch, uint64_t *ret_sleep_ms, struct mail *mail, struct error *err) MUST_USE;
int watch_do_due(struct watch *watch, struct mail *mail, struct error *err) MUST_USE;
