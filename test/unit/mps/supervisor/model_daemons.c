// SPDX-License-Identifier: Apache-2.0
#include "model_daemons.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/list.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "mps/control/control.h"
#include "mps/control/dialogue.h"

struct model_daemons daemons;

static const char *const doors[] = {"control", "control_privileged", "control_lock"};

/* ---- the processes ---- */

static void note_wrong(const char *what)
{
        if (!daemons.wrong)
                daemons.wrong = what;
}

struct model_daemon *model_daemon_at(const char *pipe)
{
        for (size_t i = 0; i < daemons.n_all; i++)
                if (daemons.all[i].is_alive && strcmp(daemons.all[i].pipe, pipe) == 0)
                        return &daemons.all[i];
        return NULL;
}

struct model_daemon *model_daemon_of_unit(const char *unit)
{
        for (size_t i = 0; i < daemons.n_all; i++)
                if (daemons.all[i].is_alive && strstr(daemons.all[i].units, unit))
                        return &daemons.all[i];
        return NULL;
}

struct model_daemon *model_daemon_started(uint64_t start_time)
{
        for (size_t i = 0; i < daemons.n_all; i++)
                if (daemons.all[i].is_alive && daemons.all[i].start_time == start_time)
                        return &daemons.all[i];
        return NULL;
}

struct model_daemon *model_daemon_of_client(pid_t pid)
{
        for (size_t i = 0; i < daemons.n_all; i++)
                for (size_t j = 0; j < daemons.all[i].n_clients; j++)
                        if (daemons.all[i].is_alive && daemons.all[i].clients[j] == pid)
                                return &daemons.all[i];
        return NULL;
}

static int open_door(const char *pipe, size_t position)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        _free_ char *path = xasprintf("%s/%s", pipe, doors[position]);
        int fd;

        if (position == 2)
                return open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 1024), 0);
        return fd;
}

void model_daemon_replace_door(struct model_daemon *daemon)
{
        _free_ char *path = xasprintf("%s/%s", daemon->pipe, doors[2]);
        _free_ char *other = xasprintf("%s.new", path);
        FILE *file = fopen(other, "w");

        fclose(file);
        rename(other, path);
        daemon->is_disturbed = true;
}

pid_t model_daemon_join(struct model_daemon *daemon)
{
        if (daemon->n_clients == MODEL_CLIENTS || daemon->is_hung || daemon->is_fault)
                return 0;
        if (!daemon->server)
                daemon->server = daemons.next_pid++;
        daemon->joined[daemon->n_clients] = uv_now(daemons.loop);
        return daemon->clients[daemon->n_clients++] = daemons.next_pid++;
}

void model_daemon_leave(struct model_daemon *daemon, size_t client)
{
        daemon->clients[client] = daemon->clients[--daemon->n_clients];
        daemon->joined[client] = daemon->joined[daemon->n_clients];
        daemon->is_fault = daemon->is_fault && daemon->n_clients > 0;
}

/* ---- mps/supervisor/launch.h ---- */

struct mps_launch {
        uv_timer_t timer;
        struct model_daemon *daemon;
        uint64_t start_time;
        bool is_adopted;
        int signal;
        mps_exit_fn *exited;
        void *data;
};

static void on_exit_noticed(uv_timer_t *timer)
{
        struct mps_launch *launch = timer->data;

        launch->exited(launch->signal ? -1 : 1, launch->signal, launch->data);
}

static void end_daemon(struct model_daemon *daemon, int signal)
{
        daemon->is_alive = false;
        daemon->n_clients = 0;
        daemon->server = 0;
        for (size_t i = 0; i < ARRAY_SIZE(doors); i++)
                close(daemon->doors[i]);
        if (!daemon->launch)
                return;
        daemon->launch->signal = signal;
        uv_timer_start(&daemon->launch->timer, on_exit_noticed, 0, 0);
}

void model_daemon_die(struct model_daemon *daemon)
{
        end_daemon(daemon, SIGSEGV);
}

static struct mps_launch *watch(
        struct model_daemon *daemon, bool is_adopted, uv_loop_t *loop, mps_exit_fn *exited, void *data)
{
        struct mps_launch *launch = xcalloc(1, sizeof(*launch));

        *launch = (struct mps_launch){.daemon = daemon,
                .start_time = daemon->start_time,
                .is_adopted = is_adopted,
                .exited = exited,
                .data = data};
        uv_timer_init(loop, &launch->timer);
        launch->timer.data = launch;
        daemon->launch = launch;
        return launch;
}

static const char *value_of(const char *const *environment, const char *name)
{
        for (size_t i = 0; environment[i]; i++)
                if (text_starts_with(environment[i], name) && environment[i][strlen(name)] == '=')
                        return environment[i] + strlen(name) + 1;
        return "";
}

int mps_launch_start(struct mps_launch **ret, const struct mps_launch_options *options, struct error *err)
{
        struct model_daemon *daemon = &daemons.all[daemons.n_all++];
        const char *units = value_of(options->environment, "CUDA_VISIBLE_DEVICES");

        assert_true(daemons.n_all < MODEL_DAEMONS);
        if (daemons.fails_to_start) {
                daemons.n_all--;
                return error_set(err, ERROR_UNAVAILABLE, "no memory");
        }
        for (size_t i = 0; i < daemons.n_all - 1; i++)
                if (daemons.all[i].is_alive &&
                        (strstr(daemons.all[i].units, units) || strstr(units, daemons.all[i].units)))
                        note_wrong("a daemon starts on a unit that another one serves");
        *daemon = (struct model_daemon){.is_alive = true, .start_time = 1000 + daemons.n_all, .permille = 1000};
        snprintf(daemon->pipe, sizeof(daemon->pipe), "%s", value_of(options->environment, "CUDA_MPS_PIPE_DIRECTORY"));
        snprintf(daemon->units, sizeof(daemon->units), "%s", units);
        for (size_t i = 0; i < ARRAY_SIZE(doors); i++)
                daemon->doors[i] = open_door(daemon->pipe, i);
        for (size_t i = 0; i < MODEL_UNITS; i++)
                daemon->is_disturbed |= daemons.is_lost[i];
        for (size_t i = 0; options->argv[i]; i++)
                daemon->has_partitions |= strcmp(options->argv[i], "-S") == 0;
        daemons.n_started++;
        *ret = watch(daemon, false, options->loop, options->exited, options->data);
        return 0;
}

int mps_launch_adopt(struct mps_launch **ret, uv_loop_t *loop, pid_t pid UNUSED, uint64_t start_time,
        mps_exit_fn *exited, void *data, struct error *err)
{
        struct model_daemon *daemon = model_daemon_started(start_time);

        if (!daemon)
                return error_set(err, ERROR_NOT_FOUND, "it has ended");
        *ret = watch(daemon, true, loop, exited, data);
        return 0;
}

pid_t mps_launch_pid(const struct mps_launch *launch)
{
        return launch ? getpid() : 0;
}

uint64_t mps_launch_start_time(const struct mps_launch *launch)
{
        return launch ? launch->start_time : 0;
}

bool mps_launch_is_adopted(const struct mps_launch *launch)
{
        return launch && launch->is_adopted;
}

void mps_launch_kill(struct mps_launch *launch)
{
        struct model_daemon *daemon = launch->daemon;

        if (!daemon->is_alive || daemon->start_time != launch->start_time)
                return;
        if (daemon->n_clients > 0 && !daemon->is_disturbed)
                note_wrong("a daemon with clients is killed that had no fault");
        if (!daemon->ends_never)
                end_daemon(daemon, SIGKILL);
        daemon->ends_never = false;
}

static void free_launch(uv_handle_t *handle)
{
        free(handle->data);
}

struct mps_launch *mps_launch_forget(struct mps_launch *launch)
{
        if (!launch)
                return NULL;
        if (launch->daemon->launch == launch)
                launch->daemon->launch = NULL;
        uv_close((uv_handle_t *)&launch->timer, free_launch);
        return NULL;
}

/* ---- what the daemon answers ---- */

#define LOOK_MS 100

static void put_pids(struct strbuf *answer, const pid_t *pids, size_t count)
{
        for (size_t i = 0; i < count; i++)
                strbuf_printf(answer, "%s%d", i ? "\n" : "", (int)pids[i]);
}

static void put_limit(struct strbuf *answer, uint64_t mib)
{
        if (mib >= 1024)
                strbuf_printf(answer, "%" PRIu64 "G", mib / 1024);
        else if (mib)
                strbuf_printf(answer, "%" PRIu64 "M", mib);
}

static void add_partition(struct model_daemon *daemon, struct strbuf *answer, const char *unit, unsigned int chunks)
{
        unsigned int used = 0;

        for (size_t i = 0; i < daemon->n_partitions; i++)
                used += strcmp(daemon->partitions[i].unit, unit) == 0 ? daemon->partitions[i].chunks : 0;
        if (!daemon->has_partitions || used + chunks > MODEL_CHUNKS || daemon->n_partitions == MODEL_PARTITIONS) {
                strbuf_printf(answer, "Failed to create partition");
                return;
        }
        daemon->partitions[daemon->n_partitions] = (struct model_partition){.chunks = chunks};
        snprintf(daemon->partitions[daemon->n_partitions].unit, sizeof(daemon->partitions->unit), "%s", unit);
        snprintf(daemon->partitions[daemon->n_partitions].id, sizeof(daemon->partitions->id), "%s/p%d", unit,
                (int)daemons.next_pid++);
        strbuf_printf(answer, "Partition %s created", daemon->partitions[daemon->n_partitions++].id);
}

/* |id| is what stands behind the UUID. */
static void remove_partition(struct model_daemon *daemon, struct strbuf *answer, const char *unit, const char *id)
{
        _free_ char *whole = xasprintf("%s/%s", unit, id);

        for (size_t i = 0; i < daemon->n_partitions; i++)
                if (strcmp(daemon->partitions[i].id, whole) == 0) {
                        daemon->partitions[i] = daemon->partitions[--daemon->n_partitions];
                        return;
                }
        strbuf_printf(answer, "Partition %s not found", id);
}

static void list_partitions(const struct model_daemon *daemon, struct strbuf *answer)
{
        strbuf_puts(answer, "GPU  Partition  free  used  free  used  clients\n  chunks  chunks  SM  SM");
        for (size_t i = 0; i < daemon->n_partitions; i++)
                strbuf_printf(answer, "\n%.12s %s - %u - - -", daemon->partitions[i].unit,
                        strchr(daemon->partitions[i].id, '/') + 1, daemon->partitions[i].chunks);
}

static void terminate(struct model_daemon *daemon, struct strbuf *answer, pid_t client)
{
        for (size_t i = 0; i < daemon->n_clients; i++)
                if (daemon->clients[i] == client) {
                        model_daemon_leave(daemon, i);
                        daemons.n_terminated++;
                        strbuf_printf(answer, "0");
                        return;
                }
        strbuf_printf(answer, "Client not found");
}

/* Who came between the supervisor's last look and this is nobody's fault. */
static void quit(struct model_daemon *daemon, bool ends_clients)
{
        for (size_t i = 0; i < daemon->n_clients && !ends_clients; i++)
                if (uv_now(daemons.loop) - daemon->joined[i] > LOOK_MS)
                        note_wrong("a daemon with clients is told to quit");
        daemon->is_disturbed |= daemon->ends_never;
        if (!daemon->ends_never)
                end_daemon(daemon, 0);
}

static void shut_server(struct model_daemon *daemon)
{
        if (daemon->n_clients > 0 && !daemon->is_fault)
                note_wrong("a server with clients is shut down that had no fault");
        daemon->n_clients = 0;
        daemon->server = 0;
        daemon->is_fault = false;
}

static void answer_v2(struct model_daemon *daemon, const char *command, struct strbuf *answer)
{
        char word[64] = "", unit[64] = "", id[64] = "";
        unsigned int a = 0, b = 0;
        double number = 0;
        int server = 0;

        if (strcmp(command, "get_default_active_thread_percentage") == 0)
                strbuf_printf(answer, "%u.%u", daemon->permille / 10, daemon->permille % 10);
        else if (sscanf(command, "set_default_active_thread_percentage %lf", &number) == 1)
                daemon->permille = daemon->refuses ? daemon->permille : (unsigned int)(number * 10 + 0.5);
        else if (sscanf(command, "set_default_device_pinned_mem_limit %u %uM", &a, &b) == 2 && a < MODEL_UNITS)
                daemon->limit_mib[a] = daemon->refuses ? daemon->limit_mib[a] : b;
        else if (sscanf(command, "get_default_device_pinned_mem_limit %u", &a) == 1 && a < MODEL_UNITS)
                put_limit(answer, daemon->limit_mib[a]);
        else if (sscanf(command, "get_active_thread_percentage %d", &server) == 1 && server == daemon->server)
                strbuf_printf(answer, "%u.%u", daemon->permille / 10, daemon->permille % 10);
        else if (sscanf(command, "get_device_pinned_mem_limit %d %u", &server, &a) == 2 && server == daemon->server)
                put_limit(answer, a < MODEL_UNITS ? daemon->limit_mib[a] : 0);
        else if (strcmp(command, "get_server_list") == 0)
                put_pids(answer, &daemon->server, daemon->server != 0);
        else if (sscanf(command, "get_client_list %d", &server) == 1 && server == daemon->server)
                put_pids(answer, daemon->clients, daemon->n_clients);
        else if (sscanf(command, "get_server_status %d", &server) == 1 && server == daemon->server)
                strbuf_printf(answer, "%s", daemon->is_fault ? "FAULT" : "ACTIVE");
        else if (sscanf(command, "terminate_client %d %u", &server, &a) == 2 && server == daemon->server)
                terminate(daemon, answer, (pid_t)a);
        else if (sscanf(command, "sm_partition add %63s %u", unit, &a) == 2)
                add_partition(daemon, answer, unit, a);
        else if (sscanf(command, "sm_partition rm %63s %63s", unit, id) == 2)
                remove_partition(daemon, answer, unit, id);
        else if (strcmp(command, "lspart") == 0)
                list_partitions(daemon, answer);
        else if (sscanf(command, "shutdown_server %d", &server) == 1)
                shut_server(daemon);
        else if (sscanf(command, "quit%63s", word) == 1 || strcmp(command, "quit") == 0 ||
                 text_starts_with(command, "quit -t"))
                quit(daemon, command[4] != '\0');
        else if (sscanf(command, "%*s %d", &server) == 1)
                strbuf_printf(answer, "Server %d not found", server);
        else if (strcmp(command, "get_device_client_list") == 0)
                strbuf_printf(answer, "Unknown command");
}

/* ---- mps/control/control.h ---- */

#define TIMEOUT_MS 10000

struct question {
        struct list link;
        char *commands[MPS_ASK_MAX];
        size_t n_commands;
        mps_answer_fn *done;      /* or */
        mps_answers_fn *all_done; /* of several */
        void *data;
};

struct mps_control {
        uv_timer_t timer;
        char *pipe;
        struct list questions;
        void (*closed)(void *data);
        void *closed_data;
};

int mps_control_find(
        char **ret, const char *program, const char *path UNUSED, const char *root UNUSED, struct error *err UNUSED)
{
        *ret = xstrdup(program);
        return 0;
}

char *mps_control_search_path(const char *program UNUSED, const char *path UNUSED, const char *root UNUSED)
{
        return xstrdup("/usr/bin");
}

int mps_control_new(struct mps_control **ret, const struct mps_control_options *options, struct error *err UNUSED)
{
        struct mps_control *control = xcalloc(1, sizeof(*control));

        control->pipe = xstrdup(options->pipe_directory);
        list_init(&control->questions);
        uv_timer_init(options->loop, &control->timer);
        control->timer.data = control;
        *ret = control;
        return 0;
}

static void free_question(struct question *question)
{
        list_remove(&question->link);
        for (size_t i = 0; i < question->n_commands; i++)
                free(question->commands[i]);
        free(question);
}

static void ask_next(struct mps_control *control);

/* The answer to each command, or an error. */
static void answer(const char *pipe, const struct question *question, struct strbuf *answers, struct error *err)
{
        err->kind = ERROR_NONE;
        for (size_t i = 0; i < question->n_commands && err->kind == ERROR_NONE; i++) {
                struct model_daemon *daemon = model_daemon_at(pipe);

                strbuf_printf(&answers[i], "%s", "");
                if (!daemon)
                        error_raise(err, ERROR_NOT_FOUND, "no daemon runs there");
                else if (daemon->is_hung)
                        error_raise(err, ERROR_TIMEOUT, "it does not answer");
                else if (daemon->is_rubbish)
                        strbuf_printf(&answers[i], "Segmentation fault\n%d\n-1\n99999999999999", (int)daemons.next_pid);
                else
                        answer_v2(daemon, question->commands[i], &answers[i]);
                if (daemon && err->kind == ERROR_NONE)
                        daemon->has_answered = true;
        }
}

static void on_answer_due(uv_timer_t *timer)
{
        struct mps_control *control = timer->data;
        struct question *first = container_of(control->questions.next, struct question, link);
        const struct question asked = *first;
        struct strbuf answers[MPS_ASK_MAX] = {STRBUF_INIT};
        const char *texts[MPS_ASK_MAX] = {NULL};
        struct error err;

        answer(control->pipe, first, answers, &err);
        for (size_t i = 0; i < asked.n_commands; i++)
                texts[i] = answers[i].data;
        free_question(first);
        ask_next(control);
        if (asked.done)
                asked.done(err.kind ? &err : NULL, err.kind ? NULL : texts[0], asked.data);
        else
                asked.all_done(err.kind ? &err : NULL, err.kind ? NULL : texts, asked.data);
        for (size_t i = 0; i < asked.n_commands; i++)
                strbuf_done(&answers[i]);
}

static void ask_next(struct mps_control *control)
{
        const struct model_daemon *daemon = model_daemon_at(control->pipe);

        if (!list_is_empty(&control->questions))
                uv_timer_start(&control->timer, on_answer_due, daemon && daemon->is_hung ? TIMEOUT_MS : 1, 0);
}

static struct question *add_question(
        struct mps_control *control, const char *const *commands, size_t n_commands, void *data)
{
        struct question *question = xcalloc(1, sizeof(*question));

        assert_true(n_commands > 0 && n_commands <= MPS_ASK_MAX);
        *question = (struct question){.n_commands = n_commands, .data = data};
        for (size_t i = 0; i < n_commands; i++)
                question->commands[i] = xstrdup(commands[i]);
        list_append(&control->questions, &question->link);
        if (!uv_is_active((uv_handle_t *)&control->timer))
                ask_next(control);
        return question;
}

void mps_control_ask(struct mps_control *control, const char *command, mps_answer_fn *done, void *data)
{
        add_question(control, &command, 1, data)->done = done;
}

void mps_control_ask_all(
        struct mps_control *control, const char *const *commands, size_t n_commands, mps_answers_fn *done, void *data)
{
        add_question(control, commands, n_commands, data)->all_done = done;
}

void mps_control_run(
        struct mps_control *control UNUSED, const char *words UNUSED, mps_answer_fn *done UNUSED, void *data UNUSED)
{
        fail_msg("interface 3 is not spoken here");
}

static void on_control_closed(uv_handle_t *handle)
{
        struct mps_control *control = handle->data;

        if (control->closed)
                control->closed(control->closed_data);
        free(control->pipe);
        free(control);
}

void mps_control_close(struct mps_control *control, void (*closed)(void *data), void *data)
{
        while (!list_is_empty(&control->questions))
                free_question(container_of(control->questions.next, struct question, link));
        control->closed = closed;
        control->closed_data = data;
        uv_close((uv_handle_t *)&control->timer, on_control_closed);
}

/* ---- begin and end ---- */

void model_daemons_begin(uv_loop_t *loop)
{
        memset(&daemons, 0, sizeof(daemons));
        daemons.loop = loop;
        daemons.next_pid = 100000;
}

void model_daemons_end(void)
{
        for (size_t i = 0; i < daemons.n_all; i++)
                if (daemons.all[i].is_alive)
                        end_daemon(&daemons.all[i], 0);
}
