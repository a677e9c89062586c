// SPDX-License-Identifier: Apache-2.0
/*
 * What the tests of whole configurations share: a file with its text, built into a config, its warnings collected.
 */
#pragma once

#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "options.h"

/* The file is written anew by each build; its path, which is random, reads FILE in texts. */
struct fixture {
        char path[32];
        struct arena arena;
        struct strbuf warnings;
        struct error err;
        const struct config *config;
};

static struct fixture fixture_new(void)
{
        struct fixture fixture = {.path = "/tmp/warpshare-config-XXXXXX", .warnings = STRBUF_INIT};
        int fd = mkstemp(fixture.path);

        assert_true(fd >= 0);
        close(fd);
        return fixture;
}

static void fixture_done(struct fixture *fixture)
{
        unlink(fixture->path);
        arena_done(&fixture->arena);
        strbuf_done(&fixture->warnings);
}

static void replace_path(const struct fixture *fixture, char *text)
{
        char *at;

        while ((at = strstr(text, fixture->path))) {
                memcpy(at, "FILE", 4);
                memmove(at + 4, at + strlen(fixture->path), strlen(at + strlen(fixture->path)) + 1);
        }
}

static void collect(const char *text, void *data)
{
        struct fixture *fixture = data;
        _free_ char *line = xstrdup(text);

        replace_path(fixture, line);
        strbuf_printf(&fixture->warnings, "%s\n", line);
}

/* |environment| ends with NULL, or is NULL. */
static int build(struct fixture *fixture, const char *text, const char *const *environment)
{
        const char *const arguments[] = {arena_printf(&fixture->arena, "--config-file=%s", fixture->path), NULL};
        const char *const none[] = {NULL};
        struct option_set set;
        int r;

        assert_ok(file_write(fixture->path, text, strlen(text), &fixture->err), &fixture->err);
        options_take(&set, &fixture->arena, arguments, environment ? environment : none);
        strbuf_clear(&fixture->warnings);
        r = config_build(&set, &fixture->arena, &fixture->config, collect, fixture, &fixture->err);
        if (r < 0)
                replace_path(fixture, fixture->err.text);
        return r;
}

static const char *const mps_root[] UNUSED = {"MPS_ROOT=/run/nvidia/mps", NULL};

#define MPS(rest) "sharing:\n  mps:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n" rest
