// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <assert.h>

#include "base/alloc.h"

/* Two streams at most are held open, to be answered in the middle of other calls. */
struct held {
        struct rpc_call *calls[2];
        size_t begun, ended;
};

static void on_held_ended(struct rpc_call *call, void *data)
{
        struct held *held = data;

        held->ended++;
        for (size_t i = 0; i < ARRAY_SIZE(held->calls); i++) {
                if (held->calls[i] == call)
                        held->calls[i] = NULL;
        }
}

static void send_some(struct rpc_call *call, const uint8_t *message, size_t size)
{
        struct rpc_message *answer = rpc_message_new(size);

        memcpy(rpc_message_payload(answer), message, size);
        rpc_call_send(call, answer);
        rpc_message_unref(answer);
}

static void handle_unary(struct rpc_call *call, const uint8_t *message, size_t size, void *context UNUSED)
{
        send_some(call, message, size);
        rpc_call_finish(call, RPC_OK, NULL);
}

static void handle_watch(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct held *held = context;

        held->begun++;
        rpc_call_on_ended(call, on_held_ended, held);
        for (size_t i = 0; i < ARRAY_SIZE(held->calls); i++) {
                if (held->calls[i])
                        continue;
                held->calls[i] = call;
                send_some(call, message, size);
                return;
        }
        rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "enough \x01 ü");
}

static void handle_change(struct rpc_call *call, const uint8_t *message, size_t size, void *context)
{
        struct held *held = context;

        for (size_t i = 0; i < ARRAY_SIZE(held->calls); i++) {
                if (held->calls[i] && size % 3 == 0)
                        rpc_call_finish(held->calls[i], RPC_OK, NULL);
                else if (held->calls[i])
                        send_some(held->calls[i], message, size);
        }
        rpc_call_finish(call, RPC_OK, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
        /* The paths of the recordings, so that they reach the handlers. */
        static const struct rpc_method methods[] = {
                {"/v1beta1.DevicePlugin/GetDevicePluginOptions", handle_unary},
                {"/v1beta1.DevicePlugin/ListAndWatch", handle_watch},
                {"/v1beta1.DevicePlugin/GetPreferredAllocation", handle_change},
                {"/v1beta1.DevicePlugin/Allocate", handle_unary},
                {"/v1beta1.Registration/Register", handle_unary},
                {"/v1.PodResourcesLister/List", handle_watch},
                {"/v1.PodResourcesLister/Get", handle_change},
        };
        struct held held = {0};
        const struct rpc_service service = {
                .methods = methods,
                .n_methods = ARRAY_SIZE(methods),
                .context = &held,
                .limits = {.message = 65536, .header_list = 2048, .streams = 8, .queued = 4096},
        };

        fuzz_session(rpc_session_new_server(&service), bytes, size);
        assert(held.begun == held.ended);
        return 0;
}
