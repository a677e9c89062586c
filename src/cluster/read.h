/*
 * Values of API objects as they are kept: in an arena, cut to a bound, and clean (base/text.h), since they are shown in
 * terminals.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"

/* NULL stays NULL. Cleaned; at most CLUSTER_TEXT bytes, cut between characters. */
const char *read_cut(struct arena *arena, const char *text);

/* The member's text, cut; NULL or "" where it is not a string, or |object| not an object. */
const char *read_text(struct arena *arena, const json_t *object, const char *key);
const char *read_text_or_empty(struct arena *arena, const json_t *object, const char *key);

/* metav1.Time, "2026-11-22T13:00:00Z", as Unix seconds; 0 for NULL and for any other text. */
int64_t read_time(const char *text);

/*
 * Whether devices can be counted by it: its domain is not Kubernetes' own, as in "nvidia.com/gpu", or it stands for a
 * device class ("deviceclass.resource.kubernetes.io/gpu").
 */
bool read_is_device_resource(const char *name);

/* "namespace/name" of an object, for the caller to free; NULL: it lacks one of them. */
char *read_key(const json_t *object);
