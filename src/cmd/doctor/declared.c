/* doctor's checks for provisioning: declared: whether the agent can read what a container declares. */
#include <unistd.h>

#include "cmd/doctor/doctor.h"
#include "node/visit.h"

static const char means[] =
        "annotations of pods are ignored, and the limit monitor has no proof against their containers; variables of "
        "the containers still count";

struct question {
        unsigned int status;
        struct error error;
        bool is_over;
};

static void on_declared_answer(const struct kube_answer *answer, void *data)
{
        struct question *question = data;

        question->status = answer->status;
        if (answer->error)
                question->error = *answer->error;
        question->is_over = true;
}

/* "Not found" also proves the right to read pods; without it the answer is a denial. */
static bool may_read_pods(struct doctor *doctor, struct api_visit *visit)
{
        struct question question = {0};

        kube_client_send(visit->client, &(struct kube_request){.method = KUBE_GET,
                                                .path = "/api/v1/namespaces/default/pods/warpshare-doctor",
                                                .timeout_ms = 5000,
                                                .done = on_declared_answer,
                                                .data = &question});
        api_visit_wait(visit, &question.is_over);
        if (question.status == 200 || question.status == 404)
                return true;
        doctor_report(doctor, DOCTOR_WRONG, means,
                question.status == 403
                        ? "give the agent's account the right to get pods: rbac.readPods: true in the chart"
                        : "make the API server answer",
                "pods cannot be read: %s", question.error.text);
        return false;
}

static bool can_ask(struct doctor *doctor)
{
        struct api_visit visit;
        bool can = false;

        api_visit_begin(&visit, doctor->config);
        if (visit.client)
                can = may_read_pods(doctor, &visit);
        else
                doctor_report(doctor, DOCTOR_WRONG, means,
                        "set --node-name, and credentials: a service account, or --kubeconfig",
                        "the API server is not used: %s", visit.why.text);
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
