/*
 * Resets GPUs by `nvidia-smi --gpu-reset`, so that a MIG mode that was set becomes current. Nobody may use them
 * meanwhile, we neither.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/*
 * nvidia-smi runs in |driver_root|, with the driver's files, where that has one; else that of PATH runs. What it prints
 * goes to standard error. TIMEOUT: it has not ended within |timeout_ms|, and it is not known whether the GPUs were
 * reset.
 */
#define MIG_RESET_MS 120000
int mig_reset(
        const char *const *uuids, size_t n_uuids, const char *driver_root, int timeout_ms, struct error *err) MUST_USE;
