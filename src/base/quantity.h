/*
 * Quantities of Kubernetes ("10Gi", "10240Mi", "1.5k", "1e3", "100m") as whole numbers, rounded up: "100m" is 1. The
 * API server counts like that (resource.Quantity.Value()). Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The most digits, before and after the point together, without leading zeros. */
#define QUANTITY_DIGITS ((unsigned int)19)

/* False: |text| is not a quantity, is below 0, or is more than INT64_MAX. */
bool quantity_value(const char *text, uint64_t *ret);
