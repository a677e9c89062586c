// SPDX-License-Identifier: Apache-2.0
#include "sim/demo/program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/io/child.h"

#define COLUMNS 78U /* of a narrow terminal, less the two on the left */

/* ---- output ---- */

struct output {
        bool has_ended;
        int status;
        char *text;
};

static void on_end(const struct child_result *result, void *data)
{
        struct output *output = data;

        output->has_ended = true;
        output->status = result->status;
        output->text = xstrdup(result->output);
}

static bool has_ended(void *output)
{
        return ((struct output *)output)->has_ended;
}

char *demo_output(struct demo *demo, const char *const *argv, const char *const *environment, int *ret_status)
{
        struct output output = {0};
        const struct child_options options = {
                .argv = argv,
                .environment = environment,
                .timeout_ms = DEMO_PATIENCE_MS,
                .on_end = on_end,
                .data = &output,
        };
        struct child *child;
        struct error err;

        if (child_run(&child, &demo->loop, &options, &err) < 0) {
                demo_fail(demo, "%s", err.text);
                return NULL;
        }
        sim_node_wait(&demo->node, has_ended, &output, 0);
        *ret_status = output.status;
        return output.text;
}

/* The bytes of the first |columns| characters of a line, or of the words of it that fit if it is longer. */
static size_t fitting(const char *line, unsigned int columns)
{
        size_t at = 0;
        size_t words = 0;

        for (unsigned int column = 0; line[at] && line[at] != '\n'; column++) {
                if (column == columns)
                        return words ? words : at;
                if (line[at] == ' ' && column)
                        words = at;
                for (at++; ((unsigned char)line[at] & 0xc0) == 0x80;)
                        at++;
        }
        return at;
}

static void print_line(const char *line, unsigned int indent)
{
        size_t length = fitting(line, COLUMNS);

        printf("  %.*s\n", (int)length, line);
        for (line += length; *line && *line != '\n'; line += length) {
                line += strspn(line, " ");
                length = fitting(line, COLUMNS - indent);
                printf("  %*s%.*s\n", (int)indent, "", (int)length, line);
        }
}

void demo_print(const struct demo *demo, const char *command, const char *text, unsigned int indent)
{
        printf("  %s$ %s%s\n", demo_style(demo, DEMO_DIM), command, demo_style(demo, DEMO_PLAIN));
        for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
                if (*line == '\n')
                        putchar('\n');
                else
                        print_line(line, indent);
        fflush(stdout);
}

/* ---- containers ---- */

const char *const *demo_environment(struct arena *arena, const struct demo_pod *pod, const char *const *more)
{
        const struct container *container = &pod->container;
        const char **environment;
        const json_t *value;
        const char *name;
        size_t count = 0;

        while (more && more[count])
                count++;
        environment = ARENA_ARRAY(arena, const char *, json_object_size(container->variables) + count + 1);
        for (size_t i = 0; i < count; i++)
                environment[i] = more[i];
        json_object_foreach(container->variables, name, value)
        {
                const json_t *mounted = json_object_get(container->mounts, json_string_value(value));

                environment[count++] = arena_printf(arena, "%s=%s", name, json_string_value(mounted ? mounted : value));
        }
        return environment;
}

static void on_exit_of(uv_process_t *process, int64_t status UNUSED, int signal_number UNUSED)
{
        ((struct demo_program *)process->data)->runs = false;
        uv_close((uv_handle_t *)process, NULL);
}

/* What a container runtime makes of it: a cgroup below that of the pod. The rest of /proc is the process's own. */
static int put_in_container(const struct demo *demo, const char *pod_uid, int pid, struct error *err)
{
        static const char *const own[] = {"comm", "environ", "stat", "status"};
        static const char id[] = "0123456789abcdef";
        _free_ char *folder = xasprintf("%s/proc/%d", demo->node.driver_root, pid);
        _free_ char *cgroup = xasprintf("%s/cgroup", folder);
        _free_ char *text = xasprintf("0::/kubepods/burstable/pod%s/%s%s%s%s\n", pod_uid, id, id, id, id);

        if (file_make_folder(folder, err) < 0 || file_write(cgroup, text, strlen(text), err) < 0)
                return -1;
        for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
                _free_ char *link = xasprintf("%s/%s", folder, own[i]);
                _free_ char *target = xasprintf("/proc/%d/%s", pid, own[i]);

                (void)!symlink(target, link);
        }
        return 0;
}

bool demo_program_start(
        struct demo *demo, struct demo_program *program, const struct demo_pod *pod, unsigned int memory_mib)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        char *arguments[] = {arena_printf(&arena, "%s/warpshare-mps-sim-client", demo->node.mps_programs),
                arena_printf(&arena, "--memory=%u", memory_mib), NULL};
        const uv_process_options_t options = {
                .exit_cb = on_exit_of,
                .file = arguments[0],
                .args = arguments,
                .env = (char **)(uintptr_t)demo_environment(&arena, pod, NULL),
        };
        struct error err = {.kind = ERROR_NONE};
        int rc;

        program->process.data = program;
        rc = uv_spawn(&demo->loop, &program->process, &options);
        program->runs = rc == 0;
        if (rc < 0)
                error_raise_errno(&err, -rc, "start '%s'", arguments[0]);
        if (rc < 0 ||
                put_in_container(demo, kubelet_pod_uid(demo->node.kubelet, pod->name), program->process.pid, &err) < 0)
                demo_fail(demo, "%s", err.text);
        return rc == 0;
}

static bool is_gone(void *program)
{
        return !((struct demo_program *)program)->runs;
}

void demo_program_end(struct demo *demo, struct demo_program *program)
{
        if (!program->runs)
                return;
        uv_process_kill(&program->process, SIGTERM);
        if (sim_node_wait(&demo->node, is_gone, program, 5000))
                return;
        uv_process_kill(&program->process, SIGKILL);
        sim_node_wait(&demo->node, is_gone, program, 0);
}
