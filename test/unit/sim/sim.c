// SPDX-License-Identifier: Apache-2.0
#include "sim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

static void *symbol(struct sim *sim, const char *name)
{
        void *found = dlsym(sim->library, name);

        if (!found)
                fail_msg("the library lacks %s", name);
        return found;
}

#define SIM_LOAD(name, arguments) sim->name = (nvmlReturn_t(*) arguments)symbol(sim, #name);

int sim_setup(void **state)
{
        const char *path = getenv("NVML_SIM");
        struct sim *sim = xcalloc(1, sizeof(*sim));

        sim->library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (!sim->library) {
                fprintf(stderr, "NVML_SIM must be the path of the library: %s\n", path ? dlerror() : "it is not set");
                free(sim);
                return -1;
        }
        NVML_CALLS(SIM_LOAD)
        sim->nvmlErrorString = (const char *(*)(nvmlReturn_t))symbol(sim, "nvmlErrorString");
        snprintf(sim->folder, sizeof(sim->folder), "/tmp/nvml-sim-XXXXXX");
        if (!mkdtemp(sim->folder))
                return -1;
        snprintf(sim->path, sizeof(sim->path), "%s/scenario.yaml", sim->folder);
        snprintf(sim->geometry, sizeof(sim->geometry), "%s/geometry", sim->folder);
        setenv("WARPSHARE_SIM_SCENARIO", sim->path, 1);
        *state = sim;
        return 0;
}

int sim_teardown(void **state)
{
        struct sim *sim = *state;

        if (!sim) /* the setup failed */
                return 0;
        unlink(sim->path);
        unlink(sim->geometry);
        rmdir(sim->folder);
        dlclose(sim->library);
        free(sim);
        return 0;
}

void sim_write(struct sim *sim, const char *text)
{
        struct error err;

        assert_ok(file_write(sim->path, text, strlen(text), &err), &err);
}

void sim_start(struct sim *sim, const char *text)
{
        while (sim->nvmlShutdown() == NVML_SUCCESS)
                ;
        sim_write(sim, text);
        assert_nvml(NVML_SUCCESS, sim->nvmlInit_v2());
}

int sim_shutdown(void **state)
{
        struct sim *sim = *state;

        /* The machine outlives a shutdown; without its GPUs it forgets what was done to them. */
        sim_start(sim, "gpus: []");
        unlink(sim->geometry);
        return sim->nvmlShutdown() == NVML_SUCCESS ? 0 : -1;
}

void sim_append(struct sim *sim, const char *text)
{
        _close_ int fd = open(sim->path, O_WRONLY | O_APPEND | O_CLOEXEC);

        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

nvmlDevice_t sim_gpu(struct sim *sim, unsigned int index)
{
        nvmlDevice_t device = NULL;

        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetHandleByIndex_v2(index, &device));
        return device;
}

nvmlDevice_t sim_mig(struct sim *sim, unsigned int gpu, unsigned int index)
{
        nvmlDevice_t device = NULL;

        assert_nvml(NVML_SUCCESS, sim->nvmlDeviceGetMigDeviceHandleByIndex(sim_gpu(sim, gpu), index, &device));
        return device;
}

const char *sim_stderr(struct sim *sim, nvmlReturn_t (*run)(struct sim *sim), nvmlReturn_t expected)
{
        static char text[4096];
        int saved = dup(STDERR_FILENO);
        nvmlReturn_t result;
        ssize_t got;
        int ends[2];

        assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
        dup2(ends[1], STDERR_FILENO);
        result = run(sim);
        dup2(saved, STDERR_FILENO);
        close(saved);
        close(ends[1]);
        got = read(ends[0], text, sizeof(text) - 1);
        close(ends[0]);
        text[MAX(got, 0)] = '\0';
        assert_int_equal(result, expected);
        return text;
}
