/*
 * A claim that is being prepared, between the API server, the ledger and kubelet. It waits twice, each time as an object in a
 * list of the driver: as a struct read for the API server's answer and for the layout, then as a struct wait for the ledger's
 * answer.
 */
#include "dra/driver_parts.h"

#include <string.h>

#include "base/log.h"
#include "cdi/cdi.h"
#include "dra/claim_cdi.h"
#include "dra/edits.h"
#include "dra/parameters.h"
#include "dra/pod_claims.h"
#include "kube/object.h"
#include "ledger/claims.h"

#define READ_TIMEOUT_MS UINT64_C(20000) /* to read a claim: half of a Prepare's time */
#define POD_TIMEOUT_MS UINT64_C(1000)
#define PODS_MAX 16U /* pods that are read for one claim, so that a Prepare has enough time */
#define MIB ((uint64_t)1024 * 1024)

void dra_driver_refuse_for_closing(struct error *ret)
{
        error_raise(ret, ERROR_UNAVAILABLE, "the agent is stopping, or another one takes its place");
}

static void refuse_for_closing(struct dra_preparing *preparing)
{
        struct error err;

        dra_driver_refuse_for_closing(&err);
        dra_prepare_refuse(preparing, &err);
}

/* ---- read a claim ---- */

struct read {
        struct list link;
        struct dra_driver *driver;
        struct dra_preparing *preparing; /* NULL: the read is to find the pods of a prepared claim */
        struct kube_call *call;          /* NULL: |object| is there, and waits for the layout */
        json_t *object;
        size_t n_pods;        /* how many pods of the claim were checked */
        unsigned int n_asked; /* how many of these were read from the API server */
        char *namespace;
        char *name;
        char *uid;
};

static void read_free(struct read *read)
{
        list_remove(&read->link);
        json_decref(read->object);
        free(read->namespace);
        free(read->name);
        free(read->uid);
        free(read);
}

/* Until the API's version is known, v1 is used: if the server is older, the request fails and kubelet tries again. */
static void read_begin(struct dra_driver *driver, const struct dra_service_claim *claim,
        struct dra_preparing *preparing, kube_done_fn *done)
{
        enum dra_api api = dra_publisher_api(driver->publisher);
        _free_ char *group = xasprintf("/apis/resource.k8s.io/%s", dra_api_name(api));
        _free_ char *collection = object_collection(group, claim->namespace, "resourceclaims");
        _free_ char *path = object_path(collection, claim->name);
        struct read *read = xcalloc(1, sizeof(*read));

        *read = (struct read){.driver = driver,
                .preparing = preparing,
                .namespace = xstrdup(claim->namespace),
                .name = xstrdup(claim->name),
                .uid = xstrdup(claim->uid)};
        list_append(&driver->reads, &read->link);
        read->call = kube_client_send(driver->options.client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = path, .timeout_ms = READ_TIMEOUT_MS, .done = done, .data = read});
}

/* Gives dra/prepare.h the present layout and the kinds of devices that can be prepared. */
static void set_rules(struct dra_driver *driver)
{
        unsigned int kinds = 1U << DRA_DEVICE_WHOLE | 1U << DRA_DEVICE_MIG | 1U << DRA_DEVICE_TIMESLICE |
                             1U << DRA_DEVICE_SHARED | 1U << DRA_DEVICE_SHARE | 1U << DRA_DEVICE_MIG_CANDIDATE;
        const struct dra_wanted_rules rules = {
                .layout = dra_publisher_layout(driver->publisher),
                .kinds = kinds,
                .driver = driver->name,
                .unenforced = driver->plan ? driver->plan->config->dra.unenforced : DRA_UNENFORCED_REFUSE,
        };

        dra_prepare_set_rules(driver->prepare, &rules);
}

/* Where there are no units yet, as on a GPU whose MIG devices are to be made, nothing was written, either. */
static int check_cdi(const struct dra_driver *driver, struct error *err)
{
        const struct plan *plan = driver->plan;

        if (plan->has_cdi_units || !plan->claimable || plan->claimable->n_units == 0)
                return 0;
        return error_set(err, ERROR_UNAVAILABLE,
                "the CDI specification of the GPUs could not be written to '%s': the agent's log says why",
                driver->cdi_root);
}

/* ---- two claims in the same container ---- */

static bool is_by_mps(const struct dra_driver *driver, const json_t *object)
{
        const json_t *result;
        size_t i;

        json_array_foreach(object_find(object, "status", "allocation", "devices", "results", NULL), i, result)
        {
                const char *name = object_text(result, "device", NULL);
                const struct dra_device *device =
                        name ? dra_layout_find(dra_publisher_layout(driver->publisher), name) : NULL;

                if (device && dra_device_kind_is_by_mps(device->kind))
                        return true;
        }
        return false;
}

/* Fails if a container of the pod uses this claim and another one by MPS. */
static int check_pod(const struct read *read, const json_t *pod, struct error *err)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *uid = object_text(pod, "metadata", "uid", NULL);
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(read->driver->options.ledger, &arena, &states);

        for (size_t i = 0; uid && i < count; i++) {
                const char *other = strchr(states[i].claim->name, '/') + 1;
                const char *container;

                if (!dra_claim_is_beside(states[i].claim, read->uid, uid))
                        continue;
                container = dra_pod_container_of_both(pod, read->name, other);
                if (container)
                        return error_set(err, ERROR_UNSUPPORTED,
                                "container '%s' of pod %s/%s also uses the claim '%s' by MPS, and a process has one MPS "
                                "daemon and one limit of each kind: use one claim for the container",
                                container, read->namespace, object_text(pod, "metadata", "name", NULL), other);
        }
        return 0;
}

static void on_pod_of_claim(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_preparing *preparing = read->preparing;
        struct error err;

        read->call = NULL;
        if (answer->error)
                log_warn(
                        "a pod uses several DRA claims by MPS; a container that names two of them has the limits of one",
                        LOG_STR("namespace", read->namespace), LOG_STR("claim", read->name), LOG_ERR(answer->error));
        if (answer->error || check_pod(read, answer->object, &err) == 0) {
                dra_driver_reads_go_on(read->driver);
                return;
        }
        read_free(read);
        dra_prepare_refuse(preparing, &err);
}

/*
 * True: a pod is being read. Only pods that use several claims by MPS are read, because many agents may not have the right to
 * read pods.
 */
static bool read_next_pod(struct read *read)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct ledger_claim_state *states;
        size_t count = ledger_claims(read->driver->options.ledger, &arena, &states);
        const json_t *user = read->n_asked < PODS_MAX && is_by_mps(read->driver, read->object)
                                     ? dra_pod_with_others(read->object, read->uid, states, count, &read->n_pods)
                                     : NULL;
        _free_ char *pods = NULL;
        _free_ char *path = NULL;

        if (!user)
                return false;
        read->n_asked++;
        pods = object_collection("/api/v1", read->namespace, "pods");
        path = object_path(pods, object_text(user, "name", NULL));
        read->call = kube_client_send(read->driver->options.client, &(struct kube_request){.method = KUBE_GET,
                                                                            .path = path,
                                                                            .timeout_ms = POD_TIMEOUT_MS,
                                                                            .done = on_pod_of_claim,
                                                                            .data = read});
        return true;
}

/* Continues once the layout is known, which takes a moment after the agent's start. */
static void read_go_on(struct read *read)
{
        struct dra_driver *driver = read->driver;
        struct dra_preparing *preparing = read->preparing;
        json_t *object;
        struct error err;

        if (read_next_pod(read))
                return;
        object = json_incref(read->object);
        read_free(read);
        if (check_cdi(driver, &err) < 0) {
                dra_prepare_refuse(preparing, &err);
        } else {
                set_rules(driver);
                dra_prepare_read(preparing, object);
        }
        json_decref(object);
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
                if (!read->call && !ret)
                        ret = read;
        }
        return ret;
}

void dra_driver_reads_go_on(struct dra_driver *driver)
{
        struct read *read;

        while (has_layout(driver) && (read = find_read_that_waits(driver)))
                read_go_on(read);
}

static void on_claim_read(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_preparing *preparing = read->preparing;

        read->call = NULL;
        if (!answer->error) {
                read->object = json_incref(answer->object);
                dra_driver_reads_go_on(read->driver);
                return;
        }
        read_free(read);
        dra_prepare_refuse(preparing, answer->error);
}

static void read_claim(struct dra_preparing *preparing, const struct dra_service_claim *claim, void *data)
{
        struct dra_driver *driver = data;

        if (driver->is_closing)
                refuse_for_closing(preparing);
        else
                read_begin(driver, claim, preparing, on_claim_read);
}

/* ---- the pods of prepared claims ---- */

static void on_pods_read(const struct kube_answer *answer, void *data)
{
        struct read *read = data;
        struct dra_driver *driver = read->driver;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const struct dra_claim_asked asked = {.namespace = read->namespace,
                .name = read->name,
                .uid = read->uid,
                .driver = driver->name,
                .pool = driver->node};
        struct dra_claim claim;
        struct error err;

        if (answer->error)
                log_debug("which pods use a claim is not known", LOG_STR("claim", read->name), LOG_ERR(answer->error));
        else if (dra_claim_read(&claim, &arena, answer->object, &asked, &err) < 0)
                log_debug("which pods use a claim is not known", LOG_STR("claim", read->name), LOG_ERR(&err));
        else
                ledger_set_claim_pods(driver->options.ledger, read->uid, claim.pods, claim.n_pods);
        read_free(read);
        dra_driver_reads_go_on(driver);
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

/* ---- allocate ---- */

struct wait {
        struct list link;
        struct dra_driver *driver;
        struct dra_preparing *preparing;
        struct arena arena;
        struct ledger_claim claim;           /* without devices by admin access */
        struct ledger_claim_device *booked;  /* claim.devices */
        struct ledger_claim_device *devices; /* one a result */
        bool *is_admin;                      /* one a result */
        enum dra_unenforced *unenforced;     /* one a result */
        size_t n_results;
};

static void wait_free(struct wait *wait)
{
        list_remove(&wait->link);
        arena_done(&wait->arena);
        free(wait);
}

/* "c15ebfed7…_0": of the claim and the result's position in it, of the characters of an allocation's id. */
const char *dra_driver_allocation_id(struct arena *arena, const char *uid, size_t position)
{
        char *id = arena_printf(arena, "c%s_%zu", uid, position);
        char *to = id;

        for (const char *at = id; *at; at++)
                if (*at != '-')
                        *to++ = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
        *to = '\0';
        return id;
}

static struct ledger_claim_device device_of(
        struct arena *arena, const struct dra_claim *claim, const struct dra_wanted *wanted, size_t position)
{
        enum dra_device_kind kind = wanted->device->kind;

        return (struct ledger_claim_device){
                .id = dra_driver_allocation_id(arena, claim->uid, position),
                .unit = arena_strdup(arena, wanted->device->uuid),
                .is_shared = dra_device_kind_is_by_mps(kind),
                .is_alone = kind == DRA_DEVICE_WHOLE || kind == DRA_DEVICE_MIG || kind == DRA_DEVICE_MIG_CANDIDATE,
                .limit_mib = wanted->memory_bytes / MIB,
                .threads_permille = wanted->thread_percentage ? wanted->thread_percentage * 10 : 1000,
        };
}

/* The unit in the plan now; it may have gone since. */
static const struct unit *find_unit(const struct dra_driver *driver, const char *uuid, struct error *err)
{
        const struct resource *claimable = driver->plan ? driver->plan->claimable : NULL;
        const struct unit *unit = claimable ? resource_find_unit(claimable, uuid) : NULL;

        if (!unit)
                (void)!error_set(err, ERROR_UNAVAILABLE, "%s is not on this node now, or does not belong to DRA", uuid);
        return unit;
}

static int make_allocated(const struct wait *wait, size_t i, const struct ledger_claimed *claimed, struct arena *arena,
        struct dra_allocated *ret, struct error *err)
{
        const struct plan *plan = wait->driver->plan;
        const struct ledger_claim_device *device = &wait->devices[i];
        const struct unit *unit = find_unit(wait->driver, device->unit, err);

        if (!unit)
                return -1;
        if (device->is_shared && dra_parameters_check_tier(wait->unenforced[i], claimed->tier, device->unit, err) < 0)
                return -1;
        *ret = (struct dra_allocated){
                .memory_bytes = device->limit_mib * MIB,
                .thread_percentage = device->is_shared ? device->threads_permille / 10 : 0,
                .tier = claimed->daemon ? mps_tier_name(claimed->tier) : NULL,
                .daemon = claimed->daemon,
                .unit_cdi_id = cdi_unit_id(arena, plan->config, unit),
                .edits = dra_edits_of(arena, plan->config, device, claimed),
        };
        return 0;
}

static void on_claimed(const struct error *failure, const struct ledger_claimed *claimed, void *data)
{
        struct wait *wait = data;
        struct dra_preparing *preparing = wait->preparing;
        struct arena arena = ARENA_INIT;
        struct dra_allocated *allocated = ARENA_ARRAY(&arena, struct dra_allocated, wait->n_results);
        const struct ledger_claimed no_daemon = {.daemon = NULL};
        size_t n_seen = 0; /* of |claimed|, which has none for admin access */
        struct error err = failure ? *failure : (struct error){.kind = ERROR_NONE};

        for (size_t i = 0; i < wait->n_results && err.kind == ERROR_NONE; i++) {
                bool is_booked = !wait->is_admin[i] && n_seen < wait->claim.n_devices;

                (void)!make_allocated(
                        wait, i, is_booked ? &claimed[n_seen++] : &no_daemon, &arena, &allocated[i], &err);
        }
        wait_free(wait);
        if (err.kind == ERROR_NONE)
                dra_prepare_allocated(preparing, allocated);
        else
                dra_prepare_refuse(preparing, &err);
        arena_done(&arena);
}

static void wait_for_ledger(struct wait *wait)
{
        struct dra_driver *driver = wait->driver;

        list_append(&driver->waits, &wait->link);
        if (wait->claim.n_devices == 0) {
                ledger_unclaim(driver->options.ledger, wait->claim.uid);
                on_claimed(NULL, NULL, wait);
                return;
        }
        ledger_claim(driver->options.ledger, &wait->claim, on_claimed, wait);
}

/* The units of candidates are MIG devices now. */
static void on_instances_made(const struct error *err, const struct dra_instance *instances, void *data)
{
        struct wait *wait = data;
        struct dra_preparing *preparing = wait->preparing;
        struct error failure = err ? *err : (struct error){.kind = ERROR_NONE};

        if (err || check_cdi(wait->driver, &failure) < 0) {
                wait_free(wait);
                dra_prepare_refuse(preparing, &failure);
                return;
        }
        for (size_t i = 0; i < wait->n_results; i++)
                if (instances[i].uuid)
                        wait->devices[i].unit = arena_strdup(&wait->arena, instances[i].uuid);
        for (size_t i = 0, n = 0; i < wait->n_results; i++)
                if (!wait->is_admin[i])
                        wait->booked[n++].unit = wait->devices[i].unit;
        wait_for_ledger(wait);
}

static void allocate_claim(
        struct dra_preparing *preparing, const struct dra_claim *claim, const struct dra_wanted *wanted, void *data)
{
        struct dra_driver *driver = data;
        struct wait *wait = xcalloc(1, sizeof(*wait));
        const struct dra_prepared_claim *recorded = dra_record_find(driver->record, claim->uid);
        struct ledger_claim_device *booked = ARENA_ARRAY(&wait->arena, struct ledger_claim_device, claim->n_results);
        size_t n_booked = 0;

        wait->driver = driver;
        wait->preparing = preparing;
        wait->n_results = claim->n_results;
        wait->booked = booked;
        wait->is_admin = ARENA_ARRAY(&wait->arena, bool, claim->n_results);
        wait->unenforced = ARENA_ARRAY(&wait->arena, enum dra_unenforced, claim->n_results);
        wait->devices = ARENA_ARRAY(&wait->arena, struct ledger_claim_device, claim->n_results);
        for (size_t i = 0; i < claim->n_results; i++) {
                wait->devices[i] = device_of(&wait->arena, claim, &wanted[i], i);
                wait->is_admin[i] = claim->results[i].admin_access;
                wait->unenforced[i] = wanted[i].unenforced;
                if (!wait->is_admin[i])
                        booked[n_booked++] = wait->devices[i];
        }
        wait->claim = (struct ledger_claim){
                .uid = arena_strdup(&wait->arena, claim->uid),
                .name = arena_printf(&wait->arena, "%s/%s", claim->namespace, claim->name),
                .devices = booked,
                .n_devices = n_booked,
                .pods = claim->pods,
                .n_pods = claim->n_pods,
        };
        list_init(&wait->link);
        if (dra_driver_has_candidates(recorded))
                dra_driver_change_instances(driver, preparing, recorded, false, on_instances_made, wait);
        else
                wait_for_ledger(wait);
}

/* ---- Unprepare ---- */

struct release {
        struct dra_driver *driver;
        struct dra_preparing *preparing;
};

static void on_instances_destroyed(const struct error *err, const struct dra_instance *instances UNUSED, void *data)
{
        struct release *release = data;
        struct dra_driver *driver = release->driver;
        struct dra_preparing *preparing = release->preparing;

        free(release);
        if (err) {
                dra_prepare_refuse(preparing, err);
                return;
        }
        driver->options.on_released(driver->options.data);
        dra_prepare_released(preparing);
}

static void release_claim(struct dra_preparing *preparing, const char *uid, void *data)
{
        struct dra_driver *driver = data;
        const struct dra_prepared_claim *recorded = dra_record_find(driver->record, uid);

        if (driver->is_closing) {
                refuse_for_closing(preparing);
                return;
        }
        ledger_unclaim(driver->options.ledger, uid);
        if (recorded && dra_driver_has_instances(recorded)) {
                struct release *release = xcalloc(1, sizeof(*release));

                *release = (struct release){driver, preparing};
                dra_driver_change_instances(driver, preparing, recorded, true, on_instances_destroyed, release);
                return;
        }
        driver->options.on_released(driver->options.data);
        dra_prepare_released(preparing);
}

static int write_cdi(const struct dra_prepared_claim *claim, void *data, struct error *err)
{
        struct dra_driver *driver = data;

        return dra_claim_cdi_write(driver->cdi_root, driver->name, claim, err);
}

static int remove_cdi(const char *uid, void *data, struct error *err)
{
        struct dra_driver *driver = data;

        return dra_claim_cdi_remove(driver->cdi_root, driver->name, uid, err);
}

/* ---- what users see ---- */

static void show_prepared(const struct dra_prepared_claim *claim, void *data)
{
        struct dra_driver *driver = data;

        if (driver->status)
                dra_status_send_prepared(driver->status, dra_publisher_api(driver->publisher), claim);
}

static void show_unprepared(const struct dra_service_claim *claim, void *data)
{
        struct dra_driver *driver = data;

        if (driver->status)
                dra_status_send_removed(driver->status, dra_publisher_api(driver->publisher), claim);
}

/* ---- for the rest of the driver ---- */

struct dra_prepare_node dra_driver_node(struct dra_driver *driver)
{
        return (struct dra_prepare_node){read_claim, allocate_claim, release_claim, write_cdi, remove_cdi,
                show_prepared, show_unprepared, driver};
}

/* What is being prepared is taken back by dra/prepare.h. */
void dra_driver_refuse_all(struct dra_driver *driver)
{
        dra_driver_refuse_instances(driver);
        while (!list_is_empty(&driver->reads)) {
                struct read *read = container_of(driver->reads.next, struct read, link);
                struct dra_preparing *preparing = read->preparing;

                kube_call_cancel(read->call);
                read_free(read);
                if (preparing)
                        refuse_for_closing(preparing);
        }
        while (!list_is_empty(&driver->waits)) {
                struct wait *wait = container_of(driver->waits.next, struct wait, link);
                struct dra_preparing *preparing = wait->preparing;

                ledger_unclaim(driver->options.ledger, wait->claim.uid);
                wait_free(wait);
                refuse_for_closing(preparing);
        }
}
