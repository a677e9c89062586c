/*
 * The opaque configuration of a claim and of its device class for our driver: what it changes in what a claim gets. Pure.
 *
 *   apiVersion: gpu.warpshare.dev/v1alpha1        whatever the driver is called
 *   kind: ShareConfig
 *   unenforced: Refuse | Prepare                  a share whose limits cannot be enforced; Prepare only in a DeviceClass, since such a
 *                                                 share is at the expense of others
 *
 * Of a driver that is called gpu.nvidia.com also NVIDIA's, as far as it can be honoured:
 *
 *   apiVersion: resource.nvidia.com/v1beta1
 *   kind: GpuConfig | MigDeviceConfig             for whole and shared GPUs; for MIG devices and shared ones
 *   sharing:
 *     strategy: TimeSlicing                       not of a device that is shared by MPS
 *     timeSlicingConfig: {interval: Default}      GpuConfig only; the time slice of a GPU is not changed
 *     strategy: MPS                               only of a device that is shared by MPS: a whole one has no daemon
 *     mpsConfig:                                  limits below those that the scheduler counted; never above
 *       defaultActiveThreadPercentage: 1 to 100
 *       defaultPinnedDeviceMemoryLimit: 4Gi
 *       defaultPerDevicePinnedMemoryLimit: {GPU-…: 2Gi, "1": 1Gi}     by UUID, or by position among the claim's devices here
 *       multiUser: false
 *
 * Decoding is strict: an unknown version, kind, field or value is an error that says what is known. Of configurations of one version that
 * apply to a device the last counts, with all its fields; those of classes come before those of the claim. One that names its requests
 * counts for these only; one that names none counts for the devices of its kind.
 */
#pragma once

#include "dra/wanted.h"

/* Changes all[i], of |count| results of |claim|. ERROR_INVALID: it makes no sense; ERROR_UNSUPPORTED: it cannot be honoured. */
int dra_parameters_apply(struct dra_wanted *all, size_t count, size_t i, const struct dra_claim *claim,
        const struct dra_wanted_rules *rules, struct error *err) MUST_USE;

/* Whether a share whose limits |tier| is to enforce may be given out: tier default has the same limits for all. */
int dra_parameters_check_tier(
        enum dra_unenforced unenforced, enum mps_tier tier, const char *unit, struct error *err) MUST_USE;
