#include "plan/budget.h"
#include "plan/plan_build.h"
#include "plan/share.h"

static const char *product(const struct unit *unit)
{
        return unit->gpu->name && *unit->gpu->name ? unit->gpu->name : "unknown product";
}

/* ---- memory ---- */

static int shares_check_memory(const struct plan_builder *builder, const struct unit *unit)
{
        unsigned int most = budget_most_replicas(unit);
        unsigned long long usable = budget_usable_mib(unit);

        if (unit->replicas <= most)
                return 0;
        if (most == 0)
                return error_set(builder->err, ERROR_INVALID,
                        "%s: %s (%.100s) has %llu MiB beyond the reserve of %llu MiB, and a replica needs at least %llu: "
                        "lower memoryReserve, or leave it out by devices",
                        plan_entry_place(builder, unit->shared), plan_unit_text(builder, unit), product(unit), usable,
                        (unsigned long long)budget_reserve_mib(unit), (unsigned long long)BUDGET_LEAST_SHARE_MIB);
        return error_set(builder->err, ERROR_INVALID,
                "%s.replicas: %u, at most %u for %s (%.100s): each needs at least %llu MiB of the %llu that are left of it "
                "beyond the reserve",
                plan_entry_place(builder, unit->shared), unit->replicas, most, plan_unit_text(builder, unit),
                product(unit), (unsigned long long)BUDGET_LEAST_SHARE_MIB, usable);
}

/* ---- SMs ---- */

/* A configuration with sms may rely on all the chunks that fit; plan.c warns that one may be missing. */
static int shares_check_chunks(const struct plan_builder *builder, const struct unit *unit)
{
        unsigned int total = sm_count(unit);
        unsigned int chunk = sm_chunk(unit->gpu);
        unsigned int chunks = unit->shared->sms ? total / chunk : sm_chunks(unit);

        if (unit->replicas <= chunks)
                return 0;
        if (chunks == 0)
                return error_set(builder->err, ERROR_INVALID,
                        "%s: provisioning sm: %s (%.100s) has %u SMs, less than the %u of one chunk: leave it out by "
                        "devices, or use provisioning weighted",
                        plan_entry_place(builder, unit->shared), plan_unit_text(builder, unit), product(unit), total,
                        chunk);
        return error_set(builder->err, ERROR_INVALID,
                "%s.replicas: %u, at most %u for %s (%.100s), which has %u SMs in whole chunks of %u%s",
                plan_entry_place(builder, unit->shared), unit->replicas, chunks, plan_unit_text(builder, unit),
                product(unit), total, chunk, chunks < total / chunk ? ", of which it may lack one" : "");
}

static int check_entry_sms(const struct plan_builder *builder, const struct unit *unit)
{
        unsigned int chunk = sm_chunk(unit->gpu);
        unsigned int whole = sm_count(unit) / chunk * chunk;
        unsigned int most = whole / chunk / unit->replicas * chunk;
        unsigned int sms = unit->shared->sms;

        if (sms % chunk)
                return error_set(builder->err, ERROR_INVALID,
                        "%s.sms: %u, must be a multiple of %u, the SMs of one chunk of %s (%.100s)",
                        plan_entry_place(builder, unit->shared), sms, chunk, plan_unit_text(builder, unit),
                        product(unit));
        if (sms > most)
                return error_set(builder->err, ERROR_INVALID,
                        "%s.sms: %u, at most %u for each of %u replicas of %s (%.100s), which has %u SMs in whole chunks "
                        "of %u",
                        plan_entry_place(builder, unit->shared), sms, most, unit->replicas,
                        plan_unit_text(builder, unit), product(unit), whole, chunk);
        return 0;
}

static int shares_check_sms(const struct plan_builder *builder, const struct unit *unit)
{
        /* Unknown values of a failing GPU must not stop the other GPUs. */
        if (sm_count(unit) == 0 && unit->gpu->failure)
                return 0;
        if (sm_count(unit) == 0)
                return error_set(builder->err, ERROR_UNSUPPORTED,
                        "%s: provisioning sm: %s (%.100s) does not report how many SMs it has: use provisioning "
                        "weighted, or leave it out by devices",
                        plan_entry_place(builder, unit->shared), plan_unit_text(builder, unit), product(unit));
        if (shares_check_chunks(builder, unit) < 0)
                return -1;
        return unit->shared->sms ? check_entry_sms(builder, unit) : 0;
}

/* ---- all units ---- */

int plan_check_shares(const struct plan_builder *builder)
{
        for (size_t i = 0; i < builder->n_units; i++) {
                const struct unit *unit = &builder->units[i];

                if (!unit->shared || unit->shared->section->strategy != SHARING_MPS ||
                        unit->shared->section->provisioning == PROVISIONING_UNIFORM)
                        continue;
                if (shares_check_memory(builder, unit) < 0)
                        return -1;
                if (unit->shared->section->provisioning == PROVISIONING_SM && shares_check_sms(builder, unit) < 0)
                        return -1;
        }
        return 0;
}
