// SPDX-License-Identifier: Apache-2.0
/*
 * A "daemon" is a child that accepts one connection and reads from it as NVIDIA's does. Who connects is no child of
 * ours, unless the test wants it.
 */
#include "unit.h"
#include "user.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mps/supervisor/process.h"
#include "mps/supervisor/peer.h"

struct fixture {
        struct sockaddr_un address; /* abstract */
        socklen_t length;
        int listener;
        pid_t daemon;
        uint64_t start_time;
        int reported[2]; /* how often the daemon has come to an end of its reading: a byte each */
        int gate[2];     /* closed when everybody is to end */
        struct peer_wait wait;
};

static int connect_to(const struct fixture *f)
{
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, (const struct sockaddr *)&f->address, f->length) < 0)
                _exit(1);
        return fd;
}

static void stay_to_the_end(const struct fixture *f)
{
        char byte;

        close(f->gate[1]);
        if (read(f->gate[0], &byte, 1) != 0)
                _exit(1);
        _exit(0);
}

static void receive(int fd, const struct fixture *f)
{
        char text[64];
        struct iovec part = {.iov_base = text, .iov_len = sizeof(text)};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

        while (recvmsg(fd, &message, 0) > 0)
                ;
        if (write(f->reported[1], "x", 1) != 1)
                _exit(1);
}

/* In the daemon: |own_server|: who connects is a child of it. */
static void serve(const struct fixture *f, bool own_server)
{

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (own_server && fork() == 0) {
                connect_to(f);
                stay_to_the_end(f);
        }
        for (;;) {
                const int fd = accept(f->listener, NULL, NULL);

                if (fd < 0)
                        _exit(1);
                receive(fd, f);
        }
}

/* A kernel before 5.6 gives nobody a copy of another's descriptor. */
static bool may_copy_descriptors(void)
{
        const int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
        const int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, STDERR_FILENO, 0);

        close(pidfd);
        close(copy);
        return copy >= 0;
}

static void start_daemon(struct fixture *f, bool own_server)
{
        if (!may_copy_descriptors())
                skip();
        f->daemon = fork();
        if (f->daemon == 0)
                serve(f, own_server);
        assert_true(f->daemon > 0);
        f->start_time = process_start_time("", f->daemon);
        assert_true(f->start_time);
}

/* A process of |uid| that connects and says nothing; it is somebody else's unless |is_ours|. */
static void let_user_connect(const struct fixture *f, uid_t uid, bool is_ours)
{
        const pid_t pid = fork();

        if (pid == 0) {
                if (is_ours || fork() == 0) {
                        if (uid != getuid() && setuid(uid) < 0)
                                _exit(1);
                        connect_to(f);
                        stay_to_the_end(f);
                }
                _exit(0);
        }
        assert_true(pid > 0);
        if (!is_ours)
                assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void let_somebody_connect(const struct fixture *f, bool is_ours)
{
        let_user_connect(f, getuid(), is_ours);
}

static enum peer_found poll(struct fixture *f, uint64_t now_ms, char **who)
{
        static const struct peer_patience patience = {.first_ms = 500, .again_ms = 20};

        return peer_poll(&f->wait, f->daemon, f->start_time, now_ms, &patience, who);
}

/* Until it waits for somebody, or for the socket of |wait|; a daemon that has just begun does something else. */
static void poll_until_it_waits(struct fixture *f)
{
        char *who = NULL;

        while (f->wait.socket == 0) {
                poll(f, 1000, &who);
                usleep(1000);
        }
}

/* Closes the connection of somebody who blocks it, at 1,500 ms; the daemon waits for nobody then. */
static void close_one(struct fixture *f)
{
        char *who = NULL;

        let_somebody_connect(f, false);
        poll_until_it_waits(f);
        assert_int_equal(poll(f, 1500, &who), PEER_CLOSED);
        free(who);
        while (poll(f, 1500, &who) != PEER_NONE || f->wait.socket)
                usleep(1000);
}

/* How long |uid| may block the daemon at |now_ms|. */
static uint64_t patience_with(struct fixture *f, uid_t uid, uint64_t now_ms)
{
        enum peer_found found = PEER_NONE;
        uint64_t waited = 0;
        char *who = NULL;

        let_user_connect(f, uid, false);
        while (poll(f, now_ms, &who) != PEER_WAITS)
                usleep(1000);
        while ((found = poll(f, now_ms + waited, &who)) == PEER_WAITS)
                waited++;
        assert_int_equal(found, PEER_CLOSED);
        free(who);
        return waited;
}

static void test_an_owner_that_was_disconnected_is_given_less_time_for_a_minute_and_no_one_else_is(void **state)
{
        struct fixture *f = *state;

        if (!user_can_be(1000))
                skip();
        start_daemon(f, false);
        close_one(f);
        assert_int_equal(patience_with(f, getuid(), 2000), 20);
        assert_int_equal(patience_with(f, 1000, 3000), 500);
        assert_int_equal(patience_with(f, getuid(), 4000), 500);
        assert_int_equal(patience_with(f, getuid(), 64500), 500);
}

static void test_a_peer_that_blocks_the_daemon_for_too_long_is_disconnected_and_named(void **state)
{
        struct fixture *f = *state;
        char *who = NULL;
        char byte;

        start_daemon(f, false);
        let_somebody_connect(f, false);
        poll_until_it_waits(f);
        assert_int_equal(poll(f, 1499, &who), PEER_WAITS);
        assert_int_equal(poll(f, 1500, &who), PEER_CLOSED);
        assert_non_null(strstr(who, "blocked its control socket"));
        assert_int_equal(read(f->reported[0], &byte, 1), 1); /* the daemon has read its end */
        while (poll(f, 9000, &who) != PEER_NONE)
                usleep(1000);
        free(who);
}

/* However long it waits. */
static void expect_patience(struct fixture *f)
{
        char *who = NULL;

        poll_until_it_waits(f);
        assert_int_equal(poll(f, 100000, &who), PEER_NONE);
        assert_null(who);
}

static void test_its_own_server_may_take_its_time(void **state)
{
        struct fixture *f = *state;

        start_daemon(f, true);
        expect_patience(f);
}

static void test_our_children_may_take_their_time(void **state)
{
        struct fixture *f = *state;

        start_daemon(f, false);
        let_somebody_connect(f, true);
        expect_patience(f);
}

static void test_another_process_with_its_number_is_left_alone(void **state)
{
        struct fixture *f = *state;

        start_daemon(f, false);
        let_somebody_connect(f, false);
        poll_until_it_waits(f);
        f->start_time++;
        expect_patience(f);
}

/* ---- */

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        *state = f;
        f->address.sun_family = AF_UNIX;
        f->length = sizeof(sa_family_t); /* the kernel chooses a name */
        f->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (f->listener < 0 || bind(f->listener, (struct sockaddr *)&f->address, f->length) < 0)
                return -1;
        f->length = sizeof(f->address);
        return getsockname(f->listener, (struct sockaddr *)&f->address, &f->length) < 0 || listen(f->listener, 4) < 0 ||
                               pipe(f->reported) < 0 || pipe(f->gate) < 0
                       ? -1
                       : 0;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        close(f->gate[1]);
        if (f->daemon > 0) /* a test that is skipped has none, and 0 would be all of our group */
                kill(f->daemon, SIGKILL);
        peer_wait_done(&f->wait);
        while (wait(NULL) > 0)
                ;
        close(f->gate[0]);
        close(f->reported[0]);
        close(f->reported[1]);
        close(f->listener);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_peer_that_blocks_the_daemon_for_too_long_is_disconnected_and_named),
                TEST(test_an_owner_that_was_disconnected_is_given_less_time_for_a_minute_and_no_one_else_is),
                TEST(test_its_own_server_may_take_its_time),
                TEST(test_our_children_may_take_their_time),
                TEST(test_another_process_with_its_number_is_left_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
