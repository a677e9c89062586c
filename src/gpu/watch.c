#include "gpu/watch.h"

#include <string.h>

#include "gpu/nvml_read.h"
#include "gpu/watch_events.h"
#include "gpu/watch_sample.h"

#define SETTLE_MS 200U                         /* a changed MIG layout or a new GPU causes several events */
#define RECOUNT_MS UINT64_C(5000)              /* the first time at most; doubles up to the next */
#define RECOUNT_MAX_MS (UINT64_C(3600) * 1000) /* a container may see fewer GPUs than the machine has */

void watch_init(struct watch *watch, const struct watch_options *options)
{
        *watch = (struct watch){.options = options,
                .policy = *options->policy,
                .recount_at_ms = HEALTH_NEVER,
                .recount_ms = MIN(RECOUNT_MS, options->refresh_ms)};
}

void watch_done(struct watch *watch)
{
        watch_close(watch);
        units_done(&watch->units);
        watch->inventory = inventory_free(watch->inventory);
        watch->samples = gpu_samples_free(watch->samples);
        free(watch->xids);
        free(watch->library_path);
        watch->library_path = NULL;
}

void watch_close(struct watch *watch)
{
        struct watch_ears ears = watch->ears;

        watch->ears = (struct watch_ears){0}; /* nobody may take over what is being freed */
        if (watch->nvml && ears.set && ears.set != watch->disowned)
                NVML_RELEASE(watch->nvml, event_set_free, ears.set);
        free(ears.gpus);
        watch->disowned = NULL;
        watch->must_sweep = false;
        watch->wait_errors = 0;
        watch->is_unheard = false;
        watch->unheard[0] = '\0';
        watch->nvml = nvml_close(watch->nvml);
}

/* ---- moving a watch to another thread ---- */

static struct watch_ears copy_ears(const struct watch_ears *ears)
{
        struct watch_ears copy = *ears;

        copy.gpus = xcalloc(ears->n_gpus, sizeof(*copy.gpus));
        for (size_t i = 0; i < ears->n_gpus; i++)
                copy.gpus[i] = ears->gpus[i];
        return copy;
}

void watch_inherit(struct watch *heir, struct watch *from, bool with_ears)
{
        heir->is_heir = true;
        heir->must_report = true; /* what |from| had put into its own mail is lost */
        heir->policy = from->policy;
        heir->platform = from->platform;
        heir->inventory = from->inventory ? inventory_copy(from->inventory) : NULL;
        heir->units = units_copy(&from->units);
        heir->skips = from->skips;
        heir->was_away = from->was_away;
        heir->is_out = from->is_out;
        heir->wait_failures = from->wait_failures;
        heir->empty_since_ms = from->empty_since_ms;
        heir->library_path = from->library_path ? xstrdup(from->library_path) : NULL;
        heir->mark = from->mark;
        heir->stale = from->stale;
        heir->gpus = from->gpus;
        heir->recount_at_ms = from->recount_at_ms;
        heir->recount_ms = from->recount_ms;
        heir->xids = xcalloc(from->n_xids, sizeof(*heir->xids));
        while (heir->n_xids < from->n_xids) {
                heir->xids[heir->n_xids] = from->xids[heir->n_xids];
                heir->n_xids++;
        }
        if (with_ears && from->ears.set) {
                heir->ears = copy_ears(&from->ears);
                from->disowned = from->ears.set;
        }
}

/* ---- reporting ---- */

static void report_news(struct watch *watch, bool all, struct mail *mail)
{
        for (size_t g = 0; g < watch->units.n_groups; g++) {
                for (size_t u = 0; u < watch->units.groups[g].n_units; u++) {
                        struct unit_state *unit = &watch->units.groups[g].units[u];

                        if (unit->is_news || (all && unit->health.unhealthy))
                                mail_put_note(mail, unit->uuid, !unit->health.unhealthy, unit->health.reason,
                                        unit->health.xid);
                        unit->is_news = false;
                }
        }
}

void watch_put_out(struct watch *watch, const char *reason, struct mail *mail)
{
        watch->was_away = true;
        if (!watch->inventory || (watch->is_out && !watch->must_report))
                return;
        if (watch->must_report)
                mail_put_inventory(mail, inventory_copy(watch->inventory));
        watch->is_out = true;
        watch->must_report = false;
        for (size_t g = 0; g < watch->units.n_groups; g++)
                for (size_t u = 0; u < watch->units.groups[g].n_units; u++)
                        mail_put_note(mail, watch->units.groups[g].units[u].uuid, false, reason, 0);
}

/* ---- the driver ---- */

/* The files belong to the driver, and reading them may hang. */
static void begin_reading(const struct watch *watch)
{
        (void)!call_trace_begin(watch->options->trace, "reading /proc/driver/nvidia", 0);
}

/*
 * The path where the library is found now. Without a path the linker found it, and it stays where it was loaded from.
 */
static struct driver_mark take_mark(const struct watch *watch)
{
        _free_ char *path = NULL;
        struct driver_mark mark;

        begin_reading(watch);
        path = nvml_locate(watch->options->library, watch->options->paths.driver_root);
        mark = driver_mark_take(strchr(path, '/') ? path : watch->library_path, watch->options->paths.system_root);
        call_trace_end(watch->options->trace);
        return mark;
}

static struct driver_gpus take_gpus(const struct watch *watch)
{
        struct driver_gpus gpus;

        begin_reading(watch);
        gpus = driver_gpus_take(watch->options->paths.system_root);
        call_trace_end(watch->options->trace);
        return gpus;
}

static bool is_outdated(struct watch *watch)
{
        struct driver_mark mark = take_mark(watch);
        struct driver_gpus gpus = take_gpus(watch);

        if (!driver_mark_is_same(&mark, &watch->mark)) {
                watch->was_away = true;
                return true;
        }
        if (!driver_gpus_are_same(&gpus, &watch->gpus)) {
                watch->recount_ms = MIN(RECOUNT_MS, watch->options->refresh_ms);
                return true;
        }
        return watch->recount_at_ms <= watch_now_ms();
}

/* The kernel has other GPUs than NVML counted: NVML or the kernel was read too early. */
static void plan_recount(struct watch *watch)
{
        if (!watch->gpus.known || watch->gpus.count == watch->nvml_count) {
                watch->recount_at_ms = HEALTH_NEVER;
                watch->recount_ms = MIN(RECOUNT_MS, watch->options->refresh_ms);
                return;
        }
        watch->recount_at_ms = watch_now_ms() + watch->recount_ms;
        watch->recount_ms = MIN(watch->recount_ms * 2, RECOUNT_MAX_MS);
}

bool watch_is_stale(struct watch *watch)
{
        struct driver_mark mark = take_mark(watch);

        if (!watch->library_path || mark.inode == 0 || driver_mark_is_same(&mark, &watch->mark) ||
                driver_mark_is_same(&mark, &watch->stale) || !driver_library_is_loaded(watch->library_path))
                return false;
        watch->stale = mark;
        return true;
}

/* ---- the inventory ---- */

/* All calls on GPUs would fail in the same way; this call says why. */
static int check_library(const struct watch *watch, struct error *err)
{
        char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
        nvmlReturn_t code = NVML_CALL(watch->nvml, system_get_driver_version, text, sizeof(text));

        return watch_error_is_fatal(code) ? nvml_fail(watch->nvml, code, "nvmlSystemGetDriverVersion", err) : 0;
}

/* GPUs do not all disappear at once, but a starting driver has none at first. */
static bool is_too_early(struct watch *watch, const struct inventory *fresh)
{
        if (fresh->n_gpus > 0 || !watch->inventory || watch->inventory->n_gpus == 0) {
                watch->empty_since_ms = 0;
                return false;
        }
        if (watch->empty_since_ms == 0)
                watch->empty_since_ms = watch_now_ms();
        return watch_now_ms() - watch->empty_since_ms < watch->options->empty_ms;
}

static int read_inventory(struct watch *watch, struct inventory **ret, struct error *err)
{
        struct inventory *fresh = NULL;

        if (check_library(watch, err) < 0 ||
                nvml_read_but(&fresh, watch->nvml, &watch->options->paths, &watch->skips, err) < 0)
                return -1;
        if (watch->inventory)
                inventory_keep(fresh, watch->inventory);
        if (is_too_early(watch, fresh)) {
                inventory_free(fresh);
                return error_set(
                        err, ERROR_UNAVAILABLE, "NVML no longer shows any of the %zu GPUs", watch->inventory->n_gpus);
        }
        *ret = fresh;
        return 0;
}

/* True if it differs from the previous one. */
static bool keep_inventory(struct watch *watch, struct inventory *fresh)
{
        bool is_news = !watch->inventory || !inventory_is_same(watch->inventory, fresh);

        inventory_free(watch->inventory);
        watch->inventory = fresh;
        units_update(&watch->units, fresh, watch->options->probe_ms, watch_now_ms());
        return is_news;
}

static void report_inventory(struct watch *watch, bool all, struct mail *mail)
{
        if (all)
                mail_put_inventory(mail, inventory_copy(watch->inventory));
        report_news(watch, all, mail);
        watch->must_report = watch->is_out = false;
}

static void fix(struct watch *watch, enum platform platform, struct mail *mail)
{
        bool is_news;

        watch_close(watch);
        watch->platform = platform;
        is_news = keep_inventory(watch, platform_inventory(platform));
        report_inventory(watch, is_news || watch->must_report || watch->is_out, mail);
}

static int refresh(struct watch *watch, struct mail *mail, struct error *err)
{
        struct inventory *fresh = NULL;
        bool is_news;
        bool report;

        if (read_inventory(watch, &fresh, err) < 0)
                return -1;
        if (watch->options->discovery != PLATFORM_CHOICE_NVML && platform_is_integrated(fresh)) {
                inventory_free(fresh);
                fix(watch, PLATFORM_TEGRA, mail);
                return 0;
        }
        is_news = keep_inventory(watch, fresh);
        report = is_news || watch->must_report || watch->is_out;
        watch->refresh_at_ms = MIN(watch_now_ms() + watch->options->refresh_ms, watch->recount_at_ms);
        if (is_news || !watch->ears.set)
                watch_register_anew(watch);
        /*
         * A restart or another driver must not make a GPU healthy that needs a reset, and not every fault has an event.
         */
        if (health_policy_has_checks(&watch->policy))
                watch_probe_all(watch);
        report_inventory(watch, report, mail);
        return 0;
}

int watch_refresh(struct watch *watch, bool report, struct mail *mail, struct error *err)
{
        watch->must_report = watch->must_report || report;
        /* If the kernel does not show its GPUs, a rescan gets NVML's count. */
        watch->is_outdated = is_outdated(watch) || (report && !watch->gpus.known);
        if (!watch->is_outdated)
                return refresh(watch, mail, err);
        watch_hear(watch); /* what the event set has goes with it */
        return 0;
}

static int open_library(struct watch *watch, struct error *err)
{
        bool is_heir = watch->is_heir;
        struct driver_mark mark = is_heir ? watch->mark : take_mark(watch);
        struct driver_gpus gpus = is_heir ? watch->gpus : take_gpus(watch);
        bool knows_path = watch->library_path;
        const struct watch_options *options = watch->options;

        watch->is_heir = false;
        if (nvml_open_traced(&watch->nvml, options->library, options->paths.driver_root, options->trace, err) < 0)
                return -1;
        free(watch->library_path);
        watch->library_path = driver_library_path(watch->nvml);
        /* Read before NVML is opened, so that a replacement during the opening is noticed. */
        watch->mark = knows_path || mark.inode ? mark : take_mark(watch);
        watch->gpus = gpus;
        /* Not after a close that only served to count the GPUs again: the driver kept its state. */
        if (watch->was_away)
                units_release(&watch->units);
        watch->was_away = false;
        return 0;
}

int watch_open(struct watch *watch, bool report, struct mail *mail, struct error *err)
{
        const struct watch_options *options = watch->options;

        watch->sweep_at_ms = 0;
        watch->wait_errors = 0;
        watch->is_outdated = false;
        watch->must_report = watch->must_report || report;
        watch->platform = platform_detect(options->discovery, &options->paths, options->library, options->can_load);
        if (watch_is_fixed(watch)) {
                fix(watch, watch->platform, mail);
                return 0;
        }
        if (open_library(watch, err) < 0) {
                watch_close(watch);
                return -1;
        }
        watch_hear(watch);
        report_news(watch, false, mail);
        return 0;
}

int watch_begin(struct watch *watch, struct mail *mail, struct error *err)
{
        nvmlReturn_t code;

        if (watch_is_fixed(watch))
                return 0;
        watch->nvml_count = 0;
        code = NVML_CALL(watch->nvml, device_get_count, &watch->nvml_count);
        if (code != NVML_SUCCESS)
                return nvml_fail(watch->nvml, code, "nvmlDeviceGetCount", err);
        plan_recount(watch);
        return refresh(watch, mail, err);
}

/* ---- requests ---- */

void watch_poll(struct watch *watch)
{
        watch->refresh_at_ms = MIN(watch->refresh_at_ms, watch_now_ms() + SETTLE_MS);
}

void watch_set_skips(struct watch *watch, const struct skips *skips, struct mail *mail)
{
        struct skips before = watch->skips;
        uint64_t now = watch_now_ms();

        watch->skips = *skips;
        watch->refresh_at_ms = 0;
        for (size_t i = 0; i < watch->units.n_groups; i++) {
                struct unit_group *group = &watch->units.groups[i];
                const struct skipped_gpu *skipped = skips_find(skips, group->units[0].uuid);
                const struct skipped_gpu *was_skipped = skips_find(&before, group->units[0].uuid);

                if (skipped && (!was_skipped || strcmp(skipped->reason, was_skipped->reason) != 0))
                        units_fail(group, skipped->reason, now);
                for (size_t u = 0; !skipped && was_skipped && u < group->n_units; u++)
                        health_poll_soon(&group->units[u].health, now);
        }
        report_news(watch, false, mail);
}

void watch_set_policy(struct watch *watch, const struct health_policy *policy)
{
        bool had_checks = health_policy_has_checks(&watch->policy);

        watch->policy = *policy;
        if (watch->nvml && !had_checks && health_policy_has_checks(policy))
                watch_probe_all(watch);
}

/* ---- one step ---- */

/* If nothing can become healthy, no probe is needed. */
static uint64_t probe_at(const struct watch *watch, size_t position)
{
        return watch->policy.recover ? units_probe_at(&watch->units.groups[position]) : HEALTH_NEVER;
}

static uint64_t next_due(const struct watch *watch)
{
        uint64_t due = watch->refresh_at_ms;

        for (size_t i = 0; i < watch->units.n_groups; i++)
                due = MIN(due, probe_at(watch, i));
        return due;
}

static unsigned int time_left(const struct watch *watch)
{
        uint64_t due = MIN(next_due(watch), watch_sample_at(watch));
        uint64_t now = watch_now_ms();

        return due <= now ? 0 : (unsigned int)MIN(due - now, watch->options->wait_ms);
}

/* A GPU that could not be read becomes healthy only by a successful reading. */
static bool needs_reading(const struct watch *watch, uint64_t now)
{
        for (size_t i = 0; i < watch->units.n_groups; i++)
                if (watch->inventory->gpus[i].failure && probe_at(watch, i) <= now &&
                        !skips_find(&watch->skips, watch->inventory->gpus[i].uuid))
                        return true;
        return false;
}

int watch_listen(struct watch *watch, uint64_t *ret_sleep_ms, struct mail *mail, struct error *err)
{
        if (watch_wait(watch, time_left(watch), ret_sleep_ms, err) < 0)
                return -1;
        report_news(watch, false, mail);
        return 0;
}

void watch_hear_rest(struct watch *watch, struct mail *mail)
{
        if (!watch->has_heard)
                return;
        watch_hear(watch);
        report_news(watch, false, mail);
}

int watch_do_due(struct watch *watch, struct mail *mail, struct error *err)
{
        uint64_t now = watch_now_ms();

        watch_poll_due(watch);
        report_news(watch, false, mail);
        if ((watch->refresh_at_ms <= now || needs_reading(watch, now)) && watch_refresh(watch, false, mail, err) < 0)
                return -1;
        if (next_due(watch) <= now && watch->set_error.kind != ERROR_NONE)
                watch_register(watch);
        for (size_t i = 0; i < watch->units.n_groups; i++)
                if (probe_at(watch, i) <= now)
                        watch_probe(watch, i, false, now);
        report_news(watch, false, mail);
        watch_sample(watch, mail);
        return 0;
}
