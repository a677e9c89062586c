// SPDX-License-Identifier: Apache-2.0
/*
 * The container runtime stand-in: what a container has of kubelet's options, the pod's own variables and CDI devices.
 */
#include "unit.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sim/runtime/container.h"

/* Options of two variables, one mount, and of CDI devices that a test names. */
struct fixture {
        char folder[64];
        V1beta1__ContainerAllocateResponse options;
        V1beta1__ContainerAllocateResponse__EnvsEntry envs[2];
        V1beta1__ContainerAllocateResponse__EnvsEntry *env_list[2];
        V1beta1__Mount mount;
        V1beta1__Mount *mount_list[1];
        V1beta1__CDIDevice devices[2];
        V1beta1__CDIDevice *device_list[2];
        struct container container;
        struct error err;
};

/* protobuf-c's structs have char * where they only read. */
static char *borrow(const char *text)
{
        return (char *)(uintptr_t)text;
}

static void write_spec(struct fixture *f, const char *name, const char *text)
{
        _free_ char *path = xasprintf("%s/%s", f->folder, name);

        assert_ok(file_write(path, text, strlen(text), &f->err), &f->err);
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));

        strcpy(f->folder, "/tmp/warpshare-sim-runtime-XXXXXX");
        if (!mkdtemp(f->folder))
                return -1;
        v1beta1__container_allocate_response__init(&f->options);
        for (size_t i = 0; i < 2; i++) {
                v1beta1__container_allocate_response__envs_entry__init(&f->envs[i]);
                v1beta1__cdidevice__init(&f->devices[i]);
                f->env_list[i] = &f->envs[i];
                f->device_list[i] = &f->devices[i];
        }
        v1beta1__mount__init(&f->mount);
        f->mount_list[0] = &f->mount;
        f->envs[0].key = borrow("PIPE");
        f->envs[0].value = borrow("/mps/pipe");
        f->envs[1].key = borrow("LIMIT");
        f->envs[1].value = borrow("5");
        f->mount.container_path = borrow("/mps/pipe");
        f->mount.host_path = f->folder;
        f->options.envs = f->env_list;
        f->options.n_envs = 2;
        f->options.mounts = f->mount_list;
        f->options.n_mounts = 1;
        f->options.cdi_devices = f->device_list;
        write_spec(f, "gpu.json",
                "{\"kind\": \"a.b/gpu\", \"containerEdits\": {\"env\": [\"ALL=1\"]}, \"devices\": ["
                "{\"name\": \"0\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/nvidia0\", \"hostPath\": \"/dev/null\"}]}},"
                "{\"name\": \"1\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/null\"}],"
                " \"mounts\": [{\"containerPath\": \"/lib/x.so\", \"hostPath\": \"/dev\"}]}},"
                "{\"name\": \"gone\", \"containerEdits\": {\"deviceNodes\": [{\"path\": \"/dev/nvidia9\", \"hostPath\": \"/nonexistent\"}]}}]}");
        write_spec(f, "mps.json",
                "{\"kind\": \"a.b/mps\", \"devices\": [{\"name\": \"g1\", \"containerEdits\": {\"env\": [\"LIMIT=0=5M,1=6M\"]}}]}");
        *state = f;
        return 0;
}

static int remove_entry(const char *path, const struct stat *status UNUSED, int type UNUSED, struct FTW *level UNUSED)
{
        return remove(path);
}

static int tear_down(void **state)
{
        struct fixture *f = *state;

        container_done(&f->container);
        assert_int_equal(nftw(f->folder, remove_entry, 4, FTW_DEPTH | FTW_PHYS), 0);
        free(f);
        return 0;
}

static int make(struct fixture *f, const char *const *own, const char *first, const char *second, struct error *err)
{
        f->devices[0].name = borrow(first);
        f->devices[1].name = borrow(second);
        f->options.n_cdi_devices = first ? second ? 2 : 1 : 0;
        return container_make(&f->container, &f->options, own, f->folder, err);
}

static void assert_text(const json_t *object, const char *key, const char *expected)
{
        assert_non_null(json_object_get(object, key));
        assert_string_equal(json_string_value(json_object_get(object, key)), expected);
}

static void test_the_pods_variables_count_over_kubelets(void **state)
{
        struct fixture *f = *state;

        assert_ok(make(f, (const char *const[]){"LIMIT=7=8", "MORE=", NULL}, NULL, NULL, &f->err), &f->err);
        assert_string_equal(container_variable(&f->container, "PIPE"), "/mps/pipe");
        assert_string_equal(container_variable(&f->container, "LIMIT"), "7=8");
        assert_text(f->container.variables, "MORE", "");
        assert_int_equal(json_object_size(f->container.variables), 3);
        assert_text(f->container.mounts, "/mps/pipe", f->folder);
}

static void test_the_edits_of_cdi_devices_count_over_both(void **state)
{
        struct fixture *f = *state;

        assert_ok(make(f, (const char *const[]){"LIMIT=7", NULL}, "a.b/mps=g1", NULL, &f->err), &f->err);
        assert_string_equal(container_variable(&f->container, "LIMIT"), "0=5M,1=6M");
        assert_string_equal(container_variable(&f->container, "ALL"), "");
}

static void test_a_container_has_what_all_its_cdi_devices_have_and_what_their_file_has_for_all(void **state)
{
        struct fixture *f = *state;

        assert_ok(make(f, NULL, "a.b/gpu=0", "a.b/gpu=1", &f->err), &f->err);
        assert_int_equal(json_object_size(f->container.nodes), 2);
        assert_text(f->container.nodes, "/dev/nvidia0", "/dev/null");
        assert_text(f->container.nodes, "/dev/null", "/dev/null");
        assert_text(f->container.mounts, "/lib/x.so", "/dev");
        assert_string_equal(container_variable(&f->container, "ALL"), "1");
}

static void test_annotations_name_cdi_devices_too(void **state)
{
        struct fixture *f = *state;
        V1beta1__ContainerAllocateResponse__AnnotationsEntry entries[] = {
                V1BETA1__CONTAINER_ALLOCATE_RESPONSE__ANNOTATIONS_ENTRY__INIT,
                V1BETA1__CONTAINER_ALLOCATE_RESPONSE__ANNOTATIONS_ENTRY__INIT};
        V1beta1__ContainerAllocateResponse__AnnotationsEntry *list[] = {&entries[0], &entries[1]};

        entries[0].key = borrow("cdi.k8s.io/nvidia-device-plugin_1");
        entries[0].value = borrow("a.b/gpu=0,a.b/mps=g1");
        entries[1].key = borrow("example.com/note");
        entries[1].value = borrow("a.b/gpu=1");
        f->options.annotations = list;
        f->options.n_annotations = 2;
        assert_ok(make(f, NULL, NULL, NULL, &f->err), &f->err);
        assert_int_equal(json_object_size(f->container.nodes), 1);
        assert_string_equal(container_variable(&f->container, "LIMIT"), "0=5M,1=6M");
}

static void test_a_container_is_not_made_of_which_something_is_not_there(void **state)
{
        struct fixture *f = *state;

        assert_fails(make(f, NULL, "a.b/gpu=0", "a.b/gpu=7", &f->err), &f->err, ERROR_NOT_FOUND,
                "unresolvable CDI devices a.b/gpu=7");
        assert_fails(make(f, NULL, "a.b/gpu=gone", NULL, &f->err), &f->err, ERROR_NOT_FOUND,
                "/dev/nvidia9: '/nonexistent' is no device node of the node");
        f->mount.host_path = borrow("/nonexistent");
        assert_fails(make(f, NULL, "a.b/gpu=0", NULL, &f->err), &f->err, ERROR_NOT_FOUND,
                "/mps/pipe: '/nonexistent', which is to be mounted there, is not there");
}

static void test_a_device_that_two_files_have_is_none(void **state)
{
        struct fixture *f = *state;

        write_spec(
                f, "other.json", "{\"kind\": \"a.b/gpu\", \"devices\": [{\"name\": \"0\", \"containerEdits\": {}}]}");
        assert_fails(make(f, NULL, "a.b/gpu=0", NULL, &f->err), &f->err, ERROR_NOT_FOUND,
                "unresolvable CDI devices a.b/gpu=0");
        assert_ok(make(f, NULL, "a.b/gpu=1", NULL, &f->err), &f->err);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_pods_variables_count_over_kubelets, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_the_edits_of_cdi_devices_count_over_both, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_container_has_what_all_its_cdi_devices_have_and_what_their_file_has_for_all, set_up,
                        tear_down),
                cmocka_unit_test_setup_teardown(test_annotations_name_cdi_devices_too, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_container_is_not_made_of_which_something_is_not_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_device_that_two_files_have_is_none, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
