#include "cmd/agent_api.h"

#include "base/log.h"
#include "kube/object.h"

/* A positive value: none, and said why. */
static int find_credentials(struct kube_credentials *ret, const struct config *config, struct error *err)
{
        int rc;

        if (!*config->node_name) {
                log_info("the API server is not spoken to: no node name", LOG_STR("option", "--node-name, NODE_NAME"));
                return 1;
        }
        if (!object_is_name(config->node_name))
                return error_set(err, ERROR_INVALID,
                        "node name '%.80s': must be lower-case letters, digits, '-' and '.', as Kubernetes names nodes",
                        config->node_name);
        rc = kube_credentials_find(ret, config->kubeconfig, err);
        if (rc == KUBE_CREDENTIALS_NONE)
                log_info("the API server is not spoken to: no credentials",
                        LOG_STR("option", "--kubeconfig, KUBECONFIG, or a service account"));
        return rc;
}

struct kube_client *agent_api_new(uv_loop_t *loop, const struct config *config)
{
        struct kube_credentials credentials = {0};
        struct kube_client_options options = {.loop = loop, .credentials = &credentials};
        struct kube_client *client = NULL;
        struct error err;
        int rc;

        rc = find_credentials(&credentials, config, &err);
        if (rc == 0) {
                log_info("API server", LOG_STR("server", credentials.server), LOG_STR("as", credentials.origin),
                        LOG_STR("node", config->node_name));
                rc = kube_client_new(&client, &options, &err);
        }
        if (rc < 0)
                log_error("the API server is not spoken to", LOG_ERR(&err));
        kube_credentials_done(&credentials);
        return client;
}
