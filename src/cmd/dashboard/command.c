/*
 * warpshare dashboard: the page of the cluster, as long as it runs.
 */
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "cmd/cli/command.h"
#include "cluster/cluster.h"
#include "cmd/commands.h"
#include "cluster/dashboard/server.h"
#include "base/io/loop.h"
#include "net/kube/access.h"
#include "net/kube/client.h"

enum { ADDRESS, ALLOWED_HOSTS, AUTHORIZATION, AGENT_NAMESPACE, AGENT_SELECTOR, INTERVAL };

static const char *const authorizations[] = {"token", "proxy", NULL}; /* in the order of enum dashboard_access */

static const struct option own[] = {
        [ADDRESS] = COMMAND_TEXT("address", "127.0.0.1:8080", "IP:PORT", "where it listens; :8080 is every address",
                .environment = {"WARPSHARE_DASHBOARD_ADDRESS"}),
        [ALLOWED_HOSTS] = COMMAND_TEXT("allowed-hosts", "", "NAMES",
                "names by which browsers may know it, as gpus.example.com, separated by commas; addresses and localhost are "
                "always good",
                .environment = {"WARPSHARE_DASHBOARD_ALLOWED_HOSTS"}),
        [AUTHORIZATION] = COMMAND_CHOICE("authorization", authorizations, "token",
                "who may see the cluster: token: whom the API server allows to list nodes; proxy: everybody who "
                "reaches the port, so that a proxy in front of it has to let in the right ones",
                .environment = {"WARPSHARE_DASHBOARD_AUTHORIZATION"}),
        [AGENT_NAMESPACE] = COMMAND_TEXT("agent-namespace", "", "NAME", "the namespace of the agents' pods; empty: any",
                .environment = {"WARPSHARE_AGENT_NAMESPACE"}),
        [AGENT_SELECTOR] = COMMAND_TEXT("agent-selector", CLUSTER_AGENT_SELECTOR, "LABELS",
                "the labels of the agents' pods", .environment = {"WARPSHARE_AGENT_SELECTOR"}),
        [INTERVAL] = COMMAND_TEXT("interval", "15", "SECONDS", "between two questions to the same agent, 1 to 3600",
                .environment = {"WARPSHARE_DASHBOARD_INTERVAL"}),
};

static const char *const shared[] = {"kubeconfig", "log-level", "log-format", NULL};

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

static int dashboard_process_start(struct dashboard_process *process, const struct option_set *set,
        const char *const *values, const struct dashboard_hosts *hosts, uint64_t seconds, struct error *err)
{
        const enum dashboard_access access =
                (enum dashboard_access)option_position(&own[AUTHORIZATION], values[AUTHORIZATION]);
        struct cluster_options cluster = CLUSTER_OPTIONS_INIT;
        struct dashboard_options options = {
                .loop = &process->loop, .address = values[ADDRESS], .access = access, .hosts = *hosts};

        if (signals_listen(&process->signals, &process->loop, on_signal, process, err) < 0)
                return -1;
        if (kube_client_open(&process->client, &process->loop, option_set_value(set, "kubeconfig"), err) != 0)
                return -1;
        cluster.client = process->client;
        cluster.agent_namespace = *values[AGENT_NAMESPACE] ? values[AGENT_NAMESPACE] : NULL;
        cluster.agent_selector = values[AGENT_SELECTOR];
        cluster.interval_ms = 1000 * seconds;
        cluster.on_change = on_cluster_change;
        cluster.data = process;
        process->cluster = cluster_start(&cluster);
        process->rights = access == DASHBOARD_TOKEN ? kube_access_new(process->client) : NULL;
        options.cluster = process->cluster;
        options.client = process->client;
        options.rights = process->rights;
        if (getrandom(&options.boot, sizeof(options.boot), 0) != sizeof(options.boot))
                options.boot = uv_hrtime();
        if (dashboard_new(&process->dashboard, &options, err) < 0)
                return -1;
        log_info("dashboard", LOG_STR("address", values[ADDRESS]), LOG_UINT("port", dashboard_port(process->dashboard)),
                LOG_STR("authorization", values[AUTHORIZATION]));
        return 0;
}

static int dashboard_run(struct command_call *call, struct error *err)
{
        const char *const *values = call->values;
        struct dashboard_process process = {0};
        struct dashboard_hosts hosts;
        uint64_t seconds;
        int status = 0;

        mallopt(M_ARENA_MAX, 1); /* libcurl's threads, which look up names, need none of their own */
        if (command_number(call, INTERVAL, " of seconds", 1, 3600, &seconds, err) < 0)
                return COMMAND_REFUSED;
        if (dashboard_hosts_read(&hosts, values[ALLOWED_HOSTS], &call->arena, err) < 0) {
                error_prefix(err, "--allowed-hosts");
                return COMMAND_REFUSED;
        }
        command_setup_log(&call->set, NULL);
        loop_init(&process.loop);
        if (dashboard_process_start(&process, &call->set, values, &hosts, seconds, err) < 0) {
                status = COMMAND_FAILED;
                dashboard_process_stop(&process);
        }
        uv_run(&process.loop, UV_RUN_DEFAULT);
        uv_loop_close(&process.loop);
        return status;
}

const struct command command_dashboard = {
        .name = "dashboard",
        .summary = "serve a page of the whole cluster: who uses what of which GPU",
        .run = dashboard_run,
        .shared = shared,
        COMMAND_OWN(own),
        .is_service = true,
        .program = "warpshare dashboard",
        .help = "usage: warpshare dashboard [OPTION...]\n"
                "\n"
                "Serves a page of the whole cluster: all nodes and GPUs as a map of shares, with who was granted how much,\n"
                "what is used of it, what is reserved, which GPUs are unhealthy and what happened. It reads the API server\n"
                "(nodes, pods, and the agents' pages through its proxy) and changes nothing. SIGTERM ends it.\n"
                "\n",
};
