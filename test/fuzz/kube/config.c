// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as a kubeconfig. What is accepted can be used: it has a server, and whole pairs of certificate
 * and key.
 *
 *         tools/fuzz 60 fuzz-kube-config
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "net/kube/credentials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_there(const struct kube_pem *pem)
{
        return pem->text || pem->path;
}

static void check(const struct kube_credentials *found)
{
        const char *token = found->token ? found->token : "";

        if (!found->scope || !found->origin || is_there(&found->certificate) != is_there(&found->key))
                abort();
        if (!text_starts_with(found->server, "https://") && (!text_starts_with(found->server, "http://") || *token))
                abort();
        if (token[strcspn(token, "\r\n ")] || found->server[strcspn(found->server, "\r\n ?#@")])
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct kube_credentials found;
        struct error err;

        if (kube_credentials_read(&found, "/etc/kubeconfig", (const char *)data, size, &err) < 0)
                return 0;
        check(&found);
        kube_credentials_done(&found);
        return 0;
}
