// SPDX-License-Identifier: Apache-2.0
#include "sim/cuda/server.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "gpu/cuda/abi.h"
#include "sim/mps/channel.h"
#include "sim/mps/segment.h"

static void put_variable(struct strbuf *hello, const char *key, const char *variable)
{
        const char *value = getenv(variable);

        if (value && *value && !strchr(value, ' '))
                strbuf_printf(hello, " %s=%s", key, value);
}

static bool say_hello(int fd)
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

static uint64_t number_of(const char *text, const char *key)
{
        char value[32];
        uint64_t number = 0;

        return packet_value(text, key, value, sizeof(value)) && text_to_uint(value, UINT32_MAX, &number) ? number : 0;
}

/* The CUDA error that a packet stands for, or 0. */
static int error_of(const struct packet *packet)
{
        const char *rest = packet_is(packet, "ERROR");

        if (rest)
                return (int)strtol(rest, NULL, 10);
        if (packet_is(packet, "TERMINATED"))
                return CUDA_ERROR_MPS_CLIENT_TERMINATED;
        return packet_is(packet, "FAULT") ? CUDA_ERROR_LAUNCH_FAILED : 0;
}

int server_connect(struct server *server)
{
        const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
        _free_ char *path = xasprintf("%s/control", pipe && *pipe ? pipe : "/tmp/nvidia-mps");
        _free_ struct packet *packet = xcalloc(1, sizeof(*packet));
        struct error ignored;
        int code;

        *server = (struct server){.fd = channel_connect(path, &ignored)};
        if (server->fd < 0)
                return 0;
        if (!say_hello(server->fd) || !channel_receive(server->fd, packet))
                return CUDA_ERROR_MPS_CONNECTION_FAILED;
        code = error_of(packet);
        server->sms = (unsigned int)number_of(packet->text, "sms");
        server->limit_mib = number_of(packet->text, "limit");
        return code;
}

int server_poll_error(struct server *server)
{
        struct pollfd fd = {.fd = server->fd, .events = POLLIN};

        while (server->fd >= 0 && poll(&fd, 1, 0) > 0) {
                _free_ struct packet *packet = xcalloc(1, sizeof(*packet));
                int code;

                if (!channel_receive(server->fd, packet))
                        return CUDA_ERROR_MPS_RPC_FAILURE;
                code = error_of(packet);
                if (code)
                        return code;
        }
        return 0;
}

void server_report_fault(const struct server *server)
{
        if (server->fd >= 0)
                channel_send(server->fd, "FAULT");
}

void server_leave(struct server *server)
{
        if (server->fd < 0)
                return;
        channel_send(server->fd, "BYE");
        close(server->fd);
        server->fd = -1;
}
