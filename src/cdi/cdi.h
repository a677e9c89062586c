/*
 * CDI specifications for what the plan advertises: one file a class, k8s.device-plugin.nvidia.com-<class>.json, from which
 * container runtimes inject device nodes, driver files and hooks by name. Names, file names and contents are those of NVIDIA's
 * k8s-device-plugin v0.20 (vendor k8s.device-plugin.nvidia.com), so that containers made by the one restart under the other.
 *
 * Layout: cdi/spec.h is the document (pure), cdi/driver.h what the driver's files are and cdi/nodes.h its device nodes (both read
 * folders, by the names of cdi/roots.h), cdi/devices.h which devices there are, cdi/limit_devices.h those that only carry
 * variables; this puts them together and on disk. Nothing
 * here runs inside a request. docs/cdi.md has the decisions.
 */
#pragma once

#include "base/error.h"
#include "share/cdi_name.h"
#include "share/plan.h"

/*
 * Writes the specifications for |plan| to config->cdi_root: each atomically, none when its content would be the same. Devices of
 * an earlier specification that the plan no longer has stay in it while their device nodes exist, since kubelet restarts
 * containers with the names they were made with. A plan without units leaves what is there. No file is ever removed.
 *
 * Fails, and leaves the file of class gpu as it was, when the driver's libraries are not there (ERROR_NOT_FOUND) or are not those
 * of the driver that runs (ERROR_UNAVAILABLE), when not one unit has its device node, and when the folder cannot be written.
 * |warn| hears of each unit that a runtime will not resolve, of nodes that CUDA needs and that are not there, and of extras
 * that are enabled and have no node.
 *
 * Where CDI was only added to the configured lists (share/plan.h), a failure takes it back: |warn| hears why, and it is none.
 *
 * On success plan->cdi_extras says which of the enabled extras have something to inject, and plan->cdi_limits whether there are
 * devices for the limits of MPS clients, and plan->has_cdi_units is set. Without CDI in plan_device_lists() and without DRA it does
 * nothing; where only DRA needs it, a failure is a warning, too.
 */
int cdi_publish(struct plan *plan, config_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;

/* By which a container gets |unit|: "k8s.device-plugin.nvidia.com/gpu=<UUID or index>". */
const char *cdi_unit_id(struct arena *arena, const struct config *config, const struct unit *unit);
