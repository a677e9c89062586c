#include "cmd/doctor/ask.h"

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

static void on_doctor_answer(const struct kube_answer *answer, void *data)
{
        struct doctor_answer *ret = data;

        ret->status = answer->status;
        if (answer->error)
                ret->error = *answer->error;
        else
                ret->object = json_incref(answer->object);
        ret->is_over = true;
}

void doctor_ask(struct api_visit *visit, const char *path, const char *query, struct doctor_answer *ret)
{
        *ret = (struct doctor_answer){0};
        kube_client_send(visit->client, &(struct kube_request){.method = KUBE_GET,
                                                .path = path,
                                                .query = query,
                                                .timeout_ms = TIMEOUT_MS,
                                                .done = on_doctor_answer,
                                                .data = ret});
        api_visit_wait(visit, &ret->is_over);
}
