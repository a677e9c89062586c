/*
 * Quantities of Kubernetes ("10Gi", "10240Mi", "1.5k", "1e3", "100m") as whole numbers, as the API server reads them where it counts
 * (resource.Quantity.Value()): rounded up. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Before and after the point together, leading zeros apart. */
#define QUANTITY_DIGITS ((unsigned int)19)

/* False: |text| is no quantity, is below 0, or is more than INT64_MAX. */
bool quantity_value(const char *text, uint64_t *ret);
