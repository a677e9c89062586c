// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet's answer to GetPod. What is read from it is a Pod in the API's form, whose texts are UTF-8, and which can be
 * written and read again; or it is refused as invalid.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "net/kube/object.h"
#include "node/ledger/pod_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct error err;
        json_t *pod = pod_answer_read(data, size, &err);
        json_t *again;
        char *text;

        if (!pod) {
                assert(err.kind == ERROR_INVALID);
                return 0;
        }
        assert(json_is_object(object_find(pod, "metadata", "annotations", NULL)));
        assert(json_is_array(object_find(pod, "spec", "containers", NULL)));
        text = json_dumps(pod, 0);
        assert(text);
        again = json_loads(text, 0, NULL);
        assert(json_equal(pod, again));
        json_decref(again);
        json_decref(pod);
        free(text);
        return 0;
}
