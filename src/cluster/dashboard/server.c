#include "cluster/dashboard/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cluster/dashboard/details.h"
#include "cluster/dashboard/json.h"
#include "cluster/dashboard/overview.h"
#include "cluster/dashboard/page.h"
#include "cluster/dashboard/search.h"
#include "cluster/dashboard/visit.h"
#include "net/http/server.h"

#define API "/api/v1/"

struct dashboard {
        struct dashboard_options options;
        struct dashboard_overview *overview;
        struct visit_options visits;
        struct http_server *server;
        char tag[32]; /* ETag of the page's files */
};

/* ---- answers ---- */

/*
 * Only files of this port, no inline script or style, no frame around it; and in browsers that know Trusted Types, no
 * text becomes markup.
 */
static const struct http_header page_headers[] = {
        {"Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                                    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                                    "require-trusted-types-for 'script'; trusted-types 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
};

/* |more|: up to two, which end with one without a name. */
static void answer(struct http_request *request, struct http_answer answer, const struct http_header *more)
{
        struct http_header headers[ARRAY_SIZE(page_headers) + 3] = {0};

        memcpy(headers, page_headers, sizeof(page_headers));
        for (size_t i = ARRAY_SIZE(page_headers); more->name; i++)
                headers[i] = *more++;
        answer.headers = headers;
        http_request_answer(request, &answer);
}

static void answer_text(struct http_request *request, unsigned int status, struct http_text *text)
{
        static const struct http_header more[] = {{"Cache-Control", "no-store"}, {0}};

        answer(request, (struct http_answer){.status = status, .type = "application/json; charset=utf-8", .text = text},
                more);
}

/* Takes |json|. */
static void answer_json(struct http_request *request, unsigned int status, json_t *json)
{
        char *text = json_dumps(json, DASHBOARD_JSON_FLAGS);

        json_decref(json);
        answer_text(request, status, http_text_new(text, strlen(text)));
}

static void server_answer_error(struct http_request *request, unsigned int status, const char *text)
{
        answer_json(request, status, json_pack("{s:s}", "error", text));
}

static void answer_file(struct dashboard *dashboard, struct http_request *request, const struct embedded_file *file)
{
        const struct http_header more[] = {{"Cache-Control", "no-cache"}, {"ETag", dashboard->tag}, {0}};
        const char *known = http_request_header(request, "If-None-Match");
        char *text;

        if (known && strcmp(known, dashboard->tag) == 0) {
                answer(request, (struct http_answer){.status = 304}, more);
                return;
        }
        text = xmalloc(file->size + 1);
        memcpy(text, file->data, file->size);
        answer(request,
                (struct http_answer){.status = 200,
                        .type = dashboard_page_type(file->name),
                        .text = http_text_new(text, file->size)},
                more);
}

/* ---- what a viewer asks for ---- */

static void answer_found(struct http_request *request, json_t *json, const char *else_error)
{
        if (json)
                answer_json(request, 200, json);
        else
                server_answer_error(request, 404, else_error);
}

/* "a/b": |*ret_first| is for the caller to free, or NULL. */
static const char *split_path(const char *path, char **ret_first)
{
        const char *slash = strchr(path, '/');

        *ret_first = slash ? strndup(path, (size_t)(slash - path)) : NULL;
        return slash ? slash + 1 : path;
}

static json_t *find_pod(const struct cluster_view *view, const struct dashboard_scope *scope, const char *path)
{
        _free_ char *namespace = NULL;
        const char *name = split_path(path, &namespace);

        return namespace ? dashboard_pod(view, scope, namespace, name) : NULL;
}

/* The node whose agent knows the history that the page of a GPU or a pod shows. */
static const struct cluster_node *find_node(const struct http_request *request, const struct cluster_view *view)
{
        const char *path = http_request_path(request);
        _free_ char *namespace = NULL;
        const char *name;

        if (text_starts_with(path, API "gpus/"))
                return dashboard_node_of_gpu(view, path + strlen(API "gpus/"));
        if (!text_starts_with(path, API "pods/"))
                return NULL;
        name = split_path(path + strlen(API "pods/"), &namespace);
        return namespace ? dashboard_node_of_pod(view, namespace, name) : NULL;
}

static void answer_api(
        struct http_request *request, const struct cluster_view *view, const struct dashboard_scope *scope, void *data)
{
        struct dashboard *dashboard = data;
        const char *path = http_request_path(request) + strlen(API);
        const char *query = http_request_argument(request, "q");

        if (strcmp(path, "overview") == 0)
                answer_text(request, 200,
                        dashboard_overview_write(dashboard->overview, view, scope,
                                http_request_argument(request, "since"), (int64_t)time(NULL)));
        else if (strcmp(path, "events") == 0)
                answer_json(request, 200, dashboard_events(view, scope));
        else if (strcmp(path, "search") == 0)
                answer_json(request, 200, dashboard_search(view, scope, query ? query : ""));
        else if (text_starts_with(path, "nodes/"))
                answer_found(request, dashboard_node(view, scope, path + strlen("nodes/")), "no such node");
        else if (text_starts_with(path, "gpus/"))
                answer_found(request, dashboard_gpu(view, scope, path + strlen("gpus/")),
                        "no such GPU or MIG device, or its node's agent has not answered yet");
        else if (text_starts_with(path, "pods/"))
                answer_found(request, find_pod(view, scope, path + strlen("pods/")),
                        "no pod of that name has a share of a GPU or waits for one, or you may not see it");
        else
                server_answer_error(request, 404, "there are overview, nodes/, gpus/, pods/, events and search");
}

/* ---- who asks ---- */

/* Browsers say whose page asks: one of this port, or none where a person has typed the address. */
static bool is_of_another_site(const struct http_request *request)
{
        const char *site = http_request_header(request, "Sec-Fetch-Site");

        return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

static void answer_stranger(struct http_request *request)
{
        const char *host = http_request_header(request, "Host");
        _free_ char *text = xasprintf("'%.100s' is no known name of this dashboard: --allowed-hosts, in the chart "
                                      "dashboard.allowedHosts, makes it one",
                host ? host : "");

        text_clean(text);
        server_answer_error(request, 421, text);
}

/* ---- requests ---- */

static void server_answer_health(struct dashboard *dashboard, struct http_request *request)
{
        const struct cluster_view *view = cluster_view(dashboard->options.cluster);
        const struct error *trouble = view->nodes_trouble ? view->nodes_trouble : view->agents_trouble;
        _free_ char *text = xasprintf("%s\n", trouble ? trouble->text : "ok");

        http_request_answer_plain(request, trouble ? 503 : 200, text);
}

static void on_dashboard_request(struct http_request *request, void *data)
{
        struct dashboard *dashboard = data;
        const char *path = http_request_path(request);
        const struct embedded_file *file = *path == '/' ? dashboard_page_find(path + 1) : NULL;

        if (strcmp(path, "/livez") == 0)
                http_request_answer_plain(request, 200, "ok\n");
        else if (strcmp(path, "/healthz") == 0)
                server_answer_health(dashboard, request);
        else if (!dashboard_hosts_allow(&dashboard->options.hosts, http_request_header(request, "Host")))
                answer_stranger(request);
        else if (file)
                answer_file(dashboard, request, file);
        else if (!text_starts_with(path, API))
                server_answer_error(request, 404, "there is no such page");
        else if (is_of_another_site(request))
                server_answer_error(request, 403, "the page of another site asks");
        else
                visit_begin(request, &dashboard->visits);
}

/* ---- start and end ---- */

int dashboard_new(struct dashboard **ret, const struct dashboard_options *options, struct error *err)
{
        struct dashboard *dashboard = xcalloc(1, sizeof(*dashboard));
        const struct http_server_options server = {
                .loop = options->loop,
                .address = options->address,
                .connections = DASHBOARD_CONNECTIONS,
                .per_peer = DASHBOARD_CONNECTIONS,
                .memory = DASHBOARD_MEMORY,
                .on_request = on_dashboard_request,
                .data = dashboard,
        };

        dashboard->options = *options;
        dashboard->visits = (struct visit_options){.cluster = options->cluster,
                .client = options->client,
                .rights = options->access == DASHBOARD_TOKEN ? options->rights : NULL,
                .answer = answer_api,
                .refuse = server_answer_error,
                .find_node = find_node,
                .data = dashboard};
        snprintf(dashboard->tag, sizeof(dashboard->tag), "\"%016" PRIx64 "\"", options->boot);
        if (http_server_new(&dashboard->server, &server, err) < 0) {
                free(dashboard);
                return -1;
        }
        dashboard->overview = dashboard_overview_new(options->boot);
        *ret = dashboard;
        return 0;
}

unsigned int dashboard_port(const struct dashboard *dashboard)
{
        return http_server_port(dashboard->server);
}

struct dashboard *dashboard_close(struct dashboard *dashboard)
{
        if (!dashboard)
                return NULL;
        http_server_close(dashboard->server);
        dashboard_overview_free(dashboard->overview);
        free(dashboard);
        return NULL;
}
