/* doctor's checks for provisioning: declared: whether the agent can read what a container declares. */
#include <unistd.h>

#include "cmd/doctor/ask.h"

static const char means[] =
        "annotations of pods are ignored, and the limit monitor has no proof against their containers; variables of "
        "the containers still count";

/* "Not found" also proves the right to read pods; without it the answer is a denial. */
static bool may_read_pods(struct doctor *doctor, struct api_visit *visit)
{
        struct doctor_answer answer;

        doctor_ask(visit, "/api/v1/namespaces/default/pods/warpshare-doctor", NULL, &answer);
        json_decref(answer.object);
        if (answer.status == 200 || answer.status == 404)
                return true;
        doctor_report(doctor, DOCTOR_WRONG, means,
                answer.status == 403
                        ? "give the agent's account the right to get pods: rbac.readPods: true in the chart"
                        : "make the API server answer",
                "pods cannot be read: %s", answer.error.text);
        return false;
}

static bool can_ask(struct doctor *doctor)
{
        struct api_visit visit;
        bool can = doctor_visit(doctor, &visit, means) && may_read_pods(doctor, &visit);

        api_visit_end(&visit);
        return can;
}

static bool has_list(struct doctor *doctor)
{
        const char *socket = doctor->config->pod_resources;

        if (*socket && access(socket, F_OK) == 0)
                return true;
        doctor_report(doctor, DOCTOR_WRONG, means,
                "mount kubelet's folder pod-resources into the agent's container, and set --pod-resources-socket",
                "the pod of a container is not known: kubelet's pod-resources socket '%s' is not there", socket);
        return false;
}

void doctor_check_declared(struct doctor *doctor)
{
        const struct sharing_section *mps = doctor->config->sharing.mps;
        bool is_well;

        if (!mps || mps->provisioning != PROVISIONING_DECLARED) {
                doctor_report(doctor, DOCTOR_OK, NULL, NULL, "it is not used (sharing.mps.provisioning)");
                return;
        }
        is_well = has_list(doctor);
        if (!(doctor->config->device_lists & DEVICE_LIST_CDI) && !config_adds_cdi(doctor->config)) {
                doctor_report(doctor, DOCTOR_WRONG, "annotations of pods cannot become variables of their containers",
                        "set deviceListStrategy: cdi-cri, or leave it out", "containers get their devices without CDI");
                is_well = false;
        }
        if (can_ask(doctor) && is_well)
                doctor_report(doctor, DOCTOR_OK, NULL, NULL,
                        "pods can be read, and what they declare can reach their containers");
}
