#include "node/dra/api_server.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "node/dra/layout.h"
#include "node/dra/reconcile.h"
#include "net/kube/object.h"

#define APART_SINCE 35UL /* the minor version from which counter sets and devices need slices of their own */

static void api_server_report(const struct dra_api_server *server, const struct kube_answer *answer)
{
        server->options.done(answer->error, answer->retry_after_ms, server->options.data);
}

static struct kube_call *api_server_get(struct dra_api_server *server, const char *path, kube_done_fn *done)
{
        return kube_client_send(server->options.client,
                &(struct kube_request){.method = KUBE_GET, .path = path, .done = done, .data = server});
}

static void on_group(const struct kube_answer *answer, void *data)
{
        struct dra_api_server *server = data;
        struct error err;

        if (!answer->error)
                server->has_api = dra_api_of(&server->api, answer->object);
        if (answer->error || server->has_api) {
                api_server_report(server, answer);
                return;
        }
        error_raise(&err, ERROR_NOT_FOUND, "the API server serves none of v1, v1beta2 and v1beta1 of resource.k8s.io");
        server->options.done(&err, 0, server->options.data);
}

/* |minor|: "36", "36+". */
static void api_server_read_version(struct dra_api_server *server, const char *minor, const char *git_version)
{
        server->counters_apart = minor && strtoul(minor, NULL, 10) >= APART_SINCE;
        server->forgetful[0] = '\0';
        if (dra_release_forgets_shares(git_version))
                snprintf(server->forgetful, sizeof(server->forgetful), "%s",
                        git_version && *git_version ? git_version : "of an unknown release");
}

static void on_version(const struct kube_answer *answer, void *data)
{
        struct dra_api_server *server = data;

        if (!answer->error)
                api_server_read_version(server, object_text(answer->object, "minor", NULL),
                        object_text(answer->object, "gitVersion", NULL));
        server->has_version = !answer->error;
        api_server_report(server, answer);
}

static void api_server_on_probed(const struct kube_answer *answer, void *data)
{
        struct dra_api_server *server = data;
        bool is_refused = answer->status == 422;

        if (answer->error && !is_refused) {
                api_server_report(server, answer);
                return;
        }
        server->features = (struct dra_features){true, true, true};
        dra_slices_dropped(
                &server->features, server->probe, is_refused ? NULL : json_object_get(answer->object, "spec"));
        server->has_features = true;
        server->options.done(NULL, 0, server->options.data);
}

static struct kube_call *probe(struct dra_api_server *server, const char *owner_uid)
{
        const struct dra_slices_options options = {.driver = server->options.driver,
                .node = server->options.node,
                .pool = server->options.pool,
                .api = server->api,
                .counters_apart = server->counters_apart};
        json_t *slice = dra_slices_probe(&options);
        json_t *object = json_object();
        _free_ char *path = dra_api_slices(server->api);
        _free_ char *name = xasprintf("%s-probe", object_text(slice, "name", NULL));
        struct kube_call *call;

        json_decref(server->probe);
        server->probe = json_incref(json_object_get(slice, "spec"));
        dra_slices_set_object(object, &options, name, owner_uid, server->probe);
        call = kube_client_send(server->options.client, &(struct kube_request){.method = KUBE_CREATE,
                                                                .path = path,
                                                                .query = "dryRun=All",
                                                                .body = object,
                                                                .done = api_server_on_probed,
                                                                .data = server});
        json_decref(object);
        json_decref(slice);
        return call;
}

void dra_api_server_init(struct dra_api_server *server, const struct dra_api_server_options *options)
{
        *server = (struct dra_api_server){.options = *options};
}

void dra_api_server_done(struct dra_api_server *server)
{
        json_decref(server->probe);
}

bool dra_api_server_is_known(const struct dra_api_server *server)
{
        return server->has_api && server->has_version && server->has_features;
}

struct kube_call *dra_api_server_ask(struct dra_api_server *server, const char *owner_uid)
{
        if (!server->has_api)
                return api_server_get(server, DRA_API_GROUP, on_group);
        if (!server->has_version)
                return api_server_get(server, "/version", on_version);
        return probe(server, owner_uid);
}
