// SPDX-License-Identifier: Apache-2.0
#include "supervisor_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"

#define PATIENCE_MS 60000U
#define TICK_MS 20U
#define CLIENTS_MAX 64U

/* Clients of the test that runs. */
static pid_t clients[CLIENTS_MAX];

/* ---- files ---- */

const char *rig_path(struct rig *rig, const char *format, ...)
{
        va_list args;
        char *text;

        va_start(args, format);
        text = arena_vprintf(&rig->arena, format, args);
        va_end(args);
        return text;
}

void rig_write(struct rig *rig UNUSED, const char *path, const char *text)
{
        struct error err;

        assert_ok(file_write(path, text, strlen(text), &err), &err);
}

char *rig_read(struct rig *rig, const char *path)
{
        struct strbuf content = STRBUF_INIT;
        struct error err;
        char *text;

        if (file_read(path, (size_t)1024 * 1024, &content, &err) < 0)
                strbuf_clear(&content);
        text = arena_strdup(&rig->arena, content.data);
        strbuf_done(&content);
        return text;
}

void rig_drive(struct rig *rig, const char *version, const char *first, const char *second)
{
        rig_write(rig, rig_path(rig, "%s/nvml.yaml", rig->root),
                rig_path(rig,
                        "driverVersion: %s\nprocessDirectory: %s/processes\ncomputeModeDirectory: %s/modes\ngpus:\n- {model: A100-40GB, uuid: " GPU_A
                        "%s}\n- {model: A100-40GB, uuid: " GPU_B "%s}\n",
                        version, rig->root, rig->root, first, second));
}

void rig_behave(struct rig *rig, const char *lines)
{
        rig_write(rig, rig_path(rig, "%s/mps.sim", rig->root),
                rig_path(rig,
                        "lifetime: 300\nowner: %d\ngpu: " GPU_A " sms=108 memory=40960 cc=8\ngpu: " GPU_B
                        " sms=108 memory=40960 cc=8\nprocess-directory: %s/processes\n%s",
                        (int)getpid(), rig->root, lines));
}

/* ---- the loop ---- */

static void on_timer(uv_timer_t *timer)
{
        uv_stop(timer->loop);
}

void rig_run_for(struct rig *rig, uint64_t ms)
{
        uv_timer_start(&rig->deadline, on_timer, ms, 0);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        uv_timer_stop(&rig->deadline);
}

static void describe(const struct rig *rig, struct strbuf *text)
{
        const struct mps_status *status = rig->supervisor ? mps_supervisor_status(rig->supervisor) : NULL;

        for (size_t i = 0; status && i < status->n_daemons; i++)
                strbuf_printf(text, "; %s is %s (%s), %zu clients", status->daemons[i].name,
                        mps_state_name(status->daemons[i].state),
                        status->daemons[i].reason ? status->daemons[i].reason : "-", status->daemons[i].n_clients);
}

void rig_wait(struct rig *rig, rig_condition *condition, const void *data, const char *what)
{
        const uint64_t end = uv_hrtime() + (uint64_t)PATIENCE_MS * 1000000;
        struct strbuf text = STRBUF_INIT;

        while (!condition(rig, data)) {
                if (uv_hrtime() > end) {
                        describe(rig, &text);
                        fail_msg("in vain: %s%s", what, text.data);
                }
                rig_run_for(rig, TICK_MS);
        }
        strbuf_done(&text);
}

/* ---- the supervisor ---- */

static void on_change(void *data)
{
        struct rig *rig = data;

        rig->changes++;
        uv_stop(&rig->loop);
}

static const char *need(const char *variable)
{
        const char *value = getenv(variable);

        if (!value)
                fail_msg("%s is not set: run this test by meson", variable);
        return value;
}

void rig_start(struct rig *rig)
{
        const char **environment = ARENA_ARRAY(&rig->arena, const char *, 2);
        const struct mps_supervisor_options options = {
                .loop = &rig->loop,
                .root = rig->mps,
                .control = rig->control,
                .path = "/usr/bin:/bin",
                .driver_root = rig->driver_root,
                .nvml_library = need("WARPSHARE_SIM_NVML"),
                .environment = environment,
                .sets_compute_mode = rig->sets_compute_mode,
                .grace_ms = rig->grace_ms,
                .poll_ms = rig->poll_ms,
                .command_ms = rig->command_ms,
                .system_root = rig->system_root,
                .on_change = on_change,
                .data = rig,
        };

        environment[0] = rig_path(rig, "WARPSHARE_MPS_SIM=%s/mps.sim", rig->root);
        rig->supervisor = mps_supervisor_new(&options);
}

static void on_closed(bool leaves_modes UNUSED, void *data)
{
        struct rig *rig = data;

        rig->supervisor = NULL;
}

static bool is_closed(struct rig *rig, const void *data UNUSED)
{
        return !rig->supervisor;
}

void rig_leave(struct rig *rig)
{
        mps_supervisor_leave(rig->supervisor, on_closed, rig);
        rig_wait(rig, is_closed, NULL, "the supervisor leaves");
}

void rig_close(struct rig *rig)
{
        mps_supervisor_close(rig->supervisor, 0, on_closed, rig);
        rig_wait(rig, is_closed, NULL, "the supervisor is closed");
}

struct mps_daemon_wanted rig_daemon(struct rig *rig, const char *uuid, uint64_t limit_mib)
{
        struct mps_unit *unit = ARENA_NEW(&rig->arena, struct mps_unit);

        *unit = (struct mps_unit){
                .uuid = uuid,
                .gpu_uuid = uuid,
                .index = "0",
                .name = "NVIDIA A100-PCIE-40GB",
                .memory = UINT64_C(40960) << 20,
                .replicas = 4,
                .sms = 108,
                .chunk_sms = 4,
                .limit_mib = limit_mib,
                .replica_mib = limit_mib,
                .clients = 48,
        };
        return (struct mps_daemon_wanted){
                .name = uuid,
                .resource = "nvidia.com/gpu",
                .provisioning = PROVISIONING_UNIFORM,
                .tier_limit = MPS_TIER_NAMESPACE,
                .threads_permille = 250,
                .units = unit,
                .n_units = 1,
        };
}

void rig_apply(struct rig *rig, const struct mps_daemon_wanted *daemons, size_t count)
{
        const struct mps_wanted wanted = {daemons, count};
        struct error err;

        assert_ok(mps_supervisor_apply(rig->supervisor, &wanted, 1, &err), &err);
}

void rig_apply_both(struct rig *rig)
{
        const struct mps_daemon_wanted daemons[] = {rig_daemon(rig, GPU_A, 8192), rig_daemon(rig, GPU_B, 1630)};

        rig_apply(rig, daemons, 2);
}

const struct mps_daemon_status *rig_status(struct rig *rig, const char *name)
{
        return rig->supervisor ? mps_status_find(mps_supervisor_status(rig->supervisor), name) : NULL;
}

struct expected {
        const char *name;
        enum mps_state state;
        size_t clients;
        pid_t pid;
};

static bool is_in_state(struct rig *rig, const void *data)
{
        const struct expected *expected = data;
        const struct mps_daemon_status *status = rig_status(rig, expected->name);

        return status ? status->state == expected->state : expected->state == MPS_OFF;
}

void rig_wait_for_state(struct rig *rig, const char *name, enum mps_state state)
{
        const struct expected expected = {.name = name, .state = state};

        rig_wait(rig, is_in_state, &expected, rig_path(rig, "%s becomes %s", name, mps_state_name(state)));
}

static bool has_clients(struct rig *rig, const void *data)
{
        const struct expected *expected = data;
        const struct mps_daemon_status *status = rig_status(rig, expected->name);

        return status && status->n_clients == expected->clients;
}

void rig_wait_for_clients(struct rig *rig, const char *name, size_t count)
{
        const struct expected expected = {.name = name, .clients = count};

        rig_wait(rig, has_clients, &expected, rig_path(rig, "%s has %zu clients", name, count));
}

static bool is_another(struct rig *rig, const void *data)
{
        const struct expected *expected = data;
        const struct mps_daemon_status *status = rig_status(rig, expected->name);

        return status && status->state == MPS_READY && status->pid != expected->pid;
}

void rig_wait_for_another(struct rig *rig, const char *name, pid_t pid)
{
        const struct expected expected = {.name = name, .pid = pid};

        rig_wait(rig, is_another, &expected, rig_path(rig, "another process of %s is ready", name));
}

void rig_start_both(struct rig *rig)
{
        rig_start(rig);
        rig_apply_both(rig);
        rig_wait_for_state(rig, GPU_A, MPS_READY);
        rig_wait_for_state(rig, GPU_B, MPS_READY);
}

/* ---- others ---- */

static pid_t run_program(
        const char *program, const char *option, const char *input, int output, const char *const *environment)
{
        const pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                const int in = open(input, O_RDONLY);
                char *argv[] = {strdup(program), option ? strdup(option) : NULL, NULL};
                char *variables[8] = {NULL};

                for (size_t i = 0; i < 7 && environment[i]; i++)
                        variables[i] = strdup(environment[i]);
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (in >= 0)
                        dup2(in, STDIN_FILENO);
                dup2(output, STDOUT_FILENO);
                dup2(output, STDERR_FILENO);
                execve(program, argv, variables);
                _exit(127);
        }
        return pid;
}

pid_t rig_client(struct rig *rig, const char *name, const char *option)
{
        return rig_client_at(rig, rig_path(rig, "%s/pipe", name), option, "/dev/null");
}

pid_t rig_client_at(struct rig *rig, const char *pipe, const char *option, const char *output_path)
{
        const char *variables[] = {
                rig_path(rig, "CUDA_MPS_PIPE_DIRECTORY=%s/%s", rig->mps, pipe),
                rig_path(rig, "WARPSHARE_MPS_SIM=%s/mps.sim", rig->root),
                NULL,
        };
        const char *program = rig_path(rig, "%s/warpshare-mps-sim-client", need("WARPSHARE_MPS_SIM_BIN"));
        const int output = open(output_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        size_t place = 0;

        while (clients[place])
                place++;
        assert_in_range(place, 0, CLIENTS_MAX - 1);
        clients[place] = run_program(program, option, "/dev/null", output, variables);
        close(output);
        return clients[place];
}

void rig_end_client(struct rig *rig UNUSED, pid_t pid, int signal)
{
        for (size_t i = 0; i < CLIENTS_MAX; i++)
                if (clients[i] == pid)
                        clients[i] = 0;
        kill(pid, signal);
        waitpid(pid, NULL, 0);
}

/* Answers to |input|, a file, once. */
static char *ask_once(struct rig *rig, const char *name, const char *input)
{
        const char *output = rig_path(rig, "%s/answer", rig->root);
        const char *environment[] = {
                rig_path(rig, "CUDA_MPS_PIPE_DIRECTORY=%s/%s/pipe", rig->mps, name),
                rig_path(rig, "WARPSHARE_MPS_SIM=%s/mps.sim", rig->root),
                NULL,
        };
        const int fd = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        waitpid(run_program(rig_path(rig, "%s/nvidia-cuda-mps-control", need("WARPSHARE_MPS_SIM_BIN")), NULL, input, fd,
                        environment),
                NULL, 0);
        close(fd);
        return rig_read(rig, output);
}

/* The daemon listens to one front end at a time: again, if that is the supervisor's at this moment. */
char *rig_ask(struct rig *rig, const char *name, const char *command)
{
        static const char proof[] = "Unknown command \"listens\"\n";
        const char *input = rig_path(rig, "%s/question", rig->root);
        char *answer;
        char *end;

        rig_write(rig, input, rig_path(rig, "%s\nlistens\n", command));
        while (!(end = strstr(answer = ask_once(rig, name, input), proof)))
                if (strstr(answer, "Cannot find"))
                        return answer;
        *end = '\0';
        return answer;
}

/* ---- life ---- */

int rig_set_up(void **state)
{
        struct rig *rig = xcalloc(1, sizeof(*rig));

        snprintf(rig->root, sizeof(rig->root), "/tmp/warpshare-mps-XXXXXX");
        assert_non_null(mkdtemp(rig->root));
        assert_int_equal(uv_loop_init(&rig->loop), 0);
        uv_timer_init(&rig->loop, &rig->deadline);
        rig->mps = xasprintf("%s/mps", rig->root);
        rig->control = rig_path(rig, "%s/nvidia-cuda-mps-control", need("WARPSHARE_MPS_SIM_BIN"));
        rig->command_ms = 10000;
        rig->poll_ms = 50;
        rig->driver_root = "";
        assert_int_equal(mkdir(rig_path(rig, "%s/processes", rig->root), 0700), 0);
        assert_int_equal(mkdir(rig_path(rig, "%s/modes", rig->root), 0700), 0);
        rig_drive(rig, "550.163.01", "", "");
        setenv("WARPSHARE_SIM_SCENARIO", rig_path(rig, "%s/nvml.yaml", rig->root), 1);
        rig_behave(rig, "");
        *state = rig;
        return 0;
}

static int remove_one(const char *path, const struct stat *status UNUSED, int kind UNUSED, struct FTW *walk UNUSED)
{
        return remove(path);
}

static void on_walk(uv_handle_t *handle, void *data UNUSED)
{
        if (!uv_is_closing(handle))
                uv_close(handle, NULL);
}

int rig_tear_down(void **state)
{
        struct rig *rig = *state;

        for (size_t i = 0; i < CLIENTS_MAX; i++)
                if (clients[i])
                        rig_end_client(rig, clients[i], SIGKILL);
        if (rig->supervisor)
                rig_close(rig);
        uv_run(&rig->loop,
                UV_RUN_DEFAULT); /* a question that was under way: its process is killed, and has to be reaped */
        uv_walk(&rig->loop, on_walk, NULL);
        uv_run(&rig->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&rig->loop), 0);
        nftw(rig->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        arena_done(&rig->arena);
        free(rig->mps);
        free(rig);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        return 0;
}
