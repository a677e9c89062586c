// SPDX-License-Identifier: Apache-2.0
/*
 * Both ends of <MPS root>/warpshare.sock, with somebody between who passes bytes on in pieces, late, or not at all, and
 * beside them clients that say anything. The supervisor behind the listener answers in any order; it comes and goes.
 *
 *   always    each request has one answer at most, and one that went well is that request's
 *   in a calm no request is open, and the supervisor has just what the agent has told: the plan of the newest
 *             generation, all that is held, and the status of the one is the status of the other
 *
 * The supervisor is a fake here, which the linker takes before that of the library. A failure names its seed;
 * WARPSHARE_SEED=<n> runs only that one.
 */
#include "until.h"

#include "chance.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "base/io/lines.h"
#include "base/io/unix_socket.h"
#include "mps/client/link.h"
#include "mps/supervisor/allocations.h"
#include "mps/supervisor/listener.h"
#include "mps/wire/message.h"

#define IDS 6
#define CALLS 256
#define ASKED 512
#define STRANGERS 3

enum { N_RUNS = 40, N_STEPS = 100 };

/* What the listener asked of the supervisor, and has no answer yet. */
struct call {
        char id[16];
        mps_granted_fn *granted;
        mps_done_fn *done;
        void *data;
};

/* What the agent asked of the link. */
struct asked {
        char id[16];
        unsigned int n_answers;
};

/* One direction of the connection between. */
struct stream {
        int from, to;
        struct strbuf waiting; /* read, and not passed on yet */
};

static struct world {
        struct chance *chance;
        uint64_t seed;
        unsigned int step;
        char folder[64], far[72]; /* of the link's end, and of the listener's */
        uv_loop_t loop;
        struct mps_listener *listener;
        struct mps_link *link;
        bool is_closed;
        int door; /* where the link knocks */
        struct stream there, back;
        int strangers[STRANGERS];

        struct call calls[CALLS];
        size_t n_calls;
        struct mps_status status;
        uint64_t applied;            /* generation that the supervisor was told */
        unsigned int supervisor_has; /* bit i: of what it was told that is held */
        struct asked asked[ASKED];
        size_t n_asked;
        uint64_t generation; /* that the agent has told */
        unsigned int has;    /* bit i: the agent holds it */
        uint64_t reported;   /* generation of the status that the agent has */
        unsigned int n_good, n_bad;
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

/* ---- the supervisor ---- */

const struct mps_status *mps_supervisor_status(const struct mps_supervisor *supervisor UNUSED)
{
        return &world.status;
}

void mps_supervisor_look(struct mps_supervisor *supervisor UNUSED)
{
        world.status.generation++;
}

int mps_supervisor_apply(struct mps_supervisor *supervisor UNUSED, const struct mps_wanted *wanted UNUSED,
        uint64_t generation, struct error *err UNUSED)
{
        world.applied = generation;
        return 0;
}

static void note_call(const char *id, mps_granted_fn *granted, mps_done_fn *done, void *data)
{
        check(world.n_calls < CALLS);
        world.calls[world.n_calls] = (struct call){.granted = granted, .done = done, .data = data};
        snprintf(world.calls[world.n_calls++].id, sizeof(world.calls->id), "%.15s", id);
}

static unsigned int bit_of(const char *id)
{
        return id[0] == 'g' && id[1] >= '0' && id[1] < '0' + IDS ? 1U << (id[1] - '0') : 0;
}

struct mps_allocations *mps_supervisor_allocations(struct mps_supervisor *supervisor UNUSED)
{
        return NULL;
}

void mps_allocations_make(struct mps_allocations *allocations UNUSED, const struct mps_allocation_request *request,
        mps_granted_fn *done, void *data)
{
        world.supervisor_has |= bit_of(request->id);
        note_call(request->id, done, NULL, data);
}

void mps_allocations_release(struct mps_allocations *allocations UNUSED, const char *id, mps_done_fn *done, void *data)
{
        world.supervisor_has &= ~bit_of(id);
        note_call(id, NULL, done, data);
}

void mps_allocations_hold(
        struct mps_allocations *allocations UNUSED, const struct mps_allocation_request *wanted, size_t n_wanted)
{
        world.supervisor_has = 0;
        for (size_t i = 0; i < n_wanted; i++)
                world.supervisor_has |= bit_of(wanted[i].id);
}

void mps_supervisor_name_holders(
        struct mps_supervisor *supervisor UNUSED, const struct mps_holder *holders UNUSED, size_t n_holders UNUSED)
{
}

void mps_allocations_terminate(struct mps_allocations *allocations UNUSED, const char *daemon UNUSED,
        pid_t client UNUSED, const char *container_id, mps_done_fn *done, void *data)
{
        note_call(container_id, NULL, done, data);
}

/* Any of those that wait. */
static void answer_call(void)
{
        struct call call;
        size_t at;
        char partition[32];
        const struct mps_allocation made = {.tier = MPS_TIER_PARTITION, .partition = partition, .sms = 8};
        struct error err;
        bool fails = happens(4);

        if (world.n_calls == 0)
                return;
        at = draw(world.n_calls);
        call = world.calls[at];
        world.calls[at] = world.calls[--world.n_calls];
        error_raise(&err, ERROR_EXHAUSTED, "no room for %s", call.id);
        snprintf(partition, sizeof(partition), "of-%s", call.id);
        if (call.granted)
                call.granted(fails ? &err : NULL, fails ? NULL : &made, call.data);
        else
                call.done(fails ? &err : NULL, call.data);
}

static void start_listener(void)
{
        const struct mps_listener_options options = {.loop = &world.loop, .root = world.far};
        struct error err;

        assert_ok(mps_listener_new(&world.listener, &options, &err), &err);
}

/* The process ends, and with it what it was asked. */
static void end_listener(void)
{
        mps_listener_close(world.listener, NULL, NULL);
        world.listener = NULL;
        while (world.n_calls)
                answer_call(); /* to nobody, and the memory goes */
        world.applied = 0;
        world.supervisor_has = 0;
        uv_run(&world.loop, UV_RUN_NOWAIT);
}

/* ---- the agent ---- */

static void on_status(const struct mps_status *status, const char *reason, void *data UNUSED)
{
        check(!status == (reason != NULL));
        world.reported = status ? status->generation : 0;
}

static void on_done(const struct error *err, void *data)
{
        struct asked *asked = data;

        check(++asked->n_answers == 1 && (!err || *err->text));
        world.n_good += !err;
        world.n_bad += err != NULL;
}

static void on_granted(const struct error *err, const struct mps_allocation *made, void *data)
{
        const struct asked *asked = data;

        check(!err == (made != NULL));
        if (made)
                check(strncmp(made->partition, "of-", 3) == 0 && strcmp(made->partition + 3, asked->id) == 0);
        on_done(err, data);
}

static void start_link(void)
{
        const struct mps_link_options options = {.loop = &world.loop,
                .directory = world.folder,
                .control = "/nonexistent/control",
                .retry_ms = 1,
                .on_status = on_status};
        struct error err;

        assert_ok(mps_link_new(&world.link, &options, &err), &err);
}

static void on_closed(void *data UNUSED)
{
        world.is_closed = true;
}

/* All that it was asked is answered by then. */
static void end_link(void)
{
        world.is_closed = false;
        mps_link_close(world.link, on_closed, NULL);
        UNTIL(&world.loop, world.is_closed);
        for (size_t i = 0; i < world.n_asked; i++)
                check(world.asked[i].n_answers == 1);
        world.n_asked = 0;
        world.link = NULL;
}

static void tell_all(void)
{
        static char ids[IDS][4];
        struct mps_allocation_request held[IDS];
        size_t count = 0;

        for (unsigned int i = 0; i < IDS; i++) {
                snprintf(ids[i], sizeof(ids[i]), "g%u", i);
                if (world.has & 1U << i)
                        held[count++] = (struct mps_allocation_request){
                                .id = ids[i], .daemon = "GPU-0", .unit = "GPU-0", .threads_permille = 100};
        }
        mps_link_hold(world.link, held, count);
}

static void apply(void)
{
        struct mps_unit unit = {.uuid = "GPU-0", .gpu_uuid = "GPU-0", .index = "0", .name = "V100", .clients = 48};
        const struct mps_daemon_wanted daemon = {
                .name = "GPU-0", .resource = "nvidia.com/gpu", .threads_permille = 50, .units = &unit, .n_units = 1};

        mps_link_apply(world.link, &(struct mps_wanted){&daemon, draw(2)}, ++world.generation);
}

static void ask(void)
{
        struct asked *asked = &world.asked[world.n_asked];
        unsigned int which = draw(IDS);
        const struct mps_allocation_request request = {
                .id = asked->id, .daemon = "GPU-0", .unit = "GPU-0", .threads_permille = 100, .limit_mib = 1024};

        if (world.n_asked == ASKED)
                return;
        world.n_asked++;
        asked->n_answers = 0;
        snprintf(asked->id, sizeof(asked->id), "g%u", which);
        switch (draw(4)) {
        case 0:
                world.has |= 1U << which;
                mps_link_allocation(world.link, &request, on_granted, asked);
                break;
        case 1:
                world.has &= ~(1U << which);
                mps_link_release(world.link, asked->id, on_done, asked);
                break;
        case 2:
                mps_link_look(world.link, on_done, asked);
                break;
        default:
                mps_link_terminate(world.link, "GPU-0", 4711, "0a", on_done, asked);
                break;
        }
}

/* ---- between them ---- */

static int connect_to(const char *folder)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s/" MPS_SOCKET, folder);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
                return fd;
        close(fd);
        return -1;
}

static void cut(void)
{
        if (world.there.from >= 0)
                close(world.there.from);
        if (world.there.to >= 0)
                close(world.there.to);
        strbuf_clear(&world.there.waiting);
        strbuf_clear(&world.back.waiting);
        world.there.from = world.there.to = world.back.from = world.back.to = -1;
}

/* One connection at a time, as there is one agent. */
static void let_in(void)
{
        int fd = accept4(world.door, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0)
                return;
        cut();
        world.there.from = world.back.to = fd;
        world.there.to = world.back.from = connect_to(world.far);
        if (world.there.to < 0)
                cut();
}

/* |most| bytes of what has come. */
static void pass_on(struct stream *stream, size_t most)
{
        char bytes[65536];
        ssize_t size = stream->from >= 0 ? recv(stream->from, bytes, sizeof(bytes), 0) : -1;

        if (size > 0)
                strbuf_append(&stream->waiting, bytes, (size_t)size);
        if (size == 0) {
                cut();
                return;
        }
        if (stream->to < 0 || stream->waiting.size == 0)
                return;
        size = send(stream->to, stream->waiting.data, MIN(most, stream->waiting.size), MSG_NOSIGNAL);
        if (size > 0)
                strbuf_consume(&stream->waiting, (size_t)size);
        else if (errno != EAGAIN)
                cut();
}

/* ---- others ---- */

static void be_strange(void)
{
        static const char *const texts[] = {"{\"do\":\"watch\"}\n", "{\"do\":\"ping\",\"id\":1}\n",
                "{\"do\":\"release\"", ",\"id\":2,\"allocation\":\"x9\"}\n",
                "{\"do\":\"terminate\",\"id\":3,\"daemon\":\"G\",\"client\":5,\"container\":\"0a\"}\n", "\n", "{}\n",
                "GET / HTTP/1.1\r\n", "\0\0\0\n", "{\"do\":\"apply\",\"id\":9,\"daemons\":7}\n"};
        int *fd = &world.strangers[draw(STRANGERS)];
        const char *text = texts[draw(ARRAY_SIZE(texts))];

        if (*fd >= 0 && happens(4)) {
                close(*fd);
                *fd = -1;
        } else if (*fd < 0) {
                *fd = connect_to(world.far);
        } else {
                (void)!send(*fd, text, strlen(text), MSG_NOSIGNAL);
        }
}

/* ---- a run ---- */

static void turn(void)
{
        for (int i = 0; i < 3; i++)
                uv_run(&world.loop, UV_RUN_NOWAIT);
}

static bool is_settled(void)
{
        let_in();
        pass_on(&world.there, SIZE_MAX);
        pass_on(&world.back, SIZE_MAX);
        while (world.n_calls)
                answer_call();
        for (size_t i = 0; i < world.n_asked; i++)
                if (world.asked[i].n_answers == 0)
                        return false;
        return world.applied == world.generation && world.supervisor_has == world.has &&
               world.reported == world.status.generation;
}

/* In the end the agent tells all that it holds, as it does with each list of kubelet's. */
static void have_calm(void)
{
        for (size_t i = 0; i < STRANGERS; i++)
                if (world.strangers[i] >= 0) {
                        close(world.strangers[i]);
                        world.strangers[i] = -1;
                }
        if (!world.listener)
                start_listener();
        apply();
        tell_all();
        world.status.generation++;
        mps_listener_changed(world.listener);
        UNTIL(&world.loop, is_settled());
        world.n_asked = 0;
}

static void make_step(void)
{
        switch (draw(16)) {
        case 0 ... 3:
                ask();
                break;
        case 4 ... 5:
                answer_call();
                break;
        case 6 ... 7:
                pass_on(&world.there, 1 + draw(500));
                break;
        case 8 ... 9:
                pass_on(&world.back, 1 + draw(500));
                break;
        case 10:
                let_in();
                break;
        case 11:
                be_strange();
                break;
        case 12:
                apply();
                break;
        case 13:
                tell_all();
                break;
        case 14:
                world.status.generation++;
                if (world.listener)
                        mps_listener_changed(world.listener);
                break;
        case 15:
                if (happens(3))
                        cut();
                else if (happens(3) && world.listener)
                        end_listener();
                else if (!world.listener)
                        start_listener();
                break;
        }
        turn();
}

static void begin(void)
{
        char path[160];
        struct error err;

        log_setup(LOG_ERROR, LOG_TEXT);
        signal(SIGPIPE, SIG_IGN); /* as the program has it */
        strcpy(world.folder, "/dev/shm/warpshare-link-XXXXXX");
        assert_non_null(mkdtemp(world.folder));
        snprintf(world.far, sizeof(world.far), "%s/far", world.folder);
        assert_int_equal(mkdir(world.far, 0700), 0);
        snprintf(path, sizeof(path), "%s/" MPS_SOCKET, world.folder);
        assert_ok(unix_socket_bind(&world.door, path, 0600, &err), &err);
        assert_int_equal(listen(world.door, 8), 0);
        uv_loop_init(&world.loop);
        world.there = world.back = (struct stream){.from = -1, .to = -1, .waiting = STRBUF_INIT};
        for (size_t i = 0; i < STRANGERS; i++)
                world.strangers[i] = -1;
        start_listener();
        start_link();
}

static void end(void)
{
        char path[160];

        end_link();
        end_listener();
        uv_run(&world.loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&world.loop), 0);
        cut();
        strbuf_done(&world.there.waiting);
        strbuf_done(&world.back.waiting);
        close(world.door);
        snprintf(path, sizeof(path), "%s/" MPS_SOCKET, world.folder);
        unlink(path);
        assert_int_equal(rmdir(world.far), 0);
        assert_int_equal(rmdir(world.folder), 0);
}

static void run(struct chance *chance, uint64_t seed, unsigned int n_steps)
{
        world = (struct world){.chance = chance, .seed = seed};
        begin();
        for (; world.step < n_steps && chance_step(chance); world.step++)
                make_step();
        have_calm();
        end();
}

#ifdef FUZZING

FUZZ_MODEL(run)

#else

static void test_both_ends_agree_whatever_happened_between_them(void **state UNUSED)
{
        unsigned int n_good = 0, n_bad = 0;

        if (chance_run_named(run, N_STEPS))
                return;
        for (uint64_t seed = 1; seed <= N_RUNS; seed++) {
                chance_run_seed(run, seed, N_STEPS);
                n_good += world.n_good;
                n_bad += world.n_bad;
        }
        print_message("# answered well %u, not well %u\n", n_good, n_bad);
        assert_true(n_good > N_RUNS && n_bad > N_RUNS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_both_ends_agree_whatever_happened_between_them),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
