// SPDX-License-Identifier: Apache-2.0
/* The socket files of a driver's instances: to whom one hands over, and what is removed. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "node/dra/registration.h"
#include "base/io/unix_socket.h"

#define DRIVER "gpu.example.com"

struct rig {
        char folder[40];
        char registry[56];
        char plugins[56];
};

static void rig_init(struct rig *rig)
{
        _free_ char *directory = NULL;

        strcpy(rig->folder, "/tmp/dra-sockets-XXXXXX");
        assert_non_null(mkdtemp(rig->folder));
        snprintf(rig->registry, sizeof(rig->registry), "%s/registry", rig->folder);
        snprintf(rig->plugins, sizeof(rig->plugins), "%s/plugins", rig->folder);
        directory = dra_sockets_directory(rig->plugins, DRIVER);
        assert_int_equal(mkdir(rig->registry, 0755), 0);
        assert_int_equal(mkdir(rig->plugins, 0755), 0);
        assert_int_equal(mkdir(directory, 0755), 0);
}

static void rig_done(struct rig *rig)
{
        _free_ char *command = xasprintf("rm -r %s", rig->folder);

        assert_int_equal(system(command), 0);
}

/* A file that somebody listens on, |age_s| old. */
static int listen_at(const char *path, int age_s)
{
        const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        return fd;
}

static void make_older(const char *path, int age_s)
{
        const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = time(NULL) - age_s}};

        assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

struct instance {
        struct dra_sockets sockets;
        int first;
        int second;
};

/* A pod's driver that listens since |age_s|. */
static struct instance begin(const struct rig *rig, const char *name, int age_s)
{
        struct instance ret;

        dra_sockets_init(&ret.sockets, rig->registry, rig->plugins, DRIVER, name);
        ret.second = listen_at(ret.sockets.second, age_s);
        ret.first = listen_at(ret.sockets.first, age_s);
        return ret;
}

/* Its files stay. */
static void kill_instance(struct instance *instance)
{
        close(instance->first);
        close(instance->second);
}

static void end(struct instance *instance)
{
        dra_sockets_done(&instance->sockets);
}

static bool is_there(const char *path)
{
        struct stat status;

        return lstat(path, &status) == 0;
}

static void test_who_ends_hands_over_to_who_began_later_and_listens(void **state UNUSED)
{
        static const struct {
                int age_s; /* of the other one; who ends is 100 s old */
                bool listens;
                bool hands_over;
        } rows[] = {{10, true, true}, {0, true, true}, {200, true, false}, {10, false, false}};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct rig rig;
                struct instance ending;
                struct instance other;

                rig_init(&rig);
                ending = begin(&rig, "a", 100);
                other = begin(&rig, "b", rows[i].age_s);
                if (!rows[i].listens)
                        kill_instance(&other);
                assert_int_equal(dra_sockets_hand_over(&ending.sockets), rows[i].hands_over);
                kill_instance(&ending);
                assert_true(is_there(ending.sockets.first));
                assert_int_equal(reach_socket(ending.sockets.second) == 0, rows[i].hands_over);
                if (rows[i].listens)
                        kill_instance(&other);
                end(&ending);
                end(&other);
                rig_done(&rig);
        }
}

static void test_who_has_no_name_of_its_own_hands_nothing_over(void **state UNUSED)
{
        struct rig rig;
        struct instance ending;
        struct instance other;

        rig_init(&rig);
        ending = begin(&rig, NULL, 100);
        other = begin(&rig, "b", 10);
        assert_false(dra_sockets_hand_over(&ending.sockets));
        kill_instance(&ending);
        kill_instance(&other);
        end(&ending);
        end(&other);
        rig_done(&rig);
}

static void test_what_was_handed_over_goes_when_kubelet_knows_the_next(void **state UNUSED)
{
        struct rig rig;
        struct instance ending;
        struct instance next;

        rig_init(&rig);
        ending = begin(&rig, "a", 1000);
        next = begin(&rig, "b", 10);
        assert_true(dra_sockets_hand_over(&ending.sockets));
        kill_instance(&ending);
        make_older(ending.sockets.second, DRA_SOCKETS_HANDED_OVER_S - 10);
        dra_sockets_tidy(&next.sockets);
        assert_true(is_there(ending.sockets.first) && is_there(ending.sockets.second));
        make_older(ending.sockets.second, DRA_SOCKETS_HANDED_OVER_S);
        dra_sockets_tidy(&next.sockets);
        assert_false(is_there(ending.sockets.first) || is_there(ending.sockets.second));
        assert_int_equal(reach_socket(next.sockets.first), 0);
        assert_int_equal(reach_socket(next.sockets.second), 0);
        kill_instance(&next);
        end(&ending);
        end(&next);
        rig_done(&rig);
}

static void test_of_who_was_killed_the_files_go_and_those_of_who_lives_or_begins_stay(void **state UNUSED)
{
        _free_ char *foreign = NULL;
        struct rig rig;
        struct instance own;
        struct instance killed;
        struct instance lives;
        struct instance begins;
        int fd;

        rig_init(&rig);
        own = begin(&rig, "own", 5);
        killed = begin(&rig, "killed", DRA_SOCKETS_STALE_S + 1);
        lives = begin(&rig, "lives", 1000);
        begins = begin(&rig, "begins", 1);
        kill_instance(&killed);
        kill_instance(&begins); /* it is bound, and does not listen yet */
        foreign = xasprintf("%s/%s2-x-reg.sock", rig.registry, DRIVER);
        fd = listen_at(foreign, 1000);
        close(fd);
        dra_sockets_tidy(&own.sockets);
        assert_false(is_there(killed.sockets.first) || is_there(killed.sockets.second));
        assert_true(is_there(lives.sockets.first) && is_there(lives.sockets.second));
        assert_true(is_there(begins.sockets.first) && is_there(begins.sockets.second));
        assert_true(is_there(foreign));
        kill_instance(&own);
        kill_instance(&lives);
        end(&own);
        end(&killed);
        end(&lives);
        end(&begins);
        rig_done(&rig);
}

/* kubelet dials their paths, which have 107 bytes at most, and its root may be long. */
static void test_a_pods_uid_takes_eight_characters_of_a_path(void **state UNUSED)
{
        static const char *const uids[] = {
                "6f1a2b3c-0000-4000-8000-0123456789ab", "6f1a2b3c-0000-4000-8000-0123456789ac"};
        struct dra_sockets sockets[ARRAY_SIZE(uids)];
        struct dra_sockets brief;

        for (size_t i = 0; i < ARRAY_SIZE(uids); i++) {
                dra_sockets_init(&sockets[i], "/r", "/p", DRIVER, uids[i]);
                assert_int_equal(strlen(sockets[i].first), strlen("/r/" DRIVER "-01234567-reg.sock"));
                assert_int_equal(strlen(sockets[i].second), strlen("/p/" DRIVER "/dra-01234567.sock"));
                assert_true(dra_sockets_is_first(DRIVER, file_base_name(sockets[i].first)));
                assert_true(dra_sockets_is_second(DRIVER, file_base_name(sockets[i].second)));
        }
        assert_string_not_equal(sockets[0].first, sockets[1].first);
        assert_string_not_equal(sockets[0].second, sockets[1].second);
        dra_sockets_init(&brief, "/r", "/p", DRIVER, "pod-1");
        assert_string_equal(brief.first, "/r/" DRIVER "-pod-1-reg.sock");
        for (size_t i = 0; i < ARRAY_SIZE(uids); i++)
                dra_sockets_done(&sockets[i]);
        dra_sockets_done(&brief);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_pods_uid_takes_eight_characters_of_a_path),
                cmocka_unit_test(test_who_ends_hands_over_to_who_began_later_and_listens),
                cmocka_unit_test(test_who_has_no_name_of_its_own_hands_nothing_over),
                cmocka_unit_test(test_what_was_handed_over_goes_when_kubelet_knows_the_next),
                cmocka_unit_test(test_of_who_was_killed_the_files_go_and_those_of_who_lives_or_begins_stay),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
