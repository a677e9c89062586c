/*
 * How many SMs a GPU has. NVML reports it only for MIG devices: nvmlDeviceGetAttributes_v2 answers NOT_SUPPORTED for a
 * whole GPU. So it is computed: nvmlDeviceGetNumGpuCores divided by the cores per SM of this compute capability.
 *
 * The largest MIG profile's count is not used: MIG offers fewer SMs (98 of A100's 108), and a number that is too low
 * would make shares too small. If the division has a remainder, the number is unknown.
 */
#pragma once

/* 0 unknown. */
unsigned int multiprocessors_of(unsigned int cores, int compute_major, int compute_minor);
