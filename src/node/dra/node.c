// SPDX-License-Identifier: Apache-2.0
#include "node/dra/node.h"

#include "net/kube/object.h"
#include "node/cdi/cdi.h"

void dra_node_raise_closing(struct error *ret)
{
        error_raise(ret, ERROR_UNAVAILABLE, "the agent is stopping, or another one takes its place");
}

/* Without units, as while the MIG devices are still to be made, a specification is neither written nor needed. */
int dra_node_check_cdi(const struct dra_node *node, struct error *err)
{
        const struct plan *plan = node->plan;

        node->options.repair_cdi(node->options.data);
        if (!plan->claimable || plan->claimable->n_units == 0)
                return 0;
        if (cdi_check_nodes(plan, NULL, err) < 0)
                return -1;
        if (plan->has_cdi_units)
                return 0;
        return error_set(err, ERROR_UNAVAILABLE,
                "the CDI specification of the GPUs could not be written to '%s': the agent's log says why",
                node->cdi_root);
}

/* Until the API's version is known, v1 is used: if the server is older, the request fails and kubelet tries again. */
char *dra_node_claim_path(const struct dra_node *node, const struct dra_claim *claim)
{
        _free_ char *group = xasprintf(DRA_API_GROUP "/%s", dra_api_name(dra_publisher_api(node->publisher)));
        _free_ char *collection = object_collection(group, claim->namespace, "resourceclaims");

        return object_path(collection, claim->name);
}

struct kube_call *dra_node_get_claim(
        const struct dra_node *node, const struct dra_claim *claim, uint64_t timeout_ms, kube_done_fn *done, void *data)
{
        _free_ char *path = dra_node_claim_path(node, claim);

        return kube_client_send(node->options.client,
                &(struct kube_request){
                        .method = KUBE_GET, .path = path, .timeout_ms = timeout_ms, .done = done, .data = data});
}
