// SPDX-License-Identifier: Apache-2.0
/*
 * kubelet's checkpoint: its own record of which container holds which devices, in kubelet's format. Here it is written
 * after each Allocate, and without the healthy ids of each resource. kubelet's checksum is over a dump of its Go
 * structs; no other program can check that, so here it is 0.
 */
#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "base/file.h"
#include "base/log.h"
#include "sim/kubelet/internal.h"

static char *encode(const V1beta1__ContainerAllocateResponse *answer)
{
        size_t size = v1beta1__container_allocate_response__get_packed_size(answer);
        _free_ uint8_t *bytes = xcalloc(size + 1, 1);

        v1beta1__container_allocate_response__pack(answer, bytes);
        return base64_encode(bytes, size);
}

static json_t *make_entry(const struct pod *pod, const struct held *held)
{
        _free_ char *answer = encode(held->response->container_responses[0]);
        json_t *ids = json_array();

        for (size_t i = 0; i < held->n_ids; i++)
                json_array_append_new(ids, json_string(held->ids[i]));
        return json_pack("{s:s,s:s,s:s,s:{s:o},s:s}", "PodUID", pod->uid, "ContainerName", CONTAINER, "ResourceName",
                held->resource, "DeviceIDs", "-1", ids, "AllocResp", answer);
}

void record_write(const struct kubelet *kubelet)
{
        _free_ char *path = xasprintf("%s/kubelet_internal_checkpoint", kubelet->directory);
        _free_ char *text = NULL;
        json_t *entries = json_array();
        struct error err;
        json_t *record;

        LIST_FOR_EACH(at, &kubelet->pods) {
                const struct pod *pod = container_of(at, struct pod, link);

                LIST_FOR_EACH(link, &pod->held)
                        json_array_append_new(entries, make_entry(pod, container_of(link, struct held, link)));
        }
        record = json_pack(
                "{s:{s:o,s:{}},s:i}", "Data", "PodDeviceEntries", entries, "RegisteredDevices", "Checksum", 0);
        text = json_dumps(record, JSON_COMPACT);
        json_decref(record);
        if (file_write(path, text, strlen(text), &err) < 0)
                log_warn("kubelet cannot write its record", LOG_ERR(&err));
}
