// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare-mps-sim-client: what MPS sees of a CUDA program. It connects, allocates memory, prints what it got, one
 * line for each event, and runs until a signal, an order on standard input or an error ends it.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "sim/mps/channel.h"
#include "sim/mps/segment.h"

enum exit_status {
        STATUS_DONE = 0,
        STATUS_USAGE = 2,
        STATUS_REFUSED = 3,
        STATUS_TERMINATED = 4,
        STATUS_LOST = 5,
        STATUS_FAULT = 6,
};

struct options {
        uint64_t memory_mib;
        uint64_t duration_s; /* 0: until it is ordered to leave */
        bool brief;          /* leaves when it has its memory */
        bool faults;         /* right after it has connected */
        bool stubborn;       /* stays after errors that no program survives */
};

static volatile sig_atomic_t asked_to_end;
static volatile sig_atomic_t asked_to_fault;

static void on_signal(int number)
{
        if (number == SIGUSR1)
                asked_to_fault = 1;
        else
                asked_to_end = 1;
}

static int usage(void)
{
        fputs("usage: warpshare-mps-sim-client [--memory=MIB] [--brief] [--duration=SECONDS] [--uid=N] [--fault] [--stubborn]\n"
              "SIGTERM: leaves politely. SIGUSR1: causes a fatal GPU fault. Standard input: allocate MIB, fault, leave.\n"
              "Exit status: 0 done, 3 refused, 4 terminated, 5 lost the server, 6 fault.\n",
                stderr);
        return STATUS_USAGE;
}

static const char *error_name(int error)
{
        static const struct {
                int number;
                const char *name;
        } names[] = {{2, "CUDA_ERROR_OUT_OF_MEMORY"}, {100, "CUDA_ERROR_NO_DEVICE"},
                {805, "CUDA_ERROR_MPS_CONNECTION_FAILED"}, {807, "CUDA_ERROR_MPS_SERVER_NOT_READY"},
                {808, "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED"}, {915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION"}};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (names[i].number == error)
                        return names[i].name;
        }
        return "CUDA_ERROR_UNKNOWN";
}

static void say(const char *format, ...) PRINTF_LIKE(1, 2);
static void say(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        putchar('\n');
        fflush(stdout);
}

/* ---- connection ---- */

static void put_variable(struct strbuf *hello, const char *key, const char *variable)
{
        const char *value = getenv(variable);

        if (value && value[0] && !strchr(value, ' '))
                strbuf_printf(hello, " %s=%s", key, value);
}

static bool send_hello(int fd)
{
        _cleanup_(strbuf_done) struct strbuf hello = STRBUF_INIT;
        char place[SEGMENT_PLACE_SIZE];

        put_variable(&hello, "percentage", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        put_variable(&hello, "memory", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        put_variable(&hello, "devices", "CUDA_VISIBLE_DEVICES");
        put_variable(&hello, "partition", "CUDA_MPS_SM_PARTITION");
        segment_place(place);
        strbuf_printf(&hello, " shm=%s", place);
        return channel_send(fd, "CLIENT%s", hello.data);
}

/* Without a daemon a program runs without MPS, and gets no error. */
static int connect_daemon(void)
{
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
        _free_ char *path = xasprintf("%s/control", pipe ? pipe : "/tmp/nvidia-mps");
        struct error err;
        int fd = channel_connect(path, &err);

        if (fd < 0)
                say("without MPS");
        return fd;
}

/* ---- messages ---- */

/* True: one of |fds| is ready. False: a signal came, or |end| has passed. */
static bool wait_for(struct pollfd *fds, nfds_t count, time_t end)
{
        while (!asked_to_end && !asked_to_fault && (!end || time(NULL) < end)) {
                int ready = poll(fds, count, 100);

                if (ready > 0)
                        return true;
                if (ready < 0 && errno != EINTR)
                        return false;
        }
        return false;
}

/* Prints what the server sent. Returns the exit status if that ends the program, else -1. */
static int print_event(const struct packet *packet)
{
        const char *rest;

        if ((rest = packet_is(packet, "OK")))
                say("connected %s", rest);
        else if ((rest = packet_is(packet, "TEXT")))
                say("allocated %s", rest);
        if ((rest = packet_is(packet, "ERROR"))) {
                int error = (int)strtol(rest, NULL, 10);

                say("error %d %s", error, error_name(error));
                return STATUS_REFUSED;
        }
        if (packet_is(packet, "TERMINATED")) {
                say("error 810 CUDA_ERROR_MPS_CLIENT_TERMINATED");
                return STATUS_TERMINATED;
        }
        if (packet_is(packet, "FAULT")) {
                say("error 719 CUDA_ERROR_LAUNCH_FAILED");
                return STATUS_FAULT;
        }
        return -1;
}

static bool run_order(int fd, char *line)
{
        line[strcspn(line, "\n")] = '\0';
        if (text_starts_with(line, "allocate "))
                channel_send(fd, "ALLOCATE %s", line + 9);
        else if (strcmp(line, "fault") == 0)
                channel_send(fd, "FAULT");
        return strcmp(line, "leave") != 0;
}

/* Reads orders from standard input; false: leave. The end of standard input is ignored. */
static bool read_orders(struct pollfd *input, int fd)
{
        char text[512];
        char *rest = NULL;
        ssize_t got = read(STDIN_FILENO, text, sizeof(text) - 1);

        if (got <= 0) {
                input->fd = -1;
                return true;
        }
        text[got] = '\0';
        for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
                if (!run_order(fd, line))
                        return false;
        }
        return true;
}

static void hold(time_t end)
{
        while (!asked_to_end && (!end || time(NULL) < end))
                poll(NULL, 0, 100);
}

static int run(int fd, const struct options *options, time_t end)
{
        static struct packet packet;
        struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
        bool connected = false;

        for (;;) {
                int status;

                if (asked_to_fault) {
                        asked_to_fault = 0;
                        channel_send(fd, "FAULT");
                }
                if (!wait_for(fds, 2, end) && !asked_to_fault) {
                        channel_send(fd, "BYE");
                        return STATUS_DONE;
                }
                if (fds[1].revents && !read_orders(&fds[1], fd)) {
                        channel_send(fd, "BYE");
                        return STATUS_DONE;
                }
                if (!fds[0].revents)
                        continue;
                if (!channel_receive(fd, &packet)) {
                        say("error 806 CUDA_ERROR_MPS_RPC_FAILURE");
                        return STATUS_LOST;
                }
                status = print_event(&packet);
                if (status >= 0) {
                        if (options->stubborn && status != STATUS_REFUSED)
                                hold(end);
                        return status;
                }
                if (!connected) {
                        connected = true;
                        if (options->memory_mib)
                                channel_send(fd, "ALLOCATE %llu", (unsigned long long)options->memory_mib);
                        if (options->faults)
                                channel_send(fd, "FAULT");
                }
                if (options->brief && packet_is(&packet, options->memory_mib ? "TEXT" : "OK")) {
                        channel_send(fd, "BYE");
                        return STATUS_DONE;
                }
        }
}

static bool read_options(struct options *options, int argc, char **argv)
{
        static const struct option known[] = {{"memory", required_argument, NULL, 'm'},
                {"duration", required_argument, NULL, 'd'}, {"uid", required_argument, NULL, 'u'},
                {"brief", no_argument, NULL, 'b'}, {"fault", no_argument, NULL, 'f'},
                {"stubborn", no_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
        uint64_t uid;
        int option;

        while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
                if (option == 'f')
                        options->faults = true;
                else if (option == 's')
                        options->stubborn = true;
                else if (option == 'b')
                        options->brief = true;
                else if (option == 'm' && text_to_uint(optarg, UINT32_MAX, &options->memory_mib))
                        continue;
                else if (option == 'd' && text_to_uint(optarg, UINT32_MAX, &options->duration_s))
                        continue;
                else if (option == 'u' && text_to_uint(optarg, UINT32_MAX - 1, &uid) && setuid((uid_t)uid) == 0)
                        continue;
                else
                        return false;
        }
        return optind == argc;
}

int main(int argc, char **argv)
{
        struct sigaction action = {.sa_handler = on_signal};
        struct options options = {0};
        _close_ int fd = -1;
        time_t end;

        if (!read_options(&options, argc, argv))
                return usage();
        end = options.duration_s ? time(NULL) + (time_t)options.duration_s : 0;
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGUSR1, &action, NULL);
        signal(SIGPIPE, SIG_IGN);
        fd = connect_daemon();
        if (fd < 0) {
                hold(end);
                return STATUS_DONE;
        }
        say("waiting");
        if (!send_hello(fd))
                return STATUS_LOST;
        return run(fd, &options, end);
}
