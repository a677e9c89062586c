/*
 * A page of metrics in Prometheus' text format, read: the other side of metrics/exposition.h. Pure: text in, samples out.
 *
 * Comments are skipped and timestamps are ignored. A page has at most PAGE_MAX bytes, and a sample PAGE_LABELS_MAX labels.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"

#define PAGE_MAX ((size_t)16 * 1024 * 1024)
#define PAGE_LABELS_MAX 64U

struct page_label {
        const char *name;
        const char *value;
};

struct page_sample {
        const char *name;
        const struct page_label *labels;
        size_t n_labels;
        double value;
};

struct page {
        const struct page_sample *samples; /* in the order of the page */
        size_t n_samples;
};

/* |text| has |size| bytes and a zero after them. All that is returned lives in |arena|. ERROR_INVALID names the line. */
int page_read(struct page *ret, struct arena *arena, const char *text, size_t size, struct error *err) MUST_USE;

/* The value of the label, or NULL. */
const char *page_label(const struct page_sample *sample, const char *name);
