// SPDX-License-Identifier: Apache-2.0
/*
 * An API server of which anything may be asked: objects of four kinds come, change and go, some of their fields are of
 * the wrong type or missing; lists come in pages, watches in pieces and with events that are none; answers are refused,
 * cut off or late; the server forgets its past. Whoever follows may close its watch in any callback.
 *
 *   always    nothing is gone that was not there; whoever reads what came has something to say, and takes no harm
 *   in a calm who follows has just the objects of the server, in their newest version
 *
 * The transport is a fake here, which the linker takes before that of the library; the loop stands still. A failure
 * names its seed; WARPSHARE_SEED=<n> runs only that one.
 */
#include "unit.h"

#include "chance.h"
#include "strange.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "net/kube/transport.h"
#include "net/kube/watch.h"
#include "still.h"

#define OBJECTS 6
#define OBJECTS_MAX 5 /* that a watch takes */
#define HISTORY 64
#define TRANSFERS 16
#define PAGE 2
#define CALM_MS (3 * KUBE_WATCH_WAIT_LIMIT_MS)

enum { N_RUNS = 60, N_STEPS = 120 };

static const char *const paths[STRANGE_KINDS] = {"/api/v1/pods", "/api/v1/nodes",
        "/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.k8s.io/v1/resourceslices"};

/* A request that is under way. */
struct transfer {
        struct transfer_request request;
        enum strange_kind kind;
        bool is_watch;
        uint64_t version; /* of a watch: of the last event in |text| */
        char *text;       /* that the server has still to send */
        size_t length;
        bool is_begun;
};

struct event {
        enum strange_kind kind;
        uint64_t version;
        const char *type;
        json_t *object;
};

static struct world {
        struct chance *chance;
        uint64_t seed;
        unsigned int step;
        uv_loop_t loop;
        struct kube_client *client;
        struct kube_watch *watches[STRANGE_KINDS];
        struct transfer *transfers[TRANSFERS];
        size_t n_transfers;
        json_t *objects[STRANGE_KINDS]; /* by name: the server's */
        json_t *pages[STRANGE_KINDS];   /* of the list that is being read: objects, and their version */
        uint64_t versions[STRANGE_KINDS];
        struct event history[HISTORY];
        size_t n_history;
        uint64_t version, forgotten;
        json_t *seen[STRANGE_KINDS]; /* by name: what the watch has said */
        bool is_calm;
        unsigned int n_seen, n_gone, n_trouble;
} world;

#define check(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition))                                                                                      \
                        fail_msg("WARPSHARE_SEED=%" PRIu64 " step %u: not true: %s", world.seed, world.step,           \
                                #condition);                                                                           \
        } while (0)

static unsigned int draw(uint64_t below)
{
        return (unsigned int)chance_draw(world.chance, below);
}

static bool happens(uint64_t n)
{
        return chance_happens(world.chance, n);
}

/* ---- who follows them ---- */

static void start_watch(enum strange_kind kind);

static void close_watch(enum strange_kind kind)
{
        world.watches[kind] = kube_watch_close(world.watches[kind]);
        json_object_clear(world.seen[kind]);
}

static enum strange_kind kind_of(const void *data)
{
        return (enum strange_kind)((const char *const *)data - paths);
}

static void on_object(enum kube_change change, json_t *object, void *data)
{
        enum strange_kind kind = kind_of(data);
        const char *name = json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));

        check(world.watches[kind] && name);
        if (change == KUBE_GONE) {
                world.n_gone++;
                check(json_object_del(world.seen[kind], name) == 0);
        } else {
                world.n_seen++;
                json_object_set(world.seen[kind], name, object);
                strange_read(world.chance, kind, object, json_object_get(world.objects[STRANGE_NODE], "o1"));
        }
        if (!world.is_calm && happens(40))
                close_watch(kind);
}

static void on_synced(void *data)
{
        check(world.watches[kind_of(data)]);
        if (!world.is_calm && happens(40))
                close_watch(kind_of(data));
}

static void on_trouble(const struct error *error, void *data)
{
        check(world.watches[kind_of(data)] && *error->text);
        world.n_trouble++;
        if (!world.is_calm && happens(40))
                close_watch(kind_of(data));
}

static void start_watch(enum strange_kind kind)
{
        world.watches[kind] = kube_watch_new(world.client, &(struct kube_watch_options){.path = paths[kind],
                                                                   .on_object = on_object,
                                                                   .on_synced = on_synced,
                                                                   .on_trouble = on_trouble,
                                                                   .data = (void *)(uintptr_t)&paths[kind],
                                                                   .objects = OBJECTS_MAX});
}

/* ---- net/kube/transport.h ---- */

/* The loop's clock is the model's. */
void uv_update_time(uv_loop_t *loop UNUSED)
{
}

void transport_init(struct transport *transport UNUSED, uv_loop_t *loop UNUSED, struct closing *closing UNUSED)
{
}

int transport_equip(
        struct transport *transport UNUSED, const struct kube_credentials *credentials UNUSED, struct error *err UNUSED)
{
        return 0;
}

static void drop_transfer(struct transfer *transfer)
{
        for (size_t i = 0; i < world.n_transfers; i++)
                if (world.transfers[i] == transfer) {
                        memmove(&world.transfers[i], &world.transfers[i + 1],
                                (--world.n_transfers - i) * sizeof(*world.transfers));
                        free(transfer->text);
                        free((void *)(uintptr_t)transfer->request.query);
                        free(transfer);
                        return;
                }
        fail_msg("no such transfer");
}

void transport_close(struct transport *transport UNUSED)
{
        while (world.n_transfers)
                drop_transfer(world.transfers[0]);
}

int transfer_start(struct transfer **ret, struct transport *transport UNUSED, const struct transfer_request *request,
        struct error *err)
{
        struct transfer *transfer;
        const char *version = request->query ? strstr(request->query, "resourceVersion=") : NULL;

        if (!world.is_calm && happens(30))
                return error_set(err, ERROR_UNAVAILABLE, "the token cannot be read");
        check(world.n_transfers < TRANSFERS);
        *ret = transfer = xcalloc(1, sizeof(*transfer));
        transfer->request = *request;
        transfer->request.query = request->query ? xstrdup(request->query) : NULL;
        for (transfer->kind = STRANGE_POD; strcmp(paths[transfer->kind], request->path) != 0;)
                transfer->kind++;
        transfer->is_watch = version != NULL;
        if (version)
                transfer->version = strtoull(version + strlen("resourceVersion="), NULL, 10);
        world.transfers[world.n_transfers++] = transfer;
        return 0;
}

struct transfer *transfer_cancel(struct transfer *transfer)
{
        if (transfer)
                drop_transfer(transfer);
        return NULL;
}

/* ---- the server ---- */

static void remember(enum strange_kind kind, const char *type, json_t *object)
{
        if (world.n_history == HISTORY) {
                world.forgotten = world.history[0].version;
                json_decref(world.history[0].object);
                memmove(&world.history[0], &world.history[1], (HISTORY - 1) * sizeof(world.history[0]));
                world.n_history--;
        }
        world.history[world.n_history++] = (struct event){kind, world.version, type, json_incref(object)};
}

static void change_object(void)
{
        enum strange_kind kind = (enum strange_kind)draw(STRANGE_KINDS);
        char name[8];
        json_t *object;

        snprintf(name, sizeof(name), "o%u", draw(OBJECTS));
        world.version++;
        object = json_object_get(world.objects[kind], name);
        if (object && happens(3)) {
                object = json_deep_copy(object);
                json_object_set_new(json_object_get(object, "metadata"), "resourceVersion",
                        json_sprintf("%" PRIu64, world.version));
                json_object_del(world.objects[kind], name);
                remember(kind, "DELETED", object);
                json_decref(object);
                return;
        }
        remember(kind, object ? "MODIFIED" : "ADDED", strange_object(world.chance, kind, name, world.version));
        object = world.history[world.n_history - 1].object;
        json_object_set_new(world.objects[kind], name, object); /* the reference that strange_object() gave */
}

static void forget_past(void)
{
        world.forgotten = world.version;
        while (world.n_history)
                json_decref(world.history[--world.n_history].object);
}

static void end_transfer(struct transfer *transfer, unsigned int status, const char *body, const struct error *error)
{
        const struct transfer_request request = transfer->request;
        struct kube_answer answer = {.error = error,
                .status = error ? 0 : status,
                .reason = "",
                .text = body,
                .size = body ? strlen(body) : 0,
                .retry_after_ms = status == 429 ? 1000 : 0,
                .is_identity_old = status == 401 && happens(2)};

        transfer->request.query = NULL;
        drop_transfer(transfer);
        request.on_end(&answer, request.data);
        free((void *)(uintptr_t)request.query);
}

/* It lies about nothing, but it is no list, or has items that are no objects. */
static void spoil_list(json_t *list)
{
        switch (draw(4)) {
        case 0:
                json_object_set_new(list, "items", json_integer(7));
                break;
        case 1:
                json_object_set_new(list, "metadata", strange_value(world.chance, 0));
                break;
        default:
                json_array_insert_new(json_object_get(list, "items"), 0,
                        happens(2) ? strange_value(world.chance, 1) : json_pack("{s:{s:i}}", "metadata", "name", 7));
                break;
        }
}

/* A page of the list, as it was when its first page was asked for. */
static void answer_list(struct transfer *transfer)
{
        enum strange_kind kind = transfer->kind;
        const char *more = transfer->request.query ? strstr(transfer->request.query, "continue=") : NULL;
        size_t from = more ? strtoull(more + strlen("continue="), NULL, 10) : 0;
        json_t *metadata = json_object();
        json_t *items = json_array();
        json_t *list;
        const char *name;
        json_t *object;
        char *text;

        if (from == 0) {
                json_array_clear(world.pages[kind]);
                json_object_foreach(world.objects[kind], name, object) json_array_append(world.pages[kind], object);
                world.versions[kind] = world.version;
        }
        for (size_t i = from; i < MIN(from + PAGE, json_array_size(world.pages[kind])); i++)
                json_array_append(items, json_array_get(world.pages[kind], i));
        if (from + PAGE < json_array_size(world.pages[kind]))
                json_object_set_new(metadata, "continue", json_sprintf("%zu", from + PAGE));
        json_object_set_new(metadata, "resourceVersion", json_sprintf("%" PRIu64, world.versions[kind]));
        list = json_pack("{s:o, s:o}", "metadata", metadata, "items", items);
        if (!world.is_calm && happens(12))
                spoil_list(list);
        text = json_dumps(list, JSON_COMPACT);
        json_decref(list);
        end_transfer(transfer, 200, text, NULL);
        free(text);
}

/* What has come since. */
static void write_events(struct transfer *transfer)
{
        for (size_t i = 0; i < world.n_history; i++) {
                const struct event *event = &world.history[i];
                json_t *json;
                char *line;
                char *text;

                if (event->version <= transfer->version)
                        continue;
                transfer->version = event->version;
                json = event->kind == transfer->kind
                               ? json_pack("{s:s, s:O}", "type", event->type, "object", event->object)
                               : json_pack("{s:s, s:{s:{s:o}}}", "type", "BOOKMARK", "object", "metadata",
                                         "resourceVersion", json_sprintf("%" PRIu64, event->version));
                line = json_dumps(json, JSON_COMPACT);
                text = xasprintf("%s%s\n", transfer->text ? transfer->text : "", line);
                json_decref(json);
                free(line);
                free(transfer->text);
                transfer->text = text;
        }
        transfer->length = transfer->text ? strlen(transfer->text) : 0;
}

static bool is_there(const struct transfer *transfer)
{
        for (size_t i = 0; i < world.n_transfers; i++)
                if (world.transfers[i] == transfer)
                        return true;
        return false;
}

/* A copy, beyond whose end the sanitizer looks. */
static void send_piece(struct transfer *transfer, const char *bytes, size_t size)
{
        _free_ char *copy = xcalloc(size, 1);

        memcpy(copy, bytes, size);
        transfer->request.on_body(copy, size, transfer->request.stream);
}

/* False: it was dropped over that. */
static bool begin_watch(struct transfer *transfer)
{
        if (transfer->is_begun)
                return true;
        transfer->is_begun = true;
        transfer->request.on_head(transfer->request.stream);
        return is_there(transfer);
}

static void answer_watch(struct transfer *transfer)
{
        static const char *const strange[] = {"{\"type\":\"ADDED\"}\n", "{\"type\":\"ADDED\",\"object\":{}}\n",
                "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"nobody\"}}}\n", "\n\r\n", "[]\n", "{\n",
                "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":7}}}\n",
                "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":7}}\n",
                "{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n",
                "{\"type\":\"ERROR\",\"object\":{\"code\":-5,\"message\":{}}}\n", "{\"type\":7,\"object\":7}\n"};
        const char *text = strange[draw(ARRAY_SIZE(strange))];
        size_t size;

        if (transfer->version < world.forgotten) {
                end_transfer(transfer, transfer->is_begun ? 200 : 410, "{\"code\":410}", NULL);
                return;
        }
        if (!begin_watch(transfer))
                return;
        /* Between two events. */
        if (!world.is_calm && transfer->length == 0 && happens(6)) {
                send_piece(transfer, text, strlen(text));
                return;
        }
        write_events(transfer);
        size = world.is_calm ? transfer->length : draw(transfer->length + 1);
        if (size == 0)
                return;
        text = transfer->text;
        transfer->text = transfer->length > size ? xstrdup(text + size) : NULL;
        transfer->length -= size;
        send_piece(transfer, text, size);
        free((void *)(uintptr_t)text);
}

static void answer(struct transfer *transfer)
{
        if (transfer->is_watch)
                answer_watch(transfer);
        else
                answer_list(transfer);
}

static void refuse(struct transfer *transfer)
{
        static const unsigned int statuses[] = {401, 403, 404, 410, 429, 500, 503, 200};
        static const char *const bodies[] = {"", "{}", "nothing", "{\"kind\":\"Status\",\"reason\":7}", "[1"};
        unsigned int status = statuses[draw(ARRAY_SIZE(statuses))];
        struct error err;

        error_raise(&err, happens(3) ? ERROR_INVALID : ERROR_UNAVAILABLE, "connection reset");
        if (transfer->is_watch && status == 200 && !begin_watch(transfer)) /* no such status without its head */
                return;
        if (transfer->is_begun || happens(3))
                end_transfer(transfer, 200, NULL, happens(3) ? NULL : &err);
        else
                end_transfer(transfer, status, bodies[draw(ARRAY_SIZE(bodies))], NULL);
}

/* ---- a run ---- */

static void check_same(enum strange_kind kind)
{
        const char *name;
        json_t *object;

        check(json_object_size(world.seen[kind]) == json_object_size(world.objects[kind]));
        json_object_foreach(world.objects[kind], name, object)
                check(json_equal(json_object_get(world.seen[kind], name), object));
}

static void have_calm(void)
{
        world.is_calm = true;
        for (size_t kind = 0; kind < STRANGE_KINDS; kind++) {
                if (!world.watches[kind])
                        start_watch((enum strange_kind)kind);
                if (json_object_size(world.objects[kind]) == OBJECTS) {
                        world.version++;
                        remember((enum strange_kind)kind, "DELETED", json_object_get(world.objects[kind], "o0"));
                        json_object_del(world.objects[kind], "o0");
                }
        }
        for (unsigned int i = 0; i < 4; i++) {
                for (unsigned int round = 0; round < 8; round++)
                        for (size_t j = world.n_transfers; j-- > 0;)
                                if (j < world.n_transfers)
                                        answer(world.transfers[j]);
                still_pass(&world.loop, CALM_MS);
        }
        for (size_t kind = 0; kind < STRANGE_KINDS; kind++)
                check_same((enum strange_kind)kind);
        world.is_calm = false;
}

static void make_step(void)
{
        unsigned int what = draw(16);
        struct transfer *transfer = world.n_transfers ? world.transfers[draw(world.n_transfers)] : NULL;
        enum strange_kind kind = (enum strange_kind)draw(STRANGE_KINDS);

        if (what < 6)
                change_object();
        else if (what < 12 && transfer)
                answer(transfer);
        else if (what == 12 && transfer)
                refuse(transfer);
        else if (what == 13)
                still_pass(&world.loop, draw(90000));
        else if (what == 14 && happens(4))
                forget_past();
        else if (what == 15 && !world.watches[kind])
                start_watch(kind);
        uv_run(&world.loop, UV_RUN_NOWAIT); /* handles that are closed */
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        struct kube_credentials credentials = {.server = "https://127.0.0.1:1"};
        struct error err;

        log_setup(LOG_ERROR, LOG_TEXT);
        world = (struct world){.chance = chance, .seed = seed, .version = 1};
        uv_loop_init(&world.loop);
        world.client = kube_client_new(&world.loop);
        assert_ok(kube_client_equip(world.client, &credentials, &err), &err);
        for (size_t kind = 0; kind < STRANGE_KINDS; kind++) {
                world.objects[kind] = json_object();
                world.seen[kind] = json_object();
                world.pages[kind] = json_array();
        }
        for (; world.step < n_steps && chance_step(chance); world.step++)
                make_step();
        have_calm();
        for (size_t kind = 0; kind < STRANGE_KINDS; kind++) {
                close_watch((enum strange_kind)kind);
                json_decref(world.objects[kind]);
                json_decref(world.seen[kind]);
                json_decref(world.pages[kind]);
        }
        kube_client_close(world.client, NULL, NULL);
        uv_run(&world.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&world.loop), 0);
        forget_past();
}

#ifdef FUZZING

FUZZ_MODEL(run)

#else

static void test_who_follows_has_what_the_server_has_whatever_came_before(void **state UNUSED)
{
        unsigned int n_seen = 0, n_gone = 0, n_trouble = 0;

        if (chance_run_named(run, N_STEPS))
                return;
        for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
                chance_run_seed(run, seed, N_STEPS);
                n_seen += world.n_seen;
                n_gone += world.n_gone;
                n_trouble += world.n_trouble;
        }
        print_message("# seen %u, gone %u, troubles %u\n", n_seen, n_gone, n_trouble);
        assert_true(n_seen > N_RUNS && n_gone > N_RUNS && n_trouble > N_RUNS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_who_follows_has_what_the_server_has_whatever_came_before),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
