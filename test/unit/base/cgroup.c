// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "base/proc.h"

#define POD "1e2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define POD_ "1e2f3a4b_5c6d_7e8f_9a0b_1c2d3e4f5a6b"
#define OTHER "99999999-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define ID2 "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100"
#define STATIC "0123456789abcdef0123456789abcdef"
#define SLICE "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_ ".slice"

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
                {"0::/system.slice/docker-" ID2 ".scope/kubelet.slice/kubelet-kubepods.slice/"
                 "kubelet-kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope\n",
                        POD, ID},
                /* containerd with cgroupfs below a kubelet with systemd */
                {"0::/system.slice/containerd.service/kubepods-besteffort-pod" POD_ ".slice:cri-containerd:" ID "\n",
                        POD, ID},
                {"4:memory:/system.slice/containerd.service/kubepods-pod" POD_ ".slice:cri-containerd:" ID
                 "/kubepods/pod" OTHER "/" ID2 "\n",
                        POD, ID},
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
                /* gVisor: the sandbox itself */
                {"0::/kubepods/burstable/pod" POD "\n", POD, NULL},
                {"0::" SLICE "\n", POD, NULL},
                {"0::" SLICE "/\n", POD, NULL},
                /* no more than a folder of another's pod's name above it */
                {"0::/kubepods/pod" POD "/pod" OTHER "\n", POD, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                const struct cgroup_owner owner = cgroup_parse(table[i].text, &arena);

                if (!text_is_same(owner.pod_uid, table[i].pod) || !text_is_same(owner.container_id, table[i].container))
                        fail_msg("%s: pod %s, container %s", table[i].text, owner.pod_uid, owner.container_id);
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
                "0::/kubepods/burstable/pod1234/" ID "\n",
                "0::/kubepods/burstable/pod" POD "x/" ID "\n",
                "0::/kubepods/burstable/podXe2f3a4b-5c6d-7e8f-9a0b-1c2d3e4f5a6b/" ID "\n",
                "0::/kubepods.slice/kubepods-burstable-pod" POD_ "/cri-containerd-" ID ".scope\n",
                "0::/evil-pod" POD_ ".slice/cri-containerd-" ID ".scope\n",
                "0::/system.slice/containerd.service/kubepods-pod" POD_ ":cri-containerd:" ID "\n",
                "0::/system.slice/containerd.service/system.slice:cri-containerd:" ID "\n",
                "no colons at all /kubepods/pod" POD "/" ID,
                ":",
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                const struct cgroup_owner owner = cgroup_parse(table[i], &arena);

                if (owner.pod_uid || owner.container_id || owner.folder)
                        fail_msg("%s: pod %s, container %s", table[i], owner.pod_uid, owner.container_id);
        }
}

static void test_the_folder_of_a_container_is_its_own_whatever_the_tenant_made_below(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *folder;
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
                const struct cgroup_owner owner = cgroup_parse(table[i].text, &arena);

                if (!text_is_same(owner.folder, table[i].folder))
                        fail_msg("%s: %s", table[i].text, owner.folder);
        }
}

/* |from| replaced by |to|, everywhere. */
static char *replaced(struct arena *arena, const char *text, const char *from, const char *to)
{
        char *done = arena_strdup(arena, "");
        const char *found;

        for (; (found = strstr(text, from)); text = found + strlen(from))
                done = arena_printf(arena, "%s%.*s%s", done, (int)(found - text), text, to);
        return arena_printf(arena, "%s%s", done, text);
}

/* Checks a shape; of "{a,b}" each. */
static void check_shape(struct arena *arena, const char *shape, bool has_container)
{
        const char *brace = strchr(shape, '{');
        const char *end = brace ? strchr(brace, '}') : NULL;
        struct cgroup_owner owner;

        if (end) {
                char *choices = arena_strndup(arena, brace + 1, (size_t)(end - brace) - 1);
                char *state = NULL;

                for (char *one = strtok_r(choices, ",", &state); one; one = strtok_r(NULL, ",", &state))
                        check_shape(arena, arena_printf(arena, "%.*s%s%s", (int)(brace - shape), shape, one, end + 1),
                                has_container);
                return;
        }
        owner = cgroup_parse(shape, arena);
        if (!text_is_same(owner.pod_uid, POD) || !text_is_same(owner.container_id, has_container ? ID : NULL))
                fail_msg("%s: pod %s, container %s", shape, owner.pod_uid, owner.container_id);
}

static void test_each_shape_that_was_recorded_gives_its_pod(void **state UNUSED)
{
        static const struct {
                const char *recorded;
                const char *here;
        } words[] = {{"<64hex of the PAUSE container>", ID}, {"<64hex>", ID}, {"<uid>", POD}, {"<uid_>", POD_},
                {"N:ctrl:", "4:memory:"}, {"…", "/kubepods.slice/kubepods-besteffort"}};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        struct error err;
        char *state_ = NULL;
        size_t n_shapes = 0;

        assert_ok(file_read(RECORDED "/cgroup-shapes.txt", 1 << 20, &text, &err), &err);
        for (char *line = strtok_r(text.data, "\n", &state_); line; line = strtok_r(NULL, "\n", &state_)) {
                bool is_kata = text_starts_with(line, "kata");
                bool is_directly_in_pod = text_starts_with(line, "gVisor, cgroupfs");
                char *shape;

                if (line[0] == '#')
                        continue;
                shape = is_kata || text_starts_with(line, "gVisor")
                                ? arena_printf(&arena, "0::%s", strstr(line, ": ") + strlen(": "))
                                : line;
                for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                        shape = replaced(&arena, shape, words[i].recorded, words[i].here);
                shape[strcspn(shape, " ")] = '\0'; /* a remark */
                check_shape(&arena, shape, !is_kata && !is_directly_in_pod);
                n_shapes++;
        }
        assert_int_equal(n_shapes, 9);
}

static void test_only_the_first_pid_namespace_is_the_hosts(void **state UNUSED)
{
        assert_true(pid_namespace_is_host("pid:[4026531836]"));
        assert_false(pid_namespace_is_host("pid:[4026532448]"));
        assert_false(pid_namespace_is_host(""));
        assert_false(pid_namespace_is_own("/nonexistent"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_only_the_first_pid_namespace_is_the_hosts),
                cmocka_unit_test(test_pod_and_container_are_found_in_every_form),
                cmocka_unit_test(test_what_is_no_pod_has_neither),
                cmocka_unit_test(test_each_shape_that_was_recorded_gives_its_pod),
                cmocka_unit_test(test_the_folder_of_a_container_is_its_own_whatever_the_tenant_made_below),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
