// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as a file of MIG configurations, as hooks and as a checkpoint. What is read of the first and
 * the last is written and read again, and is the same then.
 *
 *         tools/fuzz 60 fuzz-mig-files
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mig/checkpoint.h"
#include "mig/hooks.h"
#include "mig/parted.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_have(bool is_so)
{
        if (!is_so)
                abort();
}

static void resolve_all(const struct mig_parted *parted, struct arena *arena)
{
        static const struct mig_gpu_profile profiles[] = {
                {.name = "1g.5gb", .slices = 1, .max = 7}, {.name = "3g.20gb", .slices = 3, .max = 2}};
        static const struct mig_node_gpu gpus[] = {
                {.name = "a",
                        .pci_device = 0x20b010de,
                        .is_capable = true,
                        .geometry = {.profiles = profiles, .n_profiles = 2}},
                {.index = 1, .name = "b", .is_capable = true},
                {.index = 2, .name = "c"},
        };
        static const struct mig_node node = {.gpus = gpus, .n_gpus = 3};

        for (size_t i = 0; i < parted->n_configs; i++) {
                const struct mig_wanted *wanted;
                struct error err;

                if (parted->configs[i].problem) {
                        must_have(parted->configs[i].n_entries == 0);
                        continue;
                }
                if (mig_parted_resolve(&wanted, arena, &parted->configs[i], &node, i % 2, &err) < 0) {
                        must_have(*err.text);
                        continue;
                }
                must_have(!wanted[2].is_named);
                for (size_t k = 0; k < 2; k++)
                        must_have(wanted[k].is_enabled || wanted[k].n_counts == 0);
        }
}

static bool can_be_used(const struct mig_parted *parted)
{
        for (size_t i = 0; i < parted->n_configs; i++)
                if (parted->configs[i].problem)
                        return false;
        return true;
}

static void check_parted(const char *data, size_t size)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_parted parted;
        struct error err;

        if (mig_parted_parse(&parted, &arena, "f", data, size, NULL, NULL, &err) < 0)
                return;
        resolve_all(&parted, &arena);
        for (int is_json = 0; is_json < 2 && can_be_used(&parted); is_json++) {
                _cleanup_(strbuf_done) struct strbuf once = STRBUF_INIT;
                _cleanup_(strbuf_done) struct strbuf twice = STRBUF_INIT;
                struct mig_parted again;

                mig_parted_print(&once, &parted, is_json);
                if (once.size > MIG_PARTED_FILE_LIMIT)
                        continue;
                must_have(mig_parted_parse(&again, &arena, "f", once.data, once.size, NULL, NULL, &err) == 0);
                mig_parted_print(&twice, &again, is_json);
                must_have(strcmp(once.data, twice.data) == 0);
        }
}

static void check_checkpoint(const char *data, size_t size)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf once = STRBUF_INIT;
        _cleanup_(strbuf_done) struct strbuf twice = STRBUF_INIT;
        struct mig_checkpoint checkpoint;
        struct error err;

        if (mig_checkpoint_parse(&checkpoint, &arena, data, size, &err) < 0)
                return;
        mig_checkpoint_print(&once, &checkpoint);
        must_have(mig_checkpoint_parse(&checkpoint, &arena, once.data, once.size, &err) == 0 ||
                  once.size > MIG_CHECKPOINT_LIMIT);
        mig_checkpoint_print(&twice, &checkpoint);
        must_have(strcmp(once.data, twice.data) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mig_hooks hooks;
        struct error err;

        check_parted((const char *)data, size);
        check_checkpoint((const char *)data, size);
        (void)!mig_hooks_parse(&hooks, &arena, "f", (const char *)data, size, NULL, NULL, &err);
        return 0;
}
