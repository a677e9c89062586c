// SPDX-License-Identifier: Apache-2.0
/*
 * doctor's checks of kubelet's directory: whether kubelet runs, which other plugins register, and the CDI files of
 * container runtimes.
 */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "node/cdi/cdi.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/facts.h"
#include "base/io/lock.h"
#include "base/io/unix_socket.h"
#include "node/kubelet/plugin.h"
#include "plan/allocate.h"

#define SPEC_MAX ((size_t)8 * 1024 * 1024)

/*
 * True if |path| is in a folder that only the agent's container has, and this is the supervisor's container: then there
 * is nothing to check.
 */
static bool is_for_agent(struct doctor *doctor, const char *path)
{
        _free_ char *folder = file_folder(path);

        if (access(folder, F_OK) == 0 || !doctor_is_at_supervisor(doctor))
                return false;
        doctor_skip(doctor,
                "'%s' is not there, and 'warpshare mps' needs none: run the doctor in the agent's container", folder);
        return true;
}

/* ---- sockets ---- */

/* Whether kubelet listens on |path|; if not, that |means| something, and something is to be done. */
static void kubelet_check_socket(struct doctor *doctor, const char *path, const char *means, const char *todo)
{
        int rc;

        if (is_for_agent(doctor, path))
                return;
        rc = reach_socket(path);
        if (rc == 0)
                doctor_ok(doctor, "it listens on '%s'", path);
        else
                doctor_report(doctor, DOCTOR_WRONG, means, todo, "'%s': %s", path, strerror(rc));
}

void doctor_check_kubelet(struct doctor *doctor)
{
        if (!*doctor->config->kubelet.socket)
                doctor_report(
                        doctor, DOCTOR_NOTE, "the agent serves, and never registers", NULL, "no kubelet is configured");
        else
                kubelet_check_socket(doctor, doctor->config->kubelet.socket,
                        "resources cannot be registered: the node has none of them",
                        "see whether kubelet runs on the node; in a container, mount the folder of this socket, not the "
                        "socket, and run as root");
}

void doctor_check_pod_resources(struct doctor *doctor)
{
        if (!*doctor->config->kubelet.pod_resources)
                doctor_report(doctor, DOCTOR_NOTE,
                        "what containers hold is known from the agent's own record and kubelet's checkpoint only", NULL,
                        "none is configured");
        else
                kubelet_check_socket(doctor, doctor->config->kubelet.pod_resources,
                        "which container holds what is not known: shares are freed late, clients have no pod, and a "
                        "change may wait for pods that have ended",
                        "mount kubelet's folder pod-resources into the agent's container. It is below kubelet's --root-dir: "
                        "where that is not " CONFIG_KUBELET_ROOT ", as with k0s and MicroK8s, set --kubelet-root "
                        "(kubeletRootDir of the chart)");
}

/* ---- other agents ---- */

/* The folder of plugin sockets, for the caller to free. */
static char *plugin_directory(const struct doctor *doctor)
{
        const char *socket = doctor->config->kubelet.socket;

        return *socket ? file_folder(socket) : xstrdup(CONFIG_DEVICE_PLUGINS);
}

/* Takes the lock only for a moment: an agent that needs it at that time tries again by itself. */
void doctor_check_agent(struct doctor *doctor)
{
        _free_ char *directory = plugin_directory(doctor);
        struct lock lock = LOCK_INIT;
        struct error err;
        int rc;

        if (is_for_agent(doctor, doctor->config->kubelet.socket))
                return;
        rc = lock_take(&lock, directory, &err);
        lock_release(&lock);
        if (rc == LOCK_BUSY)
                doctor_ok(doctor, "one serves in '%s'; another would wait until it ends", directory);
        else if (rc == 0)
                doctor_report(doctor, DOCTOR_NOTE, "nobody advertises GPUs here, or in another folder",
                        "start 'warpshare agent', and see its log", "none serves in '%s'", directory);
        else
                doctor_report(doctor, DOCTOR_WRONG, "no plugin can have its sockets there",
                        "mount kubelet's folder of device plugins, and run as root", "%s", err.text);
}

void doctor_check_other_plugins(struct doctor *doctor)
{
        _free_ char *path = plugin_directory(doctor);
        DIR *directory = opendir(path);
        const struct dirent *entry;
        size_t others = 0;

        if (!directory) {
                doctor_skip(doctor, "'%s': %s", path, strerror(errno));
                return;
        }
        while ((entry = readdir(directory))) {
                _free_ char *socket = NULL;

                if (!facts_is_nvidia_socket(entry->d_name))
                        continue;
                socket = xasprintf("%s/%s", path, entry->d_name);
                if (reach_socket(socket) != 0)
                        continue; /* an agent that has ended left it */
                others++;
                doctor_report(doctor, DOCTOR_WRONG,
                        "two plugins for one resource: kubelet listens to the last that registered, and each of them hands "
                        "out the same GPUs",
                        "remove NVIDIA's device plugin from this node (its DaemonSet, or the GPU Operator's "
                        "devicePlugin.enabled)",
                        "another plugin serves: %s", entry->d_name);
        }
        closedir(directory);
        if (others == 0)
                doctor_ok(doctor, "none of NVIDIA's");
}

/* ---- CDI ---- */

/* Reports device nodes that a specification names and that do not exist. */
static size_t check_nodes(struct doctor *doctor, const char *file, const json_t *edits)
{
        const json_t *node;
        size_t missing = 0;
        size_t i;

        json_array_foreach(json_object_get(edits, "deviceNodes"), i, node)
        {
                const char *host = json_string_value(json_object_get(node, "hostPath"));
                const char *path = host ? host : json_string_value(json_object_get(node, "path"));
                _free_ char *here = path ? xasprintf("%s%s", doctor->config->system_root, path) : NULL;

                if (!here || !text_starts_with(path, "/dev/") || access(here, F_OK) == 0)
                        continue;
                missing++;
                doctor_report(doctor, DOCTOR_WRONG, "containers with this device are refused by their runtime",
                        "restart the agent, which writes the specification again; see the check of device nodes",
                        "'%s' names %s, which is not there", file, path);
        }
        return missing;
}

static size_t check_spec(struct doctor *doctor, const char *path)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;
        const json_t *device;
        json_t *json = NULL;
        size_t wrong = 0;
        size_t i;

        if (file_read(path, SPEC_MAX, &text, &err) == 0)
                json = json_loadb(text.data, text.size, 0, NULL);
        if (!json) {
                doctor_report(doctor, DOCTOR_WRONG, "container runtimes cannot read it: no device of it resolves",
                        "remove it and restart the agent", "'%s' is no specification", path);
                return 1;
        }
        wrong += check_nodes(doctor, path, json_object_get(json, "containerEdits"));
        json_array_foreach(json_object_get(json, "devices"), i, device) wrong +=
                check_nodes(doctor, path, json_object_get(device, "containerEdits"));
        json_decref(json);
        return wrong;
}

static size_t check_specs(struct doctor *doctor, DIR *directory, size_t *ret_wrong)
{
        const struct dirent *entry;
        size_t specs = 0;

        while ((entry = readdir(directory))) {
                _free_ char *path = NULL;

                if (!text_starts_with(entry->d_name, CDI_VENDOR "-"))
                        continue;
                path = xasprintf("%s/%s", doctor->config->cdi.root, entry->d_name);
                *ret_wrong += check_spec(doctor, path);
                specs++;
        }
        return specs;
}

/* A note each, since the specifications lack them. */
static void check_hooks(struct doctor *doctor)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *program;
        const char *const *unknown = cdi_unknown_hooks(doctor->config, &arena, &program);

        for (; *unknown; unknown++)
                doctor_report(doctor, DOCTOR_NOTE, "the agent leaves it out of CDI specifications",
                        "upgrade NVIDIA's container toolkit to 1.20 or newer, and restart the agent",
                        "'%s' does not know the hook %s", program, *unknown);
}

void doctor_check_cdi(struct doctor *doctor)
{
        const char *root = doctor->config->cdi.root;
        size_t wrong = 0;
        size_t specs;
        DIR *directory;

        if (!(doctor->config->devices.lists & DEVICE_LIST_CDI) && !config_adds_cdi(doctor->config) &&
                !doctor->config->dra.enabled) {
                doctor_ok(doctor, "it is not used (deviceListStrategy)");
                return;
        }
        check_hooks(doctor);
        directory = opendir(root);
        if (!directory) {
                doctor_report(doctor, DOCTOR_WRONG, "the agent cannot write its specifications",
                        "mount the node's folder of CDI specifications (/var/run/cdi) into the agent's container",
                        "'%s': %s", root, strerror(errno));
                return;
        }
        if (access(root, W_OK) < 0) {
                wrong++;
                doctor_report(doctor, DOCTOR_WRONG, "the agent cannot write its specifications",
                        "mount it writable, and run as root", "'%s': %s", root, strerror(errno));
        }
        specs = check_specs(doctor, directory, &wrong);
        closedir(directory);
        if (specs == 0)
                doctor_report(doctor, DOCTOR_NOTE, "the agent writes them when it starts", NULL,
                        "no specification of the agent is in '%s'", root);
        else if (wrong == 0)
                doctor_ok(doctor, "%zu specifications in '%s', and their devices are there", specs, root);
}
