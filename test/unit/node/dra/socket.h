// SPDX-License-Identifier: Apache-2.0
/*
 * A DRA service behind a socket, and kubelet's end of it.
 */
#pragma once

#include "unit.h"

#include <stdio.h>

#include "node/dra/service.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"

struct dra_socket {
        uv_loop_t loop;
        char path[96];
        struct dra_service *service;
        struct rpc_server *server;
        struct rpc_client *client;
};

/* In |folder|. The loop is set in |options|. */
static inline void dra_socket_open(struct dra_socket *to, const char *folder, struct dra_service_options options)
{
        struct rpc_server_options server = {0};
        const struct rpc_client_options client = {0};
        struct error err;

        snprintf(to->path, sizeof(to->path), "%s/dra.sock", folder);
        assert_int_equal(uv_loop_init(&to->loop), 0);
        options.loop = &to->loop;
        to->service = dra_service_new(&options);
        server.service = dra_service_rpc(to->service);
        assert_ok(rpc_server_new(&to->server, &to->loop, to->path, &server, &err), &err);
        assert_ok(rpc_client_new(&to->client, &to->loop, to->path, &client, &err), &err);
}

static inline void dra_socket_on_server_closed(void *data)
{
        struct dra_socket *socket = data;

        socket->service = dra_service_close(socket->service);
}

/* Until the loop has ended by itself. */
static inline void dra_socket_close(struct dra_socket *socket)
{
        rpc_client_close(socket->client);
        rpc_server_close(socket->server, 0, dra_socket_on_server_closed, socket);
        uv_run(&socket->loop, UV_RUN_DEFAULT);
        assert_null(socket->service);
        assert_int_equal(uv_loop_close(&socket->loop), 0);
}
