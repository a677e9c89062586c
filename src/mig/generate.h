/*
 * The default configurations of a node, made of the profiles that its driver lists, as NVIDIA's mig-parted makes them
 * (generate-config):
 *
 *   all-disabled    MIG off
 *   all-enabled     MIG on, without devices
 *   all-balanced    2 of one slice, 1 of two and, on GPUs of seven slices, 1 of three; of the smallest memory, without
 *                   attributes
 *   all-<profile>   as many of the profile as fit, '+' written as '.': all-1g.10gb, all-1g.10gb.me
 *
 * Where GPUs of several models have MIG, each entry has a filter. A configuration is there under every name that its
 * profile has, the driver's and the one made from its numbers. Pure.
 *
 * What NVML says of the A30 is wrong, says NVIDIA's code; its profiles stand here. Before R550 the driver lists no
 * profiles while MIG is disabled: the models that those drivers know have what is documented of them until MIG is
 * enabled; any other has all-disabled and all-enabled only.
 */
#pragma once

#include "mig/node.h"
#include "mig/parted.h"

void mig_generate(struct mig_parted *ret, struct arena *arena, const struct mig_node *node);
