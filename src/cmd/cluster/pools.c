// SPDX-License-Identifier: Apache-2.0
/*
 * kubectl warpshare pools: how much the scheduler counts as free for claims, from the API server's own count. It makes
 * one object, a ResourcePoolStatusRequest, waits for the answer in its status, and deletes it again: all within
 * --request-timeout. The object's form is that of k8s.io/api, resource/v1alpha3 (July 2026); an answer of 1.36.2 is
 * recorded in test/fixtures/kube-apiserver-1.36, and has no shareableSummary.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io/loop.h"
#include "base/text.h"
#include "cmd/cli/columns.h"
#include "cmd/cluster/session.h"
#include "cmd/commands.h"
#include "net/kube/object.h"

#define COLLECTION "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
#define MOST_POOLS 1000 /* the API's bound */
#define POLL_MS UINT64_C(200)

enum { DRIVER = SESSION_FLAGS };

static const char *const outputs[] = {"table", "wide", "json", NULL};
static const struct option pools_own[] = {
        SESSION_ROWS(outputs, "json"), [DRIVER] = COMMAND_TEXT("driver", "gpu.warpshare.dev", "NAME",
                                               "whose pools: dra.driverName of the agents")};

/* ---- the answer ---- */

static bool is_never(void *data)
{
        return ((const struct session *)data)->is_late;
}

/* "True" if the condition of that type is. */
static const json_t *find_condition(const json_t *request, const char *type)
{
        const json_t *condition;
        size_t i;

        json_array_foreach(object_find(request, "status", "conditions", NULL), i, condition)
        {
                if (text_is_same(object_text(condition, "type", NULL), type) &&
                        text_is_same(object_text(condition, "status", NULL), "True"))
                        return condition;
        }
        return NULL;
}

/* A reference to the request when its status is complete. */
static int wait_for_status(struct session *session, const char *path, json_t **ret, struct error *err)
{
        json_t *request;

        while (session_get(session, path, NULL, &request, err) == 0) {
                const json_t *failed = find_condition(request, "Failed");
                const char *why = object_text(failed, "message", NULL);

                if (failed)
                        error_raise(err, ERROR_UNAVAILABLE, "the API server could not count: %.300s",
                                why ? why : "it does not say why");
                else if (session->is_late)
                        error_raise(err, ERROR_TIMEOUT,
                                "the API server has not counted within --request-timeout: the controller manager "
                                "needs the feature gate DRAResourcePoolStatus, too");
                if (!failed && find_condition(request, "Complete")) {
                        *ret = request;
                        return 0;
                }
                json_decref(request);
                if (failed || session->is_late)
                        return -1;
                loop_run_until(&session->loop, is_never, session, POLL_MS);
        }
        return -1;
}

static int pools_ask(struct session *session, const char *driver, json_t **ret, struct error *err)
{
        _free_ char *name = xasprintf("warpshare-%jd-%d", (intmax_t)clock_unix_us(), (int)getpid());
        _free_ char *path = object_path(COLLECTION, name);
        json_t *body = json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:i}}", "apiVersion", "resource.k8s.io/v1alpha3", "kind",
                "ResourcePoolStatusRequest", "metadata", "name", name, "spec", "driver", driver, "limit", MOST_POOLS);
        json_t *made = NULL;
        struct error left;
        int result = session_send(session, KUBE_CREATE, COLLECTION, body, &made, err);

        json_decref(body);
        json_decref(made);
        if (result < 0)
                return err->kind == ERROR_NOT_FOUND
                               ? error_set(err, ERROR_NOT_FOUND,
                                         "this API server does not count: it takes Kubernetes 1.36 or newer, with the "
                                         "feature gate DRAResourcePoolStatus and the API resource.k8s.io/v1alpha3 on")
                               : -1;
        result = wait_for_status(session, path, ret, err);
        session->is_late = false; /* the object is deleted in any case */
        if (session_send(session, KUBE_DELETE, path, NULL, &made, &left) == 0)
                json_decref(made);
        else
                fprintf(stderr, "%s: the request '%s' stays, for the API server to delete after an hour: %s\n",
                        session->call->command->program, name, left.text);
        return result;
}

/* ---- output ---- */

static void pools_add_count(struct columns *columns, const json_t *pool, const char *key)
{
        const json_t *count = json_object_get(pool, key);

        if (json_is_integer(count))
                columns_add(columns, "%lld", (long long)json_integer_value(count));
        else
                columns_add(columns, "-");
}

/* "30Gi of 80Gi" of that capacity of all shared devices. */
static void pools_add_capacity(struct columns *columns, const json_t *pool, const char *name)
{
        const json_t *capacity;
        size_t i;

        json_array_foreach(object_find(pool, "shareableSummary", "capacity", NULL), i, capacity)
        {
                const char *available = object_text(capacity, "available", NULL);
                const char *total = object_text(capacity, "total", NULL);

                if (!text_is_same(object_text(capacity, "name", NULL), name) || !available || !total)
                        continue;
                columns_add(columns, "%.40s of %.40s", available, total);
                return;
        }
        columns_add(columns, "-");
}

static void print_pools(const json_t *pools, bool has_headers)
{
        static const struct column list[] = {{"POOL", false}, {"NODE", false}, {"DEVICES", true}, {"ALLOCATED", true},
                {"AVAILABLE", true}, {"UNAVAILABLE", true}, {"MEMORY FREE", true}, {"THREADS FREE", true},
                {"PROBLEM", false}};
        struct strbuf text = STRBUF_INIT;
        struct columns columns;
        const json_t *pool;
        const char *start;
        size_t i;

        columns_init(&columns, list, ARRAY_SIZE(list));
        json_array_foreach(pools, i, pool)
        {
                const char *node = object_text(pool, "nodeName", NULL);
                const char *problem = object_text(pool, "validationError", NULL);

                columns_add(&columns, "%.300s", object_text(pool, "poolName", NULL));
                columns_add(&columns, "%.253s", node ? node : "-");
                pools_add_count(&columns, pool, "totalDevices");
                pools_add_count(&columns, pool, "allocatedDevices");
                pools_add_count(&columns, pool, "availableDevices");
                pools_add_count(&columns, pool, "unavailableDevices");
                pools_add_capacity(&columns, pool, "memory");
                pools_add_capacity(&columns, pool, "threadPercentage");
                columns_add(&columns, "%.300s", problem ? problem : "-");
        }
        columns_print(&text, &columns, "", command_wants_colours());
        start = has_headers ? text.data : strchr(text.data, '\n') + 1;
        fputs(start, stdout);
        strbuf_done(&text);
        columns_done(&columns);
}

static int kubectl_pools_run(struct command_call *call, struct error *err)
{
        struct session session;
        json_t *request;
        const json_t *pools;
        int status = session_open(&session, call, err);

        if (status < 0)
                return status;
        status = pools_ask(&session, call->values[DRIVER], &request, err);
        session_close(&session);
        if (status < 0)
                return COMMAND_FAILED;
        pools = object_find(request, "status", "pools", NULL);
        if (command_has(call, FLAG_OUTPUT, "json"))
                command_print_json(json_deep_copy(pools ? pools : request), JSON_INDENT(2));
        else if (json_array_size(pools) > 0)
                print_pools(pools, !command_is_set(call, FLAG_NO_HEADERS));
        else
                fprintf(stderr, "%s: the driver '%.253s' has no pools: --driver names another\n",
                        call->command->program, call->values[DRIVER]);
        json_decref(request);
        return 0;
}

const struct command command_kubectl_pools = {
        .name = "pools",
        .summary = "ask the API server what the scheduler counts as free for claims",
        .run = kubectl_pools_run,
        .shared = command_none,
        COMMAND_OWN(pools_own),
        .program = "kubectl-warpshare pools",
        .takes_letters = true,
        .help = "usage: kubectl warpshare pools [OPTION...]\n"
                "\n"
                "Asks the API server what the scheduler counts as free for claims of DRA, in the pool of each node. For that it\n"
                "creates a ResourcePoolStatusRequest and deletes it again: the only command here that writes anything.\n"
                "\n",
        .more_help =
                "\nIt needs Kubernetes 1.36 or newer with the feature gate DRAResourcePoolStatus (alpha), and the right to create,\n"
                "get and delete resourcepoolstatusrequests of resource.k8s.io, which warpshare-viewer does not have.\n",
};
