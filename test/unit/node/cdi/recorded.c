// SPDX-License-Identifier: Apache-2.0
/* Hosts as others have recorded them, and what is published for them. */
#include "tree.h"

#include "base/text.h"
#include "node/cdi/driver.h"

#define LISTS "/etc/nvidia-container-runtime/host-files-for-container.d"
#define T4_VERSION "615.71.09"

/* The recording; the caller releases it. */
static struct strbuf read_recorded(const char *name)
{
        _free_ char *path = xasprintf(RECORDED "/%s", name);
        struct strbuf text = STRBUF_INIT;
        struct error err;

        assert_ok(file_read(path, 1 << 20, &text, &err), &err);
        return text;
}

/* What stands behind |key| in its line. */
static char *line_of(struct tree *tree, const struct strbuf *text, const char *key)
{
        const char *found = strstr(text->data, key);

        assert_non_null(found);
        found += strlen(key);
        return arena_strndup(&tree->arena, found, strcspn(found, "\n"));
}

static const char *find_line(const struct strbuf *text, const char *begin)
{
        const char *line = text->data;

        while (!text_starts_with(line, begin)) {
                line = strchr(line, '\n');
                assert_non_null(line);
                line++;
        }
        return line;
}

/* Text between the |n|th and the next " | ". */
static char *column(struct tree *tree, const char *line, size_t n)
{
        char *copy = arena_strndup(&tree->arena, line, strcspn(line, "\n"));

        for (; n; n--) {
                copy = strchr(copy, '|');
                assert_non_null(copy);
                copy++;
        }
        copy[strcspn(copy, "|")] = '\0';
        copy += strspn(copy, " ");
        while (*copy && copy[strlen(copy) - 1] == ' ')
                copy[strlen(copy) - 1] = '\0';
        return copy;
}

/* ---- Tegra ---- */

static void test_patterns_in_the_lists_of_tegra_stand_for_the_nodes_that_are_there(void **state)
{
        struct tree *tree = *state;
        struct strbuf text = read_recorded("tegra-devices-csv.txt");
        struct strbuf list = STRBUF_INIT;
        const char *plain = line_of(tree, &text, "plain ones beside them: ");
        const char *members = line_of(tree, &text, "members of /dev/nvgpu/igpu0: ");
        const char *const others[] = {"/dev/dri/card0", "/dev/dri/card1", "/dev/dri/renderD128", "/dev/nvmap",
                "/dev/nvidia0", "/dev/nvhost-ctrl-gpu", "/dev/nvgpu/igpu-0000:01:00.0/ctrl"};
        size_t n_lines = 0;

        for (const char *line = text.data; (line = strstr(line, "\ndev, ")); line++, n_lines++) {
                const char *path = line + strlen("\ndev, ");

                strbuf_printf(&list, "dev, %.*s\n", (int)strcspn(path, " \n"), path);
        }
        assert_int_equal(n_lines, 4);
        for (char *state_ = NULL, *path = strtok_r(arena_strdup(&tree->arena, plain), " ", &state_); path;
                path = strtok_r(NULL, " ", &state_))
                strbuf_printf(&list, "dev, %s\n", path);
        for (char *state_ = NULL, *name = strtok_r(arena_strdup(&tree->arena, members), " ", &state_); name;
                name = strtok_r(NULL, " ", &state_))
                tree_node(tree, arena_printf(&tree->arena, "/system/dev/nvgpu/igpu0/%s", name), 0666, 0);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                tree_node(tree, arena_printf(&tree->arena, "/system%s", others[i]), 0666, 0);
        tree_write(tree, "/driver" LISTS "/devices.csv", list.data, list.size);
        tree->inventory.platform = PLATFORM_TEGRA;
        tree->inventory.driver_version = NULL;
        tree->inventory.gpus = &(struct gpu){.uuid = "tegra", .minor = -1};
        tree->inventory.n_gpus = 1;
        tree_plan(tree);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                if (!strstr(tree_nodes(tree, "gpu", "tegra"), others[i]))
                        fail_msg("'%s' is not in: %s", others[i], tree_nodes(tree, "gpu", "tegra"));
        for (char *state_ = NULL, *name = strtok_r(arena_strdup(&tree->arena, members), " ", &state_); name;
                name = strtok_r(NULL, " ", &state_))
                assert_non_null(
                        strstr(tree_nodes(tree, "gpu", "tegra"), arena_printf(&tree->arena, "/igpu0/%s", name)));
        strbuf_done(&list);
        strbuf_done(&text);
}

/* ---- folders of drivers ---- */

/* The driver that is in the tree. */
static struct driver find(struct tree *tree)
{
        const struct plan plan = {.config = &tree->config, .inventory = &tree->inventory};
        const struct cdi_context context = cdi_context_of(&tree->config, &plan, &tree->arena);
        struct driver driver;

        assert_ok(driver_find(&driver, &context, &tree->err), &tree->err);
        return driver;
}

static const char *target_of(const struct driver *driver, const char *source)
{
        for (size_t i = 0; i < driver->n_files; i++)
                if (strcmp(driver->files[i].source, source) == 0)
                        return driver->files[i].target;
        return "";
}

static void test_a_driver_is_found_where_talos_has_it(void **state)
{
        struct tree *tree = *state;
        struct strbuf text = read_recorded("driver-layouts.txt");
        const char *line = find_line(&text, "Talos |");
        const char *library = column(tree, line, 2);
        const char *version = strstr(library, ".so.") + strlen(".so.");
        const char *const others[] = {"/usr/local/bin/nvidia-smi",
                arena_printf(&tree->arena, "/usr/lib/firmware/nvidia/%s/gsp_tu10x.bin", version)};
        struct driver driver;

        tree->inventory.driver_version = version;
        tree_library(tree, arena_printf(&tree->arena, "/driver%s", library), "libcuda.so.1");
        assert_non_null(strstr(line, others[0]));
        assert_non_null(strstr(line, "/usr/lib/firmware/nvidia/<v>"));
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                tree_file(tree, arena_printf(&tree->arena, "/driver%s", others[i]));
        driver = find(tree);
        assert_string_equal(target_of(&driver, library), library);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                assert_string_equal(target_of(&driver, others[i]), others[i]);
        strbuf_done(&text);
}

static void test_a_driver_is_found_where_nixos_has_it(void **state)
{
        static const char store[] = "/nix/store/k3j5-nvidia-x11-" TREE_VERSION "-6.12.41/lib";
        struct tree *tree = *state;
        struct strbuf text = read_recorded("driver-layouts.txt");
        struct driver driver;

        assert_string_equal(column(tree, find_line(&text, "NixOS |"), 2),
                "/run/opengl-driver/lib -> /nix/store/…-nvidia-x11-<v>/lib");
        tree_library(tree, arena_printf(&tree->arena, "/driver%s/libcuda.so." TREE_VERSION, store), "libcuda.so.1");
        tree_link(tree, "/driver/run/opengl-driver/lib", store);
        driver = find(tree);
        assert_int_equal(driver.n_cuda_folders, 1);
        assert_string_equal(driver.cuda_folders[0], store);
        strbuf_done(&text);
}

static void test_a_driver_is_found_where_bottlerocket_has_it(void **state)
{
        struct tree *tree = *state;
        struct strbuf text = read_recorded("driver-layouts.txt");
        const char *folder = column(tree, find_line(&text, "Bottlerocket "), 2);
        struct driver driver;

        folder = arena_strndup(&tree->arena, folder, strcspn(folder, " "));
        tree_library(tree, arena_printf(&tree->arena, "/driver%s/libcuda.so." TREE_VERSION, folder), "libcuda.so.1");
        driver = find(tree);
        assert_string_equal(driver.cuda_folders[0], folder);
        strbuf_done(&text);
}

/* Container-Optimized OS, as GKE and others have it, and the driver's container of the GPU Operator. */
static void test_a_driver_is_found_below_a_root_of_its_own(void **state)
{
        static const char *const names[] = {"GKE COS |", "COS (other) |", "OpenShift, GPU Operator driver container |"};
        struct tree *tree = *state;
        struct strbuf text = read_recorded("driver-layouts.txt");

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const char *line = find_line(&text, names[i]);
                const char *library = arena_printf(&tree->arena, "/%s/libcuda.so." TREE_VERSION, column(tree, line, 2));
                const char *const others = column(tree, line, 3);
                struct driver driver;

                tree->config.driver.root = column(tree, line, 1);
                tree->config.driver.mounted_root = tree_path(tree, arena_printf(&tree->arena, "/%zu", i));
                tree_library(tree, arena_printf(&tree->arena, "/%zu%s", i, library), "libcuda.so.1");
                if (strstr(others, "bin"))
                        tree_file(tree, arena_printf(&tree->arena, "/%zu/bin/nvidia-smi", i));
                if (strstr(others, "vulkan/icd.d/nvidia_icd.json (directly below the root)"))
                        tree_file(tree, arena_printf(&tree->arena, "/%zu/vulkan/icd.d/nvidia_icd.json", i));
                driver = find(tree);
                assert_string_equal(target_of(&driver, library), library);
                if (strstr(others, "bin"))
                        assert_string_equal(target_of(&driver, "/bin/nvidia-smi"), "/bin/nvidia-smi");
                if (i == 0)
                        assert_string_equal(target_of(&driver, "/vulkan/icd.d/nvidia_icd.json"),
                                "/etc/vulkan/icd.d/nvidia_icd.json");
        }
        strbuf_done(&text);
}

static void test_the_store_of_wsl_has_the_files_of_the_recording(void **state)
{
        struct tree *tree = *state;
        struct strbuf text = read_recorded("driver-layouts.txt");
        char *files = column(tree, find_line(&text, "WSL2 |"), 2);
        json_t *edits, *mount;
        const char *mounts = "";
        size_t i;

        files[strcspn(files, ";")] = '\0';
        files = strstr(files, "<inf>/") + strlen("<inf>/");
        for (char *state_ = NULL, *name = strtok_r(arena_strdup(&tree->arena, files), " ", &state_); name;
                name = strtok_r(NULL, " ", &state_))
                tree_file(tree, arena_printf(&tree->arena, "/driver/usr/lib/wsl/drivers/nv_a.inf/%s", name));
        tree_file(tree, "/driver/usr/lib/wsl/lib/libdxcore.so");
        tree_node(tree, "/system/dev/dxg", 0666, 0);
        tree->inventory.platform = PLATFORM_WSL;
        tree->inventory.gpus = &(struct gpu){.uuid = "all", .minor = -1};
        tree->inventory.n_gpus = 1;
        tree_plan(tree);
        assert_ok(tree_publish(tree), &tree->err);
        edits = tree_edits(tree, "gpu", NULL);
        json_array_foreach(json_object_get(edits, "mounts"), i, mount)
        {
                mounts = arena_printf(
                        &tree->arena, "%s%s ", mounts, json_string_value(json_object_get(mount, "hostPath")));
        }
        json_decref(edits);
        for (char *state_ = NULL, *name = strtok_r(arena_strdup(&tree->arena, files), " ", &state_); name;
                name = strtok_r(NULL, " ", &state_))
                assert_non_null(strstr(mounts, arena_printf(&tree->arena, "nv_a.inf/%s ", name)));
        assert_non_null(strstr(mounts, "/usr/lib/wsl/lib/libdxcore.so "));
        strbuf_done(&text);
}

/* ---- a host, and the file that NVIDIA's toolkit 1.20.0 wrote on it ---- */

/* Calls |make| for each word of the text up to the end of the line or the first |end|. */
static void each_word(
        struct tree *tree, const char *text, const char *end, void (*make)(struct tree *tree, const char *word))
{
        char *copy = arena_strndup(&tree->arena, text, strcspn(text, end));
        char *state = NULL;

        for (char *word = strtok_r(copy, " ;", &state); word; word = strtok_r(NULL, " ;", &state))
                make(tree, word);
}

static const char *versioned(struct tree *tree, const char *word)
{
        const char *slash = strrchr(word, '/');

        return slash ? arena_printf(&tree->arena, "/usr/lib64/%s.so." T4_VERSION, word)
                     : arena_printf(&tree->arena, "/usr/lib64/lib%s.so." T4_VERSION, word);
}

static void make_versioned(struct tree *tree, const char *word)
{
        tree_file(tree, arena_printf(&tree->arena, "/driver%s", versioned(tree, word)));
}

static void make_other(struct tree *tree, const char *word)
{
        tree_file(tree, arena_printf(&tree->arena, "/driver/usr/lib64/%s", word));
}

static void make_program(struct tree *tree, const char *word)
{
        tree_file(tree, arena_printf(&tree->arena, "/driver/usr/bin/%s", word));
}

static void make_node(struct tree *tree, const char *word)
{
        tree_node(tree, arena_printf(&tree->arena, "/system%s", word), 0666, 0);
}

static bool is_mounted(struct tree *tree, const char *host, const char *container)
{
        json_t *edits = tree_edits(tree, "gpu", NULL);
        const json_t *mount;
        bool found = false;
        size_t i;

        json_array_foreach(json_object_get(edits, "mounts"), i, mount) found |=
                strcmp(json_string_value(json_object_get(mount, "hostPath")), host) == 0 &&
                strcmp(json_string_value(json_object_get(mount, "containerPath")), container) == 0;
        json_decref(edits);
        return found;
}

static void expect_mounted(struct tree *tree, const char *path)
{
        if (!is_mounted(tree, path, path))
                fail_msg("'%s' is not mounted", path);
}

static void expect_versioned(struct tree *tree, const char *word)
{
        expect_mounted(tree, versioned(tree, word));
}

static void expect_other(struct tree *tree, const char *word)
{
        expect_mounted(tree, arena_printf(&tree->arena, "/usr/lib64/%s", word));
}

static void expect_program(struct tree *tree, const char *word)
{
        expect_mounted(tree, arena_printf(&tree->arena, "/usr/bin/%s", word));
}

static const struct {
        const char *recorded; /* in the line of the files */
        const char *host;
        const char *container; /* NULL: the same */
} t4_files[] = {
        {"gsp_ga10x.bin", "/lib/firmware/nvidia/" T4_VERSION "/gsp_ga10x.bin", NULL},
        {"gsp_tu10x.bin", "/lib/firmware/nvidia/" T4_VERSION "/gsp_tu10x.bin", NULL},
        {"/etc/OpenCL/vendors/nvidia.icd", "/etc/OpenCL/vendors/nvidia.icd", NULL},
        {"/usr/share/nvidia/nvoptix.bin", "/usr/share/nvidia/nvoptix.bin", NULL},
        {"/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json -> /etc/vulkan/icd.d",
                "/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json", "/etc/vulkan/icd.d/nvidia_icd.x86_64.json"},
        {"implicit_layer.d/nvidia_layers.json", "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json",
                "/etc/vulkan/implicit_layer.d/nvidia_layers.json"},
        {"09_nvidia_wayland2.json", "/usr/share/egl/egl_external_platform.d/09_nvidia_wayland2.json", NULL},
        {"15_nvidia_gbm.json", "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json", NULL},
        {"20_nvidia_xcb.json", "/usr/share/egl/egl_external_platform.d/20_nvidia_xcb.json", NULL},
        {"20_nvidia_xlib.json", "/usr/share/egl/egl_external_platform.d/20_nvidia_xlib.json", NULL},
        {"glvnd/egl_vendor.d/10_nvidia.json", "/usr/share/glvnd/egl_vendor.d/10_nvidia.json", NULL},
};

/* The host of the recording, as far as it says. */
static void make_t4(struct tree *tree, const struct strbuf *text)
{
        static const char bus[] = "0000:00:04.0";

        assert_non_null(strstr(text->data, "Tesla T4 at 0000:00:04.0, driver " T4_VERSION));
        tree->inventory.driver_version = T4_VERSION;
        tree_gpus(tree, 1);
        tree->inventory.gpus[0].bus = bus;
        assert_int_equal(unlink(tree_path(tree, "/system/dev/nvidiactl")), 0);
        assert_int_equal(unlink(tree_path(tree, "/system/dev/nvidia-uvm")), 0);
        each_word(tree, line_of(tree, text, "nodes of every container: "), "(", make_node);
        assert_non_null(strstr(text->data, "/dev/dri/card0 (mode 0660, gid 39 -> additionalGids [39])"));
        assert_non_null(strstr(text->data, "/dev/dri/renderD128 (gid 105, mode 0666, no additional gid)"));
        tree_node(tree, "/system/dev/dri/card0", 0660, 39);
        tree_node(tree, "/system/dev/dri/renderD128", 0666, 105);
        tree_file(tree, arena_printf(&tree->arena, "/system/sys/bus/pci/devices/%s/drm/card0/dev", bus));
        tree_file(tree, arena_printf(&tree->arena, "/system/sys/bus/pci/devices/%s/drm/renderD128/dev", bus));
        each_word(tree, line_of(tree, text, "libraries /usr/lib64, *.so." T4_VERSION ": "), "\n", make_versioned);
        each_word(tree, line_of(tree, text, "libraries of other versions there: "), "\n", make_other);
        each_word(tree, line_of(tree, text, "programs: "), "\n", make_program);
        for (size_t i = 0; i < ARRAY_SIZE(t4_files); i++) {
                assert_non_null(strstr(line_of(tree, text, "files: "), t4_files[i].recorded));
                tree_file(tree, arena_printf(&tree->arena, "/driver%s", t4_files[i].host));
        }
}

/* The hooks' names and arguments, a line each. */
static const char *hooks_of(struct tree *tree, const char *device)
{
        json_t *edits = tree_edits(tree, "gpu", device);
        const char *lines = "";
        json_t *hook, *arg;
        size_t i, j;

        json_array_foreach(json_object_get(edits, "hooks"), i, hook)
        {
                json_array_foreach(json_object_get(hook, "args"), j, arg)
                {
                        if (j)
                                lines = arena_printf(
                                        &tree->arena, "%s%s%s", lines, j > 1 ? " " : "", json_string_value(arg));
                }
                lines = arena_printf(&tree->arena, "%s\n", lines);
        }
        json_decref(edits);
        return lines;
}

static void test_the_host_of_the_recording_is_written_as_nvidias_toolkit_wrote_it(void **state)
{
        struct tree *tree = *state;
        struct strbuf text = read_recorded("cdi-rocky9-t4-615-toolkit1.20.0.txt");
        const char *links, *hooks;
        json_t *edits;
        size_t n_files = 0;

        make_t4(tree, &text);
        assert_ok(tree_publish(tree), &tree->err);
        assert_string_equal(tree->warnings.data, "");

        assert_string_equal(tree_nodes(tree, "gpu", "GPU-0"), "/dev/nvidia0 /dev/dri/card0 /dev/dri/renderD128");
        assert_string_equal(tree_nodes(tree, "gpu", NULL), "/dev/nvidia-uvm /dev/nvidia-uvm-tools /dev/nvidiactl");
        edits = tree_edits(tree, "gpu", "GPU-0");
        assert_int_equal(json_array_size(json_object_get(edits, "additionalGids")), 1);
        assert_int_equal(json_integer_value(json_array_get(json_object_get(edits, "additionalGids"), 0)), 39);
        json_decref(edits);
        links = line_of(tree, &text, "links per GPU: ");
        assert_string_equal(links, "../card0::/dev/dri/by-path/pci-0000:00:04.0-card, "
                                   "../renderD128::/dev/dri/by-path/pci-0000:00:04.0-render");
        assert_string_equal(hooks_of(tree, "GPU-0"),
                "create-symlinks --link ../card0::/dev/dri/by-path/pci-0000:00:04.0-card "
                "--link ../renderD128::/dev/dri/by-path/pci-0000:00:04.0-render\n");

        /* Each hook of the recording in its order; only the links of libraries stand nowhere in it. */
        hooks = hooks_of(tree, NULL);
        for (char *state_ = NULL, *hook = strtok_r(line_of(tree, &text, "hooks: "), ",", &state_); hook;
                hook = strtok_r(NULL, ",", &state_)) {
                hooks = strstr(hooks, hook + strspn(hook, " "));
                assert_non_null(hooks);
        }
        edits = tree_edits(tree, "gpu", NULL);
        assert_string_equal(json_string_value(json_array_get(json_object_get(edits, "env"), 0)),
                "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64");
        assert_string_equal(
                json_string_value(json_array_get(json_object_get(edits, "env"), 1)), line_of(tree, &text, "env: "));
        n_files = json_array_size(json_object_get(edits, "mounts"));
        json_decref(edits);

        each_word(tree, line_of(tree, &text, "libraries /usr/lib64, *.so." T4_VERSION ": "), "\n", expect_versioned);
        each_word(tree, line_of(tree, &text, "libraries of other versions there: "), "\n", expect_other);
        each_word(tree, line_of(tree, &text, "programs: "), "\n", expect_program);
        for (size_t i = 0; i < ARRAY_SIZE(t4_files); i++)
                assert_true(is_mounted(
                        tree, t4_files[i].host, t4_files[i].container ? t4_files[i].container : t4_files[i].host));
        assert_int_equal(n_files, 33 + 6 + 5 + ARRAY_SIZE(t4_files));
        strbuf_done(&text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                TREE_TEST(test_patterns_in_the_lists_of_tegra_stand_for_the_nodes_that_are_there),
                TREE_TEST(test_a_driver_is_found_where_talos_has_it),
                TREE_TEST(test_a_driver_is_found_where_nixos_has_it),
                TREE_TEST(test_a_driver_is_found_where_bottlerocket_has_it),
                TREE_TEST(test_a_driver_is_found_below_a_root_of_its_own),
                TREE_TEST(test_the_store_of_wsl_has_the_files_of_the_recording),
                TREE_TEST(test_the_host_of_the_recording_is_written_as_nvidias_toolkit_wrote_it),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
