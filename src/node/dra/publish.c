// SPDX-License-Identifier: Apache-2.0
#include "node/dra/publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/dra/reconcile.h"
#include "net/kube/object.h"
#include "net/kube/watch.h"

#define IDLE_LOOK_MS UINT64_C(1000)
#define APART_SINCE 35UL /* the minor version from which counter sets and devices need slices of their own */

struct dra_publisher {
        struct dra_publisher_options options;
        const struct inventory *inventory; /* NULL: nothing is to be offered yet */
        struct dra_options wish;
        struct dra_slices_options slices; /* how they are written to this server */
        struct arena taints_arena;        /* of its taints */

        /* Facts about the server. One that is false is not known yet, or doubted. */
        bool has_api;
        bool has_version;
        bool has_features;
        bool is_refused;          /* the full layout: 422 */
        bool has_warned;          /* that the safe layout is used */
        bool has_warned_overhead; /* that the server drops it */
        bool has_warned_one_form; /* that each unit is offered in one form only */
        bool is_owner_old;
        struct dra_features features;
        char forgetful[64]; /* "v1.36.1", whose scheduler forgets shares (node/dra/layout.h); "": it does not */
        json_t *probe;      /* the spec that was sent */
        char *owner_uid;    /* NULL: not known */

        struct arena arena; /* of |layout| */
        const struct dra_layout *layout;
        bool is_layout_old;
        bool is_layout_new; /* the slices were not compared with it yet */
        json_t *wanted;     /* NULL: to be made; only while something is to be done: it is as large as what is there */
        struct slice_cache cache;
        json_t *accepted; /* only where the server changed something */
        struct kube_watch *watch;
        bool is_synced;
        bool had_trouble;
        bool is_at_rest;        /* reported */
        struct kube_call *call; /* NULL: no request is under way */
        json_t *sent;           /* the spec that |call| writes */
        char *sent_name;
        struct backoff backoff;
        struct dra_repair_pace pace;
        uv_timer_t timer;
        bool is_idle_look; /* what the timer is for: nothing waits */
};

static void publisher_step(struct dra_publisher *publisher);

/* ---- success and failure ---- */

static void publish_on_timer(uv_timer_t *timer)
{
        publisher_step(timer->data);
}

/* Continues later, from the loop, so that several changes in one turn of it are handled at once. */
static void arm(struct dra_publisher *publisher, uint64_t ms)
{
        publisher->is_idle_look = false;
        uv_timer_start(&publisher->timer, publish_on_timer, ms, 0);
}

static void publish_forget_wanted(struct dra_publisher *publisher)
{
        json_decref(publisher->wanted);
        publisher->wanted = NULL;
}

static void publish_change_wanted(struct dra_publisher *publisher)
{
        publish_forget_wanted(publisher);
        publisher->is_layout_old = true;
        if (!publisher->call)
                arm(publisher, 0);
}

static void publish_put_off(struct dra_publisher *publisher, const struct error *error, uint64_t asked_ms)
{
        publisher->is_at_rest = false;
        arm(publisher, backoff_next(&publisher->backoff, asked_ms, (uint32_t)uv_hrtime()));
        publisher->options.done(error, publisher->options.data);
}

static bool begin_answer(struct dra_publisher *publisher, const struct kube_answer *answer)
{
        publisher->call = NULL;
        if (!answer->error)
                return true;
        publish_put_off(publisher, answer->error, answer->retry_after_ms);
        return false;
}

/* ---- the server ---- */

static void publish_get(struct dra_publisher *publisher, const char *path, kube_done_fn *done)
{
        publisher->call = kube_client_send(publisher->options.client,
                &(struct kube_request){.method = KUBE_GET, .path = path, .done = done, .data = publisher});
}

static void publish_on_node(const struct kube_answer *answer, void *data)
{
        struct dra_publisher *publisher = data;
        const char *uid = answer->error ? NULL : object_text(answer->object, "metadata", "uid", NULL);

        if (!begin_answer(publisher, answer))
                return;
        free(publisher->owner_uid);
        publisher->owner_uid = xstrdup(uid ? uid : "");
        publisher->is_owner_old = false;
        arm(publisher, 0);
}

static void ask_node(struct dra_publisher *publisher)
{
        _free_ char *path = object_path("/api/v1/nodes", publisher->options.node);

        publish_get(publisher, path, publish_on_node);
}

static void on_group(const struct kube_answer *answer, void *data)
{
        struct dra_publisher *publisher = data;
        struct error err;

        if (!begin_answer(publisher, answer))
                return;
        publisher->has_api = dra_api_of(&publisher->slices.api, answer->object);
        if (publisher->has_api) {
                arm(publisher, 0);
                return;
        }
        error_raise(&err, ERROR_NOT_FOUND, "the API server serves none of v1, v1beta2 and v1beta1 of resource.k8s.io");
        publish_put_off(publisher, &err, 0);
}

static void on_version(const struct kube_answer *answer, void *data)
{
        struct dra_publisher *publisher = data;
        const char *minor = object_text(answer->object, "minor", NULL); /* "36", "36+" */
        const char *version = object_text(answer->object, "gitVersion", NULL);

        if (!begin_answer(publisher, answer))
                return;
        publisher->slices.counters_apart = minor && strtoul(minor, NULL, 10) >= APART_SINCE;
        publisher->forgetful[0] = '\0';
        if (dra_release_forgets_shares(version))
                snprintf(publisher->forgetful, sizeof(publisher->forgetful), "%s",
                        version && *version ? version : "of an unknown release");
        publisher->has_version = true;
        arm(publisher, 0);
}

static void publish_set_features(struct dra_publisher *publisher, struct dra_features features)
{
        if (publisher->features.node_allocatable && !features.node_allocatable && !publisher->has_warned_overhead) {
                log_warn(
                        "the API server does not take dra.hostOverhead: it counts nothing of it; from Kubernetes 1.37 on it "
                        "does with the feature gate on",
                        LOG_STR("DRANodeAllocatableResources", "off"));
                publisher->has_warned_overhead = true;
        }
        publisher->features = features;
        publisher->slices.has_taints = features.device_taints;
        publish_change_wanted(publisher);
}

static void publish_on_probed(const struct kube_answer *answer, void *data)
{
        struct dra_publisher *publisher = data;
        struct dra_features features = {true, true, true, true};
        bool is_refused = answer->status == 422;

        publisher->call = NULL;
        if (!is_refused && !begin_answer(publisher, answer))
                return;
        dra_slices_dropped(&features, publisher->probe, is_refused ? NULL : json_object_get(answer->object, "spec"));
        publisher->has_features = true;
        publisher->is_refused = false;
        publish_set_features(publisher, features);
}

static void send_probe(struct dra_publisher *publisher)
{
        json_t *slice = dra_slices_probe(&publisher->slices);
        json_t *object = json_object();
        _free_ char *path = dra_api_slices(publisher->slices.api);
        _free_ char *name = xasprintf("%s-probe", object_text(slice, "name", NULL));

        json_decref(publisher->probe);
        publisher->probe = json_incref(json_object_get(slice, "spec"));
        dra_slices_set_object(object, &publisher->slices, name, publisher->owner_uid, publisher->probe);
        publisher->call = kube_client_send(publisher->options.client, &(struct kube_request){.method = KUBE_CREATE,
                                                                              .path = path,
                                                                              .query = "dryRun=All",
                                                                              .body = object,
                                                                              .done = publish_on_probed,
                                                                              .data = publisher});
        json_decref(object);
        json_decref(slice);
}

/* ---- writing ---- */

static void keep_sent(struct dra_publisher *publisher, const char *name, json_t *spec)
{
        free(publisher->sent_name);
        publisher->sent_name = xstrdup(name);
        json_decref(publisher->sent);
        publisher->sent = json_incref(spec);
}

static bool says_overhead(const struct dra_overhead *of)
{
        return of->pod_mib || of->container_mib || of->pod_milli || of->container_milli;
}

static bool has_overhead(const struct config_dra *dra)
{
        return says_overhead(&dra->gpu_overhead) || says_overhead(&dra->mig_overhead) ||
               says_overhead(&dra->shared_overhead);
}

/* The server refused a slice as invalid (422). If other slices are wanted meanwhile, these are tried first. */
static void publish_refuse(struct dra_publisher *publisher, const struct kube_answer *answer)
{
        bool was_safe;

        if (!publisher->wanted) {
                arm(publisher, 0);
                return;
        }
        if (publisher->features.node_allocatable && has_overhead(&publisher->wish.config)) {
                struct dra_features features = publisher->features;

                log_error("the API server refuses a ResourceSlice; it is tried without dra.hostOverhead",
                        LOG_ERR(answer->error));
                features.node_allocatable = false;
                publish_set_features(publisher, features);
                return;
        }
        was_safe = publisher->is_refused || publisher->layout->is_safe;
        publisher->is_refused = true;
        if (was_safe) {
                publish_put_off(publisher, answer->error, answer->retry_after_ms);
                return;
        }
        log_error("the API server refuses a ResourceSlice; the safe layout is offered instead", LOG_ERR(answer->error));
        publish_change_wanted(publisher);
}

/* Reads the server's answer: it is the slice that exists now, and shows which fields the server dropped. */
static void read_back(struct dra_publisher *publisher, json_t *object)
{
        struct dra_features features = publisher->features;
        json_t *kept = json_object_get(object, "spec");

        if (!kept) /* no ResourceSlice: the watch will bring it */
                return;
        json_object_set(slice_cache_slices(&publisher->cache), publisher->sent_name, object);
        if (dra_slices_are_same(publisher->sent, kept))
                json_object_del(publisher->accepted, publisher->sent_name);
        else
                json_object_set_new(publisher->accepted, publisher->sent_name,
                        json_pack("{s: O, s: O}", "sent", publisher->sent, "kept", kept));
        dra_slices_dropped(&features, publisher->sent, kept);
        if (memcmp(&features, &publisher->features, sizeof(features)) != 0)
                publish_set_features(publisher, features);
}

static void on_written(const struct kube_answer *answer, void *data)
{
        struct dra_publisher *publisher = data;

        if (answer->status == 422) {
                publisher->call = NULL;
                publish_refuse(publisher, answer);
                return;
        }
        if (answer->status == 404 &&
                json_object_del(slice_cache_slices(&publisher->cache), publisher->sent_name) == 0) {
                publisher->call = NULL; /* another client deleted it meanwhile */
                dra_repair_written(&publisher->pace);
                arm(publisher, 0);
                return;
        }
        if (!begin_answer(publisher, answer))
                return;
        publisher->backoff.failures = 0;
        dra_repair_written(&publisher->pace);
        read_back(publisher, answer->object);
        keep_sent(publisher, "", NULL);
        arm(publisher, 0);
}

static void on_deleted(const struct kube_answer *answer, void *data)
{
        struct dra_publisher *publisher = data;

        publisher->call = NULL;
        if (answer->error && answer->status != 404) {
                publish_put_off(publisher, answer->error, answer->retry_after_ms);
                return;
        }
        dra_repair_written(&publisher->pace);
        json_object_del(slice_cache_slices(&publisher->cache), publisher->sent_name);
        arm(publisher, 0);
}

static void write_slice(struct dra_publisher *publisher, const struct dra_action *action)
{
        _free_ char *slices = dra_api_slices(publisher->slices.api);
        _free_ char *path = object_path(slices, action->name);
        json_t *there = json_object_get(slice_cache_slices(&publisher->cache), action->name);
        json_t *object = there ? json_deep_copy(there) : json_object();
        json_t *spec = json_deep_copy(action->spec);

        json_object_set_new(object_find(spec, "pool", NULL), "generation", json_integer(action->generation));
        keep_sent(publisher, action->name, spec);
        dra_slices_set_object(object, &publisher->slices, action->name, publisher->owner_uid, spec);
        publisher->call = kube_client_send(
                publisher->options.client, &(struct kube_request){.method = there ? KUBE_REPLACE : KUBE_CREATE,
                                                   .path = there ? path : slices,
                                                   .body = object,
                                                   .done = on_written,
                                                   .data = publisher});
        json_decref(object);
        json_decref(spec);
}

static void publish_delete_slice(struct dra_publisher *publisher, const struct dra_action *action)
{
        _free_ char *slices = dra_api_slices(publisher->slices.api);
        _free_ char *path = object_path(slices, action->name);
        const json_t *there = json_object_get(slice_cache_slices(&publisher->cache), action->name);
        json_t *body = json_pack("{s: s, s: s, s: {s: O, s: O}}", "apiVersion", "v1", "kind", "DeleteOptions",
                "preconditions", "uid", object_find(there, "metadata", "uid", NULL), "resourceVersion",
                object_find(there, "metadata", "resourceVersion", NULL));

        keep_sent(publisher, action->name, NULL);
        publisher->call = kube_client_send(publisher->options.client,
                &(struct kube_request){
                        .method = KUBE_DELETE, .path = path, .body = body, .done = on_deleted, .data = publisher});
        json_decref(body);
}

/* ---- list and watch ---- */

/*
 * Schedules a comparison of all slices; one that is scheduled already covers this change, too. It costs 40 ms of the
 * processor for the slices of 16 GPUs. After a harmless change it would find no difference, so it is done later, once
 * for many changes, and only for slice_cache_compact().
 */
static void publish_look(struct dra_publisher *publisher, bool is_harmless)
{
        bool is_armed = uv_is_active((uv_handle_t *)&publisher->timer);

        if (!publisher->is_synced || publisher->call || (is_armed && (is_harmless || !publisher->is_idle_look)))
                return;
        arm(publisher, is_harmless ? IDLE_LOOK_MS : 0);
        publisher->is_idle_look = is_harmless;
}

static void publish_on_object(enum kube_change what, json_t *object, void *data)
{
        struct dra_publisher *publisher = data;
        enum slice_cache_news news = slice_cache_follow(&publisher->cache, what, object);

        publisher->is_owner_old |= news == SLICE_CACHE_GONE;
        publish_look(publisher, news == SLICE_CACHE_SAME);
}

static void publish_on_synced(void *data)
{
        struct dra_publisher *publisher = data;

        publisher->is_synced = true;
        if (publisher->had_trouble)
                publisher->has_version = publisher->has_features = false;
        publisher->had_trouble = false;
        if (!publisher->call)
                arm(publisher, 0);
}

/*
 * The watch was resumed after an end: the API server may have been replaced by one of another release, so its features
 * are read again.
 */
static void publish_on_resumed(void *data)
{
        struct dra_publisher *publisher = data;

        publisher->had_trouble = true;
        publish_on_synced(publisher);
}

static void forget_watch(struct dra_publisher *publisher)
{
        publisher->watch = kube_watch_close(publisher->watch);
        publisher->is_synced = false;
        slice_cache_clear(&publisher->cache);
}

static void publish_on_trouble(const struct error *error, void *data)
{
        struct dra_publisher *publisher = data;

        publisher->had_trouble = true;
        publisher->is_at_rest = false;
        if (error->kind == ERROR_NOT_FOUND) {
                forget_watch(publisher);
                publisher->has_api = publisher->has_version = publisher->has_features = false;
                publisher->slices.api = DRA_API_V1;
                if (!publisher->call)
                        publish_put_off(publisher, error, 0);
                return;
        }
        publisher->options.done(error, publisher->options.data);
}

static void publish_begin_watch(struct dra_publisher *publisher)
{
        _free_ char *path = dra_api_slices(publisher->slices.api);
        _free_ char *selector =
                xasprintf("spec.driver=%s,spec.nodeName=%s", publisher->options.driver, publisher->options.node);

        publisher->watch = kube_watch_new(publisher->options.client, &(struct kube_watch_options){
                                                                             .path = path,
                                                                             .field_selector = selector,
                                                                             .on_object = publish_on_object,
                                                                             .on_synced = publish_on_synced,
                                                                             .on_resumed = publish_on_resumed,
                                                                             .on_trouble = publish_on_trouble,
                                                                             .data = publisher,
                                                                     });
}

/* ---- reconcile ---- */

static void drop_layout(struct dra_publisher *publisher)
{
        publisher->layout = NULL;
        arena_done(&publisher->arena);
        publish_forget_wanted(publisher);
}

static void make_layout(struct dra_publisher *publisher)
{
        const struct dra_features *has = &publisher->features;
        struct dra_options options = publisher->wish;

        options.features.consumable_capacity &= has->consumable_capacity && !publisher->is_refused;
        options.features.partitionable_devices &= has->partitionable_devices && !publisher->is_refused;
        options.features.device_taints &= has->device_taints;
        options.features.node_allocatable &= has->node_allocatable;
        options.forgetful = *publisher->forgetful ? publisher->forgetful : NULL;
        drop_layout(publisher);
        publisher->layout = dra_layout_build(&publisher->arena, publisher->inventory, &options);
        publisher->is_layout_old = false;
        publisher->is_layout_new = true;
        publisher->wanted = dra_slices_build(publisher->layout, &publisher->slices);
        if (publisher->layout->is_safe && !publisher->has_warned && !publisher->is_refused)
                log_warn("the API server lacks a feature that sharing needs; the safe layout is offered instead",
                        LOG_STR("DRAConsumableCapacity", has->consumable_capacity ? "on" : "off"),
                        LOG_STR("DRAPartitionableDevices", has->partitionable_devices ? "on" : "off"));
        publisher->has_warned = publisher->layout->is_safe;
        if (publisher->layout->one_form && !publisher->has_warned_one_form)
                log_warn("each GPU and MIG device is offered in one form only",
                        LOG_STR("reason", publisher->layout->one_form));
        publisher->has_warned_one_form = publisher->layout->one_form;
        if (publisher->options.on_layout)
                publisher->options.on_layout(publisher->options.data);
}

static void publish_rest(struct dra_publisher *publisher)
{
        publisher->backoff.failures = 0;
        dra_repair_rest(&publisher->pace);
        publish_forget_wanted(publisher);
        slice_cache_compact(&publisher->cache);
        if (!publisher->is_at_rest) {
                publisher->is_at_rest = true;
                publisher->options.done(NULL, publisher->options.data);
        }
}

/*
 * Another client undoes each repair. The first pause is not reported: kubelet may still delete slices after its start.
 */
static void wait_for_repair(struct dra_publisher *publisher, const struct dra_action *action, uint64_t wait_ms)
{
        static const char *const done[] = {
                [DRA_STEP_DELETE] = "added", [DRA_STEP_REPLACE] = "changed", [DRA_STEP_CREATE] = "deleted"};
        struct error err;

        error_raise(&err, ERROR_UNAVAILABLE,
                "another client has %s ResourceSlice %s soon after the last repair; the next one is in %.1f s, and they "
                "become rarer, down to one a minute, while this goes on; the audit log of the API server names the client",
                done[action->step], action->name, (double)wait_ms / 1000);
        publish_forget_wanted(publisher);
        slice_cache_compact(&publisher->cache);
        publisher->is_at_rest = false;
        arm(publisher, wait_ms);
        if (publisher->pace.pauses.failures > 1)
                publisher->options.done(&err, publisher->options.data);
}

static void take_step(struct dra_publisher *publisher, const struct dra_action *action)
{
        publisher->is_at_rest = false;
        if (publisher->is_owner_old)
                ask_node(publisher);
        else if (action->step == DRA_STEP_DELETE)
                publish_delete_slice(publisher, action);
        else
                write_slice(publisher, action);
}

static void reconcile(struct dra_publisher *publisher)
{
        const struct dra_pool pool = {.wanted = publisher->wanted,
                .there = slice_cache_slices(&publisher->cache),
                .accepted = publisher->accepted,
                .owner_uid = publisher->owner_uid};
        const struct dra_action action = dra_reconcile(&pool);
        uint64_t wait_ms;

        if (publisher->is_layout_new)
                dra_repair_allow(&publisher->pace, action.n_writes);
        publisher->is_layout_new = false;
        if (action.step == DRA_STEP_NONE) {
                publish_rest(publisher);
                return;
        }
        wait_ms = dra_repair_next(
                &publisher->pace, action.n_writes, uv_now(publisher->options.loop), (uint32_t)uv_hrtime());
        if (wait_ms > 0)
                wait_for_repair(publisher, &action, wait_ms);
        else
                take_step(publisher, &action);
}

static void publisher_step(struct dra_publisher *publisher)
{
        if (publisher->call || !publisher->inventory)
                return;
        if (!publisher->owner_uid) {
                ask_node(publisher);
        } else if (!publisher->has_api) {
                publish_get(publisher, DRA_API_GROUP, on_group);
        } else if (!publisher->has_version) {
                publish_get(publisher, "/version", on_version);
        } else if (!publisher->has_features) {
                send_probe(publisher);
        } else if (!publisher->watch) {
                publish_begin_watch(publisher);
        } else if (publisher->is_synced) {
                if (!publisher->layout || publisher->is_layout_old)
                        make_layout(publisher);
                else if (!publisher->wanted)
                        publisher->wanted = dra_slices_build(publisher->layout, &publisher->slices);
                reconcile(publisher);
        }
}

/* ---- public ---- */

struct dra_publisher *dra_publisher_new(const struct dra_publisher_options *options)
{
        struct dra_publisher *publisher = xcalloc(1, sizeof(*publisher));

        publisher->options = *options;
        publisher->slices =
                (struct dra_slices_options){.driver = options->driver, .node = options->node, .pool = options->pool};
        publisher->accepted = json_object();
        publisher->backoff =
                (struct backoff){options->retry_ms ? options->retry_ms : DRA_RETRY_MS, DRA_RETRY_LIMIT_MS, 0};
        publisher->pace.pauses = publisher->backoff;
        uv_timer_init(options->loop, &publisher->timer);
        publisher->timer.data = publisher;
        return publisher;
}

void dra_publisher_put(
        struct dra_publisher *publisher, const struct inventory *inventory, const struct dra_options *options)
{
        publisher->inventory = inventory;
        publisher->wish = *options;
        publisher->is_refused = false;
        publisher->backoff.failures = 0;
        drop_layout(publisher); /* it was made of the inventory before */
        if (publisher->has_features)
                make_layout(publisher);
        if (!publisher->call)
                arm(publisher, 0);
}

void dra_publisher_set_taints(struct dra_publisher *publisher, const struct dra_taint *taints, size_t n_taints)
{
        struct arena *arena = &publisher->taints_arena;
        struct dra_taint *copies;

        arena_done(arena);
        copies = ARENA_ARRAY(arena, struct dra_taint, n_taints);
        for (size_t i = 0; i < n_taints; i++)
                copies[i] = (struct dra_taint){.uuid = arena_strdup(arena, taints[i].uuid),
                        .key = arena_strdup(arena, taints[i].key),
                        .value = arena_strdup(arena, taints[i].value),
                        .effect = taints[i].effect};
        publisher->slices.taints = copies;
        publisher->slices.n_taints = n_taints;
        publish_change_wanted(publisher);
}

const struct dra_layout *dra_publisher_layout(const struct dra_publisher *publisher)
{
        return publisher->layout;
}

struct dra_features dra_publisher_features(const struct dra_publisher *publisher)
{
        return publisher->features;
}

enum dra_api dra_publisher_api(const struct dra_publisher *publisher)
{
        return publisher->slices.api;
}

static void publish_on_closed(uv_handle_t *handle)
{
        struct dra_publisher *publisher = handle->data;

        json_decref(publisher->probe);
        json_decref(publisher->wanted);
        slice_cache_clear(&publisher->cache);
        json_decref(publisher->accepted);
        json_decref(publisher->sent);
        free(publisher->sent_name);
        free(publisher->owner_uid);
        arena_done(&publisher->taints_arena);
        arena_done(&publisher->arena);
        free(publisher);
}

struct dra_publisher *dra_publisher_close(struct dra_publisher *publisher)
{
        if (!publisher)
                return NULL;
        publisher->watch = kube_watch_close(publisher->watch);
        publisher->call = kube_call_cancel(publisher->call);
        uv_close((uv_handle_t *)&publisher->timer, publish_on_closed);
        return NULL;
}
