// SPDX-License-Identifier: Apache-2.0
/*
 * A request to /api on its way, which is a visit:
 *
 * token ──(net/kube/access)──► viewer ──sees some only──► namespaces ──┐
 *                             └──sees all─────────────────────────┼──a history is wanted──► its agent ──► answered
 *                                                                 └──────────────────────────────────────►
 *
 * A pod that waits is read before that, since why it does depends on its labels, tolerations and affinity.
 *
 * For the page of a GPU or a pod the node's agent is asked for the last hour: the cluster's view has no histories,
 * which would be most of its memory. When the request is gone, the question that the visit waits for is cancelled.
 */
#include "cluster/dashboard/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cluster/dashboard/details.h"
#include "cluster/dashboard/viewer.h"
#include "cluster/dashboard/overview.h"
#include "cluster/dashboard/search.h"
#include "net/http/server.h"
#include "net/kube/list.h"
#include "net/kube/object.h"

#define API "/api/v1/"
#define VISIT_NAMESPACES ((size_t)KUBE_ACCESS_WISHES) /* in which a viewer's rights are asked for; more are hidden */
#define VISIT_AGENT_MS UINT64_C(3000)                 /* for the history; then the answer has none */

struct dashboard {
        struct dashboard_options options;
        struct dashboard_overview *overview;
        struct http_server *server;
        char tag[32];                      /* ETag of the page's files */
        char secret[DASHBOARD_SECRET + 2]; /* "/0123…": every path begins with it; "": none has to */
};

/*
 * The path behind the secret part; NULL: it has another one. How long the comparison takes does not depend on where
 * they differ.
 */
static const char *server_path(const struct dashboard *dashboard, const struct http_request *request)
{
        const size_t length = strlen(dashboard->secret);
        const char *path = http_request_path(request);
        unsigned char differs = 0;

        if (strnlen(path, length) < length)
                return NULL;
        for (size_t i = 0; i < length; i++)
                differs |= (unsigned char)(path[i] ^ dashboard->secret[i]);
        return differs ? NULL : path + length;
}

/* ---- the files of the page ---- */

static const struct {
        const char *ending;
        const char *type;
} types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
};

const char *dashboard_page_type(const char *name)
{
        const char *ending = strrchr(name, '.');

        for (size_t i = 0; ending && i < ARRAY_SIZE(types); i++)
                if (strcmp(ending, types[i].ending) == 0)
                        return types[i].type;
        return "application/octet-stream";
}

const struct embedded_file *dashboard_page_find(const char *name)
{
        for (const struct embedded_file *file = dashboard_page; file->name; file++)
                if (strcmp(file->name, *name ? name : "index.html") == 0)
                        return file;
        return NULL;
}

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

/* The name behind |kind|, such as "gpus/", in |path|, which is what follows API; NULL: it is of another kind. */
static const char *path_behind(const char *path, const char *kind)
{
        return text_starts_with(path, kind) ? path + strlen(kind) : NULL;
}

/* "a/b": "a" is for the caller to free; NULL: it has no slash. */
static char *first_part(const char *path)
{
        const char *slash = path ? strchr(path, '/') : NULL;

        return slash ? xasprintf("%.*s", (int)(slash - path), path) : NULL;
}

/* The node whose agent knows the history that the page of a GPU or a pod shows. */
static const struct cluster_node *find_node(const char *path, const struct cluster_view *view)
{
        const char *gpu = path_behind(path, "gpus/");
        const char *pod = path_behind(path, "pods/");
        _free_ char *namespace = first_part(pod);

        if (gpu)
                return dashboard_node_of_gpu(view, gpu);
        return namespace ? dashboard_node_of_pod(view, namespace, pod + strlen(namespace) + 1) : NULL;
}

/* |object|: the Pod that is asked for; NULL: it has not been read. */
static json_t *find_pod(
        const struct cluster_view *view, const struct dashboard_scope *scope, const char *pod, const json_t *object)
{
        _free_ char *namespace = first_part(pod);
        json_t *json = namespace ? dashboard_pod(view, scope, namespace, pod + strlen(namespace) + 1) : NULL;

        if (json && object)
                dashboard_add_why(json, view, scope, object);
        return json;
}

static void answer_api(struct dashboard *dashboard, struct http_request *request, const struct cluster_view *view,
        const struct dashboard_scope *scope, const json_t *object)
{
        const char *path = server_path(dashboard, request) + strlen(API);
        const char *query = http_request_argument(request, "q");
        const char *node = path_behind(path, "nodes/");
        const char *gpu = path_behind(path, "gpus/");
        const char *pod = path_behind(path, "pods/");

        if (strcmp(path, "overview") == 0)
                answer_text(request, 200,
                        dashboard_overview_write(dashboard->overview, view, scope,
                                http_request_argument(request, "since"), (int64_t)time(NULL)));
        else if (strcmp(path, "pods") == 0)
                answer_json(request, 200, dashboard_pods(view, scope, http_request_argument(request, "namespace")));
        else if (strcmp(path, "events") == 0)
                answer_json(request, 200, dashboard_events(view, scope));
        else if (strcmp(path, "search") == 0)
                answer_json(request, 200, dashboard_search(view, scope, query ? query : ""));
        else if (node)
                answer_found(request, dashboard_node(view, scope, node), "no such node");
        else if (gpu)
                answer_found(request, dashboard_gpu(view, scope, gpu),
                        "no such GPU or MIG device, or its node's agent has not answered yet");
        else if (pod)
                answer_found(request, find_pod(view, scope, pod, object),
                        "no pod of that name has a share of a GPU or waits for one, or you may not see it");
        else
                server_answer_error(request, 404, "there are overview, nodes/, gpus/, pods, pods/, events and search");
}

/* ---- a visit ---- */

struct visit {
        struct dashboard *dashboard;
        struct http_request *request;
        struct kube_question *question;
        struct kube_call *call;
        struct arena arena;
        const char *token;
        const char **namespaces; /* asked for; in order */
        size_t n_namespaces;
        struct dashboard_scope scope;
        const char *node; /* whose agent is asked */
        json_t *pod;      /* that waits, and is asked for */
};

static void visit_free(struct visit *visit)
{
        kube_access_cancel(visit->question);
        kube_call_cancel(visit->call);
        json_decref(visit->pod);
        arena_done(&visit->arena);
        free(visit);
}

static void on_visitor_gone(void *data)
{
        visit_free(data);
}

static void visit_refuse(struct visit *visit, unsigned int status, const char *text)
{
        server_answer_error(visit->request, status, text);
        visit_free(visit);
}

static void visit_answer(struct visit *visit, const struct cluster_view *view)
{
        answer_api(visit->dashboard, visit->request, view, &visit->scope, visit->pod);
        visit_free(visit);
}

/* ---- a visit: the last hour ---- */

/* |view| with |page| for that of |node|. */
static void answer_with_page(struct visit *visit, const struct cluster_view *view, const struct node_page *page)
{
        const struct cluster_node **nodes = ARENA_ARRAY(&visit->arena, const struct cluster_node *, view->n_nodes + 1);
        const struct cluster_node *known = cluster_find_node(view, visit->node);
        struct cluster_view with_page = *view;
        struct cluster_node node;

        for (size_t i = 0; i < view->n_nodes; i++)
                nodes[i] = view->nodes[i] == known ? &node : view->nodes[i];
        if (known)
                node = *known;
        node.page = page;
        with_page.nodes = nodes;
        visit_answer(visit, &with_page);
}

/* If the agent does not answer, the visit is answered with its last known page. */
static void visit_on_agent_answer(const struct kube_answer *answer, void *data)
{
        struct visit *visit = data;
        const struct cluster_view *view = cluster_view(visit->dashboard->options.cluster);
        struct node_page page;
        struct error err;

        visit->call = NULL;
        if (answer->error || !answer->text ||
                node_page_read(&page, &visit->arena, answer->text, answer->size, &err) < 0 ||
                !text_is_same(page.node, visit->node))
                visit_answer(visit, view);
        else
                answer_with_page(visit, view, &page);
}

static void find_history(struct visit *visit)
{
        const struct cluster_view *view = cluster_view(visit->dashboard->options.cluster);
        const struct cluster_node *node = find_node(server_path(visit->dashboard, visit->request) + strlen(API), view);
        _free_ char *path = node && node->state == CLUSTER_AGENT_ANSWERS ? cluster_agent_path(node, "/node") : NULL;

        if (!path) {
                visit_answer(visit, view);
                return;
        }
        visit->node = arena_strdup(&visit->arena, node->name);
        visit->call = kube_client_send(visit->dashboard->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                                 .path = path,
                                                                                 .query = "history=1",
                                                                                 .is_text = true,
                                                                                 .timeout_ms = VISIT_AGENT_MS,
                                                                                 .done = visit_on_agent_answer,
                                                                                 .data = visit});
}

/* ---- a visit: the pod that waits, of which the view has no more than what the scheduler says ---- */

/* Without an answer the page does not say why. */
static void visit_on_pod(const struct kube_answer *answer, void *data)
{
        struct visit *visit = data;
        json_t *items = answer->error ? NULL : json_object_get(answer->object, "items");

        visit->call = NULL;
        visit->pod = json_incref(json_array_get(items, 0));
        find_history(visit);
}

static bool is_waiting(const struct visit *visit, const char *namespace, const char *name)
{
        return dashboard_scope_sees(&visit->scope, namespace) &&
               cluster_find_pod(cluster_view(visit->dashboard->options.cluster), namespace, name);
}

/* It is listed by its name: the dashboard's account has no right to get a pod. */
static void visit_read_pod(struct visit *visit)
{
        const char *pod = path_behind(server_path(visit->dashboard, visit->request) + strlen(API), "pods/");
        _cleanup_(strbuf_done) struct strbuf query = STRBUF_INIT;
        _free_ char *namespace = first_part(pod);
        const char *name = namespace ? pod + strlen(namespace) + 1 : "";
        _free_ char *selector = xasprintf("metadata.name=%s", name);
        _free_ char *path = NULL;

        if (!namespace || !is_waiting(visit, namespace, name)) {
                find_history(visit);
                return;
        }
        path = object_collection("/api/v1", namespace, "pods");
        kube_list_select(&query, selector, NULL);
        visit->call = kube_client_send(visit->dashboard->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                                 .path = path,
                                                                                 .query = query.data,
                                                                                 .timeout_ms = VISIT_AGENT_MS,
                                                                                 .done = visit_on_pod,
                                                                                 .data = visit});
}

/* ---- a visit: whose token it has ---- */

/* False: it is answered. */
static bool is_answer_known(struct visit *visit, const struct kube_verdict *verdict)
{
        visit->question = NULL;
        if (!verdict->error)
                return true;
        if (verdict->error->kind == ERROR_DENIED)
                http_request_distrust(visit->request);
        visit_refuse(visit, verdict->error->kind == ERROR_DENIED ? 401 : 503, verdict->error->text);
        return false;
}

static void ask_rights(struct visit *visit, const struct kube_wish *wishes, size_t n_wishes, kube_verdict_fn *done)
{
        const struct kube_asker asker = {.token = visit->token, .is_suspect = http_request_is_suspect(visit->request)};

        visit->question = kube_access_ask(visit->dashboard->options.rights, &asker, wishes, n_wishes, done, visit);
}

static void on_namespaces_reviewed(const struct kube_verdict *verdict, void *data)
{
        struct visit *visit = data;

        if (!is_answer_known(visit, verdict))
                return;
        visit->scope.namespaces = visit->namespaces;
        for (size_t i = 0; i < visit->n_namespaces; i++)
                if (verdict->allowed[i])
                        visit->namespaces[visit->scope.n_namespaces++] = visit->namespaces[i];
        visit_read_pod(visit);
}

/* The namespaces of all shares and waiting pods; |ret| NULL: only how many there are. */
static size_t visit_list_namespaces(const struct cluster_view *view, const char **ret)
{
        size_t count = 0;

        for (size_t i = 0; i < view->n_nodes; i++)
                for (struct cluster_place at = {0}; cluster_next_share(view->nodes[i]->page, &at);) {
                        if (ret && at.share->pod_namespace)
                                ret[count] = at.share->pod_namespace;
                        count += at.share->pod_namespace != NULL;
                }
        for (size_t i = 0; ret && i < view->n_pods; i++)
                ret[count + i] = view->pods[i]->namespace;
        return count + view->n_pods;
}

/* Finds the namespaces of the view, each once and sorted. */
static void find_namespaces(struct visit *visit, const struct cluster_view *view)
{
        _cleanup_(arena_done) struct arena scratch = ARENA_INIT;
        const char **names = ARENA_ARRAY(&scratch, const char *, visit_list_namespaces(view, NULL) + 1);
        const size_t count = visit_list_namespaces(view, names);

        qsort(names, count, sizeof(*names), text_compare);
        visit->namespaces = ARENA_ARRAY(&visit->arena, const char *, VISIT_NAMESPACES);
        for (size_t i = 0; i < count && visit->n_namespaces < VISIT_NAMESPACES; i++)
                if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
                        visit->namespaces[visit->n_namespaces++] = arena_strdup(&visit->arena, names[i]);
}

static void ask_for_namespaces(struct visit *visit)
{
        struct kube_wish wishes[VISIT_NAMESPACES];

        find_namespaces(visit, cluster_view(visit->dashboard->options.cluster));
        for (size_t i = 0; i < visit->n_namespaces; i++)
                wishes[i] = (struct kube_wish){.verb = "list", .resource = "pods", .namespace = visit->namespaces[i]};
        ask_rights(visit, wishes, visit->n_namespaces, on_namespaces_reviewed);
}

static void on_viewer_reviewed(const struct kube_verdict *verdict, void *data)
{
        struct visit *visit = data;

        if (!is_answer_known(visit, verdict))
                return;
        if (!verdict->allowed[0]) {
                _free_ char *text =
                        xasprintf("%s may not list nodes: bind the ClusterRole for viewers of the dashboard to it",
                                verdict->user);

                http_request_distrust(visit->request);
                text_clean(text);
                visit_refuse(visit, 403, text);
                return;
        }
        http_request_trust(visit->request);
        if (verdict->allowed[1]) {
                visit->scope.sees_all = true;
                visit_read_pod(visit);
        } else {
                ask_for_namespaces(visit);
        }
}

static void ask_for_viewer(struct visit *visit)
{
        static const struct kube_wish wishes[] = {
                {.verb = "list", .resource = "nodes"}, {.verb = "list", .resource = "pods"}};
        const char *token = kube_access_bearer(http_request_header(visit->request, "Authorization"));

        if (!token) {
                visit_refuse(visit, 401, "a token of the cluster is needed: kubectl create token ACCOUNT");
                return;
        }
        visit->token = arena_strdup(&visit->arena, token);
        ask_rights(visit, wishes, ARRAY_SIZE(wishes), on_viewer_reviewed);
}

static void visit_begin(struct dashboard *dashboard, struct http_request *request)
{
        struct visit *visit = xcalloc(1, sizeof(*visit));

        visit->dashboard = dashboard;
        visit->request = request;
        http_request_on_gone(request, on_visitor_gone, visit);
        if (dashboard->options.access == DASHBOARD_TOKEN) {
                ask_for_viewer(visit);
        } else {
                visit->scope.sees_all = true;
                visit_read_pod(visit);
        }
}

/* ---- who asks ---- */

/*
 * Browsers say whose page asks: one of this port, or none where a person has typed the address. Older ones say it of
 * questions to other sites only, by Origin.
 */
static bool is_of_another_site(const struct http_request *request)
{
        const char *site = http_request_header(request, "Sec-Fetch-Site");
        const char *origin = http_request_header(request, "Origin");
        const char *host = origin ? strstr(origin, "://") : NULL;

        if (origin && !(host && text_is_same(host + strlen("://"), http_request_header(request, "Host"))))
                return true;
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
        const char *path = server_path(dashboard, request);
        const struct embedded_file *file = path && *path == '/' ? dashboard_page_find(path + 1) : NULL;

        if (!path)
                server_answer_error(request, 404,
                        "the address has a secret part: open the one that 'warpshare dashboard' has printed");
        else if (!*path)
                server_answer_error(request, 404, "the address ends with '/': open it with that");
        else if (strcmp(path, "/livez") == 0)
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
                visit_begin(dashboard, request);
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
        if (options->secret)
                snprintf(dashboard->secret, sizeof(dashboard->secret), "/%s", options->secret);
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
