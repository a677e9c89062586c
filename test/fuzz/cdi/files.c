// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as each of the files that the generator of CDI specifications reads and did not write: a
 * library, the linker's cache, an earlier specification. What it makes of them must be a valid document.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "node/cdi/cdi.h"
#include "node/cdi/devices.h"
#include "node/cdi/libraries.h"
#include "node/cdi/mps_devices.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_library(const uint8_t *data, size_t size)
{
        _close_ int fd = memfd_create("library", MFD_CLOEXEC);
        char name[SONAME_SIZE];

        if (fd < 0 || write(fd, data, size) != (ssize_t)size)
                abort();
        if (soname_read(fd, name) && (strlen(name) == 0 || strchr(name, '/')))
                abort();
}

static void check_cache(const uint8_t *data, size_t size)
{
        const char *path = ldcache_find((const char *)data, size, "libcuda.so.1");

        if (path && path + strlen(path) >= (const char *)data + size)
                abort();
}

static void check_document(const struct spec *spec)
{
        _cleanup_(strbuf_done) struct strbuf printed = STRBUF_INIT;
        struct error err;
        json_t *document;

        if (spec_print(spec, &printed, &err) < 0)
                abort();
        document = json_loadb(printed.data, printed.size, JSON_REJECT_DUPLICATES, NULL);
        if (!document)
                abort();
        json_decref(document);
}

static void check_earlier(const uint8_t *data, size_t size)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        _cleanup_(spec_freep) struct spec *spec = spec_new("k8s.device-plugin.nvidia.com", "gpu");
        struct gpu gpu = {.uuid = "GPU-0", .minor = 999};
        struct inventory inventory = {.gpus = &gpu, .n_gpus = 1};
        struct config config = {.driver = {.root = "", .mounted_root = "", .dev_root = ""}, .system_root = ""};
        struct plan plan = {.config = &config, .inventory = &inventory};
        bool lacks_nodes;
        struct cdi_context context = cdi_context_of(&config, &plan, &arena);

        context.lacks_nodes = &lacks_nodes;
        spec_add_env(spec_device(spec, "GPU-0"), "A=B");
        devices_keep(&context, spec, (const char *)data, size);
        check_document(spec);
}

static void check_earlier_limits(const uint8_t *data, size_t size)
{
        _cleanup_(spec_freep) struct spec *spec = spec_new(CDI_VENDOR_MPS, CDI_CLASS_MPS);

        spec_add_env(spec_device(spec, "GPU-0"), "A=B");
        limit_devices_keep(spec, (const char *)data, size);
        check_document(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        check_library(data, size);
        check_cache(data, size);
        check_earlier(data, size);
        check_earlier_limits(data, size);
        return 0;
}
