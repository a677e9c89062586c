#include "cmd/ask.h"

void api_answer_done(struct api_answer *answer)
{
        json_decref(answer->object);
}

void api_answer_take(const struct kube_answer *answer, void *data)
{
        struct api_answer *ret = data;

        ret->status = answer->status;
        if (answer->error)
                ret->error = *answer->error;
        else
                ret->object = json_incref(answer->object);
        ret->is_over = true;
}

void api_ask(struct api_visit *visit, struct kube_request request, struct api_answer *ret)
{
        *ret = (struct api_answer){0};
        request.done = api_answer_take;
        request.data = ret;
        kube_client_send(visit->client, &request);
        api_visit_wait(visit, &ret->is_over);
}
