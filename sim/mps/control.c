// SPDX-License-Identifier: Apache-2.0
/*
 * nvidia-cuda-mps-control, simulated: the daemon with -d or -f, else its front end. With an option that the version
 * does not know it is a front end, too, as NVIDIA's program is.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/mps/daemon.h"

enum mode { MODE_FRONTEND, MODE_QUIT, MODE_MODULE, MODE_FOREGROUND, MODE_BACKGROUND, MODE_HELP };

static const char *variable(const char *name, const char *fallback)
{
        const char *value = getenv(name);

        return value && value[0] ? value : fallback;
}

static enum mode read_options(struct daemon *daemon, int argc, char **argv)
{
        enum mode mode = MODE_FRONTEND;
        unsigned int version = daemon->scenario.version;

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "-d") == 0)
                        mode = MODE_BACKGROUND;
                else if (strcmp(argv[i], "-f") == 0)
                        mode = MODE_FOREGROUND;
                else if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
                        return MODE_HELP;
                else if (version >= 580 && (strcmp(argv[i], "-multiuser-server") == 0 || strcmp(argv[i], "-M") == 0))
                        daemon->multi_user = true;
                else if (version >= 590 &&
                         (strcmp(argv[i], "-S") == 0 || strcmp(argv[i], "--static-partitioning") == 0))
                        daemon->is_static = true;
                else if (version >= 615 && strcmp(argv[i], "-p") == 0 && i + 1 < argc)
                        daemon->protocol = strcmp(argv[++i], "3") == 0 ? 3 : 2;
                else if (version >= 615 && (strcmp(argv[i], "-m") == 0 || strcmp(argv[i], "--multiuser") == 0))
                        daemon->multi_user = true;
                else if (version >= 615 && (strcmp(argv[i], "-q") == 0 || strcmp(argv[i], "--quit") == 0))
                        return MODE_QUIT;
                else if (version >= 615 && i == 1 && argv[i][0] != '-')
                        return MODE_MODULE;
                else
                        return MODE_FRONTEND;
        }
        return mode;
}

/* Applies the scenario's faults of the daemon's start. */
static void apply_start_fault(const struct mps_scenario *scenario)
{
        struct timespec pause = {.tv_sec = (time_t)(scenario->daemon_number / 1000),
                .tv_nsec = (long)(scenario->daemon_number % 1000) * 1000000};

        if (scenario->daemon == MPS_DAEMON_EXITS)
                exit((int)scenario->daemon_number);
        if (scenario->daemon == MPS_DAEMON_SLOW)
                nanosleep(&pause, NULL);
}

/* Forks; the parent exits once the daemon listens. Returns only in the daemon. */
static void go_to_background(int *reported)
{
        int ends[2];
        char answer = 1;

        if (pipe2(ends, O_CLOEXEC) < 0)
                exit(1);
        if (fork() > 0) {
                close(ends[1]);
                exit(read(ends[0], &answer, 1) == 1 ? answer : 1);
        }
        close(ends[0]);
        setsid();
        if (fork() > 0)
                _exit(0);
        *reported = ends[1];
}

static void cut_standard_files(void)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int fd = 0; fd < 3; fd++)
                dup2(null, fd);
        close(null);
}

static int run_daemon(struct daemon *daemon, enum mode mode)
{
        struct error err = {0};
        int reported = -1;
        const char success = 0;

        apply_start_fault(&daemon->scenario);
        daemon->foreground = mode == MODE_FOREGROUND;
        if (mode == MODE_BACKGROUND)
                go_to_background(&reported);
        signal(SIGPIPE, SIG_IGN);
        if (daemon_open(daemon, &err) < 0) {
                if (err.text[0])
                        fprintf(stderr, "%s\n", err.text);
                return 1;
        }
        if (mode == MODE_BACKGROUND) {
                cut_standard_files();
                if (write(reported, &success, 1) != 1)
                        return 1;
                close(reported);
        }
        return daemon_run(daemon);
}

int main(int argc, char **argv)
{
        static struct daemon daemon = {
                .journal = {.fd = -1, .kind = "Control"},
                .server_log = -1,
        };
        struct error err;
        enum mode mode;

        if (mps_scenario_read(&daemon.scenario, &err) < 0) {
                fprintf(stderr, "nvidia-cuda-mps-control (simulated): %s\n", err.text);
                return 2;
        }
        daemon.pipe_directory = variable("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
        daemon.log_directory = variable("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps");
        daemon.protocol = 2;
        mode = read_options(&daemon, argc, argv);
        if (daemon.scenario.version >= 615 && strcmp(variable("CUDA_MPS_PROTOCOL_VERSION", ""), "3") == 0)
                daemon.protocol = 3;
        if (mode == MODE_FRONTEND)
                return frontend_run(daemon.pipe_directory);
        if (mode == MODE_QUIT)
                return frontend_quit(daemon.pipe_directory);
        if (mode == MODE_MODULE)
                return frontend_run_v3(daemon.pipe_directory, argc, argv);
        if (mode == MODE_HELP) {
                puts("CUDA MPS Control for Linux/Unix (simulated).");
                return 0;
        }
        return run_daemon(&daemon, mode);
}
