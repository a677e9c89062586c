// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "net/kube/exec_plugin.h"

#define V1 "client.authentication.k8s.io/v1"
#define ANSWER(status) "{\"kind\": \"ExecCredential\", \"apiVersion\": \"" V1 "\", \"status\": {" status "}}"

static const struct exec_plugin_spec spec_v1 = {.api_version = V1, .command = "x"};

static void test_an_answer_is_a_token_a_certificate_or_both(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *token, *certificate, *key;
                int64_t expires;
        } table[] = {
                {ANSWER("\"token\": \"t\""), "t", "", "", 0},
                {ANSWER("\"token\": \"t\", \"expirationTimestamp\": \"2026-11-26T10:00:00Z\""), "t", "", "",
                        1795687200},
                {ANSWER("\"token\": \"t\", \"expirationTimestamp\": \"2026-11-26T12:00:00+02:00\""), "t", "", "",
                        1795687200},
                {ANSWER("\"clientCertificateData\": \"C\", \"clientKeyData\": \"K\""), "", "C", "K", 0},
                {ANSWER("\"token\": \"t\", \"clientCertificateData\": \"C\", \"clientKeyData\": \"K\", \"x\": 1"), "t",
                        "C", "K", 0},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct kube_identity found;
                struct error err;
                int64_t expires;

                assert_ok(
                        exec_plugin_read(&spec_v1, table[i].text, strlen(table[i].text), &found, &expires, &err), &err);
                assert_string_equal(found.token, table[i].token);
                assert_string_equal(found.certificate, table[i].certificate);
                assert_string_equal(found.key, table[i].key);
                assert_int_equal(expires, table[i].expires);
                kube_identity_done(&found);
        }
}

static void test_an_answer_that_is_none_is_named(void **state UNUSED)
{
        static const struct {
                const char *text;
                const char *error;
        } table[] = {
                {"", "what it printed is no ExecCredential"},
                {"[]", "what it printed is no ExecCredential"},
                {"{\"kind\": \"Pod\"}", "what it printed is no ExecCredential"},
                {"{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/v1beta1\"}",
                        "apiVersion: 'client.authentication.k8s.io/v1beta1', must be " V1 " as in the kubeconfig"},
                {ANSWER(""), "it gave neither a token nor a certificate"},
                {ANSWER("\"token\": 5"), "it gave neither a token nor a certificate"},
                {ANSWER("\"clientCertificateData\": \"C\""),
                        "clientCertificateData and clientKeyData: one without the other"},
                {ANSWER("\"token\": \"a\\r\\nX: y\""),
                        "token: must be one word of plain characters, at most 16384 bytes"},
                {ANSWER("\"token\": \"t\", \"expirationTimestamp\": \"tomorrow\""),
                        "expirationTimestamp: 'tomorrow' is no time, as 2026-11-22T13:00:00Z"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct kube_identity found;
                struct error err;
                int64_t expires;

                assert_int_equal(
                        exec_plugin_read(&spec_v1, table[i].text, strlen(table[i].text), &found, &expires, &err), -1);
                assert_string_equal(err.text, table[i].error);
        }
}

static void test_a_program_is_told_what_it_asked_for(void **state UNUSED)
{
        struct exec_plugin_spec spec = spec_v1;
        json_t *cluster = json_pack("{s:s}", "server", "https://a");
        _free_ char *short_text = exec_plugin_info(&spec, cluster, false);
        _free_ char *text = NULL;

        spec.wants_cluster = true;
        text = exec_plugin_info(&spec, cluster, true);
        assert_string_equal(
                short_text, "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"spec\":{\"interactive\":false}}");
        assert_string_equal(text,
                "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\",\"spec\":{\"interactive\":true,"
                "\"cluster\":{\"server\":\"https://a\"}}}");
        json_decref(cluster);
}

/* ---- programs that run ---- */

struct program {
        char folder[32];
        char path[64];
        char count_path[64]; /* a line for each time it ran */
        struct exec_plugin_spec spec;
        struct exec_plugin *plugin;
};

/* A shell script, which begins by noting that it runs. */
static void program_init(struct program *program, const char *script)
{
        _free_ char *text = NULL;
        struct error err;

        *program = (struct program){.folder = "/tmp/warpshare-exec-XXXXXX"};
        assert_non_null(mkdtemp(program->folder));
        snprintf(program->path, sizeof(program->path), "%s/make", program->folder);
        snprintf(program->count_path, sizeof(program->count_path), "%s/count", program->folder);
        text = xasprintf("#!/bin/sh\necho >>%s\n%s\n", program->count_path, script);
        assert_ok(file_write(program->path, text, strlen(text), &err), &err);
        assert_int_equal(chmod(program->path, 0755), 0);
        program->spec = (struct exec_plugin_spec){.api_version = V1, .command = program->path};
}

static void program_done(struct program *program)
{
        exec_plugin_free(program->plugin);
        unlink(program->path);
        unlink(program->count_path);
        rmdir(program->folder);
}

static size_t runs_of(const struct program *program)
{
        struct stat info;

        return stat(program->count_path, &info) == 0 ? (size_t)info.st_size : 0;
}

static int ask(struct program *program, char **ret_token, struct error *err)
{
        struct kube_identity found;

        if (!program->plugin)
                program->plugin = exec_plugin_new(&program->spec, NULL);
        if (exec_plugin_identity(program->plugin, &found, err) < 0)
                return -1;
        *ret_token = TAKE_PTR(found.token);
        kube_identity_done(&found);
        return 0;
}

#define PRINT(status) "printf '%s' '" ANSWER(status) "'"

static void test_a_program_runs_once_until_its_credentials_expire(void **state UNUSED)
{
        static const struct {
                const char *script;
                size_t runs;
        } table[] = {
                {PRINT("\"token\": \"t\""), 1},
                {PRINT("\"token\": \"t\", \"expirationTimestamp\": \"2100-01-01T00:00:00Z\""), 1},
                {PRINT("\"token\": \"t\", \"expirationTimestamp\": \"2001-01-01T00:00:00Z\""), 3},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct program program;
                struct error err;

                program_init(&program, table[i].script);
                for (size_t k = 0; k < 3; k++) {
                        _free_ char *token = NULL;

                        assert_ok(ask(&program, &token, &err), &err);
                        assert_string_equal(token, "t");
                }
                assert_int_equal(runs_of(&program), table[i].runs);
                program_done(&program);
        }
}

static void test_refused_credentials_are_made_again_once(void **state UNUSED)
{
        char token_text[] = "t";
        char older[] = "older";
        char none[] = "";
        const struct kube_identity refused = {.token = token_text, .certificate = none, .key = none};
        const struct kube_identity other = {.token = older, .certificate = none, .key = none};
        struct program program;
        struct error err;

        program_init(&program, PRINT("\"token\": \"t\""));
        for (size_t i = 0; i < 3; i++) {
                _free_ char *token = NULL;

                assert_ok(ask(&program, &token, &err), &err);
                exec_plugin_refused(program.plugin, i == 0 ? &other : &refused);
        }
        assert_int_equal(runs_of(&program), 2); /* what another request had is no news */
        program_done(&program);
}

static void test_a_program_gets_arguments_and_variables(void **state UNUSED)
{
        struct program program;
        _free_ char *token = NULL;
        struct error err;

        program_init(&program,
                "case \"$KUBERNETES_EXEC_INFO\" in *'\"interactive\":false'*) ;; *) exit 1;; esac\n"
                "printf '%s' '{\"kind\": \"ExecCredential\", \"apiVersion\": \"" V1 "\", \"status\": {\"token\": \"'"
                "\"$1-$2-$SECRET-$(id -u >/dev/null && echo here)\"'\"}}'");
        setenv("SECRET", "of-the-environment", 1);
        program.spec.arguments[program.spec.n_arguments++] = "get";
        program.spec.arguments[program.spec.n_arguments++] = "token";
        program.spec.variables[program.spec.n_variables++] = "SECRET=said";
        program.spec.mode = EXEC_PLUGIN_NEVER;
        assert_ok(ask(&program, &token, &err), &err);
        assert_string_equal(token, "get-token-said-here");
        program_done(&program);
}

static void test_a_program_that_fails_is_named(void **state UNUSED)
{
        static const struct {
                const char *script;
                const char *text;
        } table[] = {
                {"exit 3", "it ended with status 3"},
                {"kill -9 $$", "it was ended by signal 9"},
                {"echo no", "what it printed is no ExecCredential"},
                {"head -c 1200000 /dev/zero; sleep 600", "it printed more than 1048576 bytes"},
                {"exec >&-; exec sleep 600", "it has closed its output and not ended within 5 s"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                struct program program;
                char expected[200];
                char *token;
                struct error err;

                program_init(&program, table[i].script);
                program.spec.mode = EXEC_PLUGIN_NEVER;
                snprintf(expected, sizeof(expected), "credentials from '%s': %s", program.path, table[i].text);
                assert_int_equal(ask(&program, &token, &err), -1);
                assert_string_equal(err.text, expected);
                program_done(&program);
        }
}

static void test_a_program_that_is_not_there_says_how_to_get_it(void **state UNUSED)
{
        struct program program;
        char *token;
        struct error err;

        setenv("PATH", "/usr/bin:/bin", 1); /* a folder that we may not read would be the reason that is told */
        program_init(&program, "");
        program.spec.command = "no-such-program-of-anybody";
        assert_fails(ask(&program, &token, &err), &err, ERROR_NOT_FOUND,
                "credentials from 'no-such-program-of-anybody': start it: No such file or directory");
        program.plugin = exec_plugin_free(program.plugin);
        program.spec.hint = "install it from https://example.com";
        assert_fails(ask(&program, &token, &err), &err, ERROR_NOT_FOUND,
                "credentials from 'no-such-program-of-anybody': No such file or directory: install it from "
                "https://example.com");
        program_done(&program);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_answer_is_a_token_a_certificate_or_both),
                cmocka_unit_test(test_an_answer_that_is_none_is_named),
                cmocka_unit_test(test_a_program_is_told_what_it_asked_for),
                cmocka_unit_test(test_a_program_runs_once_until_its_credentials_expire),
                cmocka_unit_test(test_refused_credentials_are_made_again_once),
                cmocka_unit_test(test_a_program_gets_arguments_and_variables),
                cmocka_unit_test(test_a_program_that_fails_is_named),
                cmocka_unit_test(test_a_program_that_is_not_there_says_how_to_get_it),
        };

        return cmocka_run_group_tests_name("exec_plugin", tests, NULL, NULL);
}
