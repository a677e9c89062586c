// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/strbuf.h"
#include "mig/hooks.h"

static void note_warning(const char *text, void *data)
{
        strbuf_printf(data, "%s\n", text);
}

static int parse(
        struct mig_hooks *ret, struct arena *arena, const char *text, struct strbuf *warnings, struct error *err)
{
        return mig_hooks_parse(ret, arena, "hooks 'f'", text, strlen(text), note_warning, warnings, err);
}

/* The hooks file that NVIDIA's mig-manager installs has this form. */
static void a_hook_has_command_arguments_variables_and_folder(void **state)
{
        (void)state;
        static const char file[] = "version: v1\n"
                                   "hooks:\n"
                                   "  apply-start:\n"
                                   "  - workdir: /etc/mig\n"
                                   "    command: /bin/bash\n"
                                   "    args: [-x, -c, 'source hooks.sh; apply-start ${MIG_PARTED_SELECTED_CONFIG}']\n"
                                   "    envs: {LEVEL: 3}\n"
                                   "  apply-exit:\n"
                                   "  - command: one\n"
                                   "  - command: two\n"
                                   "  after-all: []\n"
                                   "note: x\n";
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;
        struct mig_hooks hooks;
        struct error err;

        assert_ok(parse(&hooks, &arena, file, &warnings, &err), &err);
        assert_int_equal(hooks.n_hooks[MIG_HOOK_START], 1);
        assert_string_equal(
                hooks.hooks[MIG_HOOK_START][0].argv[3], "source hooks.sh; apply-start ${MIG_PARTED_SELECTED_CONFIG}");
        assert_null(hooks.hooks[MIG_HOOK_START][0].argv[4]);
        assert_string_equal(hooks.hooks[MIG_HOOK_START][0].environment[0], "LEVEL=3");
        assert_string_equal(hooks.hooks[MIG_HOOK_START][0].folder, "/etc/mig");
        assert_int_equal(hooks.n_hooks[MIG_HOOK_BEFORE_MODE], 0);
        assert_int_equal(hooks.n_hooks[MIG_HOOK_EXIT], 2);
        assert_string_equal(hooks.hooks[MIG_HOOK_EXIT][1].argv[0], "two");
        assert_string_equal(warnings.data, "hooks 'f' line 12: note: unknown key, ignored\n"
                                           "hooks 'f' line 11: hooks.after-all: unknown key, ignored\n");
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
        (void)state;
        static const struct {
                const char *file, *error;
        } bad[] = {
                {"version: v2\n", "hooks 'f' line 1: version: 'v2' is not a known version, use v1"},
                {"hooks: []\n", "hooks 'f' line 1: hooks: [], must be a mapping"},
                {"hooks:\n  apply-start: x\n", "hooks 'f' line 2: hooks.apply-start: \"x\", must be a list"},
                {"hooks:\n  apply-start:\n  - {args: []}\n",
                        "hooks 'f' line 3: hooks.apply-start[0]: 'command' is missing, name a program"},
                {"hooks:\n  apply-start:\n  - {command: ''}\n",
                        "hooks 'f' line 3: hooks.apply-start[0].command: is empty, name a program"},
                {"hooks:\n  apply-start:\n  - {command: a, args: [{}]}\n",
                        "hooks 'f' line 3: hooks.apply-start[0].args[0]: {}, must be text"},
                {"hooks:\n  apply-start:\n  - {command: a, envs: {'A=B': c}}\n",
                        "hooks 'f' line 3: hooks.apply-start[0].envs: 'A=B' is no name of a variable"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                _cleanup_(arena_done) struct arena arena = ARENA_INIT;
                _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;
                struct mig_hooks hooks;
                struct error err;

                assert_fails(parse(&hooks, &arena, bad[i].file, &warnings, &err), &err, ERROR_INVALID, bad[i].error);
        }
}

/* ---- running ---- */

static int set_up(void **state)
{
        char *folder = xstrdup("/tmp/warpshare-hooks-XXXXXX");

        *state = folder;
        return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
        _free_ char *folder = *state;
        _free_ char *command = xasprintf("rm -r %s", folder);

        return system(command);
}

static int run(const char *folder, const char *lists, enum mig_hook_point point, struct error *err)
{
        static char config[] = "MIG_PARTED_SELECTED_CONFIG=mixed";
        static char *environment[] = {config, NULL};
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(strbuf_done) struct strbuf warnings = STRBUF_INIT;
        const char *text = arena_printf(&arena, "{hooks: {apply-start: [%s]}}", lists);
        struct mig_hooks hooks;

        assert_ok(parse(&hooks, &arena, text, &warnings, err), err);
        assert_string_equal(warnings.data, "");
        for (size_t i = 0; i < hooks.n_hooks[MIG_HOOK_START]; i++)
                hooks.hooks[MIG_HOOK_START][i].folder = folder;
        return mig_hooks_run(&hooks, point, environment, false, err);
}

static void assert_has(const char *folder, const char *name, const char *expected)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = xasprintf("%s/%s", folder, name);
        struct error err;

        assert_ok(file_read(path, 1000, &text, &err), &err);
        assert_string_equal(text.data, expected);
}

static void hooks_run_in_order_in_their_folder_with_no_other_environment(void **state)
{
        const char *folder = *state;
        struct error err;

        assert_ok(
                run(folder,
                        "{command: sh, args: [-c, 'echo $MIG_PARTED_SELECTED_CONFIG $OWN ${HOME-none} > a'], "
                        "envs: {OWN: 1, MIG_PARTED_SELECTED_CONFIG: other}}, {command: sh, args: [-c, 'echo two >> a']}",
                        MIG_HOOK_START, &err),
                &err);
        assert_has(folder, "a", "mixed 1 none\ntwo\n");
        assert_ok(run(folder, "{command: 'false'}", MIG_HOOK_EXIT, &err), &err);
}

static void a_hook_that_fails_is_the_last(void **state)
{
        const char *folder = *state;
        _free_ char *path = xasprintf("%s/a", folder);
        struct error err;

        assert_fails(run(folder, "{command: 'true'}, {command: sh, args: [-c, 'exit 3']}, {command: touch, args: [a]}",
                             MIG_HOOK_START, &err),
                &err, ERROR_UNAVAILABLE,
                "hook 1 of apply-start: 'sh' ended with status 3; --debug shows what it prints");
        assert_int_equal(access(path, F_OK), -1);
        assert_fails(run(folder, "{command: sh, args: [-c, 'kill -9 $$']}", MIG_HOOK_START, &err), &err,
                ERROR_UNAVAILABLE, "hook 0 of apply-start: 'sh' was ended by signal 9 (Killed)");
        assert_fails(run("/nonexistent", "{command: /nonexistent/x}", MIG_HOOK_START, &err), &err, ERROR_NOT_FOUND,
                "hook 0 of apply-start: run '/nonexistent/x' in /nonexistent: No such file or directory");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_hook_has_command_arguments_variables_and_folder),
                cmocka_unit_test(what_is_wrong_is_named_with_its_line),
                cmocka_unit_test_setup_teardown(
                        hooks_run_in_order_in_their_folder_with_no_other_environment, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_hook_that_fails_is_the_last, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
