/*
 * Labels while they are collected: a later one of the same key replaces the earlier. Part of node/labels/labels.h.
 */
#pragma once

#include "node/labels/labels.h"

struct label_set {
        struct arena *arena;
        const struct labels_input *input;
        config_warn_fn *warn;
        void *warn_data;
        struct label *items;
        size_t count;
        size_t capacity;
};

void label_set_warn(const struct label_set *set, const char *format, ...) PRINTF_LIKE(2, 3);

/* |key| is copied, too. The value is made legal. */
void label_set_put(struct label_set *set, const char *key, const char *format, ...) PRINTF_LIKE(3, 4);

/* "<prefix><resource>.<what>": the labels of one resource. */
void label_set_put_of(struct label_set *set, const char *resource, const char *what, const char *format, ...)
        PRINTF_LIKE(4, 5);

/* NVIDIA's rule for names: only letters, digits, '-', '_', '.' and blanks stay; words are joined by '-'. */
const char *label_clean(struct arena *arena, const char *text);

/* The position of the most frequent text; of equally frequent ones, the first. */
size_t label_leading(const char *const *texts, size_t count);

/* The labels of GPUs and MIG devices. */
void labels_put_gpus(struct label_set *set);

/* |gpu| is one that the labels describe. */
bool labels_counts_gpu(const struct inventory *inventory, const struct gpu *gpu);
