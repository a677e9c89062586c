// SPDX-License-Identifier: Apache-2.0
/* nvidia-cuda-mps-control without options: lines from standard input to the daemon, its answers to standard output. */
#include "sim/mps/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define LINE_SIZE 4096
#define NOT_SENT "Cannot send command to MPS control daemon process\n"

static int connect_daemon(const char *pipe_directory, struct error *err)
{
        _free_ char *privileged = xasprintf("%s/control_privileged", pipe_directory);
        _free_ char *open = xasprintf("%s/control", pipe_directory);
        int fd = channel_connect(privileged, err);

        return fd < 0 ? channel_connect(open, err) : fd;
}

/*
 * Returns 0 with an answer. While there is another front end, the daemon disconnects this one. If that is noticed when
 * the line is sent, the result is 1, and the program fails; if it is noticed only when no answer comes, the result is
 * -1, and the program ends with status 0. NVIDIA's program does both, depending on the moment.
 */
static int ask(int fd, const char *line, bool *quits)
{
        static struct packet packet;

        if (!channel_send(fd, "CMD %s", line)) {
                fputs(NOT_SENT, stderr);
                return 1;
        }
        if (!channel_receive(fd, &packet))
                return -1;
        if (packet_is(&packet, "QUIT"))
                *quits = true;
        else
                fputs(packet.text + 5, stdout);
        fflush(stdout);
        return 0;
}

/* Returns the exit status of the daemon, which the daemon sends before it ends. */
static int wait_for_end(int fd)
{
        static struct packet packet;

        while (channel_receive(fd, &packet)) {
                const char *status = packet_is(&packet, "EXIT");

                if (status)
                        return (int)strtol(status, NULL, 10);
        }
        return 1;
}

int frontend_quit(const char *pipe_directory)
{
        struct error err;
        bool quits = false;
        _close_ int fd = connect_daemon(pipe_directory, &err);

        if (fd < 0 || !channel_send(fd, "UI")) {
                fputs("Cannot find MPS control daemon process\n", stderr);
                return 1;
        }
        return ask(fd, "quit -t 0", &quits) == 0 && quits ? wait_for_end(fd) : 1;
}

int frontend_run(const char *pipe_directory)
{
        char line[LINE_SIZE];
        struct error err;
        bool quits = false;
        _close_ int fd = connect_daemon(pipe_directory, &err);

        if (fd < 0 || !channel_send(fd, "UI")) {
                fputs("Cannot find MPS control daemon process\n", stderr);
                return 1;
        }
        while (fgets(line, sizeof(line), stdin)) {
                line[strcspn(line, "\n")] = '\0';
                int broken = ask(fd, line, &quits);

                if (broken)
                        return broken > 0;
        }
        if (!quits) {
                static struct packet ignored;

                channel_send(fd, "END");
                channel_receive(fd, &ignored); /* the end of the connection: the daemon now accepts another front end */
                return 0;
        }
        return wait_for_end(fd);
}

/*
 * Runs the command that the arguments are. The exit status is the command's: interface 3 reports it, interface 2 does
 * not.
 */
int frontend_run_v3(const char *pipe_directory, int argc, char **argv)
{
        static struct packet packet;
        _cleanup_(strbuf_done) struct strbuf words = STRBUF_INIT;
        struct error err;
        _close_ int fd = connect_daemon(pipe_directory, &err);
        bool failed;

        if (fd < 0 || !channel_send(fd, "UI")) {
                fputs("Cannot find MPS control daemon process\n", stderr);
                return 1;
        }
        for (int i = 1; i < argc; i++)
                strbuf_printf(&words, "%s%s", i > 1 ? "\n" : "", argv[i]);
        if (!channel_send(fd, "MODULE %s", words.data) || !channel_receive(fd, &packet)) {
                fputs(NOT_SENT, stderr);
                return 1;
        }
        failed = packet_is(&packet, "FAIL");
        fputs(packet.text + 5, failed ? stderr : stdout);
        channel_send(fd, "END");
        channel_receive(fd, &packet);
        return failed;
}
