// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include <deviceplugin.pb-c.h>

#include "node/kubelet/convert.h"

static void test_an_allocate_request_becomes_lists_of_ids(void **state UNUSED)
{
        /* Two containers: {"a", "bc"} and {}. */
        static const uint8_t bytes[] = {0x0a, 0x07, 0x0a, 0x01, 'a', 0x0a, 0x02, 'b', 'c', 0x0a, 0x00};
        struct arena arena = ARENA_INIT;
        struct container_ids *containers;
        struct error err;
        size_t count;

        assert_ok(convert_allocate_request(&containers, &count, &arena, bytes, sizeof(bytes), &err), &err);
        assert_int_equal(count, 2);
        assert_int_equal(containers[0].n_ids, 2);
        assert_string_equal(containers[0].ids[0], "a");
        assert_string_equal(containers[0].ids[1], "bc");
        assert_int_equal(containers[1].n_ids, 0);
        arena_done(&arena);
}

static void test_a_preference_request_keeps_its_three_parts(void **state UNUSED)
{
        /* available "a", "b"; required "b"; size 2. */
        static const uint8_t bytes[] = {0x0a, 0x0b, 0x0a, 0x01, 'a', 0x0a, 0x01, 'b', 0x12, 0x01, 'b', 0x18, 0x02};
        struct arena arena = ARENA_INIT;
        struct prefer_request *requests;
        struct error err;
        size_t count;

        assert_ok(convert_prefer_request(&requests, &count, &arena, bytes, sizeof(bytes), &err), &err);
        assert_int_equal(count, 1);
        assert_int_equal(requests[0].n_available, 2);
        assert_string_equal(requests[0].available[1], "b");
        assert_int_equal(requests[0].n_required, 1);
        assert_string_equal(requests[0].required[0], "b");
        assert_int_equal(requests[0].size, 2);
        arena_done(&arena);
}

static void test_a_negative_size_is_refused(void **state UNUSED)
{
        static const uint8_t bytes[] = {0x0a, 0x0b, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
        struct arena arena = ARENA_INIT;
        struct prefer_request *requests;
        struct error err;
        size_t count;

        assert_fails(convert_prefer_request(&requests, &count, &arena, bytes, sizeof(bytes), &err), &err, ERROR_INVALID,
                "allocation_size: -1, must not be negative");
        arena_done(&arena);
}

/* A message cut anywhere inside a field is refused, never read beyond. */
static void test_a_truncated_message_is_refused(void **state UNUSED)
{
        static const uint8_t bytes[] = {0x0a, 0x07, 0x0a, 0x01, 'a', 0x0a, 0x02, 'b', 'c'};

        for (size_t size = 1; size < sizeof(bytes); size++) {
                uint8_t *exact = malloc(size); /* so that a sanitizer sees one byte too far */
                struct arena arena = ARENA_INIT;
                struct container_ids *containers;
                struct error err;
                size_t count;

                memcpy(exact, bytes, size);
                assert_int_equal(convert_allocate_request(&containers, &count, &arena, exact, size, &err), -1);
                assert_int_equal(err.kind, ERROR_INVALID);
                arena_done(&arena);
                free(exact);
        }
}

static void test_two_million_empty_ids_do_not_take_more_memory_than_the_cap(void **state UNUSED)
{
        size_t size = 4000000;
        uint8_t *bytes = malloc(size + 5);
        struct arena arena = ARENA_INIT;
        struct container_ids *containers;
        struct error err;
        size_t count;

        bytes[0] = 0x0a; /* one container of 4,000,000 bytes */
        bytes[1] = 0x80 | (size & 0x7f);
        bytes[2] = 0x80 | (size >> 7 & 0x7f);
        bytes[3] = 0x80 | (size >> 14 & 0x7f);
        bytes[4] = (uint8_t)(size >> 21);
        for (size_t i = 0; i < size; i += 2) {
                bytes[5 + i] = 0x0a;
                bytes[6 + i] = 0x00;
        }
        assert_fails(convert_allocate_request(&containers, &count, &arena, bytes, size + 5, &err), &err, ERROR_INVALID,
                "AllocateRequest of 4000005 bytes: cannot be decoded within 16777216 bytes of memory");
        assert_in_range(arena_footprint(&arena), 0, CONVERT_MEMORY_LIMIT + 65536);
        arena_done(&arena);
        free(bytes);
}

/* Two bytes ask for one container, and each is worked on in memory of the size of the device list. */
static void test_more_containers_than_kubelet_ever_asks_for_are_refused(void **state UNUSED)
{
        uint8_t bytes[2 * (CONVERT_MAX_CONTAINERS + 1)];
        struct arena arena = ARENA_INIT;
        struct container_ids *containers;
        struct prefer_request *requests;
        struct error err;
        size_t count;

        for (size_t i = 0; i < sizeof(bytes); i += 2) {
                bytes[i] = 0x0a;
                bytes[i + 1] = 0;
        }
        assert_ok(convert_allocate_request(&containers, &count, &arena, bytes, sizeof(bytes) - 2, &err), &err);
        assert_int_equal(count, CONVERT_MAX_CONTAINERS);
        assert_fails(convert_allocate_request(&containers, &count, &arena, bytes, sizeof(bytes), &err), &err,
                ERROR_INVALID, "65 containers in one request, at most 64");
        assert_fails(convert_prefer_request(&requests, &count, &arena, bytes, sizeof(bytes), &err), &err, ERROR_INVALID,
                "65 containers in one request, at most 64");
        arena_done(&arena);
}

static void test_ten_thousand_ids_fit(void **state UNUSED)
{
        V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
        V1beta1__ContainerAllocateRequest container = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
        V1beta1__ContainerAllocateRequest *of[] = {&container};
        struct arena arena = ARENA_INIT;
        struct container_ids *containers;
        struct error err;
        uint8_t *bytes;
        size_t count;
        size_t size;

        container.n_devices_ids = 10000;
        container.devices_ids = ARENA_ARRAY(&arena, char *, 10000);
        for (int i = 0; i < 10000; i++)
                container.devices_ids[i] = arena_printf(&arena, "GPU-12345678-1234-1234-1234-123456780001::%d", i);
        request.n_container_requests = 1;
        request.container_requests = of;
        size = protobuf_c_message_get_packed_size(&request.base);
        bytes = malloc(size);
        protobuf_c_message_pack(&request.base, bytes);
        assert_ok(convert_allocate_request(&containers, &count, &arena, bytes, size, &err), &err);
        assert_int_equal(containers[0].n_ids, 10000);
        assert_string_equal(containers[0].ids[9999], "GPU-12345678-1234-1234-1234-123456780001::9999");
        free(bytes);
        arena_done(&arena);
}

/* Every field has a value of its own, so that none can stand for another. */
static void test_an_allocation_becomes_kubelets_message(void **state UNUSED)
{
        struct allocate_pair environment[] = {{"NVIDIA_VISIBLE_DEVICES", "GPU-0"}, {"X", "1"}};
        struct allocate_pair annotations[] = {{"cdi.k8s.io/a", "vendor/gpu=0,vendor/gpu=1"}, {"cdi.k8s.io/b", "c"}};
        struct allocate_mount mounts[] = {{"/dev/shm", "/run/nvidia/mps/shm", false}, {"/in", "/out", true}};
        struct allocate_node nodes[] = {
                {"/dev/nvidiactl", "/driver/dev/nvidiactl", "rw"}, {"/dev/nvidia0", "/driver/dev/nvidia0", "r"}};
        const char *cdi_devices[] = {"vendor/gpu=0", "vendor/gpu=1", "vendor/gds=all"};
        struct allocate_answer answer = {
                .environment = environment,
                .n_environment = 2,
                .annotations = annotations,
                .n_annotations = 2,
                .mounts = mounts,
                .n_mounts = 2,
                .nodes = nodes,
                .n_nodes = 2,
                .cdi_devices = cdi_devices,
                .n_cdi_devices = 3,
        };
        struct arena arena = ARENA_INIT;
        struct rpc_message *message = convert_allocate_response(&answer, 1, &arena);
        V1beta1__AllocateResponse *response =
                v1beta1__allocate_response__unpack(NULL, message->size - RPC_PREFIX_SIZE, rpc_message_payload(message));
        const V1beta1__ContainerAllocateResponse *container = response->container_responses[0];

        assert_int_equal(response->n_container_responses, 1);
        assert_int_equal(container->n_envs, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_string_equal(container->envs[i]->key, environment[i].name);
                assert_string_equal(container->envs[i]->value, environment[i].value);
        }
        assert_int_equal(container->n_mounts, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_string_equal(container->mounts[i]->container_path, mounts[i].container_path);
                assert_string_equal(container->mounts[i]->host_path, mounts[i].host_path);
                assert_int_equal(container->mounts[i]->read_only, mounts[i].read_only);
        }
        assert_int_equal(container->n_devices, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_string_equal(container->devices[i]->container_path, nodes[i].container_path);
                assert_string_equal(container->devices[i]->host_path, nodes[i].host_path);
                assert_string_equal(container->devices[i]->permissions, nodes[i].permissions);
        }
        assert_int_equal(container->n_annotations, 2);
        for (size_t i = 0; i < 2; i++) {
                assert_string_equal(container->annotations[i]->key, annotations[i].name);
                assert_string_equal(container->annotations[i]->value, annotations[i].value);
        }
        assert_int_equal(container->n_cdi_devices, 3);
        for (size_t i = 0; i < 3; i++)
                assert_string_equal(container->cdi_devices[i]->name, cdi_devices[i]);
        v1beta1__allocate_response__free_unpacked(response, NULL);
        rpc_message_unref(message);
        arena_done(&arena);
}

/* The numbers of the fields, which a decoder made from the same .proto cannot check. */
static void test_an_allocation_has_kubelets_field_numbers(void **state UNUSED)
{
        static const uint8_t expected[] = {
                0x0a, 42,                                          /* the container */
                0x0a, 6, 0x0a, 1, 'k', 0x12, 1, 'v',               /* envs */
                0x12, 8, 0x0a, 1, 'c', 0x12, 1, 'h', 0x18, 1,      /* mounts */
                0x1a, 9, 0x0a, 1, 'd', 0x12, 1, 'e', 0x1a, 1, 'p', /* devices */
                0x22, 6, 0x0a, 1, 'a', 0x12, 1, 'b',               /* annotations */
                0x2a, 3, 0x0a, 1, 'n',                             /* cdi_devices */
        };
        struct allocate_pair environment = {"k", "v"};
        struct allocate_pair annotation = {"a", "b"};
        struct allocate_mount mount = {"c", "h", true};
        struct allocate_node node = {"d", "e", "p"};
        const char *cdi_device = "n";
        struct allocate_answer answer = {
                .environment = &environment,
                .n_environment = 1,
                .annotations = &annotation,
                .n_annotations = 1,
                .mounts = &mount,
                .n_mounts = 1,
                .nodes = &node,
                .n_nodes = 1,
                .cdi_devices = &cdi_device,
                .n_cdi_devices = 1,
        };
        struct arena arena = ARENA_INIT;
        struct rpc_message *message = convert_allocate_response(&answer, 1, &arena);

        assert_int_equal(message->size - RPC_PREFIX_SIZE, sizeof(expected));
        assert_memory_equal(rpc_message_payload(message), expected, sizeof(expected));
        rpc_message_unref(message);
        arena_done(&arena);
}

static void check_registration(bool asks_at_start)
{
        struct rpc_message *message = convert_register_request("warpshare-gpu-1.sock", "nvidia.com/gpu", asks_at_start);
        V1beta1__RegisterRequest *request =
                v1beta1__register_request__unpack(NULL, message->size - RPC_PREFIX_SIZE, rpc_message_payload(message));

        assert_string_equal(request->version, "v1beta1");
        assert_string_equal(request->endpoint, "warpshare-gpu-1.sock");
        assert_string_equal(request->resource_name, "nvidia.com/gpu");
        assert_true(request->options->get_preferred_allocation_available);
        assert_int_equal(request->options->pre_start_required, asks_at_start);
        v1beta1__register_request__free_unpacked(request, NULL);
        rpc_message_unref(message);
}

static void test_a_registration_names_version_socket_and_resource(void **state UNUSED)
{
        check_registration(false);
        check_registration(true);
}

static void test_an_answer_of_kubelets_record_names_allocation_and_unit(void **state UNUSED)
{
        static const struct {
                const char *base64;
                const char *allocation;
                const char *texts;
        } rows[] = {
                {"ChUKD1dBUlBTSEFSRV9HUkFOVBICZzEKHwoWTlZJRElBX1ZJU0lCTEVfREVWSUNFUxIFR1BVLTE=", "g1", "g1\nGPU-1\n"},
                {"", NULL, ""},       /* of a plugin that has nothing to say */
                {"!!!!", NULL, NULL}, /* no base64 */
                {"AAAA", NULL, NULL}, /* no message */
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct arena arena = ARENA_INIT;
                const char *allocation = NULL;
                const char *texts = NULL;

                convert_read_answer(rows[i].base64, &arena, &allocation, &texts);
                assert_int_equal(!allocation, !rows[i].allocation);
                assert_int_equal(!texts, !rows[i].texts);
                if (allocation)
                        assert_string_equal(allocation, rows[i].allocation);
                if (texts)
                        assert_string_equal(texts, rows[i].texts);
                arena_done(&arena);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_allocate_request_becomes_lists_of_ids),
                cmocka_unit_test(test_a_preference_request_keeps_its_three_parts),
                cmocka_unit_test(test_a_negative_size_is_refused),
                cmocka_unit_test(test_a_truncated_message_is_refused),
                cmocka_unit_test(test_two_million_empty_ids_do_not_take_more_memory_than_the_cap),
                cmocka_unit_test(test_more_containers_than_kubelet_ever_asks_for_are_refused),
                cmocka_unit_test(test_ten_thousand_ids_fit),
                cmocka_unit_test(test_an_allocation_becomes_kubelets_message),
                cmocka_unit_test(test_an_allocation_has_kubelets_field_numbers),
                cmocka_unit_test(test_a_registration_names_version_socket_and_resource),
                cmocka_unit_test(test_an_answer_of_kubelets_record_names_allocation_and_unit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
