// SPDX-License-Identifier: Apache-2.0
#include "node/dra/reading.h"

#include <assert.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "net/kube/object.h"
#include "node/dra/room.h"
#include "node/ledger/claims.h"
#include "node/ledger/pod_source.h"
#include "plan/capability.h"

#define READ_TIMEOUT_MS UINT64_C(20000) /* to read a claim: half of a Prepare's time */
#define POD_TIMEOUT_MS UINT64_C(1000)
#define ROOM_WAIT_MS UINT64_C(20000) /* as long again as kubelet needs for an Unprepare, with which it may be busy */
#define CLAIM_TIMEOUT_MS UINT64_C(20000) /* to ask for its pods */
#define PODS_MAX 16U                     /* pods that are read for one claim, so that a Prepare has enough time */

struct dra_readings {
        const struct dra_node *node;
        struct list all;
        struct list pods_requests; /* for the pods of prepared claims */
        uint64_t refreshed_at;     /* uv_now(), like |asked_at|: of these */
        uint64_t asked_at;
        uint64_t pause_ms;     /* from then to the next request */
        unsigned int n_done;   /* claims that were read so far, and may be allocated */
        uv_timer_t room_timer; /* when the first claim has waited long enough for room */
};

struct reading {
        struct list link;
        struct dra_readings *readings;
        struct dra_claim *claim;
        struct arena *arena;
        struct kube_call *call;             /* NULL: the claim is read, and waits for the layout */
        struct pod_call *pod_call;          /* NULL: no pod is being read */
        json_t *object;                     /* |claim| was read from it */
        struct dra_pod_claim shares;        /* the next two once the pods are being checked */
        struct dra_uses *uses;              /* by the pods, of a claim with several shares; else NULL */
        const struct ledger_claim_pod *pod; /* that is being read */
        size_t n_pods;                      /* how many pods of the claim were checked */
        unsigned int n_asked;               /* how many of these were read */
        bool is_again;                      /* pods are checked a second time, for other claims only */
        unsigned int n_done;                /* of |readings| when the first pod was checked */
        struct dra_room room;
        bool is_blocked;       /* until something changes */
        uint64_t deadline_ms;  /* uv_now(), of its wait for room; 0: it has not waited */
        struct error obstacle; /* that it waits for */
        dra_reading_done_fn *done;
        void *data;
};

static void reading_free(struct reading *reading)
{
        list_remove(&reading->link);
        kube_call_cancel(reading->call);
        pod_call_cancel(reading->pod_call);
        reading->claim->n_configs = 0; /* which point into it */
        json_decref(reading->object);
        free(reading);
}

static void reading_refuse(struct reading *reading, const struct error *err)
{
        dra_reading_done_fn *done = reading->done;
        void *data = reading->data;
        const struct error copy = *err; /* which may be of the reading */

        reading_free(reading);
        done(&copy, data);
}

/* ---- its shares by MPS ---- */

static bool reading_is_by_mps(const struct dra_node *node, const char *name)
{
        const struct dra_device *device = dra_layout_find(dra_publisher_layout(node->publisher), name);

        return device && dra_device_kind_is_by_mps(device->kind);
}

static void find_shares(struct reading *reading)
{
        const struct dra_claim *claim = reading->claim;
        const char **requests = ARENA_ARRAY(reading->arena, const char *, claim->n_results);

        reading->shares = (struct dra_pod_claim){.name = claim->name, .requests = requests};
        for (size_t i = 0; i < claim->n_results; i++)
                if (reading_is_by_mps(reading->readings->node, claim->results[i].device))
                        requests[reading->shares.n_requests++] = claim->results[i].request;
        if (reading->shares.n_requests > 1) {
                reading->uses = ARENA_NEW(reading->arena, struct dra_uses);
                *reading->uses = (struct dra_uses){.is_whole = true};
        }
}

static struct dra_pod_claim recorded_shares(
        const struct dra_node *node, struct arena *arena, const struct ledger_claim *claim)
{
        const struct dra_claim *recorded = dra_record_find(node->record, claim->uid);
        const char **requests = ARENA_ARRAY(arena, const char *, recorded ? recorded->n_results : 0);
        struct dra_pod_claim ret = {.name = strchr(claim->name, '/') + 1, .requests = requests};

        for (size_t i = 0; recorded && i < recorded->n_results; i++)
                if (recorded->results[i].daemon || reading_is_by_mps(node, recorded->results[i].device))
                        requests[ret.n_requests++] = recorded->results[i].request;
        return ret;
}

/* ---- its pods ---- */

/* Fails if a container of the pod uses this claim and another one by MPS. */
static int check_pod(const struct reading *reading, const json_t *pod, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *uid = object_text(pod, "metadata", "uid", NULL);
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(reading->readings->node->options.ledger, &arena, &states);

        for (size_t i = 0; uid && i < count; i++) {
                struct dra_pod_claim other;
                const char *container;

                if (!dra_claim_is_beside(states[i].claim, reading->claim->uid, uid))
                        continue;
                other = recorded_shares(reading->readings->node, &arena, states[i].claim);
                container = dra_pod_container_of_both(pod, &reading->shares, &other);
                if (container)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "container '%s' of pod %s/%s also uses the claim '%s' by MPS, and a process has one MPS "
                                "daemon and one limit of each kind: use one claim for the container",
                                container, reading->claim->namespace, object_text(pod, "metadata", "name", NULL),
                                other.name);
        }
        return 0;
}

/*
 * Whether the pod has the UID that the claim is reserved for: a new pod of a StatefulSet has the name of the old one.
 */
static bool is_the_pod(const struct reading *reading, const json_t *pod)
{
        return text_is_same(object_text(pod, "metadata", "uid", NULL), reading->pod->uid);
}

static void readings_go_on(struct dra_readings *readings);

static void on_pod_of_claim(const struct kube_answer *answer, void *data)
{
        struct reading *reading = data;
        struct error err;

        reading->pod_call = NULL;
        if (answer->error)
                log_warn(
                        reading->uses
                                ? "the pods of a DRA claim with several shares by MPS cannot be read: each container has the "
                                  "limits of all of them together"
                                : "a pod uses several DRA claims by MPS; a container that names two of them has the limits of one",
                        LOG_STR("namespace", reading->claim->namespace), LOG_STR("claim", reading->claim->name),
                        LOG_ERR(answer->error));
        if (!answer->error && check_pod(reading, answer->object, &err) < 0) {
                reading_refuse(reading, &err);
                return;
        }
        if (reading->uses && !answer->error && is_the_pod(reading, answer->object))
                dra_pod_add_uses(answer->object, reading->claim->name, reading->arena, reading->uses);
        else if (reading->uses)
                reading->uses->is_whole = false;
        readings_go_on(reading->readings);
}

/* Only pods that decide something, because many agents may not have the right to read pods. */
static const struct ledger_claim_pod *find_next_pod(struct reading *reading)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct dra_readings *readings = reading->readings;
        const struct dra_claim *claim = reading->claim;
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(readings->node->options.ledger, &arena, &states);
        const struct ledger_claim_pod *pod = NULL;

        if (reading->n_pods == 0)
                reading->n_done = readings->n_done;
        if (!reading->uses || reading->is_again)
                pod = dra_pod_with_others(claim, states, count, &reading->n_pods);
        else if (reading->n_pods < claim->n_pods)
                pod = &claim->pods[reading->n_pods++];
        if (pod || reading->n_done == readings->n_done)
                return pod;
        /* Meanwhile other claims were allocated, which pods may use that were checked before. */
        reading->is_again = true;
        reading->n_pods = 0;
        reading->n_done = readings->n_done;
        return dra_pod_with_others(claim, states, count, &reading->n_pods);
}

/* True: a pod is being read. */
static bool read_next_pod(struct reading *reading)
{
        if (!reading->shares.name)
                find_shares(reading);
        reading->pod = reading->shares.n_requests ? find_next_pod(reading) : NULL;
        if (!reading->pod)
                return false;
        if (reading->n_asked == PODS_MAX) {
                if (reading->uses)
                        reading->uses->is_whole = false;
                return false;
        }
        reading->n_asked++;
        reading->pod_call = pod_source_get(ledger_pod_source(reading->readings->node->options.ledger),
                &(struct pod_question){.namespace = reading->claim->namespace,
                        .name = reading->pod->name,
                        .uid = reading->pod->uid,
                        .claim = reading->claim->name,
                        .timeout_ms = POD_TIMEOUT_MS,
                        .done = on_pod_of_claim,
                        .data = reading});
        return true;
}

/* ---- then there must be room ---- */

static struct dra_wanted_rules rules_of(const struct dra_node *node, const struct dra_uses *uses)
{
        return (struct dra_wanted_rules){
                .layout = dra_publisher_layout(node->publisher),
                .driver = node->driver,
                .unenforced = node->plan->config->dra.unenforced,
                .is_multi_user = capability_multi_user(node->plan->inventory->driver_version),
                .one_daemon = node->plan->config->dra.daemon_scope == DAEMON_SCOPE_RESOURCE,
                .uses = uses ? uses->all : NULL,
                .n_uses = uses ? uses->count : 0,
                .knows_uses = uses && uses->is_whole,
        };
}

static void on_room_timer(uv_timer_t *timer);

static void arm_room_timer(struct dra_readings *readings)
{
        uint64_t now = uv_now(readings->node->options.loop);
        uint64_t first = UINT64_MAX;

        LIST_FOR_EACH(link, &readings->all) {
                const struct reading *reading = container_of(link, struct reading, link);

                if (reading->deadline_ms)
                        first = MIN(first, reading->deadline_ms);
        }
        if (first < UINT64_MAX)
                uv_timer_start(&readings->room_timer, on_room_timer, first > now ? first - now : 0, 0);
}

/* NULL: no claim has waited for room long enough. */
static struct reading *find_late(const struct dra_readings *readings)
{
        LIST_FOR_EACH(link, &readings->all) {
                struct reading *reading = container_of(link, struct reading, link);

                if (reading->deadline_ms && reading->deadline_ms <= uv_now(readings->node->options.loop))
                        return reading;
        }
        return NULL;
}

static void on_room_timer(uv_timer_t *timer)
{
        struct dra_readings *readings = container_of(timer, struct dra_readings, room_timer);
        struct reading *reading;

        while ((reading = find_late(readings))) {
                struct error err;

                error_raise(&err, ERROR_TIMEOUT, "%s; Prepare has waited %ju s for that to change",
                        reading->obstacle.text, (uintmax_t)(ROOM_WAIT_MS / 1000));
                reading_refuse(reading, &err);
        }
        arm_room_timer(readings);
}

static void reading_block(struct reading *reading, const struct error *obstacle)
{
        reading->is_blocked = true;
        reading->obstacle = *obstacle;
        if (reading->deadline_ms)
                return;
        log_info("a DRA claim waits for what it was allocated to become free",
                LOG_STR("namespace", reading->claim->namespace), LOG_STR("claim", reading->claim->name),
                LOG_ERR(obstacle));
        reading->deadline_ms = uv_now(reading->readings->node->options.loop) + ROOM_WAIT_MS;
        arm_room_timer(reading->readings);
}

static void on_claim_in_the_way(const struct kube_answer *answer, void *data)
{
        struct reading *reading = data;
        const struct dra_node *node = reading->readings->node;

        reading->call = NULL;
        /* If the API server does not answer, waiting does no harm. */
        dra_room_learn(&reading->room, answer->error || !dra_claim_is_allocated(&reading->room.asked, answer->object,
                                                                node->driver, node->pool));
        readings_go_on(reading->readings);
}

static void reading_finish(struct reading *reading)
{
        dra_reading_done_fn *done = reading->done;
        void *data = reading->data;

        reading->readings->n_done++;
        reading_free(reading);
        done(NULL, data);
}

static void look_for_room(struct reading *reading)
{
        const struct dra_node *node = reading->readings->node;
        struct dra_claim *claim = reading->claim;
        const struct dra_wanted_rules rules = rules_of(node, reading->uses);
        enum dra_room_state state = DRA_ROOM_NONE;
        struct error err;

        if (dra_wanted_read(claim, &rules, &err) == 0)
                state = dra_room_look(&reading->room, claim, rules.layout, &err);
        else if (err.kind == ERROR_UNAVAILABLE)
                state = DRA_ROOM_COMES;
        else
                error_raise_prefix(&err, "ResourceClaim %s/%s", claim->namespace, claim->name);
        switch (state) {
        case DRA_ROOM_THERE:
                reading_finish(reading);
                break;
        case DRA_ROOM_COMES:
                reading_block(reading, &err);
                break;
        case DRA_ROOM_ASK:
                reading->call =
                        dra_node_get_claim(node, &reading->room.asked, POD_TIMEOUT_MS, on_claim_in_the_way, reading);
                break;
        case DRA_ROOM_NONE:
                reading_refuse(reading, &err);
                break;
        }
}

/* ---- the claims that are read ---- */

static struct reading *find_ready(const struct dra_readings *readings)
{
        LIST_FOR_EACH(link, &readings->all) {
                struct reading *reading = container_of(link, struct reading, link);

                if (!reading->call && !reading->pod_call && !reading->is_blocked)
                        return reading;
        }
        return NULL;
}

static void readings_go_on(struct dra_readings *readings)
{
        const struct dra_node *node = readings->node;
        struct reading *reading;
        struct error err;

        while (!node->is_closing && node->plan && dra_publisher_layout(node->publisher) &&
                list_is_empty(&readings->pods_requests) && (reading = find_ready(readings))) {
                if (read_next_pod(reading))
                        continue;
                if (dra_node_check_cdi(node, &err) < 0)
                        reading_refuse(reading, &err);
                else
                        look_for_room(reading);
        }
}

void dra_readings_look_again(struct dra_readings *readings)
{
        LIST_FOR_EACH(link, &readings->all) {
                struct reading *reading = container_of(link, struct reading, link);

                reading->is_blocked = false;
                dra_room_doubt(&reading->room);
        }
        readings_go_on(readings);
}

static void on_claim_read(const struct kube_answer *answer, void *data)
{
        struct reading *reading = data;
        const struct dra_node *node = reading->readings->node;
        struct error err;

        reading->call = NULL;
        reading->object = json_incref(answer->object);
        if (answer->error)
                reading_refuse(reading, answer->error);
        else if (dra_claim_read(reading->claim, reading->arena, reading->object, node->driver, node->pool, &err) < 0)
                reading_refuse(reading, &err);
        else
                readings_go_on(reading->readings);
}

void dra_reading_begin(struct dra_readings *readings, struct dra_claim *claim, struct arena *arena,
        dra_reading_done_fn *done, void *data)
{
        const struct dra_node *node = readings->node;
        struct reading *reading = xcalloc(1, sizeof(*reading));
        struct error err;

        reading->readings = readings;
        reading->claim = claim;
        reading->arena = arena;
        reading->done = done;
        reading->data = data;
        reading->room = (struct dra_room){node->record, node->options.ledger, arena};
        list_append(&readings->all, &reading->link);
        if (node->is_closing) {
                dra_node_raise_closing(&err);
                reading_refuse(reading, &err);
                return;
        }
        reading->call = dra_node_get_claim(node, claim, READ_TIMEOUT_MS, on_claim_read, reading);
}

void dra_reading_abandon(struct dra_readings *readings, const void *data)
{
        LIST_FOR_EACH(link, &readings->all) {
                struct reading *reading = container_of(link, struct reading, link);
                struct error err;

                if (reading->data != data)
                        continue;
                log_info("nobody waits for a DRA claim any more, which is not prepared therefore",
                        LOG_STR("namespace", reading->claim->namespace), LOG_STR("claim", reading->claim->name));
                error_raise(&err, ERROR_UNAVAILABLE, "kubelet does not wait for it any more");
                reading_refuse(reading, &err);
                return;
        }
}

/* ---- the pods of prepared claims ---- */

struct pods_request {
        struct list link;
        struct dra_readings *readings;
        struct kube_call *call;
        struct arena arena;
        struct dra_claim claim; /* only named at first */
};

static void pods_request_free(struct pods_request *request)
{
        list_remove(&request->link);
        kube_call_cancel(request->call);
        arena_done(&request->arena);
        free(request);
}

static void on_claim_with_pods(const struct kube_answer *answer, void *data)
{
        struct pods_request *request = data;
        struct dra_readings *readings = request->readings;
        const struct dra_node *node = readings->node;
        struct error err = {.kind = ERROR_NONE};

        request->call = NULL;
        if (answer->error)
                err = *answer->error;
        else if (dra_claim_read(&request->claim, &request->arena, answer->object, node->driver, node->pool, &err) == 0)
                ledger_set_claim_pods(
                        node->options.ledger, request->claim.uid, request->claim.pods, request->claim.n_pods);
        if (err.kind != ERROR_NONE)
                log_debug("which pods use a claim is not known", LOG_STR("claim", request->claim.name), LOG_ERR(&err));
        pods_request_free(request);
        readings_go_on(readings);
}

void dra_readings_ask_pods(struct dra_readings *readings)
{
        const struct dra_node *node = readings->node;
        const struct dra_record *record = node->record;

        for (size_t i = 0; i < dra_record_count(record); i++) {
                const struct dra_claim *recorded = dra_record_at(record, i);
                struct pods_request *request;

                if (recorded->state != DRA_CLAIM_PREPARED)
                        continue;
                request = xcalloc(1, sizeof(*request));
                request->readings = readings;
                request->claim = dra_claim_copy_names(&request->arena, recorded);
                list_append(&readings->pods_requests, &request->link);
                request->call =
                        dra_node_get_claim(node, &request->claim, CLAIM_TIMEOUT_MS, on_claim_with_pods, request);
        }
}

void dra_readings_refresh_pods(struct dra_readings *readings)
{
        uint64_t now = uv_now(readings->node->options.loop);

        if (now - readings->refreshed_at > DRA_PODS_QUIET_MS)
                readings->pause_ms = 0;
        readings->refreshed_at = now;
        if (now - readings->asked_at < readings->pause_ms)
                return;
        readings->asked_at = now;
        readings->pause_ms = MIN(MAX(2 * readings->pause_ms, DRA_PODS_MS), DRA_PODS_MAX_MS);
        dra_readings_ask_pods(readings);
}

/* ---- start and end ---- */

void dra_readings_refuse(struct dra_readings *readings)
{
        struct error err;

        dra_node_raise_closing(&err);
        while (!list_is_empty(&readings->all))
                reading_refuse(container_of(readings->all.next, struct reading, link), &err);
        while (!list_is_empty(&readings->pods_requests))
                pods_request_free(container_of(readings->pods_requests.next, struct pods_request, link));
}

struct dra_readings *dra_readings_new(const struct dra_node *node)
{
        struct dra_readings *readings = xcalloc(1, sizeof(*readings));

        readings->node = node;
        list_init(&readings->all);
        list_init(&readings->pods_requests);
        uv_timer_init(node->options.loop, &readings->room_timer);
        return readings;
}

static void on_room_timer_closed(uv_handle_t *handle)
{
        free(container_of((uv_timer_t *)(void *)handle, struct dra_readings, room_timer));
}

struct dra_readings *dra_readings_close(struct dra_readings *readings)
{
        if (!readings)
                return NULL;
        assert(list_is_empty(&readings->all));
        uv_close((uv_handle_t *)&readings->room_timer, on_room_timer_closed);
        return NULL;
}
