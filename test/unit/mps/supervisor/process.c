#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "mps/supervisor/process.h"

#define POD "1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define POD_ "1e2f3a4b_5c6d_7e8f_9a0b_1c2d3e4f5a6b"
#define OTHER "99999999-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ID2 "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define STATIC "0123456789abcdef0123456789abcdef"
#define SLICE "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_ ".slice"

/* ---- cgroups ---- */

static void test_pod_and_container_are_found_in_every_form(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *pod;
                const char *container;
        } table[] = {
                /* cgroup v2 */
                {"0::/kubepods/burstable/pod" POD "/" ID "\n", POD, ID},
                {"0::/kubepods/pod" POD "/" ID, POD, ID}, /* guaranteed */
                {"0::" SLICE "/cri-containerd-" ID ".scope\n", POD, ID},
                {"0::" SLICE "/crio-" ID ".scope\n", POD, ID},
                {"0::" SLICE "/crio-" ID ".scope/container\n", POD, ID},
                {"0::" SLICE "/docker-" ID ".scope\n", POD, ID},
                {"0::/kubepods.slice/kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope\n", POD, ID},
                {"0::/kubepods/besteffort/pod" STATIC "/" ID "\n", STATIC, ID},
                {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" STATIC
                 ".slice/cri-containerd-" ID ".scope\n",
                        STATIC, ID},
                /* as seen from a container with a cgroup namespace of its own */
                {"0::/../../kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID ".scope\n", POD, ID},
                {"0::/../../../besteffort/pod" POD "/" ID "\n", POD, ID},
                /* in kind */
                {"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
                 "kubelet-kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID ".scope\n",
                        POD, ID},
                {"0::/docker/" ID2 "/kubelet/kubepods/besteffort/pod" POD "/" ID "\n", POD, ID},
                /* cgroup v1 */
                {"12:memory:/kubepods/burstable/pod" POD "/" ID "\n11:cpu,cpuacct:/kubepods/burstable/pod" POD "/" ID
                 "\n",
                        POD, ID},
                {"3:name=systemd:/\n2:devices:" SLICE "/docker-" ID ".scope\n", POD, ID},
                /* a cgroup that the tenant made, with the names of a neighbour */
                {"0::/kubepods/pod" POD "/" ID "/pod" OTHER "/" ID2 "\n", POD, ID},
                {"0::" SLICE "/cri-containerd-" ID ".scope/cri-containerd-" ID2 ".scope\n", POD, ID},
                /* a pod's process in no container of it */
                {"0::" SLICE "/crio-conmon-" ID ".scope\n", POD, NULL},
                {"0::/kubepods/pod" POD "/something/" ID "\n", POD, NULL},
                {"0::/kubepods/pod" POD "/" ID "0\n", POD, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct process process = {.pod_uid = "?", .container_id = "?"};

                process_parse_cgroup(table[i].text, &arena, &process);
                if (!text_is_same(process.pod_uid, table[i].pod) ||
                        !text_is_same(process.container_id, table[i].container))
                        fail_msg("%s: pod %s, container %s", table[i].text, process.pod_uid, process.container_id);
        }
}

static void test_what_is_no_pod_has_neither(void **state UNUSED)
{
        static const char *const table[] = {
                "",
                "\n\n",
                "0::/\n",
                "0::/system.slice/containerd.service\n",
                "0::/user.slice/user-1000.slice/session-1.scope\n",
                "0::/docker/" ID "\n",
                "0::/kubepods/burstable/pod" POD "\n", /* the sandbox's parent: no process is in it */
                "0::/kubepods/burstable/pod1234/" ID "\n",
                "0::/kubepods/burstable/pod" POD "x/" ID "\n",
                "0::/kubepods/burstable/podXe2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b/" ID "\n",
                "0::/kubepods.slice/kubepods-burstable-pod" POD_ "/cri-containerd-" ID ".scope\n",
                "0::/evil-pod" POD_ ".slice/cri-containerd-" ID ".scope\n",
                "no colons at all /kubepods/pod" POD "/" ID,
                ":",
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct process process = {.pod_uid = "?", .container_id = "?", .cgroup = "?"};

                process_parse_cgroup(table[i], &arena, &process);
                if (process.pod_uid || process.container_id || process.cgroup)
                        fail_msg("%s: pod %s, container %s", table[i], process.pod_uid, process.container_id);
        }
}

static void test_the_folder_of_a_container_is_its_own_whatever_the_tenant_made_below(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *cgroup;
        } table[] = {
                {"0::/kubepods/pod" POD "/" ID "\n", "/kubepods/pod" POD "/" ID},
                {"0::" SLICE "/cri-containerd-" ID ".scope\n", SLICE "/cri-containerd-" ID ".scope"},
                {"0::" SLICE "/crio-" ID ".scope/container/more\n", SLICE "/crio-" ID ".scope"},
                {"0::" SLICE "/cri-containerd-" ID ".scope/cri-containerd-" ID2 ".scope\n",
                        SLICE "/cri-containerd-" ID ".scope"},
                {"0::/docker/" ID2 "/kubelet/kubepods/besteffort/pod" POD "/" ID "\n",
                        "/docker/" ID2 "/kubelet/kubepods/besteffort/pod" POD "/" ID},
                {"0::" SLICE "/crio-conmon-" ID ".scope\n", NULL},
                /* seen from a cgroup namespace, and in cgroup v1: no path that could be opened */
                {"0::/../../kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID ".scope\n", NULL},
                {"12:memory:/kubepods/burstable/pod" POD "/" ID "\n", NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                struct process process;

                process_parse_cgroup(table[i].text, &arena, &process);
                if (!text_is_same(process.cgroup, table[i].cgroup))
                        fail_msg("%s: %s", table[i].text, process.cgroup);
        }
}

/* ---- /proc ---- */

struct fixture {
        char root[64];
        struct arena arena;
};

static void make_file(const struct fixture *f, const char *name, const char *content, size_t size)
{
        _free_ char *path = xasprintf("%s/proc/4711/%s", f->root, name);
        int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, content, size), (ssize_t)size);
        close(fd);
}

static void make_text(const struct fixture *f, const char *name, const char *content)
{
        make_file(f, name, content, strlen(content));
}

#define STAT_END " S 1 4711 4711 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456789 1000 50\n"

static void make_process(const struct fixture *f)
{
        make_text(f, "stat", "4711 (train)" STAT_END);
        make_text(f, "status", "Name:\ttrain\nUmask:\t0022\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t5\t5\t5\n");
        make_text(f, "cgroup", "0::/kubepods/burstable/pod" POD "/" ID "\n");
        make_file(f, "environ", "PATH=/bin\0WARPSHARE_GRANT=g1a2b\0HOME=/\0", 39);
}

static void test_a_process_is_read_from_its_files(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct stat status;
        _free_ char *ns = xasprintf("%s/proc/4711/ns/pid", f->root);
        struct error err;

        make_process(f);
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        assert_int_equal(process.pid, 4711);
        assert_true(process.start_time == 123456789);
        assert_int_equal(process.uid, 1001);
        assert_string_equal(process.pod_uid, POD);
        assert_string_equal(process.container_id, ID);
        assert_string_equal(process.allocation, "g1a2b");
        assert_int_equal(stat(ns, &status), 0);
        assert_true(process.pid_namespace == status.st_ino);
}

/* The name stands in parentheses and is the tenant's. */
static void test_the_name_of_a_process_cannot_fake_its_start(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct error err;

        make_process(f);
        make_text(f, "stat", "4711 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)" STAT_END);
        make_text(f, "status", "Name:\tx\\nUid:\\t0\\t0\nUid:\t1000\t1001\t1002\t1003\n");
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        assert_true(process.start_time == 123456789);
        assert_int_equal(process.uid, 1001);
}

static void test_what_cannot_be_read_is_unknown(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct error err;

        make_text(f, "stat", "4711 (train)" STAT_END);
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        assert_int_equal(process.uid, (uid_t)-1);
        assert_null(process.pod_uid);
        assert_null(process.container_id);
        assert_null(process.allocation);
}

static void test_a_process_that_is_not_there_is_not_found(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct error err;

        assert_fails(process_read(&process, &f->arena, f->root, 4712, &err), &err, ERROR_NOT_FOUND,
                "there is no process 4712");
        /* It ended while it was looked at: the folder is open, its files are gone. */
        assert_fails(process_read(&process, &f->arena, f->root, 4711, &err), &err, ERROR_NOT_FOUND,
                "process 4711 has ended");
        make_text(f, "stat", "4711 (train) S 1 2");
        assert_fails(process_read(&process, &f->arena, f->root, 4711, &err), &err, ERROR_NOT_FOUND,
                "process 4711 has ended");
}

static void allocation_is(struct fixture *f, const char *content, size_t size, const char *expected)
{
        struct process process;
        struct error err;

        make_file(f, "environ", content, size);
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        if (!text_is_same(process.allocation, expected))
                fail_msg("grant %s, expected %s", process.allocation, expected);
}

static void threads_are(
        struct fixture *f, const char *content, size_t size, bool has_environment, unsigned int expected)
{
        struct process process;
        struct error err;

        make_file(f, "environ", content, size);
        assert_ok(process_read(&process, &f->arena, f->root, 4711, &err), &err);
        assert_int_equal(process.has_environment, has_environment);
        assert_int_equal(process.asked_permille, expected);
}

static void test_the_thread_variable_is_read_as_cuda_reads_it(void **state)
{
        struct fixture *f = *state;

        make_process(f);
        threads_are(f, "A=1\0CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=35\0", 41, true, 350);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=33.3", 38, true, 333);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=0.01", 38, true, 1);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=20\0CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=90", 73, true, 200);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=", 34, true, 0);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=101", 37, true, 0);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=-5", 36, true, 0);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=nan", 37, true, 0);
        threads_are(f, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=5 %", 37, true, 0);
        threads_are(f, "PATH=/bin", 9, true, 0);
        threads_are(f, "", 0, false, 0); /* not to be read is not the same as not there */
}

static void test_an_allocation_id_has_its_own_form_or_is_none(void **state)
{
        struct fixture *f = *state;
        char *large = xcalloc(1, PROCESS_ENVIRONMENT_MAX + 64);

        make_process(f);
        allocation_is(f, "WARPSHARE_GRANT=g1", 18, "g1"); /* without the last NUL */
        allocation_is(f, "WARPSHARE_GRANT=", 16, NULL);
        allocation_is(f, "WARPSHARE_GRANT=../x", 20, NULL);
        allocation_is(f, "WARPSHARE_GRANT=g 1", 19, NULL);
        allocation_is(f, "WARPSHARE_GRANT=\"\n", 18, NULL);
        allocation_is(f, "XWARPSHARE_GRANT=g1", 19, NULL);
        allocation_is(f, "WARPSHARE_GRANTS=g1", 19, NULL);
        allocation_is(f, "WARPSHARE_GRANT=0123456789012345678901234567890123456789012345678901234567890123", 80,
                "0123456789012345678901234567890123456789012345678901234567890123");
        allocation_is(f, "WARPSHARE_GRANT=01234567890123456789012345678901234567890123456789012345678901234", 81, NULL);
        allocation_is(f, "", 0, NULL);
        /* The tenant's environment may be as large as he likes. */
        memset(large, 'x', PROCESS_ENVIRONMENT_MAX + 16);
        strcpy(large + PROCESS_ENVIRONMENT_MAX + 16 + 1, "WARPSHARE_GRANT=g1");
        allocation_is(f, large, PROCESS_ENVIRONMENT_MAX + 64, NULL);
        free(large);
}

/* The real thing: this very process. */
static void test_this_process_is_found_as_it_is(void **state)
{
        struct fixture *f = *state;
        struct process process;
        struct process again;
        struct stat status;
        struct error err;

        assert_ok(process_read(&process, &f->arena, "", getpid(), &err), &err);
        assert_int_equal(process.uid, geteuid());
        assert_true(process.start_time > 0);
        assert_int_equal(stat("/proc/self/ns/pid", &status), 0);
        assert_true(process.pid_namespace == status.st_ino);
        assert_ok(process_read(&again, &f->arena, "", getpid(), &err), &err);
        assert_true(again.start_time == process.start_time);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        char command[160];

        strcpy(f->root, "/tmp/warpshare-process-XXXXXX");
        if (!mkdtemp(f->root))
                return -1;
        snprintf(command, sizeof(command), "mkdir -p %s/proc/4711/ns && touch %s/proc/4711/ns/pid", f->root, f->root);
        *state = f;
        return system(command);
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        char command[96];

        snprintf(command, sizeof(command), "rm -r %s", f->root);
        assert_int_equal(system(command), 0);
        arena_done(&f->arena);
        free(f);
        return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_pod_and_container_are_found_in_every_form),
                cmocka_unit_test(test_what_is_no_pod_has_neither),
                cmocka_unit_test(test_the_folder_of_a_container_is_its_own_whatever_the_tenant_made_below),
                TEST(test_a_process_is_read_from_its_files),
                TEST(test_the_name_of_a_process_cannot_fake_its_start),
                TEST(test_what_cannot_be_read_is_unknown),
                TEST(test_a_process_that_is_not_there_is_not_found),
                TEST(test_the_thread_variable_is_read_as_cuda_reads_it),
                TEST(test_an_allocation_id_has_its_own_form_or_is_none),
                TEST(test_this_process_is_found_as_it_is),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
