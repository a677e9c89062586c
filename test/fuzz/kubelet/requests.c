// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet's request messages: the first byte chooses the message and the strategies of its answer, the rest is the
 * message. What decodes is answered from a plan of two GPUs with four replicas each, as the plugin would.
 */
#include <assert.h>
#include <stdint.h>

#include "node/kubelet/convert.h"
#include "plan/node.h"

static struct node node;

static void fuzz_allocate(const uint8_t *bytes, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct container_ids *containers;
        struct error err;
        size_t count;

        if (convert_allocate_request(&containers, &count, &arena, bytes, size, &err) == 0) {
                struct allocate_answer *answers = ARENA_ARRAY(&arena, struct allocate_answer, count);
                bool all = true;

                for (size_t i = 0; i < count && all; i++) {
                        const struct allocate_request request = {
                                .ids = containers[i].ids, .n_ids = containers[i].n_ids, .tag = "tag"};

                        all = allocate(&answers[i], &arena, node.plan, &node.plan->resources[0], &request, &err) == 0;
                }
                if (all)
                        rpc_message_unref(convert_allocate_response(answers, count, &arena));
        }
        arena_done(&arena);
}

static void fuzz_prefer(const uint8_t *bytes, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct prefer_request *requests;
        struct error err;
        size_t count;

        if (convert_prefer_request(&requests, &count, &arena, bytes, size, &err) == 0) {
                struct container_ids *answers = ARENA_ARRAY(&arena, struct container_ids, count);

                for (size_t i = 0; i < count; i++) {
                        const char **ids;

                        if (requests[i].size > requests[i].n_available + requests[i].n_required)
                                continue;
                        ids = ARENA_ARRAY(&arena, const char *, requests[i].size);
                        if (prefer(&node.plan->resources[0], &requests[i], &arena, ids, &answers[i].n_ids, &err) == 0)
                                assert(answers[i].n_ids == requests[i].size);
                        answers[i].ids = ids;
                }
                rpc_message_unref(convert_prefer_response(answers, count, &arena));
        }
        arena_done(&arena);
}

static void fuzz_start(const uint8_t *bytes, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct container_ids container;
        struct error err;

        if (convert_start_request(&container, &arena, bytes, size, &err) == 0)
                for (size_t i = 0; i < container.n_ids; i++)
                        assert(strlen(container.ids[i]) <= size);
        arena_done(&arena);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc UNUSED, char ***argv UNUSED)
{
        node = node_new(2);
        node_share(&node, SHARING_MPS, 4);
        node.config.placement = PLACEMENT_PACKED;
        node.section.provisioning = PROVISIONING_WEIGHTED;
        node.section.daemon_scope = DAEMON_SCOPE_RESOURCE;
        node.config.cdi.annotation_prefix = "cdi.k8s.io/";
        node.config.driver.dev_root = "/run/nvidia/driver";
        node.config.devices.extras = EXTRA_GDRCOPY | EXTRA_GDS | EXTRA_MOFED;
        node.config.devices.has_imex_channel = true;
        node.inventory.nodes = ~0U;
        return node_plan(&node);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0)
                return 0;
        node.config.devices.lists = data[0] >> 1 & 0x0f;
        node.config.devices.pass_specs = data[0] >> 5 & 1;
        node.config.devices.id_strategy = data[0] >> 6 & 1 ? ID_STRATEGY_INDEX : ID_STRATEGY_UUID;
        node.plan->cdi_extras = data[0] >> 7 ? node.config.devices.extras : 0;
        node.plan->cdi_limits = data[0] >> 7;
        if (data[0] & 1)
                fuzz_allocate(data + 1, size - 1);
        else if (data[0] & 2)
                fuzz_start(data + 1, size - 1);
        else
                fuzz_prefer(data + 1, size - 1);
        return 0;
}
