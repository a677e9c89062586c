/*
 * A page of net/metrics/exposition.h as OpenMetrics 1.0 (https://prometheus.io/docs/specs/om/open_metrics_spec), for
 * who asks for that, as Prometheus does by itself. Pure: text in, text out. The samples are the same; heads differ:
 *
 *     # HELP warpshare_events_total …                    # HELP warpshare_events …
 *     # TYPE warpshare_events_total counter      ──►     # TYPE warpshare_events counter
 *     warpshare_events_total 3                           warpshare_events_total 3
 *                                                        # EOF
 *
 * A counter without _total, as DCGM has, is none there, nor is one beside a gauge of the same name: its type is
 * unknown.
 */
#pragma once

#include <stdbool.h>

#define OPENMETRICS_CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Whether a client with this header Accept (NULL: none) wants OpenMetrics at least as much as the text format. */
bool openmetrics_is_wanted(const char *accept);

/* |page| as OpenMetrics, for the caller to free; |page| is freed. */
char *openmetrics_of(char *page);
