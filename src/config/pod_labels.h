/* The labels of pods that metrics repeat, by the option --metrics-pod-labels. Pure. */
#pragma once

#include "base/alloc.h"
#include "base/error.h"

#define POD_LABELS_MAX ((size_t)8)

/*
 * Checks the keys, NULL-terminated, as the API server does, that they are at most POD_LABELS_MAX, and that no two have
 * the same name in metrics. Returns those names in |arena|, in their order: "label_" and the key, with '_' for what a
 * name of Prometheus cannot have, as kube-state-metrics writes them.
 */
int pod_labels_name(const char *const **ret, struct arena *arena, const char *const *keys, struct error *err) MUST_USE;
