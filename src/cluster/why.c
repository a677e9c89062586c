// SPDX-License-Identifier: Apache-2.0
#include "cluster/why.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/text.h"
#include "net/kube/object.h"

struct explanation {
        struct why *why;
        struct arena *arena;
        const struct why_input *input;
        const struct cluster_pod *pod;
        const char *name;             /* "team-a/train-0" */
        size_t counts[N_WHY_CLASSES]; /* of |why->nodes| */
};

const char *why_state_name(enum why_state state)
{
        static const char *const names[] = {
                [WHY_RUNS] = "runs",
                [WHY_ENDED] = "ended",
                [WHY_GATED] = "gated",
                [WHY_WAITS] = "waits",
                [WHY_STARTS] = "starts",
                [WHY_REFUSED] = "refused",
        };

        return names[state];
}

/* ---- texts ---- */

static const char *why_take(struct arena *arena, struct strbuf *text)
{
        const char *copy = arena_strdup(arena, text->data);

        strbuf_done(text);
        return copy;
}

/* The sentence is the pod's name and |format|; |todo| may be NULL. */
static void why_say(const struct explanation *explanation, const char *todo, const char *format, ...) PRINTF_LIKE(3, 4);

static void why_say(const struct explanation *explanation, const char *todo, const char *format, ...)
{
        const char *text;
        va_list args;

        va_start(args, format);
        text = arena_vprintf(explanation->arena, format, args);
        va_end(args);
        explanation->why->sentence = arena_printf(explanation->arena, "%s %s", explanation->name, text);
        explanation->why->todo = todo;
}

/* "12 nvidia.com/gpu.shared and 1 nvidia.com/gpu", "the claim p-gpu" */
static const char *name_requests(const struct explanation *explanation)
{
        const struct cluster_pod *pod = explanation->pod;
        const size_t count = pod->n_requests + pod->n_claims;
        struct strbuf text = STRBUF_INIT;

        for (size_t i = 0; i < count; i++) {
                if (i > 0)
                        strbuf_puts(&text, i + 1 == count ? " and " : ", ");
                if (i < pod->n_requests)
                        strbuf_printf(&text, "%" PRIu64 " %s", pod->requests[i].count, pod->requests[i].resource);
                else if (pod->claims[i - pod->n_requests].object)
                        strbuf_printf(&text, "the claim %s", pod->claims[i - pod->n_requests].object);
                else
                        strbuf_printf(&text, "a claim '%s'", pod->claims[i - pod->n_requests].name);
        }
        return why_take(explanation->arena, &text);
}

/* The newest warning; |but| a reason that does not count, |only| one that alone counts; either may be NULL. */
static const char *newest_warning(const struct explanation *explanation, const char *only, const char *but)
{
        const json_t *events = explanation->input->events;

        for (size_t i = json_array_size(events); i-- > 0;) {
                const json_t *event = json_array_get(events, i);
                const char *reason = object_text(event, "reason", NULL);

                if (text_is_same(object_text(event, "type", NULL), "Warning") && !text_is_same(reason, but) &&
                        (!only || text_is_same(reason, only)))
                        return read_text(explanation->arena, event, "message");
        }
        return NULL;
}

/* ---- waits for a node ---- */

static void find_reasons(struct explanation *explanation)
{
        const struct cluster_view *view = explanation->input->view;
        struct why *why = explanation->why;
        struct why_finding *findings = ARENA_ARRAY(explanation->arena, struct why_finding, view->n_nodes);

        for (size_t i = 0; i < view->n_nodes; i++) {
                struct why_finding *finding = &findings[why->n_nodes];

                if (!why_has_any(explanation->pod, view->nodes[i]))
                        continue;
                why_find(finding, explanation->arena, explanation->input->pod, explanation->pod, view->nodes[i]);
                explanation->counts[finding->class]++;
                why->n_nodes++;
        }
        why->nodes = findings;
}

static uint64_t greatest(const struct explanation *explanation, enum why_class class)
{
        uint64_t most = 0;

        for (size_t i = 0; i < explanation->why->n_nodes; i++)
                if (explanation->why->nodes[i].class == class)
                        most = MAX(most, explanation->why->nodes[i].most);
        return most;
}

/* There is one. */
static const struct why_finding *why_first_of(const struct explanation *explanation, enum why_class class)
{
        const struct why_finding *finding = explanation->why->nodes;

        while (finding->class != class)
                finding++;
        return finding;
}

/* A resource that some node has, and whose name is like the one that no node has. */
static const char *nearest_resource(const struct explanation *explanation)
{
        const struct cluster_view *view = explanation->input->view;
        const char *names[256];
        size_t count = 0;

        for (size_t i = 0; i < view->n_nodes; i++)
                for (size_t j = 0; view->nodes[i]->object && j < view->nodes[i]->object->n_resources; j++)
                        if (count < ARRAY_SIZE(names) && view->nodes[i]->object->resources[j].capacity > 0)
                                names[count++] = view->nodes[i]->object->resources[j].name;
        return text_nearest(explanation->pod->requests[0].resource, names, count);
}

static void say_nowhere(struct explanation *explanation)
{
        const struct cluster_view *view = explanation->input->view;
        const char *nearest = nearest_resource(explanation);
        size_t silent = 0;

        for (size_t i = 0; i < view->n_nodes; i++)
                silent += view->nodes[i]->state == CLUSTER_AGENT_SILENT;
        why_say(explanation,
                silent ? arena_printf(explanation->arena,
                                 "%zu node%s an agent that does not answer: 'kubectl warpshare nodes' names %s", silent,
                                 silent == 1 ? " has" : "s have", silent == 1 ? "it" : "them")
                       : "correct the resource's name, or the configuration of the nodes; 'kubectl warpshare nodes' shows what "
                         "they offer",
                "waits: it asks for %s, which no node has%s%s", name_requests(explanation),
                nearest ? "; there is " : "", nearest ? nearest : "");
}

static void say_too_large(struct explanation *explanation)
{
        const struct why_finding *finding = why_first_of(explanation, WHY_SHARE_TOO_LARGE);
        const uint64_t most = greatest(explanation, WHY_SHARE_TOO_LARGE);

        why_say(explanation,
                arena_printf(explanation->arena,
                        "ask for at most %" PRIu64 ", or for whole GPUs; or configure fewer, larger replicas", most),
                "waits: it asks for %" PRIu64 " %s in one container, and the largest share of one GPU is %" PRIu64,
                finding->request->largest, finding->request->resource, most);
}

static void say_too_small(struct explanation *explanation)
{
        const struct why_finding *finding = why_first_of(explanation, WHY_NODE_TOO_SMALL);
        uint64_t reserved = 0;

        for (size_t i = 0; i < explanation->why->n_nodes; i++)
                reserved = MAX(reserved, explanation->why->nodes[i].reserved);
        why_say(explanation,
                reserved ? "set maxPerRequest to the largest request of your pods, or 'reserve: none'"
                         : "ask for fewer, or part it over several pods",
                "waits: it asks for %" PRIu64 " %s, and the most that a node offers is %" PRIu64 "%s",
                finding->request->count, finding->request->resource, greatest(explanation, WHY_NODE_TOO_SMALL),
                reserved ? arena_printf(explanation->arena,
                                   "; up to %" PRIu64
                                   " more are reserved so that each request finds its replicas on one GPU",
                                   reserved)
                         : "");
}

/* "on 2 too few are free", for each class that a node is of; then the way out is that of the most common one. */
static void say_mixed(struct explanation *explanation)
{
        static const struct {
                enum why_class class;
                const char *before; /* of the number */
                const char *one;    /* after it */
                const char *many;
                const char *todo;
        } texts[] = {
                {WHY_TAKEN, "on ", "too few replicas are free", "too few replicas are free",
                        "wait until a pod ends, or end one of those that have them"},
                {WHY_NODE_TOO_SMALL, "", "has fewer in all", "have fewer in all", "ask for fewer"},
                {WHY_SHARE_TOO_LARGE, "on ", "no GPU has as many", "no GPU has as many",
                        "ask for fewer in one container"},
                {WHY_NOT_OFFERED, "on ", "kubelet has none of it now", "kubelet has none of it now",
                        "'kubectl warpshare doctor NODE' says why"},
                {WHY_TAINTED, "", "has a taint that it does not tolerate", "have a taint that it does not tolerate",
                        "tolerate the taint"},
                {WHY_NOT_SELECTED, "", "is not selected by it", "are not selected by it",
                        "correct its node selector or affinity"},
                {WHY_CORDONED, "", "is cordoned", "are cordoned", "kubectl uncordon NODE"},
                {WHY_NOT_READY, "", "is not ready", "are not ready", "see why the nodes are not ready"},
        };
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        const size_t n_nodes = explanation->why->n_nodes;
        const char *todo = NULL;
        size_t most = 0;

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                const size_t count = explanation->counts[texts[i].class];

                if (count == 0)
                        continue;
                strbuf_printf(&text, "%s%s%zu %s", most ? ", " : "", texts[i].before, count,
                        count == 1 ? texts[i].one : texts[i].many);
                if (count > most) {
                        most = count;
                        todo = texts[i].todo;
                }
        }
        why_say(explanation, todo, "waits: it asks for %s; %zu node%s it: %s", name_requests(explanation), n_nodes,
                n_nodes == 1 ? " has" : "s have", text.data);
}

static void say_room(struct explanation *explanation)
{
        why_say(explanation, NULL, "waits: it asks for %s, and %s has room for it%s", name_requests(explanation),
                why_first_of(explanation, WHY_HAS_ROOM)->name,
                explanation->why->said ? "; the scheduler has another reason"
                                       : ", the scheduler has not said anything yet");
}

static const char *missing_claim(const struct explanation *explanation)
{
        for (size_t i = 0; i < explanation->pod->n_claims; i++) {
                const char *wanted = explanation->pod->claims[i].object;
                bool is_there = false;

                for (size_t k = 0; k < json_array_size(explanation->input->claims); k++)
                        is_there |= text_is_same(
                                object_text(json_array_get(explanation->input->claims, k), "metadata", "name", NULL),
                                wanted);
                if (wanted && !is_there && explanation->input->claims)
                        return wanted;
        }
        return NULL;
}

static bool is_allocated(const struct explanation *explanation)
{
        const json_t *claims = explanation->input->claims;

        for (size_t i = 0; i < json_array_size(claims); i++)
                if (!object_find(json_array_get(claims, i), "status", "allocation", NULL))
                        return false;
        return json_array_size(claims) > 0;
}

static void say_claims(struct explanation *explanation)
{
        const char *missing = missing_claim(explanation);

        if (missing)
                why_say(explanation, "create the claim, or correct its name in the pod",
                        "waits: its ResourceClaim %s is not there", missing);
        else
                why_say(explanation,
                        "wait until a pod ends, or ask for less; 'kubectl warpshare top' shows who has what",
                        "waits: it asks for %s, %s", name_requests(explanation),
                        is_allocated(explanation) ? "which is allocated, and its node does not take the pod"
                                                  : "and no node has devices for that now");
}

static void why_explain_waiting(struct explanation *explanation)
{
        struct why *why = explanation->why;

        why->state = WHY_WAITS;
        why->said = explanation->pod->message && *explanation->pod->message
                            ? explanation->pod->message
                            : newest_warning(explanation, "FailedScheduling", NULL);
        find_reasons(explanation);
        if (explanation->pod->n_requests == 0) {
                say_claims(explanation);
        } else if (explanation->why->n_nodes == 0) {
                say_nowhere(explanation);
        } else if (explanation->counts[WHY_HAS_ROOM] > 0) {
                if (explanation->pod->n_claims > 0)
                        say_claims(explanation);
                else
                        say_room(explanation);
        } else if (explanation->counts[WHY_SHARE_TOO_LARGE] == explanation->why->n_nodes) {
                say_too_large(explanation);
        } else if (explanation->counts[WHY_NODE_TOO_SMALL] == explanation->why->n_nodes) {
                say_too_small(explanation);
        } else {
                say_mixed(explanation);
        }
}

/* ---- on a node ---- */

/* "main waits: ImagePullBackOff", of the first container that does not run. */
static const char *waiting_container(const struct explanation *explanation)
{
        static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};

        for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
                const json_t *list = object_find(explanation->input->pod, "status", lists[k], NULL);

                for (size_t i = 0; i < MIN(json_array_size(list), CLUSTER_CONTAINERS); i++) {
                        const json_t *status = json_array_get(list, i);
                        const char *reason = object_text(status, "state", "waiting", "reason", NULL);

                        if (reason)
                                return read_cut(explanation->arena,
                                        arena_printf(explanation->arena, "its container %s waits: %s",
                                                read_text_or_empty(explanation->arena, status, "name"), reason));
                }
        }
        return "its containers do not run yet";
}

static const char *waiting_message(const struct explanation *explanation)
{
        const json_t *list = object_find(explanation->input->pod, "status", "containerStatuses", NULL);

        for (size_t i = 0; i < MIN(json_array_size(list), CLUSTER_CONTAINERS); i++) {
                const char *message = object_text(json_array_get(list, i), "state", "waiting", "message", NULL);

                if (message && *message)
                        return read_cut(explanation->arena, message);
        }
        return NULL;
}

static void explain_starting(struct explanation *explanation)
{
        struct why *why = explanation->why;

        why->state = WHY_STARTS;
        why->said = newest_warning(explanation, NULL, "FailedScheduling");
        if (!why->said)
                why->said = waiting_message(explanation);
        why_say(explanation,
                newest_warning(explanation, "FailedPrepareDynamicResources", NULL)
                        ? arena_printf(explanation->arena, "kubectl warpshare doctor %s", explanation->pod->node)
                        : NULL,
                "is on %s, and %s", explanation->pod->node, waiting_container(explanation));
}

static void put_share(struct strbuf *text, const struct report_unit *unit, const struct report_share *share)
{
        strbuf_puts(text, text->size ? ", and " : "");
        if (!isnan(share->replicas) && !isnan(unit->replicas))
                strbuf_printf(text, "%.0f of %.0f replicas", share->replicas, unit->replicas);
        else
                strbuf_puts(text, "a share");
        strbuf_printf(text, " of GPU %s", unit->index ? unit->index : unit->uuid ? unit->uuid : "?");
        if (share->memory_limit > 0)
                strbuf_printf(text, ", %.1f GiB", share->memory_limit / (1 << 30));
        if (share->thread_percent > 0)
                strbuf_printf(text, ", %.0f %% of its threads", share->thread_percent);
}

static const char *name_shares(const struct explanation *explanation, const struct cluster_node *node)
{
        const struct node_page *page = node ? node->page : NULL;
        struct strbuf text = STRBUF_INIT;

        for (struct cluster_place at = {0}; cluster_next_share(page, &at);)
                if (text_is_same(at.share->pod, explanation->pod->name) &&
                        text_is_same(at.share->pod_namespace, explanation->pod->namespace))
                        put_share(&text, at.unit, at.share);
        return why_take(explanation->arena, &text);
}

static void explain_running(struct explanation *explanation)
{
        const char *node_name = explanation->pod->node ? explanation->pod->node : "?";
        const struct cluster_node *node = cluster_find_node(explanation->input->view, node_name);
        const char *shares = name_shares(explanation, node);

        explanation->why->state = WHY_RUNS;
        explanation->why->said = newest_warning(explanation, NULL, "FailedScheduling");
        if (*shares)
                why_say(explanation, NULL, "runs on %s with %s", node_name, shares);
        else
                why_say(explanation, NULL, "runs on %s%s", node_name,
                        node && node->state == CLUSTER_AGENT_ANSWERS ? ", and its agent knows of no share of it"
                                                                     : ", whose agent does not say what it has");
}

/* ---- refused by kubelet: its own messages, and those of device plugins ---- */

static const struct refusal {
        const char *says; /* a part of the message */
        const char *means;
        const char *todo;
} refusals[] = {
        /* Warpshare's and NVIDIA's plugin, plan/allocate.c and plan/allocations.c */
        {"maximum request size for shared resources is 1",
                "it asks for several replicas of one that is shared, and more are worth no more than one there "
                "(failRequestsGreaterThanOne)",
                "ask for 1; or let more replicas mean a larger share: MPS with 'provisioning: weighted'"},
        {"but maxPerRequest is", "it asks for more in one container than the configuration allows (maxPerRequest)",
                "ask for as many as the message says, or raise maxPerRequest"},
        {"but all must be of one unit", "it asks for more than one GPU has, and a share comes from one GPU",
                "ask for as many as the message says, or for whole GPUs"},
        {"free replicas: the most is",
                "no single GPU had as many free replicas: the scheduler counts those of the node, and by an "
                "older list",
                "delete it, its controller makes another one; 'reserve: strict' keeps room for each request"},
        {"not healthy", "what it was to get was not healthy at that moment",
                "delete it, its controller makes another one; 'kubectl warpshare doctor NODE' says what is unhealthy"},
        /* kubelet's device manager */
        {"requested number of devices unavailable", "kubelet had fewer free devices than the scheduler had counted",
                "delete it, its controller makes another one; if it comes again, restart the agent of the node"},
        {"no healthy devices present", "all devices of the resource were unhealthy at kubelet",
                "'kubectl warpshare doctor NODE' says why; then delete it, its controller makes another one"},
        {"Node didn't have enough resource", "the node had less than the scheduler had counted",
                "delete it, its controller makes another one"},
        {"unregistered", "the agent was not registered with kubelet at that moment",
                "'kubectl warpshare doctor NODE'; then delete it, its controller makes another one"},
        {"no containers return in allocation response", "the agent gave an empty answer",
                "see the agent's log on that node"},
        {"DeadlineExceeded", "the agent did not answer kubelet in time",
                "'kubectl warpshare doctor NODE'; the agent's log there"},
        {"code = Unavailable", "kubelet did not reach the agent",
                "'kubectl warpshare doctor NODE'; the agent's log there"},
};

static const char *why_skip(const char *text, const char *prefix)
{
        return text_starts_with(text, prefix) ? text + strlen(prefix) : text;
}

/* Removes the text that kubelet and gRPC put around each message. */
static const char *why_refused_shorten(const char *message, struct arena *arena)
{
        static const char tail[] = ", which is unexpected";
        const char *code;
        size_t length;

        message = why_skip(message, "Pod was rejected: ");
        message = why_skip(message, "Allocate failed due to ");
        code = text_starts_with(message, "rpc error: code = ") ? strstr(message, " desc = ") : NULL;
        if (code)
                message = code + strlen(" desc = ");
        length = strlen(message);
        if (length > strlen(tail) && strcmp(message + length - strlen(tail), tail) == 0)
                length -= strlen(tail);
        return arena_strndup(arena, message, length);
}

/*
 * The meaning of kubelet's |reason| and |message|, and what to do. *ret_said is the part of the message that is not
 * always the same.
 */
static const char *why_refused(
        const char *reason, const char *message, struct arena *arena, const char **ret_todo, const char **ret_said)
{
        *ret_said = message && *message ? why_refused_shorten(message, arena) : NULL;
        *ret_todo = "delete it, its controller makes another one";
        for (size_t i = 0; message && i < ARRAY_SIZE(refusals); i++)
                if (strstr(message, refusals[i].says)) {
                        *ret_todo = refusals[i].todo;
                        return refusals[i].means;
                }
        return arena_printf(arena, "kubelet's reason is %s", reason ? reason : "not known");
}

static void explain_refused(struct explanation *explanation)
{
        const struct cluster_pod *pod = explanation->pod;
        const char *todo;
        const char *means = why_refused(pod->reason, pod->message, explanation->arena, &todo, &explanation->why->said);

        explanation->why->state = WHY_REFUSED;
        if (pod->owner && text_starts_with(todo, "delete it, its controller"))
                todo = arena_printf(
                        explanation->arena, "nothing: %s makes another one; this one may be deleted", pod->owner);
        why_say(explanation, todo, "was refused by kubelet on %s: %s", pod->node ? pod->node : "a node", means);
}

/* ---- nodes that are alike ---- */

static int why_compare_groups(const void *a, const void *b)
{
        const struct why_group *x = a;
        const struct why_group *y = b;

        if (x->count != y->count)
                return x->count > y->count ? -1 : 1;
        return strcmp(x->names, y->names);
}

size_t why_groups(const struct why *why, struct arena *arena, const struct why_group **ret)
{
        struct why_group *groups = ARENA_ARRAY(arena, struct why_group, why->n_nodes);
        size_t n_groups = 0;

        for (size_t i = 0; i < why->n_nodes; i++) {
                const struct why_finding *node = &why->nodes[i];
                size_t at = 0;

                while (at < n_groups && strcmp(groups[at].reason, node->reason) != 0)
                        at++;
                if (at == n_groups)
                        groups[n_groups++] = (struct why_group){node->reason, node->name, 0};
                else if (groups[at].count < WHY_NAMES)
                        groups[at].names = arena_printf(arena, "%s, %s", groups[at].names, node->name);
                groups[at].count++;
        }
        for (size_t i = 0; i < n_groups; i++)
                if (groups[i].count > WHY_NAMES)
                        groups[i].names =
                                arena_printf(arena, "%s and %zu more", groups[i].names, groups[i].count - WHY_NAMES);
        if (n_groups > 0)
                qsort(groups, n_groups, sizeof(*groups), why_compare_groups);
        *ret = groups;
        return n_groups;
}

/* ---- all of it ---- */

void why_explain(struct why *ret, struct arena *arena, const struct why_input *input)
{
        struct explanation explanation = {.why = ret, .arena = arena, .input = input};
        const struct cluster_pod *pod = cluster_pod_read(input->pod, arena);
        static const struct cluster_pod none;

        *ret = (struct why){.state = WHY_ENDED};
        explanation.pod = pod ? pod : &none;
        explanation.name = arena_printf(arena, "%s/%s",
                read_text_or_empty(arena, json_object_get(input->pod, "metadata"), "namespace"),
                read_text_or_empty(arena, json_object_get(input->pod, "metadata"), "name"));
        if (!pod) {
                why_say(&explanation, NULL, "asks for no device");
                ret->state = WHY_RUNS;
        } else if (cluster_pod_is_refused(pod)) {
                explain_refused(&explanation);
        } else if (strcmp(pod->phase, "Running") == 0) {
                explain_running(&explanation);
        } else if (strcmp(pod->phase, "Pending") != 0) {
                why_say(&explanation, NULL, "has ended: %s%s%s", pod->phase, pod->reason ? ", " : "",
                        pod->reason ? pod->reason : "");
                ret->said = pod->message;
        } else if (pod->node) {
                explain_starting(&explanation);
        } else if (pod->is_gated) {
                ret->state = WHY_GATED;
                why_say(&explanation, "who set spec.schedulingGates has to remove them",
                        "waits: it has scheduling gates, so the scheduler does not look at it");
        } else {
                why_explain_waiting(&explanation);
        }
}
