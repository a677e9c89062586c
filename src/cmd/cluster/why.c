/* kubectl warpshare why [POD] */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cluster/why.h"
#include "cmd/cluster/session.h"
#include "net/kube/object.h"

static const struct option own[] = {SESSION_ROWS(session_outputs, "json")};

struct asked {
        struct session *session;
        struct arena *arena;
        bool is_json;
};

/* ---- output ---- */

static json_t *why_json(const json_t *pod, const struct why *why)
{
        json_t *nodes = json_array();

        for (size_t i = 0; i < why->n_nodes; i++)
                json_array_append_new(
                        nodes, json_pack("{s:s, s:s, s:b}", "name", why->nodes[i].name, "reason", why->nodes[i].reason,
                                       "hasRoom", why->nodes[i].class == WHY_HAS_ROOM));
        return json_pack("{s:s*, s:s*, s:s, s:s, s:s*, s:s*, s:o}", "namespace",
                object_text(pod, "metadata", "namespace", NULL), "pod", object_text(pod, "metadata", "name", NULL),
                "state", why_state_name(why->state), "sentence", why->sentence, "todo", why->todo, "said", why->said,
                "nodes", nodes);
}

static const char *speaker(const struct why *why)
{
        return why->state == WHY_WAITS     ? "the scheduler says"
               : why->state == WHY_REFUSED ? "kubelet says"
                                           : "last warning";
}

static void print_why(const struct why *why, bool is_long)
{
        printf("%s\n", why->sentence);
        if (!is_long)
                return;
        if (why->todo)
                printf("  do: %s\n", why->todo);
        for (size_t i = 0; i < why->n_nodes; i++)
                printf("  %s: %s\n", why->nodes[i].name, why->nodes[i].reason);
        if (why->said)
                printf("  %s: %s\n", speaker(why), why->said);
}

/* ---- one pod ---- */

/* Reads the ResourceClaims of a pod that exist; NULL where they may not be read. */
static json_t *claims_of(struct session *session, const json_t *object, struct arena *arena)
{
        const struct cluster_pod *pod = cluster_pod_read(object, arena);
        json_t *claims = json_array();

        for (size_t i = 0; pod && i < pod->n_claims; i++) {
                _free_ char *collection =
                        object_collection("/apis/resource.k8s.io/v1", pod->namespace, "resourceclaims");
                _free_ char *path = pod->claims[i].object ? object_path(collection, pod->claims[i].object) : NULL;
                json_t *claim;
                struct error err;

                if (!path)
                        continue;
                if (session_get(session, path, NULL, &claim, &err) == 0) {
                        json_array_append_new(claims, claim);
                } else if (err.kind != ERROR_NOT_FOUND) {
                        json_decref(claims);
                        return NULL;
                }
        }
        return claims;
}

static void explain_pod(const struct asked *asked, const json_t *pod, bool is_long, json_t *all)
{
        struct why_input input = {.pod = pod};
        const char *namespace = object_text(pod, "metadata", "namespace", NULL);
        const char *name = object_text(pod, "metadata", "name", NULL);
        json_t *events = is_long && name ? session_events(asked->session, "Pod", namespace, name) : NULL;
        json_t *claims = is_long ? claims_of(asked->session, pod, asked->arena) : NULL;
        struct why why;

        input.view = cluster_view(asked->session->cluster); /* after the last question: they turn the loop */
        input.events = events;
        input.claims = claims;
        why_explain(&why, asked->arena, &input);
        if (asked->is_json)
                json_array_append_new(all, why_json(pod, &why));
        else
                print_why(&why, is_long);
        json_decref(events);
        json_decref(claims);
}

static int explain_one(const struct asked *asked, const char *name, json_t *all, struct error *err)
{
        const char *namespace = asked->session->scope ? asked->session->scope : "default";
        _free_ char *collection = object_collection("/api/v1", namespace, "pods");
        _free_ char *path = object_path(collection, name);
        json_t *pod;

        if (session_get(asked->session, path, NULL, &pod, err) < 0)
                return err->kind == ERROR_NOT_FOUND
                               ? error_set(err, ERROR_NOT_FOUND, "there is no pod '%.253s' in the namespace '%.63s'",
                                         name, namespace)
                               : -1;
        explain_pod(asked, pod, true, all);
        json_decref(pod);
        return 0;
}

/* ---- all that wait or were refused ---- */

static int explain_all(const struct asked *asked, json_t *all, struct error *err)
{
        const struct cluster_view *view = cluster_view(asked->session->cluster);
        const size_t n_paths = view->n_pods;
        const char **paths = ARENA_ARRAY(asked->arena, const char *, n_paths);
        size_t count = 0;

        for (size_t i = 0; i < n_paths; i++) {
                _free_ char *collection = object_collection("/api/v1", view->pods[i]->namespace, "pods");
                _free_ char *path = object_path(collection, view->pods[i]->name);

                paths[i] = arena_strdup(asked->arena, path);
        }
        for (size_t i = 0; i < n_paths; i++) {
                json_t *pod;

                if (session_get(asked->session, paths[i], NULL, &pod, err) == 0) {
                        explain_pod(asked, pod, false, all);
                        json_decref(pod);
                        count++;
                } else if (err->kind != ERROR_NOT_FOUND) { /* it has gone meanwhile */
                        return -1;
                }
        }
        if (count == 0 && !asked->is_json)
                puts("no pod waits for a GPU, and none was refused");
        return 0;
}

static int kubectl_why_run(struct command_call *call, struct error *err)
{
        const struct option_set *set = &call->set;
        struct cluster_options options = CLUSTER_OPTIONS_INIT;
        struct session session;
        const struct asked asked = {&session, &call->arena, command_has(call, FLAG_OUTPUT, "json")};
        json_t *all;
        int status = session_open(&session, call, err);

        if (status < 0)
                return status;
        options.has_pods = set->n_words == 0;
        options.pod_namespace = session.scope;
        session_look(&session, options);
        all = json_array();
        status = set->n_words ? explain_one(&asked, set->words[0], all, err) : explain_all(&asked, all, err);
        if (asked.is_json && status == 0)
                command_print_json(json_incref(set->n_words ? json_array_get(all, 0) : all), JSON_INDENT(2));
        json_decref(all);
        session_close(&session);
        return status;
}

const struct command kubectl_why = {
        .name = "why",
        .summary = "say in a sentence why a pod waits or was refused",
        .run = kubectl_why_run,
        .shared = command_none,
        COMMAND_OWN(own),
        .program = "kubectl-warpshare why",
        .most_words = 1,
        .takes_letters = true,
        .help = "usage: kubectl warpshare why [POD] [OPTION...]\n"
                "\n"
                "Says in a sentence why a pod that asks for GPUs waits, or why kubelet refused it; then, node by node, what is in\n"
                "the way, and the scheduler's or kubelet's own words. Of a pod that runs it says what it has. Without a name: all\n"
                "pods of the namespace that wait or were refused, of every one with -A.\n"
                "\n",
        .more_help = SESSION_RIGHTS
        "With a name also get of that pod, and list of events and get of resourceclaims where allowed.\n",
};
