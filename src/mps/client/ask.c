// SPDX-License-Identifier: Apache-2.0
#include "mps/client/ask.h"

#include <string.h>
#include <uv.h>

#include "base/io/lines.h"
#include "base/io/loop.h"
#include "mps/wire/message.h"

#define PATIENCE_MS UINT64_C(10000)

struct question {
        uv_loop_t loop;
        uv_timer_t deadline;
        struct lines *lines;
        bool is_answered;          /* an answer, or the end of the connection */
        struct mps_status *status; /* the answer, if it is one */
        struct error err;          /* if it is not */
};

static void ask_end(struct question *question)
{
        question->lines = lines_close(question->lines);
        uv_close((uv_handle_t *)&question->deadline, NULL);
}

static void on_ask_line(const char *text, size_t length, void *data)
{
        struct question *question = data;
        struct arena arena = ARENA_INIT;
        struct mps_answer answer;

        question->is_answered = true;
        if (mps_answer_read(&answer, &arena, text, length, &question->err) == 0)
                question->status = answer.is_status ? answer.status : NULL;
        arena_done(&arena);
        ask_end(question);
}

static void on_ask_end(const struct error *reason, void *data)
{
        struct question *question = data;

        question->is_answered = true;
        question->err = *reason;
        ask_end(question);
}

static void on_ask_deadline(uv_timer_t *timer)
{
        struct question *question = container_of(timer, struct question, deadline);

        error_raise(&question->err, ERROR_TIMEOUT, "it does not answer");
        ask_end(question);
}

static void ask(struct question *question, const char *root, const struct mps_request *request, uint64_t ms)
{
        _free_ char *path = xasprintf("%s/" MPS_SOCKET, root);
        _free_ char *text = mps_request_write(request);
        const struct lines_options options = {
                .line_limit = MPS_MESSAGE_MAX,
                .unsent_limit = MPS_MESSAGE_MAX,
                .on_line = on_ask_line,
                .on_end = on_ask_end,
                .data = question,
        };

        *question = (struct question){.status = NULL};
        error_raise(&question->err, ERROR_INTERNAL, "it gave another answer");
        loop_init(&question->loop);
        uv_timer_init(&question->loop, &question->deadline);
        if (lines_connect(&question->lines, &question->loop, path, &options, &question->err) == 0) {
                uv_timer_start(&question->deadline, on_ask_deadline, ms, 0);
                lines_send(question->lines, text, strlen(text));
        } else {
                uv_close((uv_handle_t *)&question->deadline, NULL);
        }
        uv_run(&question->loop, UV_RUN_DEFAULT);
        uv_loop_close(&question->loop);
}

struct mps_status *mps_ask(const char *root, struct error *err)
{
        struct question question;

        ask(&question, root, &(struct mps_request){.kind = MPS_REQUEST_WATCH}, PATIENCE_MS);
        *err = question.err;
        return question.status;
}

int mps_ping(const char *root, uint64_t ms, struct error *err)
{
        struct question question;

        ask(&question, root, &(struct mps_request){.kind = MPS_REQUEST_PING, .id = 1}, ms);
        mps_status_free(question.status);
        *err = question.err;
        return question.is_answered ? 0 : -1;
}
