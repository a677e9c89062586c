// SPDX-License-Identifier: Apache-2.0
/*
 * doctor's checks that ask the API server: whether the agent can read what a container declares, of kubelet's socket or
 * of the API server; and for DRA whether kubelet finds the driver, and whether the API server has what the node offers.
 */
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"
#include "node/dra/layout.h"
#include "node/dra/slices.h"
#include "node/dra/registration.h"
#include "node/ledger/pod_source.h"
#include "base/io/unix_socket.h"
#include "net/kube/object.h"

#define TIMEOUT_MS UINT64_C(5000)

bool doctor_visit(struct doctor *doctor, struct api_visit *visit, const char *means)
{
        api_visit_begin(visit, doctor->config);
        if (!visit->client)
                doctor_report(doctor, DOCTOR_WRONG, means,
                        "set --node-name, and credentials: a service account, or --kubeconfig",
                        "the API server is not used: %s", visit->why.text);
        return visit->client;
}

void doctor_ask(struct api_visit *visit, const char *path, const char *query, struct api_answer *ret)
{
        api_ask(visit,
                (struct kube_request){.method = KUBE_GET, .path = path, .query = query, .timeout_ms = TIMEOUT_MS}, ret);
}

/* ---- declared ---- */

static const char no_pods_known[] =
        "annotations of pods are ignored, and the limit monitor has no proof against their containers; variables of "
        "the containers still count";

static void on_kubelet_said(const struct kube_answer *answer, void *data)
{
        bool *ret_serves = data;

        *ret_serves = !answer->error || answer->error->kind == ERROR_NOT_FOUND;
}

/* kubelet answers on its socket of pods, if only that it does not have this one. */
static bool kubelet_says_pods(const struct doctor *doctor)
{
        struct pod_source source;
        struct error err;
        uv_loop_t loop;
        bool serves = false;

        uv_loop_init(&loop);
        if (pod_source_init(&source, &loop, doctor->config->kubelet.pods, NULL, &err) == 0) {
                if (pod_source_can_ask(&source, ""))
                        pod_source_get(&source, &(struct pod_question){.namespace = "default",
                                                        .name = "warpshare-doctor",
                                                        .uid = "warpshare-doctor",
                                                        .timeout_ms = TIMEOUT_MS,
                                                        .done = on_kubelet_said,
                                                        .data = &serves});
                uv_run(&loop, UV_RUN_DEFAULT);
                pod_source_done(&source);
        }
        uv_loop_close(&loop);
        return serves;
}

/* "Not found" also proves the right to read pods; without it the answer is a denial. */
static bool may_read_pods(struct doctor *doctor, struct api_visit *visit)
{
        struct api_answer answer;

        doctor_ask(visit, "/api/v1/namespaces/default/pods/warpshare-doctor", NULL, &answer);
        json_decref(answer.object);
        if (answer.status == 200 || answer.status == 404)
                return true;
        doctor_report(doctor, DOCTOR_WRONG, no_pods_known,
                answer.status == 403
                        ? "give the agent's account the right to get pods: rbac.readPods: true in the chart; or use "
                          "kubelet 1.37, whose socket --pods-api-socket needs no right"
                        : "make the API server answer",
                "pods cannot be read: %s", answer.error.text);
        return false;
}

static bool api_can_ask(struct doctor *doctor)
{
        struct api_visit visit;
        bool can = doctor_visit(doctor, &visit, no_pods_known) && may_read_pods(doctor, &visit);

        api_visit_end(&visit);
        return can;
}

static bool has_list(struct doctor *doctor)
{
        const char *socket = doctor->config->kubelet.pod_resources;

        if (*socket && access(socket, F_OK) == 0)
                return true;
        doctor_report(doctor, DOCTOR_WRONG, no_pods_known,
                "mount kubelet's folder pod-resources into the agent's container, and set --pod-resources-socket",
                "the pod of a container is not known: kubelet's pod-resources socket '%s' is not there", socket);
        return false;
}

void doctor_check_declared(struct doctor *doctor)
{
        const struct sharing_section *mps = doctor->config->sharing.mps;
        bool is_well;
        bool by_kubelet;

        if (!mps || mps->provisioning != PROVISIONING_DECLARED) {
                doctor_ok(doctor, "it is not used (sharing.mps.provisioning)");
                return;
        }
        is_well = has_list(doctor);
        if (!(doctor->config->devices.lists & DEVICE_LIST_CDI) && !config_adds_cdi(doctor->config)) {
                doctor_report(doctor, DOCTOR_WRONG, "annotations of pods cannot become variables of their containers",
                        "set deviceListStrategy: cdi-cri, or leave it out", "containers get their devices without CDI");
                is_well = false;
        }
        by_kubelet = kubelet_says_pods(doctor);
        if ((by_kubelet || api_can_ask(doctor)) && is_well)
                doctor_ok(doctor, "pods can be read, %s, and what they declare can reach their containers",
                        by_kubelet ? "by kubelet's socket" : "by the API server");
}

/* ---- DRA ---- */

static const char no_pods[] = "no pod with a claim of this driver starts on this node";
static const char no_offer[] = "the scheduler gives no claim anything of this node";

/* A socket of the driver on which a process listens; for the caller to free, or NULL. */
static char *find_socket(const struct config_dra *dra)
{
        DIR *folder = opendir(dra->registry);
        const struct dirent *entry;
        char *found = NULL;

        while (folder && !found && (entry = readdir(folder))) {
                _free_ char *path = xasprintf("%s/%s", dra->registry, entry->d_name);

                if (dra_sockets_is_first(dra->driver_name, entry->d_name) && reach_socket(path) == 0)
                        found = TAKE_PTR(path);
        }
        if (folder)
                closedir(folder);
        return found;
}

static void check_registry(struct doctor *doctor)
{
        const struct config_dra *dra = &doctor->config->dra;
        _free_ char *socket = NULL;

        if (access(dra->registry, F_OK) < 0) {
                doctor_report(doctor, DOCTOR_WRONG, no_pods,
                        "mount kubelet's folder into the agent's container, and set --kubelet-root (kubeletRootDir of the "
                        "chart) to kubelet's --root-dir",
                        "kubelet's registry of plugins '%s' is not there", dra->registry);
                return;
        }
        socket = find_socket(dra);
        if (!socket)
                doctor_report(doctor, DOCTOR_WRONG, no_pods, "see whether the agent runs, and its log",
                        "no agent listens on '%s/%s-…reg.sock'", dra->registry, dra->driver_name);
        else
                doctor_ok(doctor, "kubelet can find the driver: '%s'", socket);
}

/* The newest version that both know; NULL: none. */
static const char *find_version(const json_t *group)
{
        for (enum dra_api api = DRA_API_V1; api <= DRA_API_V1BETA1; api++) {
                const json_t *version;
                size_t i;

                json_array_foreach(json_object_get(group, "versions"), i, version)
                {
                        const char *name = object_text(version, "version", NULL);

                        if (name && strcmp(name, dra_api_name(api)) == 0)
                                return dra_api_name(api);
                }
        }
        return NULL;
}

static void report_slices(struct doctor *doctor, const json_t *list)
{
        const json_t *slice, *device;
        size_t i, j, n_devices = 0, n_shared = 0;

        json_array_foreach(json_object_get(list, "items"), i, slice)
        {
                json_array_foreach(object_find(slice, "spec", "devices", NULL), j, device)
                {
                        n_devices++;
                        n_shared += json_is_true(json_object_get(device, "allowMultipleAllocations")) ||
                                    json_is_true(object_find(device, "basic", "allowMultipleAllocations", NULL));
                }
        }
        if (n_devices == 0)
                doctor_report(doctor, DOCTOR_WRONG, no_offer,
                        "see the agent's log; 'warpshare plan --dra' shows what is to be offered",
                        "the API server has no devices of this node");
        else if (doctor->config->dra.mps && n_shared == 0)
                doctor_report(doctor, DOCTOR_NOTE, "claims get whole units, or static shares of them",
                        "switch on the feature gates DRAConsumableCapacity and DRAPartitionableDevices of the API server "
                        "and the scheduler (Kubernetes 1.36 has them on); 'warpshare plan --dra' says what keeps a GPU from "
                        "being shared",
                        "none of the %zu devices of this node can be shared by claims", n_devices);
        else
                doctor_ok(doctor, "%zu devices are offered, %zu of them to be shared", n_devices, n_shared);
}

static void check_slices(struct doctor *doctor, struct api_visit *visit, const char *version)
{
        _free_ char *path = xasprintf("/apis/resource.k8s.io/%s/resourceslices", version);
        _free_ char *query = xasprintf("fieldSelector=spec.driver=%s,spec.nodeName=%s", doctor->config->dra.driver_name,
                doctor->config->node.name);
        struct api_answer answer;

        doctor_ask(visit, path, query, &answer);
        if (answer.status == 200)
                report_slices(doctor, answer.object);
        else
                doctor_report(doctor, DOCTOR_WRONG, no_offer,
                        answer.status == 403 ? "give the agent's account the rights of dra.enabled: true in the chart"
                                             : "make the API server answer",
                        "ResourceSlices cannot be read: %s", answer.error.text);
        json_decref(answer.object);
}

/* The scheduler does not say its release; that of the API server is the same, or one that is newer for a while. */
static void check_release(struct doctor *doctor, struct api_visit *visit)
{
        const struct config_dra *dra = &doctor->config->dra;
        struct api_answer answer;
        const char *version;

        if (dra->whole + dra->mps + dra->time_slicing == 1)
                return;
        doctor_ask(visit, "/version", NULL, &answer);
        version = object_text(answer.object, "gitVersion", NULL);
        if (answer.status == 200 && dra_release_forgets_shares(version))
                doctor_report(doctor, DOCTOR_NOTE,
                        "each GPU and MIG device is offered in one form only: claims for the other forms stay pending",
                        "update to Kubernetes " DRA_RELEASE_GOOD " or newer; or choose the form with dra.oneForm",
                        "the scheduler of Kubernetes %s forgets shares, and would give the whole GPU out beside them",
                        version ? version : "of an unknown release");
        json_decref(answer.object);
}

static void check_api(struct doctor *doctor, struct api_visit *visit)
{
        struct api_answer answer;
        const char *version;

        doctor_ask(visit, "/apis/resource.k8s.io", NULL, &answer);
        version = find_version(answer.object);
        if (version) {
                check_slices(doctor, visit, version);
                check_release(doctor, visit);
        } else if (answer.status == 200 || answer.status == 404)
                doctor_report(doctor, DOCTOR_WRONG, no_offer,
                        "Kubernetes 1.34 and newer serve it; before, the feature gate DynamicResourceAllocation and "
                        "--runtime-config have to",
                        "the API server serves no version of resource.k8s.io that is known here");
        else
                doctor_report(doctor, DOCTOR_WRONG, no_offer, "make the API server answer",
                        "the API server does not say what it serves: %s", answer.error.text);
        json_decref(answer.object);
}

void doctor_check_dra(struct doctor *doctor)
{
        struct api_visit visit;

        if (!doctor->config->dra.enabled) {
                doctor_ok(doctor, "it is not used (dra.enabled)");
                return;
        }
        check_registry(doctor);
        if (doctor_visit(doctor, &visit, no_offer))
                check_api(doctor, &visit);
        api_visit_end(&visit);
}
