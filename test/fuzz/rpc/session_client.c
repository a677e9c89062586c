// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <assert.h>

struct caller {
        struct rpc_session *session;
        size_t begun, ended;
};

static void on_message(struct rpc_call *call, const uint8_t *message UNUSED, size_t size, void *data UNUSED)
{
        if (size % 7 == 6)
                rpc_call_cancel(call);
}

static void on_ended(struct rpc_call *call UNUSED, enum rpc_status status, const char *text, void *data)
{
        struct caller *caller = data;

        assert(text && rpc_status_name(status));
        caller->ended++;
}

static void call(struct caller *caller, const char *path, int64_t deadline_ms)
{
        static const struct rpc_handlers handlers = {on_message, on_ended};
        struct rpc_message *request = rpc_message_new(0);
        struct rpc_call *made = rpc_session_call(caller->session, path, request, 0, deadline_ms, &handlers, caller);

        assert(made);
        caller->begun++;
        rpc_message_unref(request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
        const struct rpc_session_client_options options = {
                .limits = {.message = 65536, .header_list = 2048, .streams = 8, .queued = 4096}};
        struct caller caller = {.session = rpc_session_new_client(&options)};
        const uint8_t *out;

        call(&caller, "/v1.PodResourcesLister/List", RPC_NO_DEADLINE);
        call(&caller, "/v1.PodResourcesLister/GetAllocatableResources", RPC_NO_DEADLINE);
        call(&caller, "/v1.PodResourcesLister/Get", 200);
        call(&caller, "/v1.PodResourcesLister/Get", 1000);
        call(&caller, "/v1beta1.DevicePlugin/Allocate", RPC_NO_DEADLINE);
        while (rpc_session_pending(caller.session, &out) > 0)
                ;
        fuzz_session(caller.session, bytes, size);
        assert(caller.begun == caller.ended);
        return 0;
}
