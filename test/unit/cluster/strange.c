// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "strange.h"

#include <inttypes.h>
#include <string.h>

#include "cluster/checkup.h"
#include "cluster/why.h"
#include "node/dra/claim.h"
#include "node/dra/reconcile.h"
#include "node/dra/slices.h"
#include "plan/declared.h"

/* Whole objects, of which a step makes others. */
static const char *const templates[STRANGE_KINDS] = {
        [STRANGE_POD] =
                "{'spec':{'nodeName':'o1','containers':[{'name':'main','resources':{'limits':{'nvidia.com/gpu':'2',"
                "'cpu':'1'},'claims':[{'name':'gpu','request':'main'}]},'env':[{'name':"
                "'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE','value':'60'}]}],'resourceClaims':[{'name':'gpu',"
                "'resourceClaimName':'o1'}],'nodeSelector':{'a':'b'},'tolerations':[{'key':'k','operator':'Exists'}],"
                "'schedulingGates':[]},'status':{'phase':'Pending','reason':'UnexpectedAdmissionError','conditions':"
                "[{'type':'PodScheduled','status':'False','reason':'Unschedulable','message':'0/1 nodes'}],"
                "'containerStatuses':[{'name':'main','state':{'waiting':{'reason':'x','message':'y'}}}]}}",
        [STRANGE_NODE] =
                "{'spec':{'unschedulable':true,'taints':[{'key':'k','value':'v','effect':'NoSchedule'}]},'status':"
                "{'capacity':{'nvidia.com/gpu':'8','cpu':'4'},'allocatable':{'nvidia.com/gpu':'7'},'conditions':"
                "[{'type':'Ready','status':'True','reason':'r','message':'m','lastTransitionTime':"
                "'2026-11-22T13:00:00Z'}],'addresses':[{'type':'InternalIP','address':'10.0.0.1'}],'nodeInfo':"
                "{'kubeletVersion':'v1.36.0'}}}",
        [STRANGE_CLAIM] =
                "{'spec':{'devices':{'requests':[{'name':'main'}]}},'status':{'reservedFor':[{'resource':'pods',"
                "'name':'o1','uid':'u1'}],'allocation':{'devices':{'results':[{'driver':'d','pool':'p','device':"
                "'gpu-0-shared','request':'main','shareID':'c0000000-0000-4000-8000-000000000001',"
                "'consumedCapacity':{'memory':'10Gi','threadPercentage':'30'}}],'config':[{'source':'FromClaim',"
                "'requests':['main'],'opaque':{'driver':'d','parameters':{'kind':'GpuConfig'}}}]}}}}",
        [STRANGE_SLICE] =
                "{'spec':{'driver':'d','nodeName':'o1','pool':{'name':'o1','generation':1,'resourceSliceCount':1},"
                "'sharedCounters':[{'name':'gpu-0','counters':{'memory-slice-0':{'value':'1'}}}],'devices':[{'name':"
                "'gpu-0','attributes':{'uuid':{'string':'GPU-0'},'index':{'int':0}},'capacity':{'memory':{'value':"
                "'80Gi'}},'consumesCounters':[{'counterSet':'gpu-0','counters':{'memory-slice-0':{'value':'1'}}}],"
                "'taints':[{'key':'k','effect':'NoExecute','timeAdded':'2026-11-22T13:00:00Z'}]}]}}",
};

static unsigned int draw(struct chance *chance, uint64_t below)
{
        return (unsigned int)chance_draw(chance, below);
}

json_t *strange_value(struct chance *chance, unsigned int depth)
{
        static const char *const words[] = {"", "o1", "nvidia.com/gpu", "-1", "18446744073709551616", "9e99", "80Gi",
                "\n\t\"\\", "2026-13-41T99:99:99Z", "True", "main", "a/b/c"};

        switch (draw(chance, depth ? 9 : 7)) {
        case 0:
                return json_null();
        case 1:
                return json_boolean(draw(chance, 2));
        case 2:
                return json_integer((json_int_t)((uint64_t)draw(chance, UINT32_MAX) << draw(chance, 33)));
        case 3:
                return json_integer(-1);
        case 4:
                return json_real(0.5);
        case 5:
        case 6:
                return json_string(words[draw(chance, ARRAY_SIZE(words))]);
        case 7:
                return json_pack("[o, o]", strange_value(chance, depth - 1), strange_value(chance, depth - 1));
        default:
                return json_pack("{s: o, s: o}", "name", strange_value(chance, depth - 1), "value",
                        strange_value(chance, depth - 1));
        }
}

static void change_value(struct chance *chance, json_t *value, unsigned int depth);

/* A member of it, or of one of its members: another value, none, or there twice. */
static void change_array(struct chance *chance, json_t *array, unsigned int depth)
{
        size_t at = draw(chance, json_array_size(array) + 1);

        if (at == json_array_size(array) || chance_happens(chance, 8))
                json_array_insert_new(array, at, strange_value(chance, 2));
        else if (depth == 0 || chance_happens(chance, 4))
                json_array_set_new(array, at, strange_value(chance, 2));
        else if (chance_happens(chance, 4))
                json_array_append_new(array, json_deep_copy(json_array_get(array, at)));
        else
                change_value(chance, json_array_get(array, at), depth - 1);
}

static void change_value(struct chance *chance, json_t *value, unsigned int depth)
{
        size_t at = draw(chance, json_object_size(value) + 1);
        void *iter = json_object_iter(value);

        if (json_is_array(value)) {
                change_array(chance, value, depth);
                return;
        }
        for (size_t i = 0; i < at && iter; i++)
                iter = json_object_iter_next(value, iter);
        if (!iter)
                return;
        if (depth == 0 || chance_happens(chance, 4) ||
                (!json_is_object(json_object_iter_value(iter)) && !json_is_array(json_object_iter_value(iter))))
                json_object_iter_set_new(value, iter, strange_value(chance, 2));
        else if (chance_happens(chance, 6))
                json_object_del(value, json_object_iter_key(iter));
        else
                change_value(chance, json_object_iter_value(iter), depth - 1);
}

json_t *strange_object(struct chance *chance, enum strange_kind kind, const char *name, uint64_t version)
{
        _free_ char *text = xstrdup(templates[kind]);
        json_t *object;

        for (char *at = text; *at; at++)
                *at = *at == '\'' ? '"' : *at;
        object = json_loads(text, 0, NULL);
        assert_non_null(object);
        for (unsigned int n = draw(chance, 4); n > 0; n--)
                change_value(chance, object, 8);
        json_object_set_new(object, "metadata",
                json_pack("{s:s, s:s, s:o, s:{s:s}, s:o}", "name", name, "uid", "u1", "resourceVersion",
                        json_sprintf("%" PRIu64, version), "annotations", "warpshare.dev/memory", "20Gi", "labels",
                        strange_value(chance, 2)));
        if (kind == STRANGE_POD || kind == STRANGE_CLAIM)
                json_object_set_new(json_object_get(object, "metadata"), "namespace", json_string("team"));
        return object;
}

/* ---- who reads them ---- */

static void read_pod(const json_t *object, const struct cluster_node *node, struct arena *arena)
{
        const struct cluster_node *nodes[] = {node};
        const struct cluster_pod *pod = cluster_pod_read(object, arena);
        const struct cluster_view view = {.nodes = nodes, .n_nodes = 1, .pods = &pod, .n_pods = pod ? 1 : 0};
        const struct why_input input = {.pod = object, .view = &view};
        struct declared said = declared_read(arena, object, "main");
        struct why why;

        assert_true(said.threads_permille <= 1000 && said.memory_mib <= CONFIG_MAX_RESERVE_MIB);
        cluster_agent_read(object, arena);
        why_explain(&why, arena, &input);
        assert_true(why.sentence && *why.sentence);
}

static void read_node(const struct cluster_node *node)
{
        const struct cluster_node *nodes[] = {node};
        const struct cluster_view view = {.nodes = nodes, .n_nodes = 1};
        const struct checkup_input input = {.view = &view, .node = node, .now = 1795687200};
        json_t *findings = checkup_make(&input);

        assert_true(json_array_size(findings) > 0);
        json_decref(findings);
}

static void read_claim(const json_t *object, struct arena *arena)
{
        struct dra_claim claim = {.namespace = "team", .name = "o1", .uid = "u1"};
        struct error err;

        if (dra_claim_read(&claim, arena, object, "d", "p", &err) == 0)
                assert_true(claim.n_results >= 1 && claim.n_results <= DRA_CLAIM_RESULTS_MAX);
}

void strange_read(struct chance *chance, enum strange_kind kind, const json_t *object, const json_t *of_node)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        struct cluster_node node = {.name = "o1", .state = CLUSTER_AGENT_SILENT, .reason = "it does not answer"};
        json_t *other;

        switch (kind) {
        case STRANGE_POD:
                node.object = cluster_node_read(of_node, &arena);
                read_pod(object, &node, &arena);
                break;
        case STRANGE_NODE:
                node.object = cluster_node_read(object, &arena);
                read_node(&node);
                break;
        case STRANGE_CLAIM:
                read_claim(object, &arena);
                break;
        case STRANGE_SLICE:
        default:
                other = strange_object(chance, STRANGE_SLICE, "o1", 1);
                (void)dra_slices_are_same(object, other);
                json_decref(other);
                break;
        }
}
