// SPDX-License-Identifier: Apache-2.0
/*
 * What a model does next (test/unit/<layer>/<…>model.c): drawn by a seed, which a failure names, or from the bytes of a
 * fuzzer, which keeps those that reach something new.
 *
 * Each step has CHANCE_STEP bytes, however many it draws: those it does not need are left out, and what it draws beyond
 * them is computed from them. So a fuzzer that changes, repeats or removes a step leaves all others what they are.
 *
 * A model is compiled twice: as a unit test, whose main() runs seeds, and with FUZZING as the target fuzz-LAYER-NAME,
 * where FUZZ_MODEL() stands in its place.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define CHANCE_STEP ((size_t)8)

struct chance {
        bool is_of_bytes;
        const uint8_t *bytes; /* of the steps to come */
        size_t n_bytes;
        uint8_t step[CHANCE_STEP]; /* of this one */
        size_t n_used;
        uint64_t random;
};

static inline uint64_t chance_mix(uint64_t value)
{
        value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
        return value ^ value >> 31;
}

static inline struct chance chance_of_seed(uint64_t seed)
{
        return (struct chance){.random = chance_mix(seed + 1), .n_used = CHANCE_STEP};
}

/* Another step begins. False: there are no more bytes. By a seed there is always another. */
static inline bool chance_step(struct chance *chance)
{
        if (!chance->is_of_bytes)
                return true;
        if (chance->n_bytes == 0)
                return false;
        chance->random = 0;
        for (size_t i = 0; i < CHANCE_STEP; i++) {
                chance->step[i] = chance->n_bytes ? *chance->bytes++ : 0;
                chance->n_bytes -= chance->n_bytes > 0;
                chance->random = chance_mix(chance->random + chance->step[i] + 1);
        }
        chance->n_used = 0;
        return true;
}

/* What is drawn before the first step has bytes of its own. */
static inline struct chance chance_of_bytes(const uint8_t *bytes, size_t n_bytes)
{
        struct chance chance = {.is_of_bytes = true, .bytes = bytes, .n_bytes = n_bytes, .n_used = CHANCE_STEP};

        chance_step(&chance);
        return chance;
}

/* 0 to |below| - 1. */
static inline uint64_t chance_draw(struct chance *chance, uint64_t below)
{
        size_t n_needed = below <= 1 ? 0 : below <= 256 ? 1 : below <= 65536 ? 2 : 4;
        uint64_t value = 0;

        if (n_needed <= CHANCE_STEP - chance->n_used) {
                for (; n_needed > 0; n_needed--)
                        value = value << 8 | chance->step[chance->n_used++];
        } else {
                chance->n_used = CHANCE_STEP;
                chance->random += UINT64_C(0x9e3779b97f4a7c15);
                value = chance_mix(chance->random) >> 11;
        }
        return value % below;
}

/* One in |n|. */
static inline bool chance_happens(struct chance *chance, uint64_t n)
{
        return chance_draw(chance, n) == 0;
}

/* What a model does from its beginning to its end. |seed| is for its messages. */
typedef void chance_run_fn(struct chance *chance, uint64_t seed, unsigned int n_steps);

static inline void chance_run_seed(chance_run_fn *run, uint64_t seed, unsigned int n_steps)
{
        struct chance chance = chance_of_seed(seed);

        run(&chance, seed, n_steps);
}

/* Runs the seed that WARPSHARE_SEED names, and no other. False: it names none. */
static inline bool chance_run_named(chance_run_fn *run, unsigned int n_steps)
{
        const char *seed = getenv("WARPSHARE_SEED");

        if (seed)
                chance_run_seed(run, strtoull(seed, NULL, 10), n_steps);
        return seed;
}

#ifdef FUZZING
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* |run| is a chance_run_fn. A check that fails ends the program there, so that the fuzzer keeps the bytes. */
#define FUZZ_MODEL(run)                                                                                                \
        int LLVMFuzzerInitialize(int *argc, char ***argv)                                                              \
        {                                                                                                              \
                (void)argc;                                                                                            \
                (void)argv;                                                                                            \
                return setenv("CMOCKA_TEST_ABORT", "1", 1);                                                            \
        }                                                                                                              \
        int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)                                                  \
        {                                                                                                              \
                struct chance chance = chance_of_bytes(bytes, size);                                                   \
                                                                                                                       \
                run(&chance, 0, UINT_MAX);                                                                             \
                return 0;                                                                                              \
        }
#endif
