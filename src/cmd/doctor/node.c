// SPDX-License-Identifier: Apache-2.0
/* doctor's checks of the machine: driver, GPUs, and kernel settings. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/facts.h"
#include "mps/client/ask.h"
#include "node/status/read.h"
#include "gpu/hangs.h"
#include "gpu/platform.h"
#include "gpu/nvml.h"
#include "mps/supervisor/compute_mode.h"
#include "plan/allocations.h"
#include "plan/several.h"
#include "plan/plan.h"

#define FILES_WANTED ((rlim_t)16384)
#define PROC_FILE_MAX ((size_t)64 * 1024)

/* The check of the driver reports the reason. */
static struct inventory *node_read_node(struct doctor *doctor)
{
        struct inventory *inventory;
        struct error err;

        if (node_read(&inventory, doctor->config, &err) == 0)
                return inventory;
        doctor_skip(doctor, "the GPUs cannot be read");
        return NULL;
}

/* ---- driver ---- */

/* The version of the kernel module; "" if unknown. */
static void read_module_version(const struct doctor *doctor, char version[static FACTS_VERSION_MAX])
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/proc/driver/nvidia/version", doctor->config->system_root);
        struct error err;

        version[0] = '\0';
        if (file_read(path, PROC_FILE_MAX, &text, &err) == 0)
                facts_driver_version(text.data, version);
}

static void report_no_nvml(struct doctor *doctor, const struct error *err, const char *module)
{
        if (*module)
                doctor_report(doctor, DOCTOR_WRONG, "the kernel module is loaded, but its library cannot be used here",
                        "start this container with the NVIDIA runtime or mount the driver root; after an upgrade of the "
                        "driver, unload the old module or reboot",
                        "kernel module %s, and NVML: %s", module, err->text);
        else
                doctor_report(doctor, DOCTOR_WRONG, "no GPU can be found, so no resource is advertised",
                        "install NVIDIA's driver on this node and load its module, or keep the agent off nodes without GPUs",
                        "no driver is loaded, and NVML: %s", err->text);
}

void doctor_check_driver(struct doctor *doctor)
{
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        char module[FACTS_VERSION_MAX];
        char version[96] = "";
        struct error err;

        read_module_version(doctor, module);
        if (nvml_open(&nvml, doctor->config->driver.nvml_library, doctor->config->driver.mounted_root, &err) < 0) {
                report_no_nvml(doctor, &err, module);
                return;
        }
        NVML_CALL(nvml, system_get_driver_version, version, sizeof(version));
        if (*module && strcmp(module, version) != 0)
                doctor_report(doctor, DOCTOR_WRONG,
                        "library and kernel module are of different drivers: CUDA will not start",
                        "unload the old kernel module or reboot; restart containers that still have the old library",
                        "the kernel module is %s, NVML is of %s", module, version);
        else
                doctor_ok(doctor, "driver %s, NVML answers", version);
}

static bool has_node(const struct doctor *doctor, int minor)
{
        _free_ char *own = xasprintf("%s/dev/nvidia%d", doctor->config->system_root, minor);
        _free_ char *of_driver = xasprintf("%s/dev/nvidia%d", doctor->config->driver.mounted_root, minor);
        struct stat status;

        return (stat(own, &status) == 0 && S_ISCHR(status.st_mode)) ||
               (stat(of_driver, &status) == 0 && S_ISCHR(status.st_mode));
}

void doctor_check_device_nodes(struct doctor *doctor)
{
        static const char means[] = "containers cannot be given what is not there: CUDA does not start in them";
        static const char todo[] =
                "run nvidia-modprobe -u -c=0 on the node, or have nvidia-persistenced do it at boot; in a "
                "container, mount the node's /dev or be privileged";
        const struct gpu_paths paths = {
                .system_root = doctor->config->system_root, .driver_root = doctor->config->driver.mounted_root};
        _cleanup_(inventory_freep) struct inventory *inventory = node_read_node(doctor);
        unsigned int nodes = nodes_find(&paths);
        size_t missing = 0;

        if (!inventory)
                return;
        if (inventory->platform != PLATFORM_NVML) {
                doctor_ok(doctor, "this platform has no device nodes of NVIDIA's driver");
                return;
        }
        if (!(nodes & NODE_NVIDIACTL) && ++missing)
                doctor_report(doctor, DOCTOR_WRONG, means, todo, "/dev/nvidiactl is not there");
        if (!(nodes & NODE_UVM) && ++missing)
                doctor_report(doctor, DOCTOR_WRONG, means, todo, "/dev/nvidia-uvm is not there");
        for (size_t i = 0; i < inventory->n_gpus; i++)
                if (inventory->gpus[i].minor >= 0 && !has_node(doctor, inventory->gpus[i].minor) && ++missing)
                        doctor_report(doctor, DOCTOR_WRONG, means, todo, "/dev/nvidia%d of GPU %u is not there",
                                inventory->gpus[i].minor, inventory->gpus[i].index);
        if (missing == 0)
                doctor_ok(doctor, "the device nodes are there");
}

/* ---- GPUs ---- */

/* A MIG device without a name; only under mixed, and where no pattern gives it one, a resource needs that. */
static void check_profile(struct doctor *doctor, const struct gpu *gpu, const struct mig_device *mig)
{
        const struct config *config = doctor->config;
        const bool needs_name = config->mig_strategy == MIG_STRATEGY_MIXED && config->patterns.n_mig == 0;

        if (mig->profile_failure)
                doctor_report(doctor, needs_name ? DOCTOR_WRONG : DOCTOR_NOTE,
                        needs_name ? "under mixed, resources are named by profiles, so it is not advertised"
                                   : "nothing that goes by profiles finds it",
                        "run the agent privileged if NVML refuses it the permission, or name the MIG device by a pattern in "
                        "resources.mig",
                        "GPU %u: the profile of the MIG device %s is unknown: %s", gpu->index, mig->uuid,
                        mig->profile_failure);
}

static void doctor_check_gpu(struct doctor *doctor, const struct gpu *gpu)
{
        if (gpu->failure)
                doctor_report(doctor, DOCTOR_WRONG, "its replicas are unhealthy",
                        "see the kernel's log for Xids (dmesg | grep NVRM); reset the GPU or reboot", "GPU %u (%s): %s",
                        gpu->index, gpu->uuid, gpu->failure);
        for (size_t i = 0; i < gpu->n_mig_failures; i++)
                doctor_report(doctor, DOCTOR_WRONG, "this MIG device is not advertised",
                        "create the MIG devices of this GPU again, or reset it", "GPU %u: %s", gpu->index,
                        gpu->mig_failures[i]);
        for (size_t i = 0; i < gpu->n_mig_devices; i++)
                check_profile(doctor, gpu, &gpu->mig_devices[i]);
        if (gpu->mig_enabled && doctor->config->mig_strategy == MIG_STRATEGY_NONE)
                doctor_report(doctor, DOCTOR_NOTE,
                        "it is advertised as a whole GPU, and a container sees one MIG device of it at most",
                        "set migStrategy to single or mixed, or switch MIG off",
                        "GPU %u is in MIG mode, and migStrategy is none", gpu->index);
        else if (gpu->mig_enabled && gpu->n_mig_devices == 0)
                doctor_report(doctor, DOCTOR_WRONG, "nothing of this GPU is advertised",
                        "create MIG devices (nvidia-smi mig -cgi … -C), or switch MIG off",
                        "GPU %u is in MIG mode and has no MIG device", gpu->index);
}

void doctor_check_gpus(struct doctor *doctor)
{
        _cleanup_(inventory_freep) struct inventory *inventory = node_read_node(doctor);

        if (!inventory)
                return;
        for (size_t i = 0; i < inventory->n_unnamed_failures; i++)
                doctor_report(doctor, DOCTOR_WRONG, "it cannot be advertised",
                        "see the kernel's log for Xids (dmesg | grep NVRM); reset the GPU or reboot", "%s",
                        inventory->unnamed_failures[i]);
        for (size_t i = 0; i < inventory->n_gpus; i++)
                doctor_check_gpu(doctor, &inventory->gpus[i]);
        if (inventory->n_gpus + inventory->n_unnamed_failures == 0)
                doctor_report(doctor, DOCTOR_WRONG, "no resource is advertised",
                        "see lspci and the kernel's log; in a container, NVIDIA_VISIBLE_DEVICES has to be 'all'",
                        "the driver is there and has no GPU");
        else
                doctor_ok(doctor, "%zu found", inventory->n_gpus);
}

/* ---- the plan ---- */

static void on_plan_warning(const char *text, void *data)
{
        doctor_report(data, DOCTOR_NOTE, NULL, NULL, "%s", text);
}

void doctor_check_plan(struct doctor *doctor)
{
        _cleanup_(inventory_freep) struct inventory *inventory = node_read_node(doctor);
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct plan *plan;
        struct error err;

        if (doctor_is_at_supervisor(doctor)) {
                doctor_skip(doctor, "the agent's configuration is not known here");
                return;
        }
        if (!inventory)
                return;
        if (plan_build(&plan, &arena, doctor->config, inventory, on_plan_warning, doctor, &err) < 0) {
                doctor_report(doctor, DOCTOR_WRONG,
                        "the agent does not start with it, or keeps the configuration before",
                        "change the configuration; 'warpshare plan' shows what it would make", "%s", err.text);
                return;
        }
        if (doctor->config->sharing.mps && doctor->config->sharing.time_slicing)
                doctor_report(doctor, DOCTOR_NOTE,
                        "each shares units of its own; a pod that asks for the wrong resource has no limits",
                        "see 'warpshare plan' for the units of each", "both MPS and time-slicing are configured");
        for (size_t i = 0; i < plan->n_resources; i++) {
                enum sharing_strategy strategy = plan->resources[i].strategy;

                doctor_ok(doctor, "%s: %zu, %s%s", plan->resources[i].name,
                        plan->resources[i].n_devices - allocations_n_reserved(&plan->resources[i]),
                        strategy == SHARING_NONE ? "not shared" : "shared by ",
                        strategy == SHARING_NONE ? "" : sharing_strategy_name(strategy));
        }
        plan_done(plan);
}

/* ---- containers with several resources ---- */

static int read_checkpoint(const struct doctor *doctor, struct arena *arena, struct checkpoint *ret, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *folder = file_folder(doctor->config->kubelet.socket);
        _free_ char *path = xasprintf("%s/" CHECKPOINT_NAME, folder);

        if (file_read(path, CHECKPOINT_MAX, &text, err) < 0)
                return -1;
        return checkpoint_read(ret, arena, "", text.data, text.size, err);
}

void doctor_check_containers(struct doctor *doctor)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint record;
        struct several_fault *faults;
        _cleanup_(inventory_freep) struct inventory *inventory = NULL;
        struct plan *plan;
        struct error err;
        size_t count;

        if (!*doctor->config->kubelet.socket || read_checkpoint(doctor, &arena, &record, &err) < 0) {
                doctor_skip(doctor, "kubelet's record of devices cannot be read");
                return;
        }
        inventory = node_read_node(doctor);
        if (!inventory || plan_build(&plan, &arena, doctor->config, inventory, NULL, NULL, &err) < 0)
                return; /* other checks report the reason */
        count = several_faults(&faults, &arena, plan, &record);
        for (size_t i = 0; i < count; i++)
                doctor_report(doctor, DOCTOR_WRONG, "it is charged for GPUs that its programs do not see", NULL,
                        "container %s of the pod with UID %s: %s", faults[i].entry->container, faults[i].entry->pod_uid,
                        faults[i].text);
        if (count == 0)
                doctor_ok(doctor, "each has what it is charged for");
        plan_done(plan);
}

/* The driver branch in which each feature appeared: NVIDIA's MPS manual, and tries with the programs. */
static const struct {
        unsigned int branch;
        const char *what;
} features[] = {
        {525, "terminate_client, with which the limit monitor ends a client"},
        {550, "get_server_status, which reports a server in FAULT"},
        {580, "several users at a time on one daemon"},
        {590, "SM partitions, and 60 clients instead of 48"},
        {615, "namespaces, with limits that no client can drop"},
};

void doctor_check_tiers(struct doctor *doctor)
{
        _cleanup_(inventory_freep) struct inventory *inventory = node_read_node(doctor);
        _cleanup_(strbuf_done) struct strbuf missing = STRBUF_INIT;
        unsigned long branch;

        if (!inventory)
                return;
        branch = strtoul(inventory->driver_version, NULL, 10);
        for (size_t i = 0; i < ARRAY_SIZE(features); i++)
                if (branch < features[i].branch)
                        strbuf_printf(
                                &missing, "%s%s (%u)", missing.size ? "; " : "", features[i].what, features[i].branch);
        if (!doctor->config->sharing.mps || missing.size == 0)
                doctor_ok(doctor, "driver %s has what the configuration can use", inventory->driver_version);
        else
                doctor_report(doctor, DOCTOR_NOTE,
                        "shares other than uniform are variables of the container, which it can drop: the limit "
                        "monitor checks them",
                        "none, or a driver of the branch in brackets", "driver %s does not have: %s",
                        inventory->driver_version, missing.data);
}

/* ---- compute mode ---- */

struct modes {
        struct doctor *doctor;
        const struct nvml *nvml;
        const struct mps_status *status; /* NULL: no supervisor answers */
        size_t wrong;
};

static bool has_daemon(const struct modes *modes, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = modes->status ? mps_status_find_unit(modes->status, unit->uuid) : NULL;

        return daemon && daemon->state != MPS_OFF && daemon->state != MPS_FAULT;
}

static void report_mode(
        struct modes *modes, const struct resource *resource, const struct unit *unit, nvmlComputeMode_t mode)
{
        bool is_mps = unit->shared && resource->strategy == SHARING_MPS;

        if (mode == NVML_COMPUTEMODE_DEFAULT ||
                ((is_mps || doctor_is_at_supervisor(modes->doctor)) && has_daemon(modes, unit)))
                return;
        modes->wrong++;
        if (mode == NVML_COMPUTEMODE_PROHIBITED)
                doctor_report(modes->doctor, DOCTOR_WRONG, "no program can use it",
                        "nvidia-smi -c DEFAULT for this GPU", "%s (%s) has compute mode PROHIBITED", unit->index,
                        unit->uuid);
        else if (is_mps)
                doctor_report(modes->doctor, DOCTOR_WRONG,
                        "without its MPS daemon only one process at a time can use it: all others fail",
                        "start 'warpshare mps', and see the checks of MPS",
                        "%s (%s) has compute mode %s, and no MPS daemon", unit->index, unit->uuid,
                        compute_mode_name(mode));
        else
                doctor_report(modes->doctor, unit->shared ? DOCTOR_WRONG : DOCTOR_NOTE,
                        "only one process at a time can use it; MPS leaves this mode behind when it did not end "
                        "cleanly",
                        "nvidia-smi -c DEFAULT for this GPU, unless the mode is intended",
                        "%s (%s) has compute mode %s, and no MPS", unit->index, unit->uuid, compute_mode_name(mode));
}

static void report_modes(struct modes *modes, const struct plan *plan)
{
        for (size_t i = 0; i < plan->n_resources; i++) {
                const struct resource *resource = &plan->resources[i];

                for (size_t j = 0; j < resource->n_units; j++) {
                        nvmlComputeMode_t mode;
                        struct error err;

                        gpu_call_about(CALL_ON_GPU, CALL_NO_INDEX, resource->units[j].uuid);
                        if (compute_mode_read(modes->nvml, resource->units[j].uuid, &mode, &err) > 0)
                                report_mode(modes, resource, &resource->units[j], mode);
                }
        }
}

void doctor_check_compute_mode(struct doctor *doctor)
{
        _cleanup_(inventory_freep) struct inventory *inventory = node_read_node(doctor);
        _cleanup_(nvml_closep) struct nvml *nvml = NULL;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct mps_status *status;
        struct modes modes = {.doctor = doctor};
        struct plan *plan;
        struct error err;

        if (!inventory)
                return;
        if (inventory->platform != PLATFORM_NVML ||
                nvml_open(&nvml, doctor->config->driver.nvml_library, doctor->config->driver.mounted_root, &err) < 0 ||
                plan_build(&plan, &arena, doctor->config, inventory, NULL, NULL, &err) < 0) {
                doctor_skip(doctor, "without a plan it is unknown which is right");
                return;
        }
        status = mps_ask(doctor->mps_root, &err);
        modes.nvml = nvml;
        modes.status = status;
        report_modes(&modes, plan);
        if (modes.wrong == 0)
                doctor_ok(doctor, "the compute modes are as they should be");
        mps_status_free(status);
        plan_done(plan);
}

/* ---- kernel ---- */

void doctor_check_host_pid(struct doctor *doctor)
{
        _free_ char *path = xasprintf("%s/proc/self/ns/pid", doctor->config->system_root);
        char link[64];
        ssize_t length = readlink(path, link, sizeof(link) - 1);

        if (length < 0) {
                doctor_skip(doctor, "'%s' cannot be read", path);
                return;
        }
        link[length] = '\0';
        if (pid_namespace_is_host(link))
                doctor_ok(doctor, "this is the host's PID namespace");
        else
                doctor_report(doctor, DOCTOR_NOTE,
                        "the agent knows who uses a GPU only where the supervisor of MPS says it; where MPS daemons run, control.log "
                        "says NEW CLIENT 0, and clients can neither be matched to pods nor terminated",
                        "hostPID: true for the pod in which 'warpshare mps' runs, and for that of the agent to know who uses the "
                        "other GPUs (mps.enableHostPID and usage.hostPID of the chart)",
                        "this is a PID namespace of its own");
}

void doctor_check_open_files(struct doctor *doctor)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < FILES_WANTED)
                doctor_report(doctor, DOCTOR_NOTE,
                        "an MPS server with many clients fails to make shared memory segments, unless 'warpshare mps' may "
                        "raise the limit",
                        "raise LimitNOFILE of the container runtime to 16384 or more", "at most %llu files may be open",
                        (unsigned long long)limit.rlim_max);
        else
                doctor_ok(doctor, "at least %llu files may be open", (unsigned long long)FILES_WANTED);
}

void doctor_check_cgroup(struct doctor *doctor)
{
        _free_ char *path = xasprintf("%s/sys/fs/cgroup/cgroup.controllers", doctor->config->system_root);

        if (access(path, F_OK) == 0)
                doctor_ok(doctor, "version 2");
        else
                doctor_report(doctor, DOCTOR_NOTE,
                        "the driver's limits for whole containers (branch 615) need version 2",
                        "boot the node with systemd.unified_cgroup_hierarchy=1", "version 1, or not mounted");
}
