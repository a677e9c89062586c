#include "cmd/holdings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/list.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cmd/mps_report.h"
#include "cmd/report.h"
#include "kubelet/holders.h"
#include "kubelet/pod_resources.h"
#include "mps/guard.h"
#include "mps/link.h"
#include "share/grants.h"
#include "share/mps_wanted.h"
#include "share/share.h"

/* Between two questions to kubelet about what was given back, as long as anything is held; the first after a request. */
#define LIST_INTERVAL_MS UINT64_C(5000)
#define LIST_SOON_MS UINT64_C(1000)
/*
 * kubelet lists a container's devices only after it has read our answer, and after a start its list is not whole until it has
 * gathered its pods: so long a grant is taken for held all the same.
 */
#define LIST_GRACE_S 10
#define GUARD_INTERVAL_MS UINT64_C(2000)

#define GRANT_ID_SIZE ((size_t)40)

/* The books of one resource. */
struct book {
        const struct resource *resource; /* of the plan in force */
        struct grants *grants;
        bool *ill;       /* by unit: the GPU's own health */
        bool *kept_back; /* by device */
        bool changed;    /* since it was written */
};

struct holdings {
        struct holdings_options options; /* its config may be gone: the paths are here */
        char *directory;                 /* the MPS root as mounted here */
        char *pod_resources;             /* kubelet's socket */
        char *checkpoint;                /* kubelet's own record */
        struct broker broker;
        const struct plan *plan;
        struct book *books; /* one a resource under MPS, in the order of the plan */
        size_t n_books;
        struct mps_link *link;
        const struct mps_status *status; /* borrowed from the link; NULL: nobody is there */
        struct pod_resources *pods;      /* NULL: kubelet is not asked */
        struct holders *holders;         /* of its newest answer; NULL: none yet */
        uv_timer_t list_timer;
        uv_timer_t save_timer;
        uv_timer_t guard_timer; /* runs while there are clients, or findings */
        struct guard *guard;
        struct mps_report *report;
        struct list binds; /* requests that wait */
        uint64_t generation;
        uint64_t incarnation; /* random: what the ids of grants begin with */
        uint64_t n_grants;
        struct complaint bad_list;
        struct complaint bad_book;
        bool closing;
        unsigned int n_open; /* handles that are not closed yet */
        void (*closed)(void *data);
        void *closed_data;
};

/* A request that waits for kubelet or for an MPS daemon. */
struct bind {
        struct list link;
        struct holdings *holdings;
        struct arena arena;
        const char *resource; /* its name: the plan may change meanwhile */
        const char **ids;
        size_t n_ids;
        char grant[GRANT_ID_SIZE];
        const char *unit;
        enum mps_tier tier;
        broker_bound_fn *bound;
        void *context;
};

static int64_t now_seconds(void)
{
        return (int64_t)time(NULL);
}

/* ---- books ---- */

/* By name: who asks may still have the plan before. */
static struct book *find_book_among(struct book *books, size_t n_books, const char *name)
{
        for (size_t i = 0; i < n_books; i++)
                if (strcmp(books[i].resource->name, name) == 0)
                        return &books[i];
        return NULL;
}

static struct book *find_book(const struct holdings *holdings, const char *name)
{
        return find_book_among(holdings->books, holdings->n_books, name);
}

static const struct mps_daemon_status *find_daemon(const struct holdings *holdings, const char *unit)
{
        return holdings->status ? mps_status_find_unit(holdings->status, unit) : NULL;
}

static bool is_ready(const struct holdings *holdings, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = find_daemon(holdings, unit->uuid);

        return !unit->shared || (daemon && daemon->state == MPS_READY);
}

static void keep_back(struct holdings *holdings, struct book *book)
{
        const struct resource *resource = book->resource;
        const bool *hidden;

        for (size_t i = 0; i < resource->n_units; i++)
                grants_set_unit_health(book->grants, resource->units[i].uuid,
                        !book->ill[i] && is_ready(holdings, &resource->units[i]));
        hidden = grants_hidden(book->grants);
        for (size_t i = 0; i < resource->n_units; i++) {
                const struct unit *unit = &resource->units[i];
                bool ready = is_ready(holdings, unit);

                for (size_t at = unit->first_device; at < unit->first_device + unit->replicas; at++)
                        book->kept_back[at] = !ready || hidden[at];
        }
}

static void on_save(uv_timer_t *timer);

/* After the turn of the loop: a container's answer does not wait for the disk. */
static void note_change(struct holdings *holdings, struct book *book)
{
        book->changed = true;
        keep_back(holdings, book);
        if (!holdings->closing && !uv_is_active((uv_handle_t *)&holdings->save_timer))
                uv_timer_start(&holdings->save_timer, on_save, 0, 0);
        holdings->options.on_change(holdings->options.data);
}

static char *book_path(const struct holdings *holdings, const struct resource *resource)
{
        char *path = xasprintf("%s/grants-%s.json", holdings->directory, resource->name);

        for (char *at = path + strlen(holdings->directory) + 1; *at; at++)
                if (*at == '/')
                        *at = '_';
        return path;
}

static void save_book(struct holdings *holdings, struct book *book)
{
        _free_ char *path = book_path(holdings, book->resource);
        _free_ char *text = grants_write(book->grants);
        struct error err;

        book->changed = false;
        if (file_write(path, text, strlen(text), &err) < 0)
                complain(&holdings->bad_book, "the record of who holds what cannot be written", &err);
        else
                complaint_settle(&holdings->bad_book);
}

static void on_save(uv_timer_t *timer)
{
        struct holdings *holdings = timer->data;

        for (size_t i = 0; i < holdings->n_books; i++)
                if (holdings->books[i].changed)
                        save_book(holdings, &holdings->books[i]);
}

static void load_book(struct holdings *holdings, struct book *book)
{
        _free_ char *path = book_path(holdings, book->resource);
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read(path, GRANTS_TEXT_MAX, &text, &err) < 0) {
                if (err.kind != ERROR_NOT_FOUND)
                        log_warn("the record of who holds what cannot be read", LOG_STR("file", path), LOG_ERR(&err));
                return;
        }
        if (grants_read(book->grants, text.data, text.size, &err) < 0)
                log_warn("the record of who holds what is left aside", LOG_STR("file", path), LOG_ERR(&err));
}

/* ---- what kubelet says ---- */

/* What was made for a grant goes with it; where nothing was, the daemon says so, and that is all. */
static void on_made_released(const struct error *err UNUSED, void *data UNUSED)
{
}

struct sync {
        struct holdings *holdings;
        size_t released;
};

static void on_released(const char *id, void *data)
{
        struct sync *sync = data;

        sync->released++;
        mps_link_release(sync->holdings->link, id, on_made_released, NULL);
}

static void sync_book(struct holdings *holdings, struct book *book, int64_t as_of)
{
        struct sync sync = {.holdings = holdings};
        struct arena scratch = ARENA_INIT;
        struct grants_held *held;
        size_t n_held = holders_of(holdings->holders, book->resource->name, &scratch, &held);
        size_t before = grants_count(book->grants);

        grants_sync(book->grants, held, n_held, as_of, on_released, &sync);
        arena_done(&scratch);
        if (sync.released || grants_count(book->grants) != before)
                note_change(holdings, book);
}

/* kubelet makes the socket at its start. */
static bool kubelet_is_young(const struct holdings *holdings)
{
        struct stat status;

        return stat(holdings->pod_resources, &status) < 0 || now_seconds() - status.st_ctime < LIST_GRACE_S;
}

/* kubelet's record beside its list. Without it, UIDs and init containers are unknown, and that is all. */
static bool read_checkpoint(const struct holdings *holdings, struct arena *arena, struct checkpoint *ret)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;

        if (file_read(holdings->checkpoint, CHECKPOINT_MAX, &text, &err) == 0 &&
                checkpoint_read(ret, arena, "", text.data, text.size, &err) == 0)
                return true;
        log_debug("kubelet's record of devices is not looked at", LOG_ERR(&err));
        return false;
}

static void take_list(struct holdings *holdings, const struct pod_list *list)
{
        struct arena scratch = ARENA_INIT;
        struct checkpoint checkpoint;
        bool has_checkpoint = read_checkpoint(holdings, &scratch, &checkpoint);

        complaint_settle(&holdings->bad_list);
        holders_free(holdings->holders);
        holdings->holders = holders_new(list, has_checkpoint ? &checkpoint : NULL);
        arena_done(&scratch);
        log_debug("kubelet has told which container holds what", LOG_UINT("containers", list->n_containers));
}

static void on_listed(const struct error *err, const struct pod_list *list, void *data)
{
        struct holdings *holdings = data;

        if (err) {
                complain(&holdings->bad_list, "kubelet does not tell which container holds what, will ask again", err);
                return;
        }
        take_list(holdings, list);
        if (kubelet_is_young(holdings))
                return;
        for (size_t i = 0; i < holdings->n_books; i++)
                sync_book(holdings, &holdings->books[i], now_seconds() - LIST_GRACE_S);
}

static bool is_anything_held(const struct holdings *holdings)
{
        for (size_t i = 0; i < holdings->n_books; i++)
                if (grants_count(holdings->books[i].grants) > 0)
                        return true;
        return false;
}

static void on_list_timer(uv_timer_t *timer)
{
        struct holdings *holdings = timer->data;

        if (holdings->pods && is_anything_held(holdings))
                pod_resources_list(holdings->pods, on_listed, holdings);
}

/* ---- requests ---- */

static void free_bind(struct bind *bind)
{
        list_remove(&bind->link);
        arena_done(&bind->arena);
        free(bind);
}

static void refuse(struct bind *bind, const struct error *err)
{
        bind->bound(err, NULL, bind->context);
        free_bind(bind);
}

static void answer_unbound(struct bind *bind)
{
        bind->bound(NULL, NULL, bind->context);
        free_bind(bind);
}

static void answer(struct bind *bind, const struct mps_grant *made)
{
        struct allocate_binding binding = {.grant = bind->grant, .unit = bind->unit, .tier = bind->tier};

        if (made) {
                binding.tier = made->tier;
                binding.pipe = made->pipe;
                binding.partition = made->partition;
                binding.sms = made->sms;
        }
        bind->bound(NULL, &binding, bind->context);
        free_bind(bind);
}

static void on_granted(const struct error *err, const struct mps_grant *made, void *data)
{
        struct bind *bind = data;

        if (!err) {
                answer(bind, made);
                return;
        }
        if (bind->tier == MPS_TIER_PARTITION) {
                refuse(bind, err); /* a daemon with partitions takes no client without one */
                return;
        }
        log_warn("no namespace could be made, the container's own limits count instead",
                LOG_STR("resource", bind->resource), LOG_STR("grant", bind->grant), LOG_ERR(err));
        bind->tier = MPS_TIER_VERIFIED;
        answer(bind, NULL);
}

static const struct unit *find_unit(const struct resource *resource, const char *uuid)
{
        for (size_t i = 0; i < resource->n_units; i++)
                if (strcmp(resource->units[i].uuid, uuid) == 0)
                        return &resource->units[i];
        return NULL;
}

/* What the plan expects, or the less that the daemon can. */
static enum mps_tier tier_of(const struct holdings *holdings, const struct resource *resource, const struct unit *unit)
{
        const struct mps_daemon_status *daemon = find_daemon(holdings, unit->uuid);
        enum mps_tier tier = share_tier(holdings->plan, resource, unit);

        return daemon ? MIN(tier, daemon->tier) : tier;
}

/* What has to be made before the container starts is made; the rest is in the answer. */
static void make(struct bind *bind, const struct resource *resource, const struct unit *unit)
{
        struct holdings *holdings = bind->holdings;
        const struct mps_daemon_status *daemon = find_daemon(holdings, unit->uuid);
        struct share share = share_of(resource, unit, (unsigned int)MIN(bind->n_ids, unit->replicas));
        struct mps_grant_request request;

        bind->tier = tier_of(holdings, resource, unit);
        if (!daemon || bind->tier < MPS_TIER_PARTITION) {
                answer(bind, NULL);
                return;
        }
        request = (struct mps_grant_request){
                .id = bind->grant,
                .daemon = daemon->name,
                .unit = unit->uuid,
                .threads_permille = share.threads_permille,
                .limit_mib = share.memory_mib,
                .sms = share.sms,
        };
        mps_link_grant(holdings->link, &request, on_granted, bind);
}

/* Into the books, and on to what it takes; an error leaves the request as it was. */
static int settle(struct bind *bind, struct error *err)
{
        struct book *book = find_book(bind->holdings, bind->resource);
        const struct unit *unit;
        const struct grant *entered;

        if (!book)
                return error_set(err, ERROR_INVALID, "resource '%s' was changed meanwhile", bind->resource);
        if (grants_allocate(book->grants, bind->ids, bind->n_ids, now_seconds(), bind->grant, &entered, err) < 0)
                return -1;
        bind->unit = entered->unit ? arena_strdup(&bind->arena, entered->unit) : NULL;
        uv_timer_start(&bind->holdings->list_timer, on_list_timer, LIST_SOON_MS, LIST_INTERVAL_MS);
        note_change(bind->holdings, book);
        unit = bind->unit ? find_unit(book->resource, bind->unit) : NULL;
        bind->tier = book->resource->provisioning == PROVISIONING_UNIFORM ? MPS_TIER_DEFAULT : MPS_TIER_VERIFIED;
        if (unit)
                make(bind, book->resource, unit);
        else
                answer(bind, NULL); /* several units: the container's own variables are all there is */
        return 0;
}

static void on_listed_for(const struct error *listing, const struct pod_list *list, void *data)
{
        struct bind *bind = data;
        struct book *book = find_book(bind->holdings, bind->resource);
        struct error err;

        if (!listing) {
                take_list(bind->holdings, list);
                if (book && !kubelet_is_young(bind->holdings))
                        sync_book(bind->holdings, book, INT64_MAX);
        }
        if (settle(bind, &err) == 0)
                return;
        if (listing)
                error_raise_prefix(&err, "kubelet does not tell what was given back (%.200s): ", listing->text);
        refuse(bind, &err);
}

static struct bind *new_bind(struct holdings *holdings, const char *resource, const char *const *ids, size_t n_ids,
        broker_bound_fn *bound, void *context)
{
        struct bind *bind = xcalloc(1, sizeof(*bind));

        bind->holdings = holdings;
        bind->resource = arena_strdup(&bind->arena, resource);
        bind->bound = bound;
        bind->context = context;
        bind->n_ids = n_ids;
        bind->ids = ARENA_ARRAY(&bind->arena, const char *, n_ids);
        for (size_t i = 0; i < n_ids; i++)
                bind->ids[i] = arena_strdup(&bind->arena, ids[i]);
        snprintf(bind->grant, sizeof(bind->grant), "g%016" PRIx64 "%" PRIx64, holdings->incarnation,
                ++holdings->n_grants);
        list_append(&holdings->binds, &bind->link);
        return bind;
}

static void broker_bind(const struct resource *resource, const char *const *ids, size_t n_ids, broker_bound_fn *bound,
        void *context, void *data)
{
        struct holdings *holdings = data;
        struct bind *bind;
        struct error err;

        if (!find_book(holdings, resource->name)) {
                bound(NULL, NULL, context);
                return;
        }
        bind = new_bind(holdings, resource->name, ids, n_ids, bound, context);
        if (settle(bind, &err) == 0)
                return;
        if (err.kind == ERROR_NOT_FOUND)
                answer_unbound(bind); /* of the plan before: kubelet's list will tell the books */
        else if (err.kind == ERROR_UNAVAILABLE && holdings->pods)
                pod_resources_list(holdings->pods, on_listed_for, bind);
        else
                refuse(bind, &err);
}

static const bool *broker_hidden(const struct resource *resource, void *data)
{
        const struct book *book = find_book(data, resource->name);

        return book && book->resource == resource ? book->kept_back : NULL;
}

/* ---- the guard ---- */

static bool has_clients(const struct mps_status *status)
{
        for (size_t i = 0; i < status->n_daemons; i++)
                if (status->daemons[i].n_clients)
                        return true;
        return false;
}

static enum guard_mode guard_mode(const struct holdings *holdings)
{
        const struct sharing_section *mps = holdings->plan ? holdings->plan->config->sharing.mps : NULL;

        return mps ? mps->guard : GUARD_OFF;
}

static const struct holder *holder_of(
        const struct holdings *holdings, const struct book *book, const struct grant *grant)
{
        const struct holder *holder = NULL;

        for (size_t i = 0; i < grant->n_devices && holdings->holders && !holder; i++)
                holder = holders_find(holdings->holders, book->resource->name, grant->devices[i]);
        return holder;
}

/* How many replicas of |unit| the grant has. */
static unsigned int replicas_of(const struct book *book, const struct grant *grant, const struct unit *unit)
{
        unsigned int count = 0;

        if (grant->unit)
                return strcmp(grant->unit, unit->uuid) == 0 ? (unsigned int)MIN(grant->n_devices, unit->replicas) : 0;
        for (size_t i = 0; i < grant->n_devices; i++) {
                const struct device *device = map_find(&book->resource->by_id, grant->devices[i]);

                count += device && &book->resource->units[device->unit] == unit;
        }
        return count;
}

static void add_guard_grants(const struct holdings *holdings, const struct book *book, const struct grant *grant,
        struct arena *arena, struct guard_grant *grants, size_t *n_grants)
{
        const struct holder *holder = holder_of(holdings, book, grant);

        for (size_t i = 0; i < book->resource->n_units; i++) {
                const struct unit *unit = &book->resource->units[i];
                unsigned int replicas = replicas_of(book, grant, unit);
                struct share share;

                if (replicas == 0)
                        continue;
                share = share_of(book->resource, unit, replicas);
                grants[(*n_grants)++] = (struct guard_grant){
                        .id = grant->id,
                        .unit = unit->uuid,
                        .pod_uid = holder ? holder->pod_uid : NULL,
                        .pod = holder && holder->pod ? arena_printf(arena, "%s/%s", holder->pod_namespace, holder->pod)
                                                     : NULL,
                        .limit_mib = share.memory_mib,
                        .threads_permille = share.threads_permille,
                        .tier = tier_of(holdings, book->resource, unit),
                };
        }
}

static size_t collect_guard_grants(const struct holdings *holdings, struct arena *arena, struct guard_grant **ret)
{
        size_t most = 0;
        size_t count = 0;

        for (size_t i = 0; i < holdings->n_books; i++)
                most += grants_count(holdings->books[i].grants) * holdings->books[i].resource->n_units;
        *ret = ARENA_ARRAY(arena, struct guard_grant, most);
        for (size_t i = 0; i < holdings->n_books; i++) {
                const struct book *book = &holdings->books[i];

                for (size_t j = 0; j < grants_count(book->grants); j++)
                        add_guard_grants(holdings, book, grants_get(book->grants, j), arena, *ret, &count);
        }
        return count;
}

static void on_terminated(const struct error *err, void *data UNUSED)
{
        if (err)
                log_warn("the MPS client could not be ended", LOG_ERR(err));
}

static void look(struct holdings *holdings)
{
        static const struct mps_status nothing;
        const struct mps_status *status = holdings->status ? holdings->status : &nothing;
        struct arena scratch = ARENA_INIT;
        struct guard_report report;
        struct guard_grant *grants;
        size_t n_grants = collect_guard_grants(holdings, &scratch, &grants);

        guard_look(holdings->guard, guard_mode(holdings), grants, n_grants, status, (int64_t)(uv_hrtime() / 1000000),
                &report);
        mps_report_guard(&report);
        for (size_t i = 0; i < report.n_ending; i++)
                mps_link_terminate(holdings->link, report.ending[i]->daemon, report.ending[i]->client,
                        report.ending[i]->container_id, on_terminated, NULL);
        if (report.n_standing == 0 && !has_clients(status))
                uv_timer_stop(&holdings->guard_timer);
        arena_done(&scratch);
}

static void on_guard_timer(uv_timer_t *timer)
{
        look(timer->data);
}

/* ---- what the daemons say ---- */

static char *pods_of_unit(const char *unit, void *data)
{
        const struct holdings *holdings = data;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct arena scratch = ARENA_INIT;
        struct guard_grant *grants;
        size_t n_grants = collect_guard_grants(holdings, &scratch, &grants);

        for (size_t i = 0; i < n_grants; i++)
                if (strcmp(grants[i].unit, unit) == 0 && grants[i].pod && !strstr(text.data, grants[i].pod))
                        strbuf_printf(&text, "%s%s", text.size ? ", " : "", grants[i].pod);
        arena_done(&scratch);
        return xstrdup(text.data);
}

static void on_status(const struct mps_status *status, const char *reason, void *data)
{
        struct holdings *holdings = data;

        holdings->status = status;
        if (holdings->closing)
                return;
        mps_report_status(holdings->report, status, reason, holdings->n_books > 0, pods_of_unit, holdings);
        for (size_t i = 0; i < holdings->n_books; i++)
                keep_back(holdings, &holdings->books[i]);
        if (status && has_clients(status) && !uv_is_active((uv_handle_t *)&holdings->guard_timer))
                uv_timer_start(&holdings->guard_timer, on_guard_timer, 0, GUARD_INTERVAL_MS);
        holdings->options.on_change(holdings->options.data);
}

/* ---- public ---- */

const struct broker *holdings_broker(struct holdings *holdings)
{
        return &holdings->broker;
}

static void free_books(struct book *books, size_t n_books)
{
        for (size_t i = 0; i < n_books; i++) {
                grants_free(books[i].grants);
                free(books[i].ill);
                free(books[i].kept_back);
        }
        free(books);
}

/* The book of the resource before, with what it holds, or a new one with what is on record. */
static void open_book(struct holdings *holdings, struct book *book, const struct resource *resource,
        struct book *before, size_t n_before)
{
        struct book *old = find_book_among(before, n_before, resource->name);

        book->resource = resource;
        book->ill = xcalloc(resource->n_units, sizeof(*book->ill));
        book->kept_back = xcalloc(resource->n_devices, sizeof(*book->kept_back));
        if (old) {
                book->grants = TAKE_PTR(old->grants);
                grants_set_resource(book->grants, resource, resource->max_per_request);
        } else {
                book->grants = grants_new(resource, resource->max_per_request);
                load_book(holdings, book);
        }
        keep_back(holdings, book);
}

void holdings_apply(struct holdings *holdings, const struct plan *plan)
{
        struct book *before = holdings->books;
        size_t n_before = holdings->n_books;
        struct arena scratch = ARENA_INIT;
        struct mps_wanted wanted;

        holdings->plan = plan;
        holdings->books = xcalloc(plan->n_resources, sizeof(*holdings->books));
        holdings->n_books = 0;
        for (size_t i = 0; i < plan->n_resources; i++)
                if (plan->resources[i].strategy == SHARING_MPS)
                        open_book(
                                holdings, &holdings->books[holdings->n_books++], &plan->resources[i], before, n_before);
        free_books(before, n_before);
        mps_wanted_of(&wanted, &scratch, plan);
        mps_link_apply(holdings->link, &wanted, ++holdings->generation);
        arena_done(&scratch);
}

void holdings_set_health(struct holdings *holdings, const char *uuid, bool healthy)
{
        for (size_t i = 0; i < holdings->n_books; i++) {
                struct book *book = &holdings->books[i];
                const struct unit *unit = find_unit(book->resource, uuid);

                if (!unit)
                        continue;
                book->ill[unit - book->resource->units] = !healthy;
                keep_back(holdings, book);
                holdings->options.on_change(holdings->options.data);
        }
}

/* ---- begin and end ---- */

static void free_holdings(struct holdings *holdings)
{
        free_books(holdings->books, holdings->n_books);
        holders_free(holdings->holders);
        guard_free(holdings->guard);
        mps_report_free(holdings->report);
        free(holdings->directory);
        free(holdings->pod_resources);
        free(holdings->checkpoint);
        free(holdings);
}

static void start_timer(struct holdings *holdings, uv_timer_t *timer)
{
        uv_timer_init(holdings->options.loop, timer);
        timer->data = holdings;
        holdings->n_open++;
}

int holdings_new(struct holdings **ret, const struct holdings_options *options, struct error *err)
{
        struct holdings *holdings = xcalloc(1, sizeof(*holdings));
        const struct config *config = options->config;
        _free_ char *folder = file_folder(config->kubelet_socket);
        const struct mps_link_options link = {
                .loop = options->loop,
                .directory = config->mps_directory,
                .control = config->mps_control,
                .on_status = on_status,
                .data = holdings,
        };

        holdings->options = *options;
        holdings->options.config = NULL;
        holdings->directory = xstrdup(config->mps_directory);
        holdings->pod_resources = xstrdup(config->pod_resources);
        holdings->checkpoint = xasprintf("%s/" CHECKPOINT_NAME, folder);
        holdings->broker = (struct broker){.hidden = broker_hidden, .bind = broker_bind, .data = holdings};
        list_init(&holdings->binds);
        if (getrandom(&holdings->incarnation, sizeof(holdings->incarnation), 0) != sizeof(holdings->incarnation)) {
                error_raise_errno(err, errno, "random bytes for the ids of grants");
                goto failed;
        }
        if (*config->pod_resources && pod_resources_new(&holdings->pods, options->loop, config->pod_resources, err) < 0)
                goto failed;
        if (mps_link_new(&holdings->link, &link, err) < 0)
                goto failed;
        holdings->n_open = 1;
        start_timer(holdings, &holdings->list_timer);
        start_timer(holdings, &holdings->save_timer);
        start_timer(holdings, &holdings->guard_timer);
        holdings->guard = guard_new();
        holdings->report = mps_report_new();
        uv_timer_start(&holdings->list_timer, on_list_timer, LIST_INTERVAL_MS, LIST_INTERVAL_MS);
        *ret = holdings;
        return 0;

failed:
        pod_resources_close(holdings->pods);
        free_holdings(holdings);
        return -1;
}

static void on_part_closed(struct holdings *holdings)
{
        void (*closed)(void *) = holdings->closed;
        void *data = holdings->closed_data;

        if (--holdings->n_open > 0)
                return;
        free_holdings(holdings);
        closed(data);
}

static void on_timer_closed(uv_handle_t *handle)
{
        on_part_closed(handle->data);
}

static void on_link_closed(void *data)
{
        on_part_closed(data);
}

void holdings_close(struct holdings *holdings, void (*closed)(void *data), void *data)
{
        struct error err;

        holdings->closing = true;
        holdings->closed = closed;
        holdings->closed_data = data;
        pod_resources_close(TAKE_PTR(holdings->pods));
        error_raise(&err, ERROR_UNAVAILABLE, "the agent is stopping");
        while (!list_is_empty(&holdings->binds))
                refuse(container_of(holdings->binds.next, struct bind, link), &err);
        on_save(&holdings->save_timer);
        uv_close((uv_handle_t *)&holdings->list_timer, on_timer_closed);
        uv_close((uv_handle_t *)&holdings->save_timer, on_timer_closed);
        uv_close((uv_handle_t *)&holdings->guard_timer, on_timer_closed);
        mps_link_close(holdings->link, on_link_closed, holdings);
}
