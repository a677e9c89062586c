// SPDX-License-Identifier: Apache-2.0
/* A page of a node with a shared GPU, and one with a MIG device. */
#pragma once

#include "unit.h"

#include <string.h>

#include "cmd/top/top.h"

static const char page_text[] =
        "{\"version\":1,\"node\":\"node-a\",\"agent\":\"0.1.0\",\"time\":1764175683,\"driver\":\"570.86\",\"configuration\":\"half\","
        "\"gpus\":["
        "{\"uuid\":\"GPU-C\",\"index\":\"2\",\"temperature\":40,\"units\":[{\"uuid\":\"MIG-B\",\"index\":\"2:1\","
        "\"memoryUsed\":0,\"healthy\":false,\"reason\":\"Xid 79\",\"shares\":[{\"namespace\":\"ns\",\"claim\":\"gpu\","
        "\"podUid\":\"u1\",\"memoryLimit\":1073741824}]}]},"
        "{\"uuid\":\"GPU-A\",\"index\":\"10\",\"model\":\"NVIDIA H100\",\"temperature\":50,\"power\":123.4,\"powerLimit\":400,"
        "\"units\":[{\"uuid\":\"GPU-A\",\"index\":\"10\",\"replicas\":10,\"granted\":7,\"reserved\":2,\"memory\":10737418240,"
        "\"memoryUsed\":8589934592,\"utilization\":0.71,\"healthy\":true,\"history\":[null,0.1,0.9],"
        "\"memoryHistory\":[10737418240,0,5368709120],\"shares\":["
        "{\"namespace\":\"ns\",\"pod\":\"train\",\"container\":\"main\",\"replicas\":3,\"memoryLimit\":4294967296,"
        "\"threadPercent\":30,\"memoryUsed\":3900000000,\"memoryPeak\":3221225472,\"sm\":0.4,\"seconds\":7200,\"energy\":321.5,"
        "\"processes\":[{\"pid\":4711,\"name\":\"python3\",\"memoryUsed\":1073741824,\"sm\":0.4}],\"history\":[0.4,0.6]},"
        "{\"namespace\":\"ns\",\"pod\":\"serve\",\"container\":\"a,\\\"b\\\"\",\"memoryUsed\":4294967296}],"
        "\"others\":[{\"by\":\"unattributed\",\"memoryUsed\":0},{\"by\":\"mps-server\",\"memoryUsed\":5368709120}]}]}],"
        "\"events\":[{\"time\":1764175000,\"kind\":\"Normal\",\"reason\":\"ConfigApplied\",\"text\":\"another\"},"
        "{\"time\":1764175100,\"kind\":\"Warning\",\"reason\":\"GPUUnhealthy\",\"text\":\"GPU 2 is lost\"}]}";

static inline void read_page(struct node_page *ret, struct arena *arena)
{
        struct error err;

        assert_ok(node_page_read(ret, arena, page_text, strlen(page_text), &err), &err);
}
