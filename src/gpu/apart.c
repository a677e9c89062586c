// SPDX-License-Identifier: Apache-2.0
#include "gpu/apart.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gpu/hangs.h"

struct apart {
        apart_fn *run;
        const void *data;
};

/* A signal to all processes of a terminal is meant for this one, too, and for the programs that it starts. */
static void heed_signals(void)
{
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                signal(numbers[i], SIG_DFL);
}

/* The answer begins with the error, or with none. */
static void apart_serve(const void *message UNUSED, size_t size UNUSED, struct strbuf *answer, const void *data)
{
        const struct apart *apart = data;
        struct error err = {.kind = ERROR_NONE};

        heed_signals();
        gpu_call_about(CALL_ON_DRIVER, 0, NULL);
        strbuf_append(answer, &err, sizeof(err));
        if (apart->run(apart->data, answer, &err) == 0)
                err.kind = ERROR_NONE;
        memcpy(answer->data, &err, sizeof(err));
        fflush(NULL);
}

int apart_run(apart_fn *run, const void *data, struct strbuf *answer, struct error *err)
{
        const struct apart apart = {run, data};
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        struct worker_alone alone;
        struct error cause;
        int rc;

        if (worker_count_left())
                return error_set(err, ERROR_TIMEOUT,
                        "a process of this program hangs in the driver and cannot be ended: reboot the node");
        fflush(NULL); /* else the process has it, too */
        worker_alone_begin(&alone, "warpshare-apart", apart_serve, &apart);
        alone.patience = WORKER_EACH_CALL;
        worker_keep_descriptors(alone.worker);
        rc = worker_alone_ask(&alone, "", 1, APART_CALL_MS, &bytes, &cause);
        worker_alone_end(&alone);
        if (rc < 0) {
                hang_explain(&alone.lost, &cause, clock_now_ms(), err);
                return APART_LOST;
        }
        memcpy(&cause, bytes.data, sizeof(cause));
        if (cause.kind != ERROR_NONE) {
                *err = cause;
                return -1;
        }
        if (answer)
                strbuf_append(answer, bytes.data + sizeof(cause), bytes.size - sizeof(cause));
        return 0;
}
