// SPDX-License-Identifier: Apache-2.0
/*
 * nvidia-cuda-mps-server, simulated. The control daemon starts it, sends it the defaults, and hands it the sockets of
 * clients.
 */
#include "sim/mps/server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"

#define TICK_MS 100
#define SERVER_MIB 30U

static void put_usage(void)
{
        puts("CUDA MPS Server for Linux/Unix (simulated).\n\n"
             "  nvidia-cuda-mps-server is launched by the MPS control daemon.\n");
}

/* ---- start ---- */

static int connect_control(struct server *server, struct error *err)
{
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
        _free_ char *path = xasprintf("%s/control", pipe ? pipe : "/tmp/nvidia-mps");

        if (server->scenario.version >= 535 && server->scenario.version < 580)
                journal_line(&server->journal, "Connecting to control daemon on socket: %s", path);
        server->control = channel_connect(path, err);
        return server->control < 0 || !channel_send(server->control, "SERVER") ? -1 : 0;
}

static void read_limits(struct server *server, const char *text)
{
        char value[2048];
        char *rest = NULL;

        if (packet_value(text, "percentage", value, sizeof(value)))
                limits_read_percentage(&server->limits.percentage, value);
        server->limits.priority = packet_value(text, "priority", value, sizeof(value)) && strcmp(value, "1") == 0;
        server->is_static = packet_value(text, "static", value, sizeof(value)) && strcmp(value, "1") == 0;
        memset(server->limits.memory_mib, 0, sizeof(server->limits.memory_mib));
        packet_value(text, "memory", value, sizeof(value));
        for (char *item = strtok_r(value, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
                unsigned int ordinal;
                unsigned long long mib;

                if (sscanf(item, "%u:%llu", &ordinal, &mib) == 2 && ordinal < LIMITS_DEVICES) /* NOLINT(cert-err34-c) */
                        server->limits.memory_mib[ordinal] = mib;
        }
}

/* A limit in the daemon's environment applies as well: the server inherits that environment. */
static void read_environment(struct server *server)
{
        const char *list = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");

        for (unsigned int i = 0; list && i < server->n_gpus; i++) {
                uint64_t mib = limits_from_list(list, (int)i, server_gpu(server, i)->uuid);

                if (mib && !server->limits.memory_mib[i])
                        server->limits.memory_mib[i] = mib;
        }
}

/* False if the daemon has ended meanwhile. */
static bool wait_while_hanging(struct server *server)
{
        struct pollfd poll_control = {.fd = server->control}; /* for its end; messages wait */

        while (server->scenario.server == MPS_SERVER_HANGS) {
                if (poll(&poll_control, 1, TICK_MS) > 0)
                        return false;
                mps_scenario_refresh(&server->scenario);
        }
        return true;
}

static int start(struct server *server, struct error *err)
{
        static struct packet packet;
        const struct journal *journal = &server->journal;
        int count;

        journal_line(journal, server->scenario.version >= 535 ? "Startup" : "Start");
        if (connect_control(server, err) < 0)
                return -1;
        if (!channel_receive(server->control, &packet) || !packet_is(&packet, "SETUP"))
                return error_set(err, ERROR_UNAVAILABLE, "the control daemon has gone");
        if (server->scenario.version >= 535)
                journal_line(journal, "Initializing server process");
        if (!wait_while_hanging(server))
                return error_set(err, ERROR_UNAVAILABLE, "the control daemon has gone");
        count = mps_scenario_visible(&server->scenario, getenv("CUDA_VISIBLE_DEVICES"), server->gpus);
        if (server->scenario.server == MPS_SERVER_EXITS || count < 0)
                return error_set(err, ERROR_UNAVAILABLE, "Failed to start : %s",
                        count < 0 ? "no CUDA-capable device is detected" : "invalid argument");
        server->n_gpus = (unsigned int)count;
        read_limits(server, packet.text);
        read_environment(server);
        if (server->scenario.version >= 535)
                server->journal.kind = "Server"; /* older ones are "Other" to their end */
        for (unsigned int i = 0; i < server->n_gpus; i++) {
                if (server->scenario.version >= 535)
                        journal_line(
                                journal, "Creating server context on device %u (%s)", i, server_gpu(server, i)->name);
                else
                        journal_line(journal, "Volta MPS: Creating server context on device %u", i);
                process_show(server, i, getpid(), SERVER_MIB, "C");
        }
        if (server->scenario.version >= 580) {
                journal_line(
                        journal, "Created anonymous shared memory region mps.shm.%d.%d", (int)getuid(), (int)getpid());
                journal_line(journal, "CUDA MPS Server for Linux/Unix. Binary version: %u000",
                        server->scenario.version < 615 ? 13U : 14U);
                journal_line(journal, "Display Driver version: %u", server->scenario.version);
        } else if (server->scenario.version >= 535) {
                journal_line(journal, "Created named shared memory region /cuda.shm.%d.%x.1", (int)getuid(),
                        (unsigned int)getpid());
        }
        server_log_limits(server);
        journal_line(journal, server->scenario.version >= 535 ? "Server has started" : "MPS Server is started");
        return channel_send(server->control, "READY") ? 0 : -1;
}

/* ---- the loop ---- */

/* False: the server is to end. */
static bool serve_control(struct server *server)
{
        static struct packet packet;
        _cleanup_(strbuf_done) struct strbuf out = STRBUF_INIT;
        const char *rest;
        char *line;

        if (!channel_receive(server->control, &packet)) {
                close(server->control);
                server->control = -1;
                return !server->scenario.orphan_exits;
        }
        if ((rest = packet_is(&packet, "CLIENT")) && packet.fd >= 0) {
                client_admit(server, TAKE_FD(packet.fd), rest - 1);
        } else if (packet_is(&packet, "ASK")) {
                unsigned long number = strtoul(packet.text + 4, &line, 10);

                server_answer(server, line, &out);
                channel_send(server->control, "TEXT %lu %s", number, out.data);
        } else if (packet_is(&packet, "SET")) {
                read_limits(server, packet.text);
                server_log_limits(server);
        } else if (packet_is(&packet, "STOP")) {
                server->stops = true;
        }
        if (packet.fd >= 0)
                close(packet.fd);
        return true;
}

/* Serving one client may remove others: so each client is looked up by its descriptor, instead of walking the list. */
static void serve_client_on(struct server *server, int fd)
{
        LIST_FOR_EACH(link, &server->clients) {
                struct client *client = container_of(link, struct client, link);

                if (client->fd == fd) {
                        client_serve(server, client);
                        return;
                }
        }
}

static void notice_scenario(struct server *server)
{
        enum mps_server_mode before = server->scenario.server;
        unsigned int lost = server_lost_gpus(server);

        mps_scenario_refresh(&server->scenario);
        if (server->scenario.server == MPS_SERVER_FAULT && before != MPS_SERVER_FAULT)
                server_fault(server, UINT32_MAX);
        if (server_lost_gpus(server) & ~lost)
                server_fault(server, server_lost_gpus(server));
}

static size_t fill_poll(const struct server *server, struct pollfd *fds, size_t most)
{
        size_t count = 1;

        fds[0] = (struct pollfd){.fd = server->control, .events = POLLIN};
        LIST_FOR_EACH(link, &server->clients) {
                if (count < most)
                        fds[count++] =
                                (struct pollfd){.fd = container_of(link, struct client, link)->fd, .events = POLLIN};
        }
        return count;
}

static void run(struct server *server)
{
        struct pollfd fds[256];
        time_t end = time(NULL) + (time_t)server->scenario.lifetime_s;
        bool goes_on = true;

        while (goes_on && time(NULL) < end && !mps_scenario_is_orphaned(&server->scenario) &&
                !(server->stops && list_is_empty(&server->clients))) {
                size_t count = fill_poll(server, fds, ARRAY_SIZE(fds));

                if (poll(fds, count, TICK_MS) < 0)
                        continue;
                notice_scenario(server);
                for (size_t i = 1; i < count; i++) {
                        if (fds[i].revents)
                                serve_client_on(server, fds[i].fd);
                }
                if (fds[0].revents)
                        goes_on = serve_control(server);
        }
        for (unsigned int i = 0; i < server->n_gpus; i++)
                process_hide(server, i, getpid());
}

int main(int argc, char **argv UNUSED)
{
        const char *log = getenv("WARPSHARE_MPS_SIM_LOG_FD");
        uint64_t fd;
        struct server server = {.journal = {.fd = -1, .kind = "Other"}, .control = -1, .limits = LIMITS_INIT};
        struct error err = {0};

        list_init(&server.clients);
        if (argc > 1 || !log || !text_to_uint(log, 1 << 20, &fd)) {
                put_usage();
                return 1;
        }
        server.journal.fd = (int)fd;
        if (mps_scenario_read(&server.scenario, &err) < 0 || start(&server, &err) < 0) {
                journal_line(&server.journal, "MPS server failed to start");
                journal_line(&server.journal, "%s", err.text);
                return server.scenario.server_number ? (int)server.scenario.server_number : 1;
        }
        run(&server);
        while (!list_is_empty(&server.clients))
                client_drop(&server, container_of(server.clients.next, struct client, link));
        return 0;
}
