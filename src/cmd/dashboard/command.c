// SPDX-License-Identifier: Apache-2.0
/*
 * warpshare dashboard, kubectl warpshare dashboard: the page of the cluster, as long as it runs.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "cluster/cluster.h"
#include "cmd/cluster/session.h"
#include "cmd/commands.h"
#include "cluster/dashboard/server.h"
#include "base/io/loop.h"
#include "net/kube/access.h"
#include "net/kube/client.h"

enum { ADDRESS, ALLOWED_HOSTS, AUTHORIZATION, AGENT_NAMESPACE, AGENT_SELECTOR, INTERVAL, CONNECT };

#define AUTO "auto"
static const char *const authorizations[] = {
        "token", "proxy", "own", AUTO, NULL}; /* as enum dashboard_access, and AUTO */

static const struct option own[] = {
        [ADDRESS] = COMMAND_TEXT("address", "127.0.0.1:8080", "IP:PORT", "where it listens; :8080 is every address",
                .environment = {"WARPSHARE_DASHBOARD_ADDRESS"}),
        [ALLOWED_HOSTS] = COMMAND_TEXT("allowed-hosts", "", "NAMES",
                "names by which browsers may know it, as gpus.example.com, separated by commas; addresses and localhost are "
                "always good",
                .environment = {"WARPSHARE_DASHBOARD_ALLOWED_HOSTS"}),
        [AUTHORIZATION] = COMMAND_CHOICE("authorization", authorizations, AUTO,
                "who may see the cluster: token: whom the API server allows to list nodes; proxy: everybody who "
                "reaches the port, so that a proxy in front of it has to let in the right ones; own: who has the "
                "address that it prints, with a secret part, sees what you may see; auto: own on a loopback address, "
                "else token",
                .environment = {"WARPSHARE_DASHBOARD_AUTHORIZATION"}),
        [AGENT_NAMESPACE] = COMMAND_TEXT("agent-namespace", "", "NAME", "the namespace of the agents' pods; empty: any",
                .environment = {"WARPSHARE_AGENT_NAMESPACE"}),
        [AGENT_SELECTOR] = COMMAND_TEXT("agent-selector", CLUSTER_AGENT_SELECTOR, "LABELS",
                "the labels of the agents' pods", .environment = {"WARPSHARE_AGENT_SELECTOR"}),
        [INTERVAL] = COMMAND_TEXT("interval", "15", "SECONDS", "between two questions to the same agent, 1 to 3600",
                .environment = {"WARPSHARE_DASHBOARD_INTERVAL"}),
        CONNECT_ROWS(CONNECT),
};

static const char *const shared[] = {"log-level", "log-format", NULL};

struct dashboard_process {
        uv_loop_t loop;
        struct signals signals;
        struct kube_client *client;
        struct cluster *cluster;
        struct kube_access *rights;
        struct dashboard *dashboard;
        bool has_trouble; /* which is in the log */
};

static void dashboard_process_stop(struct dashboard_process *process)
{
        signals_close(&process->signals);
        process->dashboard = dashboard_close(process->dashboard);
        process->rights = kube_access_close(process->rights);
        process->cluster = cluster_close(process->cluster);
        process->client = kube_client_close(process->client, NULL, NULL);
}

static void on_signal(uv_signal_t *handle, int number)
{
        if (number == SIGHUP)
                return;
        log_info("ends", LOG_STR("signal", strsignal(number)));
        dashboard_process_stop(handle->data);
}

/* Logs each trouble once, and its end once. */
static void on_cluster_change(void *data)
{
        struct dashboard_process *process = data;
        const struct cluster_view *view = cluster_view(process->cluster);
        const struct error *trouble = view->nodes_trouble    ? view->nodes_trouble
                                      : view->agents_trouble ? view->agents_trouble
                                      : view->pods_trouble   ? view->pods_trouble
                                      : view->n_too_large    ? view->too_large[0]
                                                             : NULL;

        if (!trouble == !process->has_trouble)
                return;
        process->has_trouble = trouble;
        if (trouble)
                log_warn("the cluster is not known as a whole", LOG_ERR(trouble));
        else
                log_info("the cluster is known as a whole", LOG_UINT("nodes", view->n_nodes));
}

/* The command line, read. */
struct dashboard_wish {
        enum dashboard_access access;
        struct dashboard_hosts hosts;
        uint64_t seconds; /* between two questions to an agent */
};

/* Numbers only, as net/http/address.h takes them: 127.0.0.0/8 and ::1. */
static bool is_local_address(const char *address)
{
        return text_starts_with(address, "127.") || text_starts_with(address, "[::1]:");
}

static int read_wish(struct dashboard_wish *ret, struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        const bool is_local = is_local_address(values[ADDRESS]);
        const char *word = !command_has(call, AUTHORIZATION, AUTO) ? values[AUTHORIZATION] : is_local ? "own" : "token";

        ret->access = (enum dashboard_access)option_position(&own[AUTHORIZATION], word);
        if (ret->access == DASHBOARD_OWN && !is_local)
                return command_refuse(err,
                        "--authorization own: '%s' is not a loopback address, and whoever reads the network reads your "
                        "part of the address; use 127.0.0.1:8080, or --authorization token",
                        values[ADDRESS]);
        if (command_number(call, INTERVAL, " of seconds", 1, 3600, &ret->seconds, err) < 0)
                return COMMAND_REFUSED;
        if (dashboard_hosts_read(&ret->hosts, values[ALLOWED_HOSTS], &call->arena, err) < 0) {
                error_prefix(err, "--allowed-hosts");
                return COMMAND_REFUSED;
        }
        return 0;
}

static int dashboard_connect(struct dashboard_process *process, const struct command_call *call, struct error *err)
{
        struct kube_credentials credentials;

        if (session_find_credentials(&credentials, call, CONNECT, err) < 0)
                return -1;
        process->client = kube_client_new(&process->loop);
        if (kube_client_equip(process->client, &credentials, err) == 0)
                return 0;
        kube_credentials_done(&credentials);
        return -1;
}

static int draw_lots(void *ret, size_t size, struct error *err)
{
        return getrandom(ret, size, 0) == (ssize_t)size ? 0 : error_errno(err, errno, "get random bytes");
}

/* The secret is for standard output alone, since others may read logs. */
static void say_address(const struct dashboard_process *process, const char *address, const char *secret)
{
        const int length = (int)(strrchr(address, ':') - address);

        printf("With your rights, for whoever has this address, until Ctrl-C:\n\n  http://%.*s:%u/%s/\n\n", length,
                address, dashboard_port(process->dashboard), secret);
        fflush(stdout);
}

static int dashboard_process_start(struct dashboard_process *process, const struct command_call *call,
        const struct dashboard_wish *wish, struct error *err)
{
        const char *const *values = call->values;
        struct cluster_options cluster = CLUSTER_OPTIONS_INIT;
        struct dashboard_options options = {
                .loop = &process->loop, .address = values[ADDRESS], .access = wish->access, .hosts = wish->hosts};
        uint64_t lots[2];
        struct error why;
        char secret[DASHBOARD_SECRET + 1] = "";

        if (signals_listen(&process->signals, &process->loop, on_signal, process, err) < 0 ||
                dashboard_connect(process, call, err) < 0 || draw_lots(&options.boot, sizeof(options.boot), err) < 0 ||
                draw_lots(lots, sizeof(lots), err) < 0)
                return -1;
        if (wish->access == DASHBOARD_OWN) {
                snprintf(secret, sizeof(secret), "%016" PRIx64 "%016" PRIx64, lots[0], lots[1]);
                options.secret = secret;
        }
        cluster.client = process->client;
        cluster.agent_namespace = *values[AGENT_NAMESPACE] ? values[AGENT_NAMESPACE] : NULL;
        cluster.agent_selector = values[AGENT_SELECTOR];
        cluster.interval_ms = 1000 * wish->seconds;
        cluster.on_change = on_cluster_change;
        cluster.data = process;
        process->cluster = cluster_start(&cluster);
        process->rights = wish->access == DASHBOARD_TOKEN ? kube_access_new(process->client) : NULL;
        options.cluster = process->cluster;
        options.client = process->client;
        options.rights = process->rights;
        if (dashboard_new(&process->dashboard, &options, &why) < 0)
                return error_set(err, why.kind, "%s; --address 127.0.0.1:0 takes a port that is free", why.text);
        log_info("dashboard", LOG_STR("address", values[ADDRESS]), LOG_UINT("port", dashboard_port(process->dashboard)),
                LOG_STR("authorization", authorizations[wish->access]));
        if (wish->access == DASHBOARD_OWN)
                say_address(process, values[ADDRESS], secret);
        return 0;
}

static int dashboard_run(struct command_call *call, struct error *err)
{
        struct dashboard_process process = {0};
        struct dashboard_wish wish = {0};
        int status = read_wish(&wish, call, err);

        if (status < 0)
                return status;
        mallopt(M_ARENA_MAX, 1); /* libcurl's threads, which look up names, need none of their own */
        command_setup_log(&call->set, NULL);
        loop_init(&process.loop);
        if (dashboard_process_start(&process, call, &wish, err) < 0) {
                status = COMMAND_FAILED;
                dashboard_process_stop(&process);
        }
        uv_run(&process.loop, UV_RUN_DEFAULT);
        uv_loop_close(&process.loop);
        return status;
}

#define DASHBOARD(plugin, what)                                                                                         \
        .name = "dashboard", .summary = "serve a page of the whole cluster: who uses what of which GPU",                \
        .run = dashboard_run, .shared = shared, COMMAND_OWN(own), .is_service = true, .program = plugin " dashboard",   \
        .help = "usage: " what " dashboard [OPTION...]\n"                                                               \
                "\n"                                                                                                    \
                "Serves a page of the whole cluster: all nodes and GPUs as a map of shares, with who was granted how "  \
                "much,\n"                                                                                               \
                "what is used of it, what is reserved, which GPUs are unhealthy and what happened. It reads the API "   \
                "server\n"                                                                                              \
                "(nodes, pods, and the agents' pages through its proxy) and changes nothing. On a loopback address it " \
                "prints\n"                                                                                              \
                "the page's address, which has a secret part: who opens it sees what you may see, by your kubeconfig, " \
                "and\n"                                                                                                 \
                "needs no token. Ctrl-C or SIGTERM ends it.\n"                                                          \
                "\n"

const struct command command_dashboard = {DASHBOARD("warpshare", "warpshare")};
const struct command command_kubectl_dashboard = {DASHBOARD("kubectl-warpshare", "kubectl warpshare")};
