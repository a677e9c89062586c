// SPDX-License-Identifier: Apache-2.0
/*
 * The opaque parameters for our driver, of a claim and of its device class: applies them to what the claim gets. Pure.
 *
 *   apiVersion: gpu.warpshare.dev/v1alpha1        for every name of the driver
 *   kind: ShareConfig
 *   unenforced: Refuse | Prepare                  a share whose limits cannot be enforced; Prepare only in a
 *                                                 DeviceClass, since such a share is at the expense of others
 *
 * If the driver's name is gpu.nvidia.com, NVIDIA's parameters are read, too, as far as they can be honoured:
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
 *       multiUser: false, or true from driver 580 on, where the daemons of this node are so (false changes nothing)
 *
 * A null means that the field is absent. Decoding is strict: an unknown version, kind, field or value is an error that
 * lists the known ones. If several configurations of one version apply to a device, the last one is used, with all its
 * fields; those of classes come before those of the claim. A configuration that names requests applies only to these;
 * one that names none applies to all devices of its kind.
 */
#pragma once

#include "node/dra/wanted.h"

/*
 * Applies the configurations of |claim| to its result |i|. ERROR_INVALID: a configuration is wrong.
 * ERROR_UNSUPPORTED: it cannot be honoured.
 */
int dra_parameters_apply(
        struct dra_claim *claim, size_t i, const struct dra_wanted_rules *rules, struct error *err) MUST_USE;

/*
 * Fails if |tier| cannot enforce the share's own limits (tier default has the same limits for all clients) and such
 * shares are refused.
 */
int dra_parameters_check_tier(
        enum dra_unenforced unenforced, enum mps_tier tier, const char *unit, struct error *err) MUST_USE;
