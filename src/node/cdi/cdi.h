// SPDX-License-Identifier: Apache-2.0
/*
 * Writes CDI specifications for the GPUs and MIG devices of the plan: one file for each class,
 * k8s.device-plugin.nvidia.com-<class>.json. A container runtime is given the name of a device, looks it up in these
 * files, and injects its device nodes, driver files and hooks. Names, file names and contents are those of NVIDIA's
 * k8s-device-plugin v0.20 (vendor k8s.device-plugin.nvidia.com), so that a container that was created under one of the
 * two plugins restarts under the other.
 *
 * For example, kubelet answers a container with the device "k8s.device-plugin.nvidia.com/gpu=GPU-5c89…". The file of
 * class gpu has a device "GPU-5c89…" with /dev/nvidia0, and edits that all its devices share: /dev/nvidiactl, the mount
 * of libcuda.so.580.105.08, the hook that runs ldconfig for the container. Files are written when the plan changes,
 * never inside a request. docs/cdi.md explains the decisions.
 *
 *   spec.h          the document and the rules of its format, pure
 *   driver.h        the driver's files; context.h their paths here and on the host, and device nodes
 *   devices.h       the devices of class gpu
 *   mps_devices.h   devices of class mps, which only set variables
 *   files.h         the files as they were written, to be written again if another program changes them
 *   this file       writes all of it, and has the other classes
 */
#pragma once

#include "base/error.h"
#include "node/cdi/files.h"
#include "plan/allocate.h"
#include "plan/plan.h"

/*
 * Writes the specifications for |plan| to config->cdi_root through |files| (NULL: not remembered), each atomically, and
 * only if its content changes. Devices of the previous specification that the plan no longer has stay in it while their
 * device nodes exist, because kubelet restarts a container with the device names with which it was created. A plan
 * without units leaves the files as they are. No file is ever removed.
 *
 * Fails, and leaves the file of class gpu as it was, if the driver's libraries are missing (ERROR_NOT_FOUND) or are
 * those of another version than the driver that runs (ERROR_UNAVAILABLE), if no unit has its device node, or if the
 * folder cannot be written. |warn| is called for each unit without a CDI device, for each missing node that CUDA needs,
 * and for each extra that is enabled but has no node.
 *
 * If the configuration does not ask for CDI and we only added it (plan->adds_cdi, plan/plan.h), a failure clears
 * plan->adds_cdi, |warn| gets the reason, and the function succeeds.
 *
 * On success plan->has_cdi_units is set, plan->cdi_extras has the enabled extras that have something to inject, and
 * plan->cdi_limits says whether there are devices for the limits of MPS clients. plan->lacks_nodes says whether a node
 * is missing that CUDA needs: then it is to be published again when the node is there. Does nothing if neither
 * plan_device_lists() has CDI nor DRA is on; if only DRA needs CDI, a failure is a warning, too.
 */
int cdi_publish(
        struct plan *plan, struct cdi_files *files, config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/*
 * Tries once more for a plan that is served without its specifications (plan->lacks_cdi), or without nodes
 * (plan->lacks_nodes). If it lacked all, the caller plans the same configuration again after a success: this plan's
 * answers stay as they are.
 */
int cdi_publish_again(struct plan *plan, struct cdi_files *files, struct error *err) MUST_USE;

/*
 * Fails (ERROR_UNAVAILABLE) if a node is missing that CUDA needs in a container: one of those that all have, or, with
 * |unit|, also one of the unit itself. Succeeds on platforms without the nodes of NVIDIA's driver (WSL, Tegra).
 */
int cdi_check_nodes(const struct plan *plan, const struct unit *unit, struct error *err) MUST_USE;

/*
 * The hooks that specifications lack because the host's program (|ret_program|: its path here) does not know them, as a
 * list in |arena| that ends with NULL. The list is empty, and |ret_program| NULL, if the program is not visible here.
 */
const char *const *cdi_unknown_hooks(const struct config *config, struct arena *arena, const char **ret_program);

/* The qualified name of the CDI device of |unit|: "k8s.device-plugin.nvidia.com/gpu=<UUID or index>". */
const char *cdi_unit_id(struct arena *arena, const struct config *config, const struct unit *unit);
