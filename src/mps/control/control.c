// SPDX-License-Identifier: Apache-2.0
/*
 * A queue of questions; only the first one has a running front end. The next question starts from a timer of the loop,
 * so that no callback is called from inside mps_control_ask() or from inside another callback.
 */
#include "mps/control/control.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "base/io/child.h"
#include "plan/mps_wanted.h"

#define SERVER "nvidia-cuda-mps-server"
#define NO_DAEMON "Cannot find MPS control daemon process"
#define NOT_SENT "Cannot send command to MPS control daemon process"
#define REFUSED_PAUSE_MS UINT64_C(20)
#define EXHAUSTED_PAUSE_MS UINT64_C(500)
/*
 * This question always has an answer: a number with decimals. It is sent after a command that may have no answer,
 * and its own answer proves that the daemon accepted both, and is where the next command's answer begins.
 */
#define PROOF "get_default_active_thread_percentage"
#define WORDS_MAX ((size_t)8) /* of a v3 command */
#define SHOWN 160             /* bytes of an answer that an error shows */

struct question {
        struct list link;
        struct arena arena;
        const char *words;   /* v3: the arguments of the program; NULL: none */
        const char *command; /* the older interface: the first command; NULL: none */
        const char *input;   /* all commands, as the front end reads them; NULL: none */
        bool is_proven;      /* PROOF is sent after each */
        size_t n_commands;   /* with |all_done| */
        mps_answers_fn *all_done;
        mps_answer_fn *done; /* without it */
        void *data;
        uint64_t since; /* when it was first sent, by the loop's clock; 0: not yet */
};

struct mps_control {
        uv_timer_t turn; /* starts the next question; while the first one has a child, measures |slow| */
        struct arena arena;
        struct list questions;
        struct child *child;                /* of the first question, or NULL */
        struct mps_control_options options; /* with copies of the texts, and all of the environment */
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- finding the program ---- */

/* Where distributions, NVIDIA's driver container and GKE's installer put the driver's programs. */
static const char *const usual_places[] = {
        "/usr/bin",
        "/usr/sbin",
        "/bin",
        "/sbin",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/usr/local/nvidia/bin",
        "/run/nvidia/driver/usr/bin",
        "/run/nvidia/driver/usr/sbin",
        "/home/kubernetes/bin/nvidia/bin",
};

/* |path|; if NULL, the PATH of this process; "" if that is not set. */
static const char *path_or_own(const char *path)
{
        const char *own = path ? path : getenv("PATH");

        return own ? own : "";
}

/* |path| and the usual installation folders below |root|; the caller frees. */
static char *join_places(const char *path, const char *root)
{
        struct strbuf text = STRBUF_INIT;

        strbuf_puts(&text, path);
        for (size_t i = 0; i < ARRAY_SIZE(usual_places); i++)
                strbuf_printf(&text, "%s%s%s", text.size ? ":" : "", root, usual_places[i]);
        return strbuf_take(&text);
}

/* |path| with the folder of |program| in front; the caller frees. */
static char *join_folder(const char *program, const char *path)
{
        _free_ char *folder = file_folder(program);

        return xasprintf("%s%s%s", folder, *path ? ":" : "", path);
}

char *mps_control_search_path(const char *program, const char *path, const char *root)
{
        _free_ char *near = join_folder(program, path);

        return join_places(near, root);
}

enum found { FOUND_NOT, FOUND_NO_PROGRAM, FOUND_PROGRAM };

static enum found check_answer(const char *path)
{
        struct stat status;

        if (stat(path, &status) < 0)
                return FOUND_NOT;
        return S_ISREG(status.st_mode) && access(path, X_OK) == 0 ? FOUND_PROGRAM : FOUND_NO_PROGRAM;
}

/*
 * The first executable |name| in |places|; if there is none, the first file of that name that is not executable. The
 * caller frees |*ret|.
 */
static enum found look_up(char **ret, const char *name, const char *places)
{
        char *first = NULL;

        while (*places) {
                size_t length = strcspn(places, ":");
                char *path = xasprintf("%.*s/%s", (int)length, places, name);
                enum found found = length ? check_answer(path) : FOUND_NOT;

                if (found == FOUND_PROGRAM) {
                        free(first);
                        *ret = path;
                        return FOUND_PROGRAM;
                }
                if (found == FOUND_NO_PROGRAM && !first)
                        first = TAKE_PTR(path);
                free(path);
                places += length + (places[length] == ':');
        }
        if (first)
                *ret = first;
        return first ? FOUND_NO_PROGRAM : FOUND_NOT;
}

/* |program|: a path, or a name that is looked up. */
static int control_find_program(char **ret, const char *program, const char *path, const char *root, struct error *err)
{
        const bool is_path = strchr(program, '/');
        _free_ char *places = join_places(path, root);
        _free_ char *found = is_path ? xstrdup(program) : NULL;

        switch (is_path ? check_answer(program) : look_up(&found, program, places)) {
        case FOUND_NOT:
                if (is_path)
                        return error_set(err, ERROR_NOT_FOUND, "there is no '%s'", program);
                return error_set(err, ERROR_NOT_FOUND,
                        "there is no %s in the PATH (%s), nor in the usual places below '%s': it comes with NVIDIA's "
                        "driver, on some systems as a package of its own; set --mps-control where it is elsewhere",
                        program, path, *root ? root : "/");
        case FOUND_NO_PROGRAM:
                return error_set(err, ERROR_DENIED,
                        "'%s' is no program that may be executed: see its mode, and whether its file system is mounted "
                        "noexec",
                        found);
        case FOUND_PROGRAM:
                break;
        }
        *ret = TAKE_PTR(found);
        return 0;
}

int mps_control_find(char **ret, const char *program, const char *path, const char *root, struct error *err)
{
        _free_ char *control = NULL;
        _free_ char *server = NULL;
        _free_ char *near = NULL;

        path = path_or_own(path);
        if (control_find_program(&control, program, path, root, err) < 0)
                return error_prefix(err, "MPS control program");
        near = join_folder(control, path);
        if (control_find_program(&server, SERVER, near, root, err) < 0)
                return error_prefix(err, "MPS server, without which every client waits for ever");
        *ret = TAKE_PTR(control);
        return 0;
}

/* ---- the queue ---- */

static void free_question(struct question *question)
{
        struct arena arena = question->arena; /* the queue entry of the question */

        arena_done(&arena);
}

static void on_control_turn(uv_timer_t *turn);

static void control_go_on(struct mps_control *control)
{
        if (!control->child && !list_is_empty(&control->questions))
                uv_timer_start(&control->turn, on_control_turn, 0, 0);
}

/* ---- answers ---- */

/* The command that was sent, for error messages. */
static char *words_of(const struct question *question)
{
        const char *words = question->words ? question->words : question->command;

        return xasprintf("%.*s", (int)strcspn(words, "\n"), words);
}

static bool is_percentage(const char *line)
{
        const size_t digits = strspn(line, "0123456789");

        const size_t decimals = line[digits] == '.' ? strspn(line + digits + 1, "0123456789") : 0;

        return digits && decimals && !line[digits + 1 + decimals];
}

/* Removes the answer to PROOF from the end. False: there is none. */
static bool take_proof(char *answer)
{
        char *last = strrchr(answer, '\n');

        if (!is_percentage(last ? last + 1 : answer))
                return false;
        *(last ? last : answer) = '\0';
        return true;
}

/* Ends each answer where its proof begins; returns how many there are. */
static size_t split_answers(char *answer, const char **answers, size_t n_answers)
{
        char *start = answer;
        size_t count = 0;

        for (char *line = answer, *next; line && count < n_answers; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = '\0';
                if (is_percentage(line)) {
                        if (line > start)
                                line[-1] = '\0';
                        *line = '\0';
                        answers[count++] = start;
                        start = next;
                } else if (next) {
                        next[-1] = '\n';
                }
        }
        return count;
}

/*
 * Ends a question. It leaves the queue and the next one is scheduled before |done| is called, since |done| may ask
 * again or close the control.
 */
static void control_finish(struct mps_control *control, const struct error *err, char *answer)
{
        struct question *question = container_of(control->questions.next, struct question, link);
        const char *answers[MPS_ASK_MAX] = {NULL};
        const size_t count = err ? question->n_commands : split_answers(answer, answers, question->n_commands);
        struct error problem;

        list_remove(&question->link);
        control_go_on(control);
        if (count < question->n_commands) {
                error_raise(&problem, ERROR_UNAVAILABLE,
                        "'%s': the MPS control daemon in '%s' answered %zu of %zu commands, then broke off",
                        question->command, control->options.pipe_directory, count, question->n_commands);
                err = &problem;
        }
        if (question->all_done)
                question->all_done(err, err ? NULL : answers, question->data);
        else
                question->done(err, answer, question->data);
        free_question(question);
}

/*
 * True if the daemon closed the front end's connection because it serves another front end. The front end then prints
 * an error or nothing, with any exit status. If there is an answer but no proof, the daemon did accept the command and
 * ended after it.
 */
static bool is_refused(const struct question *question, const struct child_result *result, char *answer)
{
        if (result->timed_out || result->signal || result->too_long)
                return false;
        if (result->status == 1)
                return strstr(answer, NOT_SENT) || (question->command && !*answer);
        if (result->status || !question->command)
                return false;
        if (question->all_done)
                return !*answer;
        return question->is_proven ? !take_proof(answer) && !*answer
                                   : strcmp(question->command, PROOF) == 0 && !*answer;
}

/* Interprets the end of the front end; 0: |answer| is the answer. */
static int control_check_end(const struct mps_control *control, const char *words, const struct child_result *result,
        const char *answer, bool refused, struct error *err)
{
        if (result->timed_out)
                return error_set(err, ERROR_TIMEOUT,
                        "'%s': the MPS control daemon in '%s' did not answer within %llu ms", words,
                        control->options.pipe_directory, (unsigned long long)control->options.timeout_ms);
        if (result->too_long)
                return error_set(err, ERROR_INVALID,
                        "'%s': the MPS control daemon in '%s' answered with more than %zu bytes", words,
                        control->options.pipe_directory, MPS_ANSWER_MAX);
        if (refused)
                return error_set(err, ERROR_UNAVAILABLE, "'%s': the MPS control daemon in '%s' has another front end",
                        words, control->options.pipe_directory);
        if (result->status == 1 && strstr(answer, NO_DAEMON))
                return error_set(err, ERROR_NOT_FOUND, "'%s': no MPS control daemon answers in '%s'", words,
                        control->options.pipe_directory);
        if (result->signal)
                return error_set(err, ERROR_UNAVAILABLE, "'%s': '%s' was ended by signal %d: %.*s", words,
                        control->options.program, result->signal, SHOWN, answer);
        if (result->status)
                return error_set(err, ERROR_UNAVAILABLE, "'%s': '%s' ended with status %d: %.*s", words,
                        control->options.program, result->status, SHOWN, answer);
        return 0;
}

static void on_child_end(const struct child_result *result, void *data)
{
        struct mps_control *control = data;
        const struct question *question = container_of(control->questions.next, struct question, link);
        const uint64_t age = uv_now(control->turn.loop) - question->since;
        _free_ char *words = words_of(question);
        _free_ char *answer = xstrdup(result->output);
        struct error err;
        size_t length = strlen(answer);
        bool refused;

        control->child = NULL;
        uv_timer_stop(&control->turn);
        if (length && answer[length - 1] == '\n')
                answer[length - 1] = '\0';
        refused = is_refused(question, result, answer);
        if (refused && age < control->options.timeout_ms) {
                uv_timer_start(&control->turn, on_control_turn, REFUSED_PAUSE_MS, 0);
                if (control->options.refused)
                        control->options.refused(control->options.data);
        } else if (control_check_end(control, words, result, answer, refused, &err) < 0) {
                control_finish(control, &err, NULL);
        } else {
                control_finish(control, NULL, answer);
        }
}

/* ---- questions ---- */

static int control_start(struct mps_control *control, const struct question *question, struct error *err)
{
        struct child_options options = {
                .environment = control->options.environment,
                .input = question->input,
                .input_length = question->input ? strlen(question->input) : 0,
                .output_limit = MPS_ANSWER_MAX,
                .timeout_ms = control->options.timeout_ms,
                .on_end = on_child_end,
                .data = control,
        };
        _free_ char *words = xstrdup(question->words ? question->words : "");
        const char *argv[WORDS_MAX + 2] = {control->options.program};
        size_t count = 1;
        char *rest = NULL;

        if (question->command && strchr(question->command, '\n'))
                return error_set(err, ERROR_INVALID, "an MPS command has to be one line");
        for (char *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
                assert(count <= WORDS_MAX);
                argv[count++] = word;
        }
        options.argv = argv;
        return child_run(&control->child, control->turn.loop, &options, err);
}

static void on_slow(uv_timer_t *turn)
{
        struct mps_control *control = turn->data;

        control->options.slow(control->options.data);
}

static void on_control_turn(uv_timer_t *turn)
{
        struct mps_control *control = turn->data;
        struct question *question = container_of(control->questions.next, struct question, link);
        struct error err;

        if (!question->since)
                question->since = MAX(uv_now(turn->loop), 1);
        if (control_start(control, question, &err) < 0) {
                _free_ char *words = words_of(question);

                if (err.kind == ERROR_EXHAUSTED && uv_now(turn->loop) - question->since < control->options.timeout_ms) {
                        uv_timer_start(turn, on_control_turn, EXHAUSTED_PAUSE_MS, 0);
                        return;
                }

                error_raise_prefix(&err, "'%s'", words);
                control_finish(control, &err, NULL);
        } else if (control->options.slow) {
                uv_timer_start(turn, on_slow, MPS_SLOW_MS, 0);
        }
}

static struct question *add_question(struct mps_control *control, mps_answer_fn *done, void *data)
{
        struct arena arena = ARENA_INIT;
        struct question *question = ARENA_NEW(&arena, struct question);

        question->arena = arena;
        question->done = done;
        question->data = data;
        list_append(&control->questions, &question->link);
        return question;
}

void mps_control_ask(struct mps_control *control, const char *command, mps_answer_fn *done, void *data)
{
        struct question *question = add_question(control, done, data);

        question->command = arena_strdup(&question->arena, command);
        question->is_proven = strcmp(command, PROOF) != 0 && !text_starts_with(command, "quit");
        question->input = arena_printf(&question->arena, "%s\n%s", command, question->is_proven ? PROOF "\n" : "");
        control_go_on(control);
}

void mps_control_ask_all(
        struct mps_control *control, const char *const *commands, size_t n_commands, mps_answers_fn *done, void *data)
{
        _cleanup_(strbuf_done) struct strbuf input = STRBUF_INIT;
        struct question *question = add_question(control, NULL, data);

        assert(n_commands > 0 && n_commands <= MPS_ASK_MAX);
        for (size_t i = 0; i < n_commands; i++) {
                assert(strlen(commands[i]) <= MPS_COMMAND_MAX && !strchr(commands[i], '\n'));
                strbuf_printf(&input, "%s\n" PROOF "\n", commands[i]);
        }
        question->command = arena_strdup(&question->arena, commands[0]);
        question->input = arena_strdup(&question->arena, input.data);
        question->n_commands = n_commands;
        question->all_done = done;
        control_go_on(control);
}

void mps_control_run(struct mps_control *control, const char *words, mps_answer_fn *done, void *data)
{
        struct question *question = add_question(control, done, data);

        question->words = arena_strdup(&question->arena, words);
        control_go_on(control);
}

/* ---- start and end ---- */

static const char *const *control_make_environment(struct arena *arena, const struct mps_control_options *options)
{
        static const char *const none[] = {NULL};
        const char *const *more = options->environment ? options->environment : none;
        const char **all;
        size_t count = 0;

        while (more[count])
                count++;
        all = ARENA_ARRAY(arena, const char *, count + 4);
        all[0] = arena_printf(arena, "PATH=%s", path_or_own(options->path));
        all[1] = arena_printf(arena, "CUDA_MPS_PIPE_DIRECTORY=%s", options->pipe_directory);
        all[2] = arena_printf(arena, "CUDA_MPS_LOG_DIRECTORY=%s", options->log_directory);
        for (size_t i = 0; i < count; i++)
                all[3 + i] = arena_strdup(arena, more[i]);
        return all;
}

int mps_control_new(struct mps_control **ret, const struct mps_control_options *options, struct error *err)
{
        struct mps_control *control;
        int rc;

        if (options->pipe_directory[0] != '/')
                return error_set(err, ERROR_INVALID, "MPS pipe directory '%s': must be an absolute path",
                        options->pipe_directory);
        if (strlen(options->pipe_directory) > MPS_PIPE_PATH_MAX)
                return error_set(err, ERROR_INVALID,
                        "MPS pipe directory '%s': %zu bytes, at most %zu leave room for the sockets in it",
                        options->pipe_directory, strlen(options->pipe_directory), MPS_PIPE_PATH_MAX);
        control = xcalloc(1, sizeof(*control));
        rc = uv_timer_init(options->loop, &control->turn);
        assert(rc == 0);
        control->turn.data = control;
        list_init(&control->questions);
        control->options = *options;
        control->options.program = arena_strdup(&control->arena, options->program);
        control->options.pipe_directory = arena_strdup(&control->arena, options->pipe_directory);
        control->options.environment = control_make_environment(&control->arena, options);
        control->options.log_directory = NULL; /* it is in the environment */
        control->options.timeout_ms = options->timeout_ms ? options->timeout_ms : MPS_COMMAND_TIMEOUT_MS;
        *ret = control;
        return 0;
}

static void on_control_turn_closed(uv_handle_t *handle)
{
        struct mps_control *control = handle->data;
        void (*closed)(void *data) = control->closed;
        void *data = control->closed_data;

        arena_done(&control->arena);
        free(control);
        if (closed)
                closed(data);
}

void mps_control_close(struct mps_control *control, void (*closed)(void *data), void *data)
{
        if (control->child)
                child_cancel(TAKE_PTR(control->child));
        while (!list_is_empty(&control->questions)) {
                struct question *question = container_of(control->questions.next, struct question, link);

                list_remove(&question->link);
                free_question(question);
        }
        control->closed = closed;
        control->closed_data = data;
        uv_close((uv_handle_t *)&control->turn, on_control_turn_closed);
}
