// SPDX-License-Identifier: Apache-2.0
#include "node/usage/usage.h"

#include <string.h>

#include "base/macro.h"
#include "base/text.h"

#define KIB UINT64_C(1024)
#define MINUTE_MS UINT64_C(60000)

/* ---- an hour of one number ---- */

void usage_ring_put(struct usage_ring *ring, uint64_t minute, uint32_t value)
{
        uint32_t *highest = &ring->highest[minute % USAGE_RING_MINUTES];

        if (minute - ring->minute >= USAGE_RING_MINUTES)
                memset(ring->highest, 0, sizeof(ring->highest));
        for (uint64_t passed = ring->minute + 1; passed <= minute && minute - ring->minute < USAGE_RING_MINUTES;
                passed++)
                ring->highest[passed % USAGE_RING_MINUTES] = 0;
        ring->minute = minute;
        *highest = MAX(*highest, MIN(value, USAGE_RING_NONE - 1) + 1);
}

uint32_t usage_ring_peak(const struct usage_ring *ring, uint64_t minute)
{
        uint32_t peak = 0;

        for (uint64_t age = minute - ring->minute; age < USAGE_RING_MINUTES; age++)
                peak = MAX(peak, ring->highest[(minute - age) % USAGE_RING_MINUTES]);
        return peak ? peak - 1 : 0;
}

size_t usage_ring_read(const struct usage_ring *ring, uint64_t minute, uint32_t ret[USAGE_RING_MINUTES])
{
        const uint64_t age = minute - ring->minute; /* of the newest value */
        size_t count = 0;

        for (uint64_t passed = USAGE_RING_MINUTES; passed-- > 0;) {
                const uint32_t highest =
                        passed < age || passed > minute ? 0 : ring->highest[(minute - passed) % USAGE_RING_MINUTES];

                if (highest || count)
                        ret[count++] = highest ? highest - 1 : USAGE_RING_NONE;
        }
        return count;
}

/* ---- use by pod ---- */

struct share {
        struct usage_share share; /* texts belong to it */
        struct usage_past past;
        uint64_t seen_ms; /* with a process */
};

/* A unit from one sample to the next; it is remembered longer than any of its shares. */
struct place {
        char *unit;
        struct share **shares;
        size_t n_shares;
        size_t next; /* where the next process's share is, unless others have come or gone */
        uint64_t at_ms;
        uint64_t energy;      /* or GPU_VALUE_UNKNOWN */
        uint64_t least_power; /* the lowest ever seen, or GPU_VALUE_UNKNOWN */
        struct usage_past past;
};

struct usage {
        struct gpu_samples *samples;
        struct place *places;
        size_t n_places;
        uint64_t now_ms; /* of the newest sample */
};

const char *usage_kind_name(enum usage_kind kind)
{
        static const char *const names[] = {[USAGE_POD] = "pod",
                [USAGE_MPS_SERVER] = "mps-server",
                [USAGE_HOST] = "host",
                [USAGE_HIDDEN] = "hidden"};

        return names[kind];
}

enum usage_kind usage_kind_of(const struct gpu_process *process, const pid_t *servers, size_t n_servers)
{
        for (size_t i = 0; i < n_servers; i++)
                if (process->pid == servers[i])
                        return USAGE_MPS_SERVER;
        if (process->pod_uid)
                return USAGE_POD;
        return process->is_visible ? USAGE_HOST : USAGE_HIDDEN;
}

struct usage *usage_new(void)
{
        return xcalloc(1, sizeof(struct usage));
}

static void free_share(struct share *share)
{
        free((void *)(uintptr_t)share->share.unit);
        free((void *)(uintptr_t)share->share.pod_uid);
        free(share);
}

static void free_place(struct place *place)
{
        for (size_t i = 0; i < place->n_shares; i++)
                free_share(place->shares[i]);
        free(place->shares);
        free(place->unit);
}

struct usage *usage_free(struct usage *usage)
{
        if (!usage)
                return NULL;
        for (size_t i = 0; i < usage->n_places; i++)
                free_place(&usage->places[i]);
        free(usage->places);
        gpu_samples_free(usage->samples);
        free(usage);
        return NULL;
}

/* ---- places ---- */

static struct place *get_place(struct usage *usage, const char *unit)
{
        struct place *place;

        for (size_t i = 0; i < usage->n_places; i++)
                if (strcmp(usage->places[i].unit, unit) == 0)
                        return &usage->places[i];
        usage->places = xrealloc(usage->places, (usage->n_places + 1) * sizeof(*usage->places));
        place = &usage->places[usage->n_places++];
        *place = (struct place){.unit = xstrdup(unit), .energy = GPU_VALUE_UNKNOWN, .least_power = GPU_VALUE_UNKNOWN};
        return place;
}

/* MIG devices come and go with new UUIDs. */
static void forget_places(struct usage *usage)
{
        size_t kept = 0;

        for (size_t i = 0; i < usage->n_places; i++) {
                if (usage->now_ms - usage->places[i].at_ms > USAGE_KEEP_MS)
                        free_place(&usage->places[i]);
                else
                        usage->places[kept++] = usage->places[i];
        }
        usage->n_places = kept;
}

/* Seconds since the last sample of the unit; 0: there was none, or it was too long ago. */
static double seconds_since(const struct place *place, uint64_t now_ms)
{
        const uint64_t passed = now_ms - place->at_ms;

        return place->at_ms == 0 || passed > USAGE_GAP_MS ? 0 : (double)passed / 1000;
}

/* Joules above the least power, since the last sample; negative: unknown. */
static double active_energy(const struct place *place, const struct gpu_sample *sample, double seconds)
{
        const uint64_t energy = sample->values[GPU_ENERGY];
        double joules;

        if (seconds <= 0 || place->energy == GPU_VALUE_UNKNOWN || energy == GPU_VALUE_UNKNOWN ||
                energy < place->energy || place->least_power == GPU_VALUE_UNKNOWN)
                return -1;
        joules = (double)(energy - place->energy) / 1000 - (double)place->least_power / 1000 * seconds;
        return MAX(joules, 0.0);
}

/* ---- shares ---- */

static struct share *get_share(struct place *place, enum usage_kind kind, const char *pod_uid)
{
        struct share *share;

        for (size_t i = 0; i < place->n_shares; i++) {
                const size_t at = (place->next + i) % place->n_shares;

                share = place->shares[at];
                if (share->share.kind == kind && text_is_same(share->share.pod_uid, pod_uid)) {
                        place->next = at + 1;
                        return share;
                }
        }
        share = xcalloc(1, sizeof(*share));
        share->share.unit = xstrdup(place->unit);
        share->share.kind = kind;
        share->share.pod_uid = pod_uid ? xstrdup(pod_uid) : NULL;
        share->share.sm_seconds = share->share.energy = -1;
        share->share.past = &share->past;
        place->shares = xrealloc(place->shares, (place->n_shares + 1) * sizeof(*place->shares));
        place->shares[place->n_shares++] = share;
        return share;
}

static void add_percent(unsigned int *sum, unsigned int percent)
{
        if (percent == GPU_PERCENT_UNKNOWN)
                *sum = GPU_PERCENT_UNKNOWN;
        else if (*sum != GPU_PERCENT_UNKNOWN)
                *sum += percent;
}

static void usage_add_process(struct share *share, const struct gpu_process *process)
{
        struct usage_share *sum = &share->share;

        sum->n_processes++;
        if (process->memory == GPU_VALUE_UNKNOWN)
                sum->memory = GPU_VALUE_UNKNOWN;
        else if (sum->memory != GPU_VALUE_UNKNOWN)
                sum->memory += process->memory;
        add_percent(&sum->sm_percent, process->sm_percent);
        add_percent(&sum->memory_percent, process->memory_percent);
}

static void clear(struct share *share)
{
        share->share.n_processes = 0;
        share->share.memory = 0;
        share->share.sm_percent = share->share.memory_percent = 0;
}

static void usage_remember(struct usage_past *past, uint64_t now_ms, uint64_t percent, uint64_t memory)
{
        if (percent != GPU_VALUE_UNKNOWN)
                usage_ring_put(&past->sm_percent, now_ms / MINUTE_MS, (uint32_t)MIN(percent, UINT32_MAX));
        if (memory != GPU_VALUE_UNKNOWN)
                usage_ring_put(&past->memory_kib, now_ms / MINUTE_MS, (uint32_t)MIN(memory / KIB, UINT32_MAX));
}

static void count(struct share *share, uint64_t now_ms, double seconds, double joules, unsigned int all_sm_percent)
{
        struct usage_share *sum = &share->share;

        share->seen_ms = now_ms;
        sum->seconds += seconds;
        if (sum->sm_percent != GPU_PERCENT_UNKNOWN)
                sum->sm_seconds = MAX(sum->sm_seconds, 0.0) + seconds * sum->sm_percent / 100;
        if (joules >= 0 && all_sm_percent != GPU_PERCENT_UNKNOWN)
                sum->energy =
                        MAX(sum->energy, 0.0) + (all_sm_percent ? joules * sum->sm_percent / all_sm_percent : 0.0);
        usage_remember(&share->past, now_ms,
                sum->sm_percent == GPU_PERCENT_UNKNOWN ? GPU_VALUE_UNKNOWN : sum->sm_percent, sum->memory);
}

static bool has_server(const struct gpu_sample *sample, const pid_t *servers, size_t n_servers)
{
        for (size_t i = 0; i < sample->n_processes; i++)
                if (usage_kind_of(&sample->processes[i], servers, n_servers) == USAGE_MPS_SERVER)
                        return true;
        return false;
}

/* A share without processes is idle, too: its counters stand still. */
static void note_idle(struct usage_share *share, uint64_t now_ms)
{
        if (share->sm_percent != 0)
                share->idle_ms = 0;
        else if (share->idle_ms == 0)
                share->idle_ms = now_ms;
}

/* A driver that does not list clients of MPS as such has no samples of them, either: they are not idle. */
static struct gpu_process usage_without_activity(const struct gpu_process *process, bool is_beside_server)
{
        struct gpu_process doubted = *process;

        if (is_beside_server && process->sm_percent == 0)
                doubted.sm_percent = doubted.memory_percent = GPU_PERCENT_UNKNOWN;
        return doubted;
}

static void add_sample(struct usage *usage, const struct gpu_sample *sample, const pid_t *servers, size_t n_servers)
{
        struct place *place = get_place(usage, sample->uuid);
        const double seconds = seconds_since(place, sample->at_ms);
        const double joules = active_energy(place, sample, seconds);
        const uint64_t power = sample->values[GPU_POWER];
        const bool is_mps = has_server(sample, servers, n_servers);
        unsigned int all_sm_percent = 0;

        for (size_t i = 0; i < sample->n_processes; i++) {
                const enum usage_kind kind = usage_kind_of(&sample->processes[i], servers, n_servers);
                const struct gpu_process process =
                        usage_without_activity(&sample->processes[i], is_mps && kind != USAGE_MPS_SERVER);

                usage_add_process(get_share(place, kind, kind == USAGE_POD ? process.pod_uid : NULL), &process);
                add_percent(&all_sm_percent, process.sm_percent);
        }
        for (size_t i = 0; i < place->n_shares; i++) {
                if (place->shares[i]->share.n_processes)
                        count(place->shares[i], sample->at_ms, seconds, joules, all_sm_percent);
                note_idle(&place->shares[i]->share, sample->at_ms);
        }
        usage_remember(&place->past, sample->at_ms, sample->values[GPU_BUSY], sample->values[GPU_MEMORY_USED]);
        place->at_ms = sample->at_ms;
        place->energy = sample->values[GPU_ENERGY];
        if (power != GPU_VALUE_UNKNOWN)
                place->least_power = place->least_power == GPU_VALUE_UNKNOWN ? power : MIN(place->least_power, power);
}

static void forget_shares(struct place *place, uint64_t now_ms)
{
        size_t kept = 0;

        for (size_t i = 0; i < place->n_shares; i++) {
                if (now_ms - place->shares[i]->seen_ms > USAGE_KEEP_MS)
                        free_share(place->shares[i]);
                else
                        place->shares[kept++] = place->shares[i];
        }
        place->n_shares = kept;
}

void usage_add(struct usage *usage, struct gpu_samples *samples, const pid_t *servers, size_t n_servers)
{
        gpu_samples_free(usage->samples);
        usage->samples = samples;
        for (size_t i = 0; i < usage->n_places; i++)
                for (size_t j = 0; j < usage->places[i].n_shares; j++)
                        clear(usage->places[i].shares[j]);
        for (size_t i = 0; i < samples->n_units; i++) {
                usage->now_ms = MAX(usage->now_ms, samples->units[i].at_ms);
                add_sample(usage, &samples->units[i], servers, n_servers);
        }
        for (size_t i = 0; i < usage->n_places; i++)
                forget_shares(&usage->places[i], usage->now_ms);
        forget_places(usage);
}

const struct gpu_samples *usage_samples(const struct usage *usage)
{
        return usage->samples;
}

uint64_t usage_minute(const struct usage *usage)
{
        return usage->now_ms / MINUTE_MS;
}

const struct usage_past *usage_past(const struct usage *usage, const char *unit)
{
        for (size_t i = 0; i < usage->n_places; i++)
                if (strcmp(usage->places[i].unit, unit) == 0)
                        return &usage->places[i].past;
        return NULL;
}

size_t usage_shares(const struct usage *usage, struct arena *arena, const struct usage_share **ret)
{
        struct usage_share *shares;
        size_t count = 0;

        for (size_t i = 0; i < usage->n_places; i++)
                count += usage->places[i].n_shares;
        *ret = shares = ARENA_ARRAY(arena, struct usage_share, count);
        for (size_t i = 0; i < usage->n_places; i++)
                for (size_t j = 0; j < usage->places[i].n_shares; j++) {
                        const struct share *share = usage->places[i].shares[j];

                        *shares = share->share;
                        shares->memory_peak = usage_ring_peak(&share->past.memory_kib, usage_minute(usage)) * KIB;
                        shares++;
                }
        return count;
}

uint64_t usage_unattributed(const struct gpu_sample *sample)
{
        uint64_t known = 0;

        if (!sample->has_processes || sample->values[GPU_MEMORY_USED] == GPU_VALUE_UNKNOWN)
                return GPU_VALUE_UNKNOWN;
        for (size_t i = 0; i < sample->n_processes; i++)
                if (sample->processes[i].memory != GPU_VALUE_UNKNOWN)
                        known += sample->processes[i].memory;
        return known < sample->values[GPU_MEMORY_USED] ? sample->values[GPU_MEMORY_USED] - known : 0;
}
