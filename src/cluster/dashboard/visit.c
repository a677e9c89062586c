/*
 * token ──(net/kube/access)──► viewer ──sees some only──► namespaces ──┐
 *                             └──sees all─────────────────────────┼──a history is wanted──► its agent ──► answered
 *                                                                 └──────────────────────────────────────►
 * When the request is gone, the question that the visit waits for is cancelled.
 */
#include "cluster/dashboard/visit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

struct visit {
        const struct visit_options *options;
        struct http_request *request;
        struct kube_question *question;
        struct kube_call *call;
        struct arena arena;
        const char *token;
        const char **namespaces; /* asked for; in order */
        size_t n_namespaces;
        struct dashboard_scope scope;
        const char *node; /* whose agent is asked */
};

static void visit_free(struct visit *visit)
{
        kube_access_cancel(visit->question);
        kube_call_cancel(visit->call);
        arena_done(&visit->arena);
        free(visit);
}

static void on_visitor_gone(void *data)
{
        visit_free(data);
}

static void visit_refuse(struct visit *visit, unsigned int status, const char *text)
{
        visit->options->refuse(visit->request, status, text);
        visit_free(visit);
}

static void visit_answer(struct visit *visit, const struct cluster_view *view)
{
        visit->options->answer(visit->request, view, &visit->scope, visit->options->data);
        visit_free(visit);
}

/* ---- the last hour ---- */

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
        const struct cluster_view *view = cluster_view(visit->options->cluster);
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
        const struct cluster_view *view = cluster_view(visit->options->cluster);
        const struct cluster_node *node = visit->options->find_node(visit->request, view);
        _free_ char *path = node && node->state == CLUSTER_AGENT_ANSWERS ? cluster_agent_path(node, "/node") : NULL;

        if (!path) {
                visit_answer(visit, view);
                return;
        }
        visit->node = arena_strdup(&visit->arena, node->name);
        visit->call = kube_client_send(visit->options->client, &(struct kube_request){.method = KUBE_GET,
                                                                       .path = path,
                                                                       .query = "history=1",
                                                                       .is_text = true,
                                                                       .timeout_ms = VISIT_AGENT_MS,
                                                                       .done = visit_on_agent_answer,
                                                                       .data = visit});
}

/* ---- who asks ---- */

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

        visit->question = kube_access_ask(visit->options->rights, &asker, wishes, n_wishes, done, visit);
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
        find_history(visit);
}

static size_t add_namespaces(const struct report_gpu *gpu, const char **ret)
{
        size_t count = 0;

        for (size_t i = 0; i < gpu->n_units; i++)
                for (size_t j = 0; j < gpu->units[i].n_shares; j++)
                        if (gpu->units[i].shares[j].pod_namespace) {
                                if (ret)
                                        ret[count] = gpu->units[i].shares[j].pod_namespace;
                                count++;
                        }
        return count;
}

/* The namespaces of all shares and waiting pods; |ret| NULL: only how many there are. */
static size_t visit_list_namespaces(const struct cluster_view *view, const char **ret)
{
        size_t count = 0;

        for (size_t i = 0; i < view->n_nodes; i++) {
                const struct node_page *page = view->nodes[i]->page;

                for (size_t j = 0; page && j < page->n_gpus; j++)
                        count += add_namespaces(&page->gpus[j], ret ? ret + count : NULL);
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

        find_namespaces(visit, cluster_view(visit->options->cluster));
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
                find_history(visit);
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

void visit_begin(struct http_request *request, const struct visit_options *options)
{
        struct visit *visit = xcalloc(1, sizeof(*visit));

        visit->options = options;
        visit->request = request;
        http_request_on_gone(request, on_visitor_gone, visit);
        if (options->rights) {
                ask_for_viewer(visit);
        } else {
                visit->scope.sees_all = true;
                find_history(visit);
        }
}
