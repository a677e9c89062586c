#include "node/status/visit.h"

#include "base/io/loop.h"
#include "node/status/api.h"

void api_visit_begin(struct api_visit *visit, const struct config *config)
{
        *visit = (struct api_visit){0};
        loop_init(&visit->loop);
        visit->is_outside = agent_api_open(&visit->client, &visit->loop, config, &visit->why) == AGENT_API_NONE;
}

static bool visit_is_set(void *flag)
{
        return *(const bool *)flag;
}

void api_visit_wait(struct api_visit *visit, bool *is_over)
{
        loop_run_until(&visit->loop, visit_is_set, is_over, 0);
}

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

void api_visit_end(struct api_visit *visit)
{
        visit->client = kube_client_close(visit->client, NULL, NULL);
        uv_run(&visit->loop, UV_RUN_DEFAULT);
        uv_loop_close(&visit->loop);
}
