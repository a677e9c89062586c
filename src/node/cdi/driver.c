// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/driver.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/text.h"
#include "node/cdi/libraries.h"

struct finder {
        const struct cdi_context *context;
        struct driver *driver;
        const char *version;  /* of the driver that runs: "580.105.08" */
        const char *suffix;   /* ".so.580.105.08" */
        const char **folders; /* those of the search path that exist, with links resolved, each once */
        size_t n_folders;
};

/* ---- the result ---- */

void driver_init(struct driver *driver, struct arena *arena)
{
        *driver = (struct driver){
                .files = ARENA_ARRAY(arena, struct driver_file, DRIVER_MAX_FILES),
                .links = ARENA_ARRAY(arena, struct driver_link, DRIVER_MAX_LINKS),
                .cuda_folders = ARENA_ARRAY(arena, const char *, DRIVER_MAX_FOLDERS),
                .library_folders = ARENA_ARRAY(arena, const char *, DRIVER_MAX_FOLDERS),
                .nodes = ARENA_ARRAY(arena, const char *, DRIVER_MAX_NODES),
        };
}

void driver_add_file(struct driver *driver, const char *source, const char *target, bool is_socket)
{
        for (size_t i = 0; i < driver->n_files; i++)
                if (strcmp(driver->files[i].target, target) == 0)
                        return;
        if (driver->n_files < DRIVER_MAX_FILES)
                driver->files[driver->n_files++] =
                        (struct driver_file){.source = source, .target = target, .is_socket = is_socket};
}

void driver_add_link(struct driver *driver, const char *target, const char *link)
{
        for (size_t i = 0; i < driver->n_links; i++)
                if (strcmp(driver->links[i].link, link) == 0)
                        return;
        if (driver->n_links < DRIVER_MAX_LINKS)
                driver->links[driver->n_links++] = (struct driver_link){.target = target, .link = link};
}

static void driver_add_folder(const char **folders, size_t *count, const char *folder)
{
        for (size_t i = 0; i < *count; i++)
                if (strcmp(folders[i], folder) == 0)
                        return;
        if (*count < DRIVER_MAX_FOLDERS)
                folders[(*count)++] = folder;
}

static const char *folder_of(struct arena *arena, const char *path)
{
        size_t length = (size_t)(file_base_name(path) - path);

        return length > 1 ? arena_strndup(arena, path, length - 1) : "/";
}

static const char *driver_join(const struct finder *finder, const char *folder, const char *name)
{
        return arena_printf(finder->context->arena, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, name);
}

/* The names in |folder| of the driver's tree that match one of |patterns|; NULL: it has no such folder. */
static size_t list_driver(
        const struct finder *finder, const char *folder, const char *const *patterns, const char *const **ret)
{
        return folder ? cdi_list(finder->context, finder->context->roots.driver, folder, patterns, ret) : 0;
}

void driver_add_library_folder(struct driver *driver, struct arena *arena, const char *library)
{
        if (fnmatch("lib?*.so*", file_base_name(library), 0) == 0)
                driver_add_folder(driver->library_folders, &driver->n_library_folders, folder_of(arena, library));
}

/* ---- libraries ---- */

static const char *const search_path[] = {
        "/",
        "/usr/lib64",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu/nvidia/current",
        "/usr/lib/aarch64-linux-gnu/nvidia/current",
        "/lib64",
        "/lib/x86_64-linux-gnu",
        "/lib/aarch64-linux-gnu",
        "/lib/x86_64-linux-gnu/nvidia/current",
        "/lib/aarch64-linux-gnu/nvidia/current",
        "/usr/local/glibc/usr/lib", /* Talos */
        "/run/opengl-driver/lib",   /* NixOS: a link into /nix/store */
        "/x86_64-bottlerocket-linux-gnu/sys-root/usr/lib",
        "/aarch64-bottlerocket-linux-gnu/sys-root/usr/lib",
};

/* Libraries that do not have the driver's version in their names. */
static const char *const other_libraries[] = {"libnvidia-api.so.1", "libnvidia-nvvm70.so.*", "libnvidia-egl-gbm.so.*.*",
        "libnvidia-egl-wayland.so.*.*", "libnvidia-egl-wayland2.so.*.*", "libnvidia-egl-xcb.so.*.*",
        "libnvidia-egl-xlib.so.*.*"};
static const char *const explicit_libraries[] = {"libEGL.so", "libGL.so", "libGLESv1_CM.so", "libGLESv2.so",
        "libGLX.so", "libGLdispatch.so", "libOpenCL.so", "libOpenGL.so", "libnvidia-api.so", "libnvidia-egl-xcb.so",
        "libnvidia-egl-xlib.so"};

static bool driver_ends_with(const char *text, const char *end)
{
        size_t length = strlen(text), end_length = strlen(end);

        return length > end_length && strcmp(text + length - end_length, end) == 0;
}

static bool is_link(const struct finder *finder, const char *path)
{
        return S_ISLNK(cdi_type(finder->context, path));
}

static bool read_soname(const struct finder *finder, const char *library, char *ret)
{
        _free_ char *path = xasprintf("%s%s", finder->context->roots.driver, library);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0)
                cdi_note_errno(finder->context, path);
        return fd >= 0 && soname_read(fd, ret) && cdi_is_plain(ret);
}

/*
 * Adds the links that the host has beside the library: libcuda.so.1 → libcuda.so.580.105.08, and libcuda.so →
 * libcuda.so.1.
 */
static void add_host_links(const struct finder *finder, const char *folder, const char *name)
{
        const char *end = strstr(name, ".so");
        char soname[SONAME_SIZE];
        const char *path;

        if (!end || !read_soname(finder, driver_join(finder, folder, name), soname) || strcmp(soname, name) == 0)
                return;
        path = driver_join(finder, folder, soname);
        if (is_link(finder, path))
                driver_add_link(finder->driver, name, path);
        path = arena_printf(finder->context->arena, "%s.so",
                driver_join(finder, folder, arena_strndup(finder->context->arena, name, (size_t)(end - name))));
        if (is_link(finder, path) && strcmp(file_base_name(path), soname) != 0)
                driver_add_link(finder->driver, arena_strdup(finder->context->arena, soname), path);
}

/* Adds links that programs expect, whether or not the host has them. */
static void add_known_links(const struct finder *finder, const char *folder, const char *name)
{
        static const struct {
                const char *library; /* without its version */
                const char *target;  /* NULL: the library itself */
                const char *link;    /* below the library's folder */
        } known[] = {
                {"libcuda", "libcuda.so.1", "libcuda.so"},
                {"libGLX_nvidia", NULL, "libGLX_indirect.so.0"},
                {"libnvidia-opticalflow", "libnvidia-opticalflow.so.1", "libnvidia-opticalflow.so"},
                {"libnvidia-allocator", "../libnvidia-allocator.so.1", "gbm/nvidia-drm_gbm.so"},
                {"libnvidia-vulkan-producer", NULL, "libnvidia-vulkan-producer.so"},
                {"libglxserver_nvidia", NULL, "libglxserver_nvidia.so"},
        };
        size_t length = strlen(name) - strlen(finder->suffix);

        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                if (strlen(known[i].library) == length && strncmp(known[i].library, name, length) == 0)
                        driver_add_link(finder->driver, known[i].target ? known[i].target : name,
                                driver_join(finder, folder, known[i].link));
}

/* Adds a library that was found in |folder|. If it is a link, its target is mounted, at the target's path. */
static void add_library(const struct finder *finder, const char *folder, const char *name)
{
        const char *found = driver_join(finder, folder, name);
        const char *path = cdi_resolve(finder->context, found);

        if (!path || !S_ISREG(cdi_type(finder->context, path)))
                return;
        driver_add_file(finder->driver, path, path, false);
        driver_add_library_folder(finder->driver, finder->context->arena, path);
        folder = folder_of(finder->context->arena, path);
        name = file_base_name(path);
        add_host_links(finder, folder, name);
        if (driver_ends_with(name, finder->suffix))
                add_known_links(finder, folder, name);
}

static void add_libraries(const struct finder *finder, const char *path, const char *const *patterns)
{
        const char *folder = cdi_resolve(finder->context, path);
        const char *const *names;
        size_t count = list_driver(finder, folder, patterns, &names);

        for (size_t i = 0; i < count; i++)
                add_library(finder, folder, names[i]);
}

static void add_all_libraries(const struct finder *finder)
{
        struct arena *arena = finder->context->arena;
        struct driver *driver = finder->driver;
        const char *const cuda[] = {arena_printf(arena, "lib*%s", finder->suffix), NULL};
        const char *const versioned[] = {arena_printf(arena, "?*%s", finder->suffix), NULL};
        const char *others[ARRAY_SIZE(other_libraries) + ARRAY_SIZE(explicit_libraries) + 1] = {NULL};

        memcpy(others, other_libraries, sizeof(other_libraries));
        if (cdi_lists(finder->context->config->cdi.feature_flags, "enable-explicit-driver-libraries"))
                memcpy(others + ARRAY_SIZE(other_libraries), explicit_libraries, sizeof(explicit_libraries));
        for (size_t i = 0; i < finder->n_folders; i++) {
                const char *folder = finder->folders[i];
                const char *const *names;

                if (list_driver(finder, folder, cuda, &names))
                        driver_add_folder(driver->cuda_folders, &driver->n_cuda_folders, folder);
                add_libraries(finder, folder, versioned);
                add_libraries(finder, driver_join(finder, folder, "vdpau"), versioned);
                add_libraries(finder, folder, others);
        }
}

/* ---- the version of the driver that runs ---- */

/* Adds a folder of the search path, with links resolved. */
static void add_search_folder(struct finder *finder, const char *path)
{
        const char *folder = cdi_resolve(finder->context, path);

        if (folder && S_ISDIR(cdi_type(finder->context, folder)))
                driver_add_folder(finder->folders, &finder->n_folders, folder);
}

/*
 * Whether there is a core library of the running version; if not, |ret_other| is one of another version, if there is
 * any.
 */
static bool has_version(const struct finder *finder, const char **ret_other)
{
        static const char *const core[] = {"libcuda.so.*.*", "libnvidia-ml.so.*.*", NULL};

        for (size_t i = 0; i < finder->n_folders; i++) {
                const char *const *names;
                size_t count = list_driver(finder, finder->folders[i], core, &names);

                for (size_t j = 0; j < count; j++) {
                        if (driver_ends_with(names[j], finder->suffix))
                                return true;
                        *ret_other = driver_join(finder, finder->folders[i], names[j]);
                }
        }
        return false;
}

static void add_cached_folders(struct finder *finder)
{
        static const char *const names[] = {"libcuda.so.1", "libnvidia-ml.so.1"};
        const char *cache = cdi_resolve(finder->context, "/etc/ld.so.cache");
        _cleanup_(strbuf_done) struct strbuf bytes = STRBUF_INIT;
        struct error err;

        if (!cache || !S_ISREG(cdi_type(finder->context, cache)))
                return;
        if (file_read(arena_printf(finder->context->arena, "%s%s", finder->context->roots.driver, cache), LDCACHE_LIMIT,
                    &bytes, &err) < 0) {
                cdi_note(finder->context, &err);
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const char *library = ldcache_find(bytes.data, bytes.size, names[i]);
                const char *resolved = library ? cdi_resolve(finder->context, library) : NULL;

                if (resolved)
                        add_search_folder(finder, folder_of(finder->context->arena, resolved));
        }
}

static int find_folders(struct finder *finder, struct error *err)
{
        const char *root = *finder->context->roots.driver ? finder->context->roots.driver : "/";
        const char *other = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(search_path); i++)
                add_search_folder(finder, search_path[i]);
        if (has_version(finder, &other))
                return 0;
        add_cached_folders(finder);
        if (has_version(finder, &other))
                return 0;
        if (other)
                return error_set(err, ERROR_UNAVAILABLE,
                        "driver %s runs, but below '%.100s' is '%.150s': the driver was changed; unload the old one, or "
                        "restart the node",
                        finder->version, root, other);
        return error_set(err, ERROR_NOT_FOUND,
                "below '%.150s' is neither libcuda%.50s nor libnvidia-ml%.50s: mount the root of the driver there, "
                "or set --driver-root-ctr-path",
                root, finder->suffix, finder->suffix);
}

/* ---- configuration, firmware, programs, sockets ---- */

static void add_xorg(const struct finder *finder)
{
        const char *const modules[] = {
                "nvidia_drv.so", arena_printf(finder->context->arena, "libglxserver_nvidia%s", finder->suffix), NULL};
        static const char *const bases[] = {"/usr/lib64", "/usr/lib", "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu", "/usr/X11R6/lib64", "/usr/X11R6/lib"};
        static const char *const folders[] = {"xorg/modules", "xorg/modules/drivers", "xorg/modules/extensions",
                "xorg/modules/updates/drivers", "xorg/modules/updates/extensions", "nvidia/xorg", "nvidia/current"};

        for (size_t i = 0; i < ARRAY_SIZE(bases); i++)
                for (size_t j = 0; j < ARRAY_SIZE(folders); j++)
                        add_libraries(finder, driver_join(finder, bases[i], folders[j]), modules);
}

/*
 * Adds |name| from the first of |folders|, which end with NULL, that has it. In the container it is at |target|, or
 * where it was found if that is NULL.
 */
static void add_first(const struct finder *finder, const char *const *folders, const char *name, const char *target,
        unsigned int type)
{
        for (; *folders; folders++) {
                const char *found = driver_join(finder, *folders, name);
                const char *path = cdi_resolve(finder->context, found);

                if (!path || cdi_type(finder->context, path) != type)
                        continue;
                driver_add_file(finder->driver, path, target ? target : found, type == S_IFSOCK);
                return;
        }
}

/* The folders and the names end with NULL. */
struct searched {
        const char *const *folders;
        const char *const *names;
        const char *target; /* the folder in the container; NULL: the one where it was found */
        unsigned int type;
};

static const struct searched configuration = {(const char *const[]){"/etc", "/usr/local/share", "/usr/share", NULL},
        (const char *const[]){"glvnd/egl_vendor.d/10_nvidia.json", "egl/egl_external_platform.d/15_nvidia_gbm.json",
                "egl/egl_external_platform.d/10_nvidia_wayland.json",
                "egl/egl_external_platform.d/09_nvidia_wayland2.json", "egl/egl_external_platform.d/20_nvidia_xcb.json",
                "egl/egl_external_platform.d/20_nvidia_xlib.json", "nvidia/nvoptix.bin",
                "X11/xorg.conf.d/10-nvidia.conf", "X11/xorg.conf.d/nvidia-drm-outputclass.conf",
                "OpenCL/vendors/nvidia.icd", NULL},
        NULL, S_IFREG};
static const struct searched vulkan = {
        (const char *const[]){"/etc", "/usr/local/share", "/usr/share", "/" /* Container-Optimized OS */, NULL},
        (const char *const[]){"vulkan/icd.d/nvidia_icd.json", "vulkan/icd.d/nvidia_layers.json",
                "vulkan/implicit_layer.d/nvidia_layers.json", "vulkan/icd.d/nvidia_icd.x86_64.json",
                "vulkan/icd.d/nvidia_icd.aarch64.json", NULL},
        "/etc", S_IFREG};
static const struct searched programs = {
        (const char *const[]){"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", NULL},
        (const char *const[]){"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control",
                "nvidia-cuda-mps-server", "nvidia-imex", "nvidia-imex-ctl", NULL},
        NULL, S_IFREG};
static const struct searched sockets = {(const char *const[]){"/run", "/var/run", NULL},
        (const char *const[]){"nvidia-persistenced/socket", "nvidia-fabricmanager/socket", NULL}, NULL, S_IFSOCK};

static void add_searched(const struct finder *finder, const struct searched *searched)
{
        for (const char *const *name = searched->names; *name; name++)
                add_first(finder, searched->folders, *name,
                        searched->target ? driver_join(finder, searched->target, *name) : NULL, searched->type);
}

/* True if |base| has the firmware: the kernel loads it from the first such folder. */
static bool add_firmware_of(const struct finder *finder, const char *base)
{
        const char *path = arena_printf(finder->context->arena, "%s/nvidia/%s", base, finder->version);
        const char *folder = cdi_resolve(finder->context, path);
        const char *const *names;
        size_t count = list_driver(finder, folder, (const char *const[]){"gsp*.bin", NULL}, &names);

        for (size_t i = 0; i < count; i++)
                add_first(finder, (const char *const[]){folder, NULL}, names[i], NULL, S_IFREG);
        return count > 0;
}

/*
 * Folders are searched in the kernel's order. The first is a parameter of the firmware loader, which is a path on the
 * host; a driver in a container sets it to a folder in its own root.
 */
static void add_firmware(const struct finder *finder)
{
        _free_ char *parameter =
                xasprintf("%s/sys/module/firmware_class/parameters/path", finder->context->roots.system);
        _cleanup_(strbuf_done) struct strbuf custom = STRBUF_INIT;
        struct utsname kernel;
        struct error err;

        if (file_read(parameter, PATH_MAX, &custom, &err) < 0) {
                cdi_note(finder->context, &err);
        } else if (custom.data[0] == '/') {
                size_t root = strlen(finder->context->roots.driver_host);

                custom.data[strcspn(custom.data, "\n")] = '\0';
                if (strncmp(custom.data, finder->context->roots.driver_host, root) != 0 || custom.data[root] != '/')
                        root = 0;
                if (add_firmware_of(finder, custom.data + root))
                        return;
        }
        if (uname(&kernel) < 0)
                return;
        if (add_firmware_of(finder, arena_printf(finder->context->arena, "/lib/firmware/updates/%s", kernel.release)) ||
                add_firmware_of(finder, "/lib/firmware/updates") ||
                add_firmware_of(finder, arena_printf(finder->context->arena, "/lib/firmware/%s", kernel.release)))
                return;
        if (!add_firmware_of(finder, "/lib/firmware"))
                add_firmware_of(finder, "/usr/lib/firmware");
}

int driver_find(struct driver *ret, const struct cdi_context *context, struct error *err)
{
        const char *version = context->plan->inventory->driver_version;
        struct driver driver;
        struct finder finder = {
                .context = context,
                .driver = &driver,
                .version = version,
                .folders = ARENA_ARRAY(context->arena, const char *, DRIVER_MAX_FOLDERS),
        };

        if (!version || !cdi_is_plain(version))
                return error_set(err, ERROR_UNAVAILABLE, "NVML does not say which version the driver has");
        finder.suffix = arena_printf(context->arena, ".so.%s", version);
        driver_init(&driver, context->arena);
        if (find_folders(&finder, err) < 0)
                return -1;
        add_all_libraries(&finder);
        add_xorg(&finder);
        add_searched(&finder, &configuration);
        add_searched(&finder, &vulkan);
        if (!cdi_lists(context->config->cdi.feature_flags, "disable-ipc-discoverer"))
                add_searched(&finder, &sockets);
        add_firmware(&finder);
        add_searched(&finder, &programs);
        *ret = driver;
        return 0;
}
