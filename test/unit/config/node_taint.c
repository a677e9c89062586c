// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <string.h>

#include "config/kube_name.h"

#define SIXTY_THREE "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_taints_are_read_as_kubectl_writes_them(void **state UNUSED)
{
        static const struct {
                const char *text;
                struct node_taint taint;
        } table[] = {
                {"a:NoSchedule", {"a", "", "NoSchedule"}},
                {"a=:NoSchedule", {"a", "", "NoSchedule"}},
                {"a=b:PreferNoSchedule", {"a", "b", "PreferNoSchedule"}},
                {"nvidia.com/gpu-sharing=not_ready.1:NoExecute",
                        {"nvidia.com/gpu-sharing", "not_ready.1", "NoExecute"}},
                {"x.y/" SIXTY_THREE "=" SIXTY_THREE ":NoSchedule", {"x.y/" SIXTY_THREE, SIXTY_THREE, "NoSchedule"}},
        };
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct node_taint taint;
                struct error err;

                assert_ok(node_taint_parse(&taint, &arena, table[i].text, &err), &err);
                assert_string_equal(taint.key, table[i].taint.key);
                assert_string_equal(taint.value, table[i].taint.value);
                assert_string_equal(taint.effect, table[i].taint.effect);
        }
}

static void test_what_the_server_would_refuse_is_no_taint(void **state UNUSED)
{
        static const char *const bad[] = {"", ":", "a", "a:", "a:noschedule", "a:NoSchedule:NoExecute", ":NoSchedule",
                "=b:NoSchedule", "/a:NoSchedule", "a/:NoSchedule", "a/b/c:NoSchedule", "-a:NoSchedule", "a-:NoSchedule",
                "a b:NoSchedule", "A.b/c:NoSchedule", "a..b/c:NoSchedule", "a.-b/c:NoSchedule", "a=-b:NoSchedule",
                "a=b=c:NoSchedule", "a=b/c:NoSchedule", SIXTY_THREE "a:NoSchedule", "a=" SIXTY_THREE "a:NoSchedule",
                "node.kubernetes.io/unschedulable:NoSchedule", "\xc3\xbc:NoSchedule"};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct node_taint taint;
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (node_taint_parse(&taint, &arena, bad[i], &err) == 0)
                        fail_msg("'%s' is taken", bad[i]);
        assert_fails(node_taint_parse(&taint, &arena, "a=b", &err), &err, ERROR_INVALID,
                "'a=b' is not a taint: write key=value:effect or key:effect, for example "
                "nvidia.com/gpu-sharing=unavailable:NoSchedule");
        assert_fails(node_taint_parse(&taint, &arena, "a:Never", &err), &err, ERROR_INVALID,
                "'Never' is not an effect of a taint: use NoSchedule, PreferNoSchedule or NoExecute");
}

static void test_a_condition_is_a_name_that_kubelet_does_not_use(void **state UNUSED)
{
        static const char *const good[] = {"GPUSharingReady", "nvidia.com/GPUSharing"};
        static const char *const bad[] = {"", "Ready", "DiskPressure", "a b", "a/", SIXTY_THREE "a"};
        struct error err;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                assert_ok(node_condition_check(good[i], &err), &err);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (node_condition_check(bad[i], &err) == 0)
                        fail_msg("'%s' is taken", bad[i]);
        assert_fails(node_condition_check("Ready", &err), &err, ERROR_INVALID,
                "'Ready' is a condition that kubelet sets: use another type, for example GPUSharingReady");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_taints_are_read_as_kubectl_writes_them),
                cmocka_unit_test(test_what_the_server_would_refuse_is_no_taint),
                cmocka_unit_test(test_a_condition_is_a_name_that_kubelet_does_not_use),
        };

        return cmocka_run_group_tests_name("node_taint", tests, NULL, NULL);
}
