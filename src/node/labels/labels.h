// SPDX-License-Identifier: Apache-2.0
/*
 * Labels of the node: what inventory, configuration and plan say to the scheduler. Pure. It does not know where they go
 * (node/status/labels_publisher.h); docs/labels.md is the list for users.
 *
 * Keys below "nvidia.com/" and their values are those of NVIDIA's gpu-feature-discovery v0.20, so that selectors and
 * the GPU Operator find what they know. Keys below LABELS_PREFIX are ours: they say how large a share is, by resource.
 *
 * "nvidia.com/gpu.*" can describe one product only. Of several on a node it is always the same: one of which a GPU is
 * not in MIG mode before one of which all are; of these, the one with the most GPUs; of equals, the one that NVML has
 * first. Where units of one resource are shared differently, the labels have the sharing of most of them, of equals the
 * first. All products are in LABELS_PREFIX "product.<product>", with the number of their GPUs.
 *
 * A value is always legal, even if the text from NVML or a file is not: letters, digits, '-', '_' and '.', a letter or
 * digit at both ends, at most LABELS_MAX_VALUE characters; a key whose name would be longer than LABELS_MAX_NAME is
 * left out with a warning.
 */
#pragma once

#include "base/strbuf.h"
#include "config/config.h"
#include "gpu/inventory.h"
#include "gpu/vgpu.h"
#include "plan/plan.h"

#define LABELS_PREFIX "warpshare.dev/"
#define LABELS_NVIDIA_PREFIX "nvidia.com/"
#define LABELS_MAX_VALUE ((size_t)63)
#define LABELS_MAX_NAME ((size_t)63) /* of a key, without its prefix */

struct label {
        const char *key;
        const char *value;
};

/* By key, each once. */
struct labels {
        const struct label *items;
        size_t count;
};

struct labels_input {
        const struct config *config;
        const struct inventory *inventory; /* NULL: NVML cannot be used */
        /* NULL: none can be made of the two. Under migStrategy single the labels say that the MIG layout is invalid. */
        const struct plan *plan;
        const char *machine; /* what the file with the machine's type says; NULL: nothing */
        struct vgpu vgpu;
        int64_t timestamp; /* Unix time, seconds; 0: without that label */
};

/* In |arena|. |warn| is called for what gets no label, and for products and sharings that others displace. */
void labels_build(struct labels *ret, struct arena *arena, const struct labels_input *input, config_warn_fn *warn,
        void *warn_data);

/* "key=value" lines, as node-feature-discovery reads them. */
void labels_print(const struct labels *labels, struct strbuf *text);

/* ---- for the files of this folder: labels while they are collected ---- */

/* A later label of the same key replaces the earlier. */
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
