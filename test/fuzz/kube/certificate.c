// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as the certificate of a server, in PEM as libcurl tells it.
 *
 *         tools/fuzz 60 fuzz-kube-certificate
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "net/kube/easy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _free_ char *pem = xasprintf("%.*s", (int)size, (const char *)data);

        /* What names a host names one whatever follows. */
        if (certificate_names_host(pem)) {
                _free_ char *longer = xasprintf("%s%s", pem, pem);

                if (!certificate_names_host(longer))
                        abort();
        }
        return 0;
}
