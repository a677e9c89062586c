// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics as Prometheus reads them: the text format, version 0.0.4. Pure: numbers and labels in, text out. What the
 * numbers mean, their owner knows; docs/metrics.md lists them all.
 *
 * One family after the other: its head, then its samples, since the format wants them together. Labels come from
 * outside and may be anything: it is cut at EXPOSITION_LABEL_MAX bytes and cleaned (base/text.h), because one byte
 * that is not UTF-8 costs the reader the whole page, and dashboards show what it says. A page has at most
 * EXPOSITION_MAX bytes: samples beyond are left out, and their number is in the text's last family,
 * warpshare_exposition_dropped_samples, which is there only then.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

#define EXPOSITION_LABEL_MAX ((size_t)1024)
#define EXPOSITION_MAX ((size_t)8 * 1024 * 1024)
#define EXPOSITION_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum exposition_type { EXPOSITION_GAUGE, EXPOSITION_COUNTER };

/*
 * Names are ours: [a-z0-9_], and a literal. A label without a value is left out, which means the same to Prometheus as
 * an empty one.
 */
struct exposition_label {
        const char *name;  /* NULL ends the list */
        const char *value; /* or NULL */
};
#define EXPOSITION_LABELS(...) ((const struct exposition_label[]){__VA_ARGS__ __VA_OPT__(, ){NULL}})

struct exposition {
        struct strbuf text;
        const char *family; /* the one that samples belong to now */
        uint64_t dropped;
};

#define EXPOSITION_INIT                                                                                                \
        {                                                                                                              \
                .text = STRBUF_INIT                                                                                    \
        }

/* |name| is borrowed until the next family. The name of a counter ends with _total. |help|: one line, a sentence. */
void exposition_family(struct exposition *exposition, const char *name, enum exposition_type type, const char *help);
/* A sample of the newest family. */
void exposition_sample(struct exposition *exposition, const struct exposition_label *labels, double value);

/* The page, for the caller to free; the exposition is empty afterwards. */
char *exposition_take(struct exposition *exposition);

/* ---- OpenMetrics ---- */

#define OPENMETRICS_CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Whether a client with this header Accept (NULL: none) wants OpenMetrics at least as much as the text format. */
bool openmetrics_is_wanted(const char *accept);

/*
 * Such a page as OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec), for
 * those who ask for it, as Prometheus does by itself. The samples are the same; heads differ:
 *
 *     # HELP warpshare_events_total …                    # HELP warpshare_events …
 *     # TYPE warpshare_events_total counter      ──►     # TYPE warpshare_events counter
 *     warpshare_events_total 3                           warpshare_events_total 3
 *                                                        # EOF
 *
 * A counter without _total, as DCGM has, is none there, nor is one beside a gauge of the same name: its type is
 * unknown.
 *
 * |page| is freed; the result is for the caller to free. Pure: text in, text out.
 */
char *openmetrics_of(char *page);
