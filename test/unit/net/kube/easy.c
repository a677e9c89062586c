// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "net/kube/easy.h"

static void test_the_address_follows_from_server_and_name(void **state UNUSED)
{
        static const struct {
                const char *server;
                const char *name;
                const char *url;
                const char *host;
                const char *connect_to;
                bool is_direct;
        } table[] = {
                {"https://10.0.0.1:6443", NULL, "https://10.0.0.1:6443", NULL, NULL, false},
                {"https://10.0.0.1:6443/k8s", "api", "https://api:6443/k8s", "Host: 10.0.0.1:6443", "::10.0.0.1:6443",
                        false},
                {"https://[fd00::1]:6443/k8s", "api", "https://api:6443/k8s", "Host: [fd00::1]:6443",
                        "::[fd00::1]:6443", false},
                {"https://cluster.example", "api", "https://api", "Host: cluster.example", "::cluster.example:", false},
                {"https://[fd00::1]", NULL, "https://[fd00::1]", NULL, NULL, false},
                {"https://127.0.0.1:6443", NULL, "https://127.0.0.1:6443", NULL, NULL, true},
                {"https://[::1]:6443", NULL, "https://[::1]:6443", NULL, NULL, true},
                {"http://LocalHost:8001", NULL, "http://LocalHost:8001", NULL, NULL, true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct kube_credentials credentials = {.server = table[i].server, .server_name = table[i].name};
                struct easy_settings settings;
                struct error err;

                assert_ok(easy_prepare(&settings, &credentials, &err), &err);
                assert_string_equal(settings.url, table[i].url);
                assert_string_equal(settings.host ? settings.host : "", table[i].host ? table[i].host : "");
                assert_string_equal(
                        settings.connect_to ? settings.connect_to : "", table[i].connect_to ? table[i].connect_to : "");
                assert_int_equal(settings.is_direct, table[i].is_direct);
                easy_forget(&settings);
        }
}

static void test_an_address_that_is_none_is_refused(void **state UNUSED)
{
        static const char *const table[][2] = {
                {"https://", "server 'https://' has no host"},
                {"https:///x", "server 'https:///x' has no host"},
                {"https://:6443", "server 'https://:6443' has no host"},
                {"https://[::1", "server 'https://[::1' has no host"},
                {"https://[::1]x:1", "server 'https://[::1]x:1' has no host"},
                {"https://a:0", "server 'https://a:0' has no port that is one"},
                {"https://a:65536", "server 'https://a:65536' has no port that is one"},
                {"https://a:b/c", "server 'https://a:b/c' has no port that is one"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct kube_credentials credentials = {.server = table[i][0]};
                struct easy_settings settings;
                struct error err;

                assert_fails(easy_prepare(&settings, &credentials, &err), &err, ERROR_INVALID, table[i][1]);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_the_address_follows_from_server_and_name),
                cmocka_unit_test(test_an_address_that_is_none_is_refused),
        };

        return cmocka_run_group_tests_name("easy", tests, NULL, NULL);
}
