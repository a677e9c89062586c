// SPDX-License-Identifier: Apache-2.0
/*
 * The kubelet stand-in, with two plugins that say what a test wants: what a container gets that asks for devices of
 * both.
 */
#include "unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/file.h"
#include "base/io/loop.h"
#include "net/rpc/client.h"
#include "net/rpc/server.h"
#include "plan/checkpoint.h"
#include "sim/kubelet/kubelet.h"

#define PATIENCE_MS 30000
#define DEVICES 8

struct fixture;

struct plugin {
        struct fixture *f;
        struct rpc_server *server;
        struct rpc_client *client; /* to kubelet, for the registration */
        const char *resource;
        char letter; /* what its devices begin with, and what it says of everything */
        bool wants_start;
        const char *refuses_allocation; /* NULL: it does not */
        const char *refuses_start;
        char started[64];  /* the ids that it was told of, one blank before each */
        char record[4096]; /* kubelet's, as it was then */
};

struct fixture {
        uv_loop_t loop;
        char folder[64];
        struct kubelet *kubelet;
        struct plugin plugins[2];
        size_t n_closed;
        bool is_answered;
        char error[256];       /* empty: it started */
        char environment[128]; /* what it has, one blank before each */
        char paths[128];
        char cdi[128];
};

/* ---- a plugin ---- */

static void answer(struct rpc_call *call, const ProtobufCMessage *source)
{
        struct rpc_message *message = rpc_message_new(protobuf_c_message_get_packed_size(source));

        protobuf_c_message_pack(source, rpc_message_payload(message));
        rpc_call_send(call, message);
        rpc_message_unref(message);
}

static void handle_options(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

        options.pre_start_required = ((struct plugin *)context)->wants_start;
        answer(call, &options.base);
        rpc_call_finish(call, RPC_OK, NULL);
}

/* The stream stays open. */
static void handle_list(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        V1beta1__ListAndWatchResponse response = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
        V1beta1__Device devices[DEVICES];
        V1beta1__Device *list[DEVICES];
        char ids[DEVICES][8];
        char healthy[] = "Healthy";

        for (int i = 0; i < DEVICES; i++) {
                snprintf(ids[i], sizeof(ids[i]), "%c%d", ((struct plugin *)context)->letter, i);
                v1beta1__device__init(&devices[i]);
                devices[i].id = ids[i];
                devices[i].health = healthy;
                list[i] = &devices[i];
        }
        response.devices = list;
        response.n_devices = DEVICES;
        answer(call, &response.base);
}

/* For everything that has a key, an entry that both plugins have with another value, and one of its own. */
static void handle_allocate(struct rpc_call *call, const uint8_t *message UNUSED, size_t size UNUSED, void *context)
{
        const struct plugin *plugin = context;
        V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
        V1beta1__ContainerAllocateResponse container = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
        V1beta1__ContainerAllocateResponse *containers[] = {&container};
        V1beta1__ContainerAllocateResponse__EnvsEntry envs[2];
        V1beta1__ContainerAllocateResponse__EnvsEntry *env_list[] = {&envs[0], &envs[1]};
        V1beta1__Mount mounts[2];
        V1beta1__Mount *mount_list[] = {&mounts[0], &mounts[1]};
        V1beta1__CDIDevice devices[2];
        V1beta1__CDIDevice *device_list[] = {&devices[0], &devices[1]};
        char shared[] = "shared";
        char own[] = {plugin->letter, '\0'};

        for (size_t i = 0; i < 2; i++) {
                char *key = i ? own : shared;

                v1beta1__container_allocate_response__envs_entry__init(&envs[i]);
                v1beta1__mount__init(&mounts[i]);
                v1beta1__cdidevice__init(&devices[i]);
                envs[i].key = mounts[i].container_path = devices[i].name = key;
                envs[i].value = mounts[i].host_path = own;
        }
        container.envs = env_list;
        container.mounts = mount_list;
        container.cdi_devices = device_list;
        container.n_envs = container.n_mounts = container.n_cdi_devices = 2;
        response.container_responses = containers;
        response.n_container_responses = 1;
        if (!plugin->refuses_allocation)
                answer(call, &response.base);
        rpc_call_finish(call, plugin->refuses_allocation ? RPC_UNKNOWN : RPC_OK, plugin->refuses_allocation);
}

static void handle_start(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct plugin *plugin = context;
        V1beta1__PreStartContainerRequest *request = v1beta1__pre_start_container_request__unpack(NULL, size, message);
        V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;
        _free_ char *path = xasprintf("%s/" CHECKPOINT_NAME, plugin->f->folder);
        struct strbuf record = STRBUF_INIT;
        struct error err;

        assert_non_null(request);
        for (size_t i = 0; i < request->n_devices_ids; i++) {
                strcat(plugin->started, " ");
                strcat(plugin->started, request->devices_ids[i]);
        }
        v1beta1__pre_start_container_request__free_unpacked(request, NULL);
        assert_ok(file_read(path, sizeof(plugin->record) - 1, &record, &err), &err);
        strcpy(plugin->record, record.data);
        strbuf_done(&record);
        if (!plugin->refuses_start)
                answer(call, &response.base);
        rpc_call_finish(call, plugin->refuses_start ? RPC_UNAVAILABLE : RPC_OK, plugin->refuses_start);
}

static const struct rpc_method methods[] = {
        {"/v1beta1.DevicePlugin/GetDevicePluginOptions", handle_options},
        {"/v1beta1.DevicePlugin/ListAndWatch", handle_list},
        {"/v1beta1.DevicePlugin/Allocate", handle_allocate},
        {"/v1beta1.DevicePlugin/PreStartContainer", handle_start},
};

static void on_registered(
        struct rpc_call *call UNUSED, enum rpc_status status, const char *text UNUSED, void *data UNUSED)
{
        assert_int_equal(status, RPC_OK);
}

static void start_plugin(struct plugin *plugin)
{
        static const struct rpc_handlers handlers = {.ended = on_registered};
        const struct rpc_server_options options = {
                .service = {.methods = methods, .n_methods = ARRAY_SIZE(methods), .context = plugin}};
        V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
        _free_ char *endpoint = xasprintf("%c.sock", plugin->letter);
        _free_ char *path = xasprintf("%s/%s", plugin->f->folder, endpoint);
        _free_ char *kubelet = xasprintf("%s/kubelet.sock", plugin->f->folder);
        _free_ char *resource = xstrdup(plugin->resource);
        char version[] = "v1beta1";
        struct rpc_message *message;
        struct error err;

        assert_ok(rpc_server_new(&plugin->server, &plugin->f->loop, path, &options, &err), &err);
        assert_ok(rpc_client_new(&plugin->client, &plugin->f->loop, kubelet, &(struct rpc_client_options){0}, &err),
                &err);
        request.version = version;
        request.endpoint = endpoint;
        request.resource_name = resource;
        message = rpc_message_new(v1beta1__register_request__get_packed_size(&request));
        v1beta1__register_request__pack(&request, rpc_message_payload(message));
        rpc_client_call(plugin->client, NULL, "/v1beta1.Registration/Register", message, 0, &handlers, plugin);
        rpc_message_unref(message);
}

/* ---- the fixture ---- */

static bool both_are_allocatable(void *data)
{
        const struct fixture *f = data;

        return kubelet_allocatable(f->kubelet, f->plugins[0].resource) == DEVICES &&
               kubelet_allocatable(f->kubelet, f->plugins[1].resource) == DEVICES;
}

static int set_up(void **state)
{
        struct fixture *f = calloc(1, sizeof(*f));
        struct error err;

        strcpy(f->folder, "/tmp/warpshare-sim-kubelet-XXXXXX");
        if (!mkdtemp(f->folder))
                return -1;
        uv_loop_init(&f->loop);
        assert_ok(kubelet_new(&f->kubelet, &(struct kubelet_options){.loop = &f->loop, .directory = f->folder}, &err),
                &err);
        f->plugins[0] = (struct plugin){.f = f, .resource = "nvidia.com/gpu0", .letter = 'a', .wants_start = true};
        f->plugins[1] = (struct plugin){.f = f, .resource = "nvidia.com/gpu1", .letter = 'b', .wants_start = true};
        *state = f;
        return 0;
}

static void start_plugins(struct fixture *f)
{
        for (size_t i = 0; i < 2; i++)
                start_plugin(&f->plugins[i]);
        assert_true(loop_run_until(&f->loop, both_are_allocatable, f, PATIENCE_MS));
}

static void on_closed(void *data)
{
        ((struct fixture *)data)->n_closed++;
}

static bool all_are_closed(void *data)
{
        return ((struct fixture *)data)->n_closed == 3;
}

static int tear_down(void **state)
{
        struct fixture *f = *state;
        _free_ char *record = xasprintf("%s/" CHECKPOINT_NAME, f->folder);

        kubelet_close(f->kubelet, on_closed, f);
        for (size_t i = 0; i < 2; i++) {
                rpc_client_close(f->plugins[i].client);
                rpc_server_close(f->plugins[i].server, 0, on_closed, f);
        }
        assert_true(loop_run_until(&f->loop, all_are_closed, f, PATIENCE_MS));
        uv_run(&f->loop, UV_RUN_DEFAULT);
        assert_int_equal(uv_loop_close(&f->loop), 0);
        unlink(record);
        assert_int_equal(rmdir(f->folder), 0);
        free(f);
        return 0;
}

static void on_answer(const V1beta1__ContainerAllocateResponse *options, const char *error, void *data)
{
        struct fixture *f = data;

        f->is_answered = true;
        snprintf(f->error, sizeof(f->error), "%s", options ? "" : error);
        f->environment[0] = f->paths[0] = f->cdi[0] = '\0';
        for (size_t i = 0; options && i < options->n_envs; i++)
                sprintf(f->environment + strlen(f->environment), " %s=%s", options->envs[i]->key,
                        options->envs[i]->value);
        for (size_t i = 0; options && i < options->n_mounts; i++)
                sprintf(f->paths + strlen(f->paths), " %s=%s", options->mounts[i]->container_path,
                        options->mounts[i]->host_path);
        for (size_t i = 0; options && i < options->n_cdi_devices; i++)
                sprintf(f->cdi + strlen(f->cdi), " %s", options->cdi_devices[i]->name);
}

static bool is_answered(void *data)
{
        return ((struct fixture *)data)->is_answered;
}

static void run_pod(struct fixture *f, size_t of_first, size_t of_second)
{
        const struct kubelet_request requests[] = {
                {f->plugins[0].resource, of_first}, {f->plugins[1].resource, of_second}};

        f->is_answered = false;
        kubelet_run(f->kubelet, "pod", requests, ARRAY_SIZE(requests), on_answer, f);
        assert_true(loop_run_until(&f->loop, is_answered, f, PATIENCE_MS));
}

/* ---- tests ---- */

static void test_of_each_key_the_first_value_counts_and_all_keys_are_there(void **state)
{
        struct fixture *f = *state;
        bool was_first[2] = {false, false};

        start_plugins(f);
        for (size_t i = 0; i < DEVICES; i++) {
                bool is_a_first;

                run_pod(f, 1, 1);
                assert_string_equal(f->error, "");
                is_a_first = strcmp(f->environment, " shared=a a=a b=b") == 0;
                if (!is_a_first)
                        assert_string_equal(f->environment, " shared=b b=b a=a");
                assert_string_equal(f->paths, f->environment);
                assert_string_equal(f->cdi, is_a_first ? " shared a b" : " shared b a");
                was_first[is_a_first] = true;
        }
        assert_true(was_first[0] && was_first[1]); /* in any order */
}

static void test_a_plugin_with_that_option_is_called_at_the_start_with_the_containers_ids_of_its_resource(void **state)
{
        struct fixture *f = *state;

        f->plugins[1].wants_start = false;
        start_plugins(f);
        run_pod(f, 2, 1);
        assert_string_equal(f->error, "");
        assert_int_equal(strlen(f->plugins[0].started), strlen(" a0 a1"));
        assert_int_equal(f->plugins[0].started[1], 'a');
        assert_int_equal(f->plugins[0].started[4], 'a');
        assert_string_equal(f->plugins[1].started, "");
}

static void test_the_record_has_all_that_the_container_holds_before_it_starts(void **state)
{
        struct fixture *f = *state;
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct checkpoint record;
        struct error err;

        start_plugins(f);
        run_pod(f, 2, 3);
        for (size_t i = 0; i < 2; i++) {
                const char *text = f->plugins[i].record;

                assert_ok(checkpoint_read(&record, &arena, "nvidia.com/", text, strlen(text), &err), &err);
                assert_int_equal(record.n_entries, 2);
                assert_string_equal(record.entries[0].pod_uid, record.entries[1].pod_uid);
                assert_int_equal(record.entries[0].n_devices + record.entries[1].n_devices, 5);
        }
        for (size_t i = 0; i < 2; i++) {
                const char *text = record.entries[i].answer;
                V1beta1__ContainerAllocateResponse *answer;
                unsigned char bytes[256];
                size_t size = 0;

                assert_non_null(text);
                assert_true(strlen(text) <= sizeof(bytes) && base64_decode(text, strlen(text), bytes, &size));
                answer = v1beta1__container_allocate_response__unpack(NULL, size, bytes);
                assert_non_null(answer);
                assert_int_equal(answer->n_envs, 2);
                assert_string_equal(answer->envs[1]->key, record.entries[i].n_devices == 2 ? "a" : "b");
                v1beta1__container_allocate_response__free_unpacked(answer, NULL);
        }
}

static void count_held(const char *id UNUSED, bool healthy UNUSED, const char *pod, void *data)
{
        *(size_t *)data += pod != NULL;
}

static size_t held(const struct fixture *f)
{
        size_t count = 0;

        for (size_t i = 0; i < 2; i++)
                kubelet_each_device(f->kubelet, f->plugins[i].resource, count_held, &count);
        return count;
}

static void test_a_plugin_that_refuses_the_start_keeps_the_container_from_it(void **state)
{
        struct fixture *f = *state;

        f->plugins[1].refuses_start = "which limits the container has is not known";
        start_plugins(f);
        run_pod(f, 1, 1);
        assert_string_equal(f->error, "which limits the container has is not known");
        assert_int_equal(held(f), 2);
}

static void test_a_pod_of_which_one_resource_fails_is_rejected_and_holds_nothing(void **state)
{
        struct fixture *f = *state;

        f->plugins[1].refuses_allocation = "no";
        start_plugins(f);
        run_pod(f, 1, 1);
        assert_string_equal(f->error, "no");
        assert_int_equal(held(f), 0);
        f->plugins[1].refuses_allocation = NULL;
        run_pod(f, DEVICES + 1, 1);
        assert_string_equal(
                f->error, "requested number of devices unavailable for nvidia.com/gpu0. Requested: 9, Available: 8");
        assert_int_equal(held(f), 0);
        assert_string_equal(f->plugins[1].started, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(
                        test_of_each_key_the_first_value_counts_and_all_keys_are_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_plugin_with_that_option_is_called_at_the_start_with_the_containers_ids_of_its_resource,
                        set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_the_record_has_all_that_the_container_holds_before_it_starts, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_plugin_that_refuses_the_start_keeps_the_container_from_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(
                        test_a_pod_of_which_one_resource_fails_is_rejected_and_holds_nothing, set_up, tear_down),
        };

        signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
