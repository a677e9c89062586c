// SPDX-License-Identifier: Apache-2.0
#include "cluster/pod.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/kube/object.h"

/* ---- what a pod asks for ---- */

/*
 * A request's |count| is that of the containers that run together: all but init containers that end. While those run,
 * it is |peaks| at most.
 */
struct tallies {
        struct cluster_request items[CLUSTER_RESOURCES];
        uint64_t peaks[CLUSTER_RESOURCES];
        size_t count;
        struct arena *arena;
};

/* Its position; CLUSTER_RESOURCES: the table is full. */
static size_t find_tally(struct tallies *tallies, const char *name)
{
        for (size_t i = 0; i < tallies->count; i++)
                if (strcmp(tallies->items[i].resource, name) == 0)
                        return i;
        if (tallies->count == CLUSTER_RESOURCES)
                return CLUSTER_RESOURCES;
        tallies->items[tallies->count].resource = read_cut(tallies->arena, name);
        return tallies->count++;
}

/* Requests and limits of such resources are equal, and one may be left out. */
static json_t *counts_of(const json_t *container)
{
        json_t *limits = object_find(container, "resources", "limits", NULL);

        return json_object_size(limits) > 0 ? limits : object_find(container, "resources", "requests", NULL);
}

static void add_container(struct tallies *tallies, const json_t *container, bool is_init)
{
        const bool ends = is_init && !text_is_same(object_text(container, "restartPolicy", NULL), "Always");
        const char *name;
        json_t *value;

        json_object_foreach(counts_of(container), name, value)
        {
                struct cluster_request *request;
                uint64_t count;
                size_t at;

                if (!read_is_device_resource(name) || !json_is_string(value) ||
                        !quantity_value(json_string_value(value), &count) || count == 0)
                        continue;
                at = find_tally(tallies, name);
                if (at == CLUSTER_RESOURCES)
                        continue;
                request = &tallies->items[at];
                count = MIN(count, UINT32_MAX);
                request->largest = MAX(request->largest, count);
                if (ends)
                        tallies->peaks[at] = MAX(tallies->peaks[at], request->count + count);
                else
                        request->count += count;
        }
}

static void pod_add_containers(struct tallies *tallies, const json_t *pod, const char *list)
{
        const json_t *containers = object_find(pod, "spec", list, NULL);

        for (size_t i = 0; i < MIN(json_array_size(containers), CLUSTER_CONTAINERS); i++)
                add_container(tallies, json_array_get(containers, i), strcmp(list, "initContainers") == 0);
}

static int compare_requests(const void *a, const void *b)
{
        return strcmp(((const struct cluster_request *)a)->resource, ((const struct cluster_request *)b)->resource);
}

static void read_requests(struct cluster_pod *pod, const json_t *object, struct arena *arena)
{
        struct tallies tallies = {.arena = arena};
        struct cluster_request *found;

        pod_add_containers(&tallies, object, "initContainers"); /* in their order, before the others */
        pod_add_containers(&tallies, object, "containers");
        found = ARENA_ARRAY(arena, struct cluster_request, tallies.count);
        for (size_t i = 0; i < tallies.count; i++) {
                found[i] = tallies.items[i];
                found[i].count = MAX(found[i].count, tallies.peaks[i]);
        }
        if (tallies.count > 0)
                qsort(found, tallies.count, sizeof(*found), compare_requests);
        pod->requests = found;
        pod->n_requests = tallies.count;
}

/* A claim made from a template has its name in the status, one that is named has it in the spec. */
static const char *claim_object(const json_t *pod, const json_t *claim, struct arena *arena)
{
        const json_t *statuses = object_find(pod, "status", "resourceClaimStatuses", NULL);
        const json_t *status = read_find(statuses, "name", object_text(claim, "name", NULL));

        return read_text(arena, status ? status : claim, "resourceClaimName");
}

static void read_claims(struct cluster_pod *pod, const json_t *object, struct arena *arena)
{
        const json_t *list = object_find(object, "spec", "resourceClaims", NULL);
        struct cluster_claim *found;

        pod->n_claims = MIN(json_array_size(list), CLUSTER_CLAIMS);
        found = ARENA_ARRAY(arena, struct cluster_claim, pod->n_claims);
        for (size_t i = 0; i < pod->n_claims; i++)
                found[i] = (struct cluster_claim){.name = read_text_or_empty(arena, json_array_get(list, i), "name"),
                        .object = claim_object(object, json_array_get(list, i), arena)};
        pod->claims = found;
}

/* ---- what became of it ---- */

static const char *pod_owner_of(const json_t *object, struct arena *arena)
{
        const json_t *owners = object_find(object, "metadata", "ownerReferences", NULL);

        for (size_t i = 0; i < MIN(json_array_size(owners), (size_t)16); i++) {
                const json_t *owner = json_array_get(owners, i);

                if (json_is_true(json_object_get(owner, "controller")))
                        return arena_printf(arena, "%s/%s", read_text_or_empty(arena, owner, "kind"),
                                read_text_or_empty(arena, owner, "name"));
        }
        return NULL;
}

const struct cluster_pod *cluster_pod_read(const json_t *object, struct arena *arena)
{
        struct cluster_pod *pod = ARENA_NEW(arena, struct cluster_pod);
        const json_t *status = json_object_get(object, "status");
        const json_t *scheduled = read_find(json_object_get(status, "conditions"), "type", "PodScheduled");

        read_requests(pod, object, arena);
        read_claims(pod, object, arena);
        if (pod->n_requests == 0 && pod->n_claims == 0)
                return NULL;
        pod->namespace = read_text_or_empty(arena, json_object_get(object, "metadata"), "namespace");
        pod->name = read_text_or_empty(arena, json_object_get(object, "metadata"), "name");
        pod->uid = read_text_or_empty(arena, json_object_get(object, "metadata"), "uid");
        pod->phase = read_text_or_empty(arena, status, "phase");
        pod->node = read_cut(arena, object_text(object, "spec", "nodeName", NULL));
        pod->reason = read_text(arena, status, "reason");
        pod->message = read_text(arena, status, "message");
        if (!pod->reason && text_is_same(object_text(scheduled, "status", NULL), "False")) {
                pod->reason = read_text(arena, scheduled, "reason");
                pod->message = read_text(arena, scheduled, "message");
        }
        pod->owner = pod_owner_of(object, arena);
        pod->created = read_time(object_text(object, "metadata", "creationTimestamp", NULL));
        pod->is_gated = json_array_size(object_find(object, "spec", "schedulingGates", NULL)) > 0;
        pod->is_deleted = json_object_get(json_object_get(object, "metadata"), "deletionTimestamp") != NULL;
        return pod;
}

bool cluster_pod_is_refused(const struct cluster_pod *pod)
{
        static const char *const reasons[] = {"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity"};

        if (strcmp(pod->phase, "Failed") != 0 || !pod->reason)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                if (strcmp(pod->reason, reasons[i]) == 0)
                        return true;
        return text_starts_with(pod->reason, "OutOf"); /* "OutOfnvidia.com/gpu" */
}

bool cluster_pod_has_trouble(const struct cluster_pod *pod)
{
        return strcmp(pod->phase, "Pending") == 0 || cluster_pod_is_refused(pod);
}

/* ---- agents ---- */

/* The container whose port is called "metrics": its pages are there. */
static const json_t *find_metrics_port(const json_t *object, const json_t **ret_container)
{
        const json_t *containers = object_find(object, "spec", "containers", NULL);

        for (size_t i = 0; i < MIN(json_array_size(containers), CLUSTER_CONTAINERS); i++) {
                const json_t *ports = json_object_get(json_array_get(containers, i), "ports");

                for (size_t j = 0; j < MIN(json_array_size(ports), (size_t)64); j++)
                        if (text_is_same(object_text(json_array_get(ports, j), "name", NULL), "metrics")) {
                                *ret_container = json_array_get(containers, i);
                                return json_array_get(ports, j);
                        }
        }
        return NULL;
}

/* Why a pod whose container does not run does not answer. */
static const char *pod_trouble_of(const json_t *object, const json_t *status, struct arena *arena)
{
        const char *waiting = object_text(status, "state", "waiting", "reason", NULL);
        const char *terminated = object_text(status, "state", "terminated", "reason", NULL);
        const char *phase = object_text(object, "status", "phase", NULL);
        const char *reason = object_text(object, "status", "reason", NULL);

        if (waiting)
                return read_cut(arena, arena_printf(arena, "its container waits: %s", waiting));
        if (terminated)
                return read_cut(arena, arena_printf(arena, "its container has ended: %s", terminated));
        if (!text_is_same(phase, "Running"))
                return read_cut(arena, arena_printf(arena, "its pod is %s%s%s", phase ? phase : "new",
                                               reason ? ": " : "", reason ? reason : ""));
        return NULL;
}

const struct cluster_agent *cluster_agent_read(const json_t *object, struct arena *arena)
{
        struct cluster_agent *agent = ARENA_NEW(arena, struct cluster_agent);
        const json_t *metadata = json_object_get(object, "metadata");
        const char *node = object_text(object, "spec", "nodeName", NULL);
        const json_t *container = json_array_get(object_find(object, "spec", "containers", NULL), 0);
        const json_t *port = find_metrics_port(object, &container);
        const json_t *status = read_find(
                object_find(object, "status", "containerStatuses", NULL), "name", object_text(container, "name", NULL));
        const json_int_t number = json_integer_value(json_object_get(port, "containerPort"));

        if (!node || !*node || json_object_get(metadata, "deletionTimestamp"))
                return NULL;
        agent->node = read_cut(arena, node);
        agent->namespace = read_text_or_empty(arena, metadata, "namespace");
        agent->pod = read_text_or_empty(arena, metadata, "name");
        agent->image = read_text(arena, container, "image");
        agent->port = number > 0 && number <= UINT16_MAX ? (unsigned int)number : 0;
        /* kubelet asks it in the same way. */
        agent->is_tls = text_is_same(object_text(container, "readinessProbe", "httpGet", "scheme", NULL), "HTTPS");
        agent->is_ready = json_is_true(json_object_get(status, "ready"));
        agent->restarts = (uint64_t)MAX(json_integer_value(json_object_get(status, "restartCount")), (json_int_t)0);
        agent->created = read_time(object_text(metadata, "creationTimestamp", NULL));
        agent->trouble = pod_trouble_of(object, status, arena);
        if (!agent->trouble && agent->port == 0)
                agent->trouble = "its pod has no port named metrics: metrics are switched off";
        return agent;
}
