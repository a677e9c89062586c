/*
 * A claim that is being prepared, until it can be allocated: the driver reads it from the API server, waits for the
 * layout, and reads its pods where they decide: of a claim with several shares by MPS, which containers use them
 * together; and where a pod uses another claim by MPS, whether the same container does, which would get only one of the
 * two. Then it waits for room (node/dra/room.h), and for a device that is not offered at the moment, as while its GPU
 * changes.
 *
 *   claim ──► layout ──► pods ──► look ──┬─────────────────────────────────────► dra_prepare_read()
 *                                  ▲     ├── ask: read a claim in the way ──┐
 *                                  └─────┼──────────────────────────────────┘
 *                                  ▲     └── blocked ──┬── something has become free, another layout
 *                                  └───────────────────┘
 *                                                      └── ROOM_WAIT_MS passed, or nobody waits for it ──► refused
 */
#include "node/dra/driver_parts.h"

#include <string.h>

#include "base/log.h"
#include "node/dra/pod_claims.h"
#include "node/dra/room.h"
#include "net/kube/object.h"
#include "node/ledger/claims.h"
#include "plan/capability.h"

#define READ_TIMEOUT_MS UINT64_C(20000) /* to read a claim: half of a Prepare's time */
#define POD_TIMEOUT_MS UINT64_C(1000)
#define ROOM_WAIT_MS UINT64_C(20000) /* as long again as kubelet needs for an Unprepare, with which it may be busy */
#define PODS_MAX 16U                 /* pods that are read for one claim, so that a Prepare has enough time */

/* ---- read a claim ---- */

static void go_on(struct dra_driver *driver);

struct read {
        struct list link;
        struct dra_driver *driver;
        struct dra_preparing *preparing; /* NULL: the read is to find the pods of a prepared claim */
        struct kube_call *call;          /* NULL: |object| is there, and waits for the layout */
        struct arena arena;
        json_t *object;
        struct dra_pod_claim shares; /* the next three once the pods are being checked */
        size_t n_shares;
        struct dra_uses *uses;    /* by the pods, of a claim with several shares; else NULL */
        const json_t *user;       /* the pod that is being read; of |object| */
        size_t n_pods;            /* how many pods of the claim were checked */
        unsigned int n_asked;     /* how many of these were read from the API server */
        bool is_again;            /* pods are checked a second time, for other claims only */
        unsigned int n_allocated; /* driver->n_allocated when the first was checked */
        struct dra_room room;
        bool is_blocked;       /* until something changes */
        uint64_t deadline_ms;  /* uv_now(), of its wait for room; 0: it has not waited */
        struct error obstacle; /* that it waits for */
        char *namespace;
        char *name;
        char *uid;
};

static void read_free(struct read *read)
{
        list_remove(&read->link);
        json_decref(read->object);
        arena_done(&read->arena);
        free(read->namespace);
        free(read->name);
        free(read->uid);
        free(read);
}

/* Until the API's version is known, v1 is used: if the server is older, the request fails and kubelet tries again. */
static struct kube_call *get_claim(
        struct read *read, const struct dra_service_claim *claim, uint64_t timeout_ms, kube_done_fn *done)
{
        enum dra_api api = dra_publisher_api(read->driver->publisher);
        _free_ char *group = xasprintf("/apis/resource.k8s.io/%s", dra_api_name(api));
        _free_ char *collection = object_collection(group, claim->namespace, "resourceclaims");
        _free_ char *path = object_path(collection, claim->name);

        return kube_client_send(read->driver->options.client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = path, .timeout_ms = timeout_ms, .done = done, .data = read});
}

static void read_begin(struct dra_driver *driver, const struct dra_service_claim *claim,
        struct dra_preparing *preparing, kube_done_fn *done)
{
        struct read *read = xcalloc(1, sizeof(*read));

        *read = (struct read){.driver = driver,
                .preparing = preparing,
                .namespace = xstrdup(claim->namespace),
                .name = xstrdup(claim->name),
                .uid = xstrdup(claim->uid)};
        read->room = (struct dra_room){driver->record, driver->options.ledger, &read->arena};
        list_append(&driver->reads, &read->link);
        read->call = get_claim(read, claim, READ_TIMEOUT_MS, done);
}

/* ---- its shares by MPS ---- */

static bool is_by_mps(const struct dra_driver *driver, const char *name)
{
        const struct dra_device *device = name ? dra_layout_find(dra_publisher_layout(driver->publisher), name) : NULL;

        return device && dra_device_kind_is_by_mps(device->kind);
}

static const char *base_request(struct arena *arena, const char *request)
{
        return arena_strndup(arena, request, strcspn(request, "/"));
}

static void find_shares(struct read *read)
{
        const json_t *results = object_find(read->object, "status", "allocation", "devices", "results", NULL);
        const char **requests = ARENA_ARRAY(&read->arena, const char *, json_array_size(results));
        const json_t *result;
        size_t i;

        json_array_foreach(results, i, result)
        {
                const char *request = object_text(result, "request", NULL);

                if (!is_by_mps(read->driver, object_text(result, "device", NULL)) || !request)
                        continue;
                requests[read->n_shares++] = base_request(&read->arena, request);
        }
        read->shares = (struct dra_pod_claim){read->name, requests, read->n_shares};
        if (read->n_shares > 1) {
                read->uses = ARENA_NEW(&read->arena, struct dra_uses);
                read->uses->count = 0;
                read->uses->is_whole = true;
        }
}

static struct dra_pod_claim recorded_shares(
        const struct dra_driver *driver, struct arena *arena, const struct ledger_claim *claim)
{
        const struct dra_prepared_claim *recorded = dra_record_find(driver->record, claim->uid);
        const char **requests = ARENA_ARRAY(arena, const char *, recorded ? recorded->n_results : 0);
        struct dra_pod_claim ret = {.name = strchr(claim->name, '/') + 1, .requests = requests};

        for (size_t i = 0; recorded && i < recorded->n_results; i++)
                if (recorded->results[i].daemon || is_by_mps(driver, recorded->results[i].device))
                        requests[ret.n_requests++] = recorded->results[i].request;
        return ret;
}

/* ---- its pods ---- */

/* Fails if a container of the pod uses this claim and another one by MPS. */
static int check_pod(const struct read *read, const json_t *pod, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *uid = object_text(pod, "metadata", "uid", NULL);
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(read->driver->options.ledger, &arena, &states);

        for (size_t i = 0; uid && i < count; i++) {
                struct dra_pod_claim other;
                const char *container;

                if (!dra_claim_is_beside(states[i].claim, read->uid, uid))
                        continue;
                other = recorded_shares(read->driver, &arena, states[i].claim);
                container = dra_pod_container_of_both(pod, &read->shares, &other);
                if (container)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "container '%s' of pod %s/%s also uses the claim '%s' by MPS, and a process has one MPS "
                                "daemon and one limit of each kind: use one claim for the container",
                                container, read->namespace, object_text(pod, "metadata", "name", NULL), other.name);
        }
        return 0;
}

/* Of the UID that the claim is reserved for: a pod of a StatefulSet keeps its name when it is made anew. */
static bool is_the_user(const struct read *read, const json_t *pod)
{
        const char *uid = object_text(pod, "metadata", "uid", NULL);

        return uid && strcmp(uid, object_text(read->user, "uid", NULL)) == 0;
}

static void on_pod_of_claim(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_preparing *preparing = read->preparing;
        struct error err;

        read->call = NULL;
        if (answer->error)
                log_warn(
                        read->uses
                                ? "the pods of a DRA claim with several shares by MPS cannot be read: each container has the "
                                  "limits of all of them together"
                                : "a pod uses several DRA claims by MPS; a container that names two of them has the limits of one",
                        LOG_STR("namespace", read->namespace), LOG_STR("claim", read->name), LOG_ERR(answer->error));
        if (!answer->error && check_pod(read, answer->object, &err) < 0) {
                read_free(read);
                dra_prepare_refuse(preparing, &err);
                return;
        }
        if (read->uses && !answer->error && is_the_user(read, answer->object))
                dra_pod_add_uses(answer->object, read->name, &read->arena, read->uses);
        else if (read->uses)
                read->uses->is_whole = false;
        go_on(read->driver);
}

/* Only pods that decide something, because many agents may not have the right to read pods. */
static const json_t *find_next_pod(struct read *read)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct dra_driver *driver = read->driver;
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(driver->options.ledger, &arena, &states);
        const json_t *user = NULL;

        if (read->n_pods == 0)
                read->n_allocated = driver->n_allocated;
        if (read->uses && !read->is_again)
                user = dra_pod_next(read->object, &read->n_pods);
        else
                user = dra_pod_with_others(read->object, read->uid, states, count, &read->n_pods);
        if (user || read->n_allocated == driver->n_allocated)
                return user;
        /*
         * While pods were read, or it waited for room, claims were allocated that pods may use which were checked
         * before.
         */
        read->is_again = true;
        read->n_pods = 0;
        read->n_allocated = driver->n_allocated;
        return dra_pod_with_others(read->object, read->uid, states, count, &read->n_pods);
}

/* True: a pod is being read. */
static bool read_next_pod(struct read *read)
{
        _free_ char *pods = NULL;
        _free_ char *path = NULL;

        if (!read->shares.name)
                find_shares(read);
        read->user = read->n_shares ? find_next_pod(read) : NULL;
        if (!read->user)
                return false;
        if (read->n_asked == PODS_MAX) {
                if (read->uses)
                        read->uses->is_whole = false;
                return false;
        }
        read->n_asked++;
        pods = object_collection("/api/v1", read->namespace, "pods");
        path = object_path(pods, object_text(read->user, "name", NULL));
        read->call = kube_client_send(read->driver->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                            .path = path,
                                                                            .timeout_ms = POD_TIMEOUT_MS,
                                                                            .done = on_pod_of_claim,
                                                                            .data = read});
        return true;
}

/* ---- then there must be room ---- */

/* The present layout, the kinds of devices that can be prepared, and what is known of the claim's containers. */
static struct dra_wanted_rules rules_of(const struct dra_driver *driver, const struct dra_uses *uses)
{
        const unsigned int kinds = 1U << DRA_DEVICE_WHOLE | 1U << DRA_DEVICE_MIG | 1U << DRA_DEVICE_TIMESLICE |
                                   1U << DRA_DEVICE_SHARED | 1U << DRA_DEVICE_SHARE | 1U << DRA_DEVICE_MIG_CANDIDATE;

        return (struct dra_wanted_rules){
                .layout = dra_publisher_layout(driver->publisher),
                .kinds = kinds,
                .driver = driver->name,
                .unenforced = driver->plan->config->dra.unenforced,
                .is_multi_user = capability_multi_user(driver->plan->inventory->driver_version),
                .one_daemon = driver->plan->config->dra.daemon_scope == DAEMON_SCOPE_RESOURCE,
                .uses = uses ? uses->all : NULL,
                .n_uses = uses ? uses->count : 0,
                .knows_uses = uses && uses->is_whole,
        };
}

static struct dra_claim_asked asked_of(const struct dra_driver *driver, const struct dra_service_claim *claim)
{
        return (struct dra_claim_asked){.namespace = claim->namespace,
                .name = claim->name,
                .uid = claim->uid,
                .driver = driver->name,
                .pool = driver->pool,
                .old_pool = driver->node};
}

static void on_predecessor_read(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        const struct dra_claim_asked asked = asked_of(read->driver, &read->room.asked);

        read->call = NULL;
        /* Where the API server does not say, waiting harms nobody. */
        dra_room_learn(&read->room, answer->error || !dra_claim_is_allocated(answer->object, &asked));
        go_on(read->driver);
}

/* What the claim is wrong in is for node/dra/prepare.h to say: then there is room. */
static enum dra_room_state look_for_room(struct read *read, const struct dra_wanted_rules *rules, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct dra_claim_asked asked = asked_of(read->driver,
                &(struct dra_service_claim){.namespace = read->namespace, .uid = read->uid, .name = read->name});
        const struct dra_wanted *wanted;
        struct dra_claim claim;

        if (dra_claim_read(&claim, &arena, read->object, &asked, err) < 0)
                return DRA_ROOM_THERE;
        if (dra_wanted_read(&wanted, &arena, &claim, rules, err) < 0)
                return err->kind == ERROR_UNAVAILABLE ? DRA_ROOM_COMES : DRA_ROOM_THERE;
        return dra_room_look(&read->room, &claim, wanted, rules->layout, err);
}

static void arm_room_timer(struct dra_driver *driver)
{
        uint64_t now = uv_now(driver->options.loop);
        uint64_t first = UINT64_MAX;

        LIST_FOR_EACH(link, &driver->reads) {
                const struct read *read = container_of(link, struct read, link);

                if (read->deadline_ms)
                        first = MIN(first, read->deadline_ms);
        }
        if (first < UINT64_MAX)
                uv_timer_start(&driver->room_timer, dra_driver_on_room_timer, first > now ? first - now : 0, 0);
}

static void block(struct read *read, const struct error *obstacle)
{
        read->is_blocked = true;
        read->obstacle = *obstacle;
        if (read->deadline_ms)
                return;
        log_info("a DRA claim waits for what it was allocated to become free", LOG_STR("namespace", read->namespace),
                LOG_STR("claim", read->name), LOG_ERR(obstacle));
        read->deadline_ms = uv_now(read->driver->options.loop) + ROOM_WAIT_MS;
        arm_room_timer(read->driver);
}

static void refuse_read(struct read *read, const struct error *err)
{
        struct dra_preparing *preparing = read->preparing;

        kube_call_cancel(read->call);
        read_free(read);
        dra_prepare_refuse(preparing, err);
}

/* The wait is over; NULL: of none. */
static struct read *find_late(const struct dra_driver *driver)
{
        LIST_FOR_EACH(link, &driver->reads) {
                struct read *read = container_of(link, struct read, link);

                if (read->deadline_ms && read->deadline_ms <= uv_now(driver->options.loop))
                        return read;
        }
        return NULL;
}

void dra_driver_on_room_timer(uv_timer_t *timer)
{
        struct dra_driver *driver = timer->data;
        struct read *read;

        while ((read = find_late(driver))) {
                struct error err;

                error_raise(&err, ERROR_TIMEOUT, "%s; Prepare has waited %ju s for that to change", read->obstacle.text,
                        (uintmax_t)(ROOM_WAIT_MS / 1000));
                refuse_read(read, &err);
        }
        arm_room_timer(driver);
}

void dra_driver_abandon_read(struct dra_preparing *preparing, void *data)
{
        struct dra_driver *driver = data;
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE, "kubelet does not wait for it any more");
        LIST_FOR_EACH(link, &driver->reads) {
                struct read *read = container_of(link, struct read, link);

                if (read->preparing == preparing) {
                        log_info("nobody waits for a DRA claim any more, which is not prepared therefore",
                                LOG_STR("namespace", read->namespace), LOG_STR("claim", read->name));
                        refuse_read(read, &err);
                        return;
                }
        }
}

/* ---- then it is checked ---- */

static void hand_over(struct read *read, const struct dra_wanted_rules *rules)
{
        list_remove(&read->link);
        list_init(&read->link);
        dra_prepare_set_rules(read->driver->prepare, rules);
        dra_prepare_read(read->preparing, read->object);
        read_free(read);
}

/* Continues once the layout is known, which takes a moment after the agent's start. */
static void read_go_on(struct read *read)
{
        struct dra_driver *driver = read->driver;
        struct dra_wanted_rules rules;
        struct error err;

        if (read_next_pod(read))
                return;
        if (dra_driver_check_cdi(driver, &err) < 0) {
                refuse_read(read, &err);
                return;
        }
        rules = rules_of(driver, read->uses);
        switch (look_for_room(read, &rules, &err)) {
        case DRA_ROOM_THERE:
                hand_over(read, &rules);
                break;
        case DRA_ROOM_COMES:
                block(read, &err);
                break;
        case DRA_ROOM_ASK:
                read->call = get_claim(read, &read->room.asked, POD_TIMEOUT_MS, on_predecessor_read);
                break;
        case DRA_ROOM_NONE:
                refuse_read(read, &err);
                break;
        }
}

static bool has_layout(const struct dra_driver *driver)
{
        return driver->plan && dra_publisher_layout(driver->publisher);
}

static struct read *find_read_that_waits(const struct dra_driver *driver)
{
        struct read *ret = NULL;

        LIST_FOR_EACH(link, &driver->reads) {
                struct read *read = container_of(link, struct read, link);

                if (!read->preparing) /* the pods of prepared claims are not known yet */
                        return NULL;
                if (!read->call && !read->is_blocked && !ret)
                        ret = read;
        }
        return ret;
}

static void go_on(struct dra_driver *driver)
{
        struct read *read;

        while (!driver->is_closing && has_layout(driver) && (read = find_read_that_waits(driver)))
                read_go_on(read);
}

void dra_driver_reads_go_on(struct dra_driver *driver)
{
        LIST_FOR_EACH(link, &driver->reads) {
                struct read *read = container_of(link, struct read, link);

                read->is_blocked = false;
                dra_room_doubt(&read->room);
        }
        go_on(driver);
}

static void on_claim_read(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_preparing *preparing = read->preparing;

        read->call = NULL;
        if (!answer->error) {
                read->object = json_incref(answer->object);
                go_on(read->driver);
                return;
        }
        read_free(read);
        dra_prepare_refuse(preparing, answer->error);
}

void dra_driver_read_claim(struct dra_preparing *preparing, const struct dra_service_claim *claim, void *data)
{
        struct dra_driver *driver = data;

        if (driver->is_closing)
                dra_driver_refuse_preparing(preparing);
        else
                read_begin(driver, claim, preparing, on_claim_read);
}

/* ---- the pods of prepared claims ---- */

static void on_pods_read(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_driver *driver = read->driver;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct dra_claim_asked asked = asked_of(driver,
                &(struct dra_service_claim){.namespace = read->namespace, .uid = read->uid, .name = read->name});
        struct dra_claim claim;
        struct error err;

        if (answer->error)
                log_debug("which pods use a claim is not known", LOG_STR("claim", read->name), LOG_ERR(answer->error));
        else if (dra_claim_read(&claim, &arena, answer->object, &asked, &err) < 0)
                log_debug("which pods use a claim is not known", LOG_STR("claim", read->name), LOG_ERR(&err));
        else
                ledger_set_claim_pods(driver->options.ledger, read->uid, claim.pods, claim.n_pods);
        read_free(read);
        go_on(driver);
}

void dra_driver_ask_pods(struct dra_driver *driver)
{
        for (size_t i = 0; i < dra_record_count(driver->record); i++) {
                const struct dra_prepared_claim *recorded = dra_record_at(driver->record, i);
                const struct dra_service_claim claim = {
                        .namespace = recorded->namespace, .uid = recorded->uid, .name = recorded->name};

                if (recorded->state == DRA_PREPARED_DONE)
                        read_begin(driver, &claim, NULL, on_pods_read);
        }
}

void dra_driver_read_pods(struct dra_driver *driver)
{
        uint64_t now;

        if (!driver)
                return;
        now = uv_now(driver->options.loop);
        if (now - driver->pods_asked_at > DRA_PODS_QUIET_MS) /* the last request was enough */
                driver->pods_wait_ms = 0;
        driver->pods_asked_at = now;
        if (now - driver->pods_read_at < driver->pods_wait_ms)
                return;
        driver->pods_read_at = now;
        driver->pods_wait_ms = MIN(MAX(2 * driver->pods_wait_ms, DRA_PODS_MS), DRA_PODS_MAX_MS);
        dra_driver_ask_pods(driver);
}

/* ---- the end ---- */

void dra_driver_refuse_reads(struct dra_driver *driver)
{
        while (!list_is_empty(&driver->reads)) {
                struct read *read = container_of(driver->reads.next, struct read, link);
                struct dra_preparing *preparing = read->preparing;

                kube_call_cancel(read->call);
                read_free(read);
                if (preparing)
                        dra_driver_refuse_preparing(preparing);
        }
}
