// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as what a program prints that makes credentials. What is accepted can be sent: a token of one
 * word, or a certificate with its key.
 *
 *         tools/fuzz 60 fuzz-kube-exec-plugin
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/kube/exec_plugin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct exec_plugin_spec spec = {.api_version = "client.authentication.k8s.io/v1", .command = "x"};
        struct kube_identity found;
        struct error err;
        int64_t expires;

        if (exec_plugin_read(&spec, (const char *)data, size, &found, &expires, &err) < 0)
                return 0;
        if (!*found.token && !*found.certificate)
                abort();
        if (!*found.certificate != !*found.key || found.token[strcspn(found.token, "\r\n ")])
                abort();
        kube_identity_done(&found);
        return 0;
}
