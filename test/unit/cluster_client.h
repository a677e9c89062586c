// SPDX-License-Identifier: Apache-2.0
/*
 * A client of the simulated API server, on the loop of a test: it has a kubeconfig in a folder of its own, and the
 * server has one Node.
 */
#pragma once

#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "net/kube/client.h"
#include "sim/cluster/cluster.h"

struct cluster_client {
        char folder[64];
        char kubeconfig[96];
        struct cluster *cluster;
        struct kube_client *client;
};

static inline void cluster_client_open(struct cluster_client *to, uv_loop_t *loop, const char *node)
{
        _free_ char *config = NULL;
        struct error err;

        signal(SIGPIPE, SIG_IGN);
        unsetenv("HTTP_PROXY");
        unsetenv("http_proxy");
        strcpy(to->folder, "/tmp/warpshare-cluster-XXXXXX");
        assert_non_null(mkdtemp(to->folder));
        snprintf(to->kubeconfig, sizeof(to->kubeconfig), "%s/kubeconfig", to->folder);
        assert_ok(cluster_new(&to->cluster, loop, &err), &err);
        config = cluster_kubeconfig(to->cluster);
        assert_ok(file_write(to->kubeconfig, config, strlen(config), &err), &err);
        assert_ok(kube_client_open(&to->client, loop, to->kubeconfig, &err), &err);
        cluster_put(to->cluster, CLUSTER_NODES, json_pack("{s:s, s:{s:s}}", "kind", "Node", "metadata", "name", node));
}

/* Before the loop's last turns. */
static inline void cluster_client_close(struct cluster_client *client)
{
        kube_client_close(client->client, NULL, NULL);
        cluster_close(client->cluster);
}

/* After them; the folder has to be empty but for the kubeconfig. */
static inline void cluster_client_remove(const struct cluster_client *client)
{
        unlink(client->kubeconfig);
        assert_int_equal(rmdir(client->folder), 0);
}
