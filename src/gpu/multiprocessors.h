/*
 * How many SMs a GPU has. NVML has no call for it but for MIG devices: nvmlDeviceGetAttributes_v2 answers NOT_SUPPORTED for a
 * whole GPU. So it is nvmlDeviceGetNumGpuCores divided by the cores that one SM of this compute capability has.
 *
 * The largest MIG profile's count is no second source: MIG takes SMs away (98 of A100's 108), and a number that is
 * too low is worse than none where it becomes a grant. What does not come out even is unknown.
 */
#pragma once

/* 0 unknown. */
unsigned int multiprocessors_of(unsigned int cores, int compute_major, int compute_minor);
