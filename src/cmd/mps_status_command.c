/*
 * warpshare mps status: one question to the supervisor.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "cmd/command.h"
#include "cmd/command_line.h"
#include "cmd/mps_command.h"
#include "cmd/mps_table.h"
#include "io/lines.h"
#include "mps/message.h"

#define PATIENCE_MS UINT64_C(10000)

static const char *const outputs[] = {"table", "json", "metrics", NULL};

static const struct option own[] = {
        {.flag = "output",
                .type = OPTION_CHOICE,
                .choices = outputs,
                .fallback = "table",
                .argument = "WORD",
                .help = "table for people, json for programs (what the agent hears), or metrics as Prometheus text"},
};

static const char *const shared[] = {"mps-directory", NULL};
static const struct command_line line = {shared, own, ARRAY_SIZE(own)};

static const char help[] =
        "usage: warpshare mps status [OPTION...]\n"
        "\n"
        "Asks the supervisor that runs here (`warpshare mps` or `mps-control-daemon`) for its daemons, and prints them:\n"
        "one row a unit. The exit status is 0 when every daemon is ready, 1 when one is not or nobody answers.\n"
        "\n"
        "  STATE    off, starting, configuring, ready, draining (ends with its last client) or fault (REASON says why; it is\n"
        "           tried again by itself)\n"
        "  CLIENTS  processes that compute through the daemon, and how many its server takes\n"
        "  TIER     how shares hold there: default, verified, partition or namespace\n"
        "\n";

struct question {
        uv_loop_t loop;
        uv_timer_t deadline;
        struct lines *lines;
        struct mps_status *status;
        struct error err; /* where there is no status */
};

static void end(struct question *question)
{
        question->lines = lines_close(question->lines);
        uv_close((uv_handle_t *)&question->deadline, NULL);
}

static void on_line(const char *text, size_t length, void *data)
{
        struct question *question = data;
        struct arena arena = ARENA_INIT;
        struct mps_answer answer;

        if (mps_answer_read(&answer, &arena, text, length, &question->err) == 0)
                question->status = answer.is_status ? answer.status : NULL;
        arena_done(&arena);
        end(question);
}

static void on_end(const struct error *reason, void *data)
{
        struct question *question = data;

        question->err = *reason;
        end(question);
}

static void on_deadline(uv_timer_t *timer)
{
        struct question *question = container_of(timer, struct question, deadline);

        error_raise(&question->err, ERROR_TIMEOUT, "it does not answer");
        end(question);
}

static struct mps_status *ask(const char *root, struct error *err)
{
        static const struct mps_request watch = {.kind = MPS_REQUEST_WATCH};
        _free_ char *path = xasprintf("%s/" MPS_SOCKET, root);
        _free_ char *text = mps_request_write(&watch);
        struct question question = {.status = NULL};
        const struct lines_options options = {
                .line_limit = MPS_MESSAGE_MAX,
                .unsent_limit = MPS_MESSAGE_MAX,
                .on_line = on_line,
                .on_end = on_end,
                .data = &question,
        };

        error_raise(&question.err, ERROR_INTERNAL, "it said something else");
        uv_loop_init(&question.loop);
        uv_timer_init(&question.loop, &question.deadline);
        if (lines_connect(&question.lines, &question.loop, path, &options, &question.err) == 0) {
                uv_timer_start(&question.deadline, on_deadline, PATIENCE_MS, 0);
                lines_send(question.lines, text, strlen(text));
        } else {
                uv_close((uv_handle_t *)&question.deadline, NULL);
        }
        uv_run(&question.loop, UV_RUN_DEFAULT);
        uv_loop_close(&question.loop);
        *err = question.err;
        return question.status;
}

static bool wants_colours(void)
{
        const char *no = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && !(no && *no);
}

static void print(const struct mps_status *status, const char *output)
{
        struct strbuf text = STRBUF_INIT;
        _free_ char *other = NULL;

        if (strcmp(output, "json") == 0)
                other = mps_status_print(status);
        else if (strcmp(output, "metrics") == 0)
                other = mps_status_metrics(status);
        else if (status->n_daemons == 0)
                other = xstrdup("no MPS daemon is wanted on this node\n");
        else
                mps_table_print(&text, status, (int64_t)time(NULL), wants_colours());
        fputs(other ? other : text.data, stdout);
        strbuf_done(&text);
}

static int show(const char *root, const char *output)
{
        struct mps_status *status;
        struct error err;
        bool is_good;

        status = ask(root, &err);
        if (!status) {
                fprintf(stderr, "no MPS supervisor with '%s': %s\n", root, err.text);
                return EXIT_FAILED;
        }
        print(status, output);
        is_good = mps_table_is_good(status);
        mps_status_free(status);
        return is_good ? 0 : EXIT_FAILED;
}

int mps_command_status(int argc, char **argv)
{
        struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct strbuf text = STRBUF_INIT;
        struct option_set set;
        struct error err;
        int status = 0;

        if (command_line_parse(&line, &set, values, &arena, argc, argv, environ, &err) < 0) {
                fprintf(stderr, "warpshare mps status: %s\n", err.text);
                status = EXIT_USAGE;
        } else if (set.help) {
                strbuf_puts(&text, help);
                command_line_print_help(&line, &text);
                fputs(text.data, stdout);
        } else {
                status = show(command_line_get(&set, "mps-directory"), values[0]);
        }
        strbuf_done(&text);
        arena_done(&arena);
        return status;
}
