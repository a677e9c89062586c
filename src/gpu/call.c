#include "gpu/call.h"

#include <stdio.h>

void gpu_call_about(enum call_subject subject, unsigned int index, const char *uuid)
{
        struct worker_call *step = worker_own_call();

        step->subject = subject;
        step->index = index;
        snprintf(step->name, sizeof(step->name), "%s", uuid ? uuid : "");
}

void gpu_call_begin(const char *call, uint64_t extra_ms)
{
        struct worker_call *step = worker_own_call();

        step->since_ms = gpu_call_now_ms();
        step->extra_ms = extra_ms;
        step->times = step->subject == CALL_TO_OPEN ? 3 : 1;
        snprintf(step->call, sizeof(step->call), "%s", call);
}

void gpu_call_end(void)
{
        struct worker_call *step = worker_own_call();

        step->call[0] = '\0';
        step->since_ms = gpu_call_now_ms();
}

struct call_info gpu_call_of_worker(const struct worker_call *step)
{
        struct call_info info = {.subject = (enum call_subject)step->subject,
                .index = step->subject == CALL_ON_GPU ? step->index : CALL_NO_INDEX,
                .since_ms = step->since_ms};

        snprintf(info.call, sizeof(info.call), "%s", step->call);
        snprintf(info.gpu, sizeof(info.gpu), "%s", step->name);
        return info;
}

uint64_t gpu_call_now_ms(void)
{
        return uv_hrtime() / 1000000;
}
