// SPDX-License-Identifier: Apache-2.0
#include "node/cdi/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "gpu/nvml_abi.h"

#define CONTAINER_FOLDER "/var/run/kubernetes.io/dra-device-attributes"
#define ATTRIBUTE_TEXT_MAX ((size_t)64) /* bytes: the API server's bound */

/* ---- attributes ---- */

/* {key: value}; json_pack() is slow because it parses a format each time. */
static json_t *attribute_pair(const char *key, json_t *value)
{
        json_t *object = json_object();

        json_object_set_new_nocheck(object, key, value);
        return object;
}

void metadata_put_string(json_t *attributes, const char *name, const char *text)
{
        size_t length = 0;
        size_t more;

        while (text && text[length] && (more = text_utf8_length(text + length)) > 0 &&
                length + more <= ATTRIBUTE_TEXT_MAX)
                length += more;
        if (length > 0)
                json_object_set_new(attributes, name, attribute_pair("string", json_stringn_nocheck(text, length)));
}

static void put_number(json_t *attributes, const char *name, int64_t value)
{
        json_object_set_new(attributes, name, attribute_pair("int", json_integer(value)));
}

static void put_version(json_t *attributes, const char *name, const unsigned int parts[static 3])
{
        json_object_set_new(
                attributes, name, attribute_pair("version", json_sprintf("%u.%u.%u", parts[0], parts[1], parts[2])));
}

/* Reads the three numbers of a version: "580.105.08" has a leading zero, which semantic versions do not allow. */
static bool read_version(const char *text, unsigned int ret[static 3])
{
        memset(ret, 0, 3 * sizeof(*ret));
        for (size_t i = 0; text && i < 3; i++) {
                char *end;

                if (*text < '0' || *text > '9')
                        return false;
                ret[i] = (unsigned int)MIN(strtoul(text, &end, 10), 1000000000UL);
                if (*end == '\0')
                        return true;
                if (*end != '.')
                        return false;
                text = end + 1;
        }
        return false;
}

static const char *architecture_name(const struct gpu *gpu)
{
        static const char *const names[] = {
                [GPU_ARCHITECTURE_KEPLER] = "Kepler",
                [GPU_ARCHITECTURE_MAXWELL] = "Maxwell",
                [GPU_ARCHITECTURE_PASCAL] = "Pascal",
                [GPU_ARCHITECTURE_VOLTA] = "Volta",
                [GPU_ARCHITECTURE_TURING] = "Turing",
                [GPU_ARCHITECTURE_AMPERE] = "Ampere",
                [GPU_ARCHITECTURE_ADA] = "Ada Lovelace",
                [GPU_ARCHITECTURE_HOPPER] = "Hopper",
                [GPU_ARCHITECTURE_BLACKWELL] = "Blackwell",
                [GPU_ARCHITECTURE_RUBIN] = "Rubin",
        };

        return gpu->architecture < ARRAY_SIZE(names) ? names[gpu->architecture] : NULL;
}

static const char *brand_name(int brand)
{
        static const char *const names[] = {
                [NVML_BRAND_QUADRO] = "Quadro",
                [NVML_BRAND_TESLA] = "Tesla",
                [NVML_BRAND_NVS] = "NVS",
                [NVML_BRAND_GRID] = "Grid",
                [NVML_BRAND_GEFORCE] = "GeForce",
                [NVML_BRAND_TITAN] = "Titan",
                [NVML_BRAND_QUADRO_RTX] = "QuadroRTX",
                [NVML_BRAND_NVIDIA_RTX] = "NvidiaRTX",
                [NVML_BRAND_NVIDIA] = "Nvidia",
                [NVML_BRAND_GEFORCE_RTX] = "GeForceRTX",
                [NVML_BRAND_TITAN_RTX] = "TitanRTX",
        };

        return brand >= 0 && (size_t)brand < ARRAY_SIZE(names) ? names[brand] : NULL;
}

json_t *metadata_gpu_attributes(const struct inventory *inventory, const struct gpu *gpu)
{
        json_t *attributes = json_object();
        unsigned int version[3];

        metadata_put_string(attributes, "productName", gpu->name);
        metadata_put_string(attributes, "brand", brand_name(gpu->brand));
        metadata_put_string(attributes, "architecture", architecture_name(gpu));
        if (gpu->compute_major >= 0 && gpu->compute_minor >= 0)
                put_version(attributes, "cudaComputeCapability",
                        (unsigned int[3]){(unsigned int)gpu->compute_major, (unsigned int)gpu->compute_minor, 0});
        if (read_version(inventory->driver_version, version))
                put_version(attributes, "driverVersion", version);
        if (inventory->cuda_major > 0)
                put_version(attributes, "cudaDriverVersion",
                        (unsigned int[3]){
                                (unsigned int)inventory->cuda_major, (unsigned int)MAX(0, inventory->cuda_minor), 0});
        metadata_put_string(attributes, "resource.kubernetes.io/pciBusID", gpu->bus);
        metadata_put_string(attributes, "resource.kubernetes.io/pcieRoot", gpu->pcie_root);
        if (gpu->numa_node >= 0)
                put_number(attributes, "resource.kubernetes.io/numaNode", gpu->numa_node);
        return attributes;
}

void metadata_put_part(json_t *attributes, const struct gpu *parent, const char *profile)
{
        metadata_put_string(attributes, "parentUUID", parent->uuid);
        metadata_put_string(attributes, "profile", profile);
}

json_t *metadata_unit_attributes(const struct inventory *inventory, const struct unit *unit)
{
        json_t *attributes = metadata_gpu_attributes(inventory, unit->gpu);

        metadata_put_string(attributes, "uuid", unit->uuid);
        if (unit->mig)
                metadata_put_part(attributes, unit->gpu, unit->mig->profile);
        return attributes;
}

void metadata_put_limits(json_t *attributes, uint64_t memory_mib, unsigned int thread_percentage, const char *tier)
{
        if (memory_mib)
                put_number(attributes, "memoryMiB", (int64_t)memory_mib);
        if (thread_percentage)
                put_number(attributes, "threadPercentage", thread_percentage);
        metadata_put_string(attributes, "tier", tier);
}

/* ---- the file ---- */

void metadata_add_device(json_t *devices, const char *driver, const char *pool, const char *name, json_t *attributes)
{
        json_array_append_new(devices, json_pack("{s:s, s:s, s:s, s:o}", "driver", driver, "pool", pool, "name", name,
                                               "attributes", attributes));
}

void metadata_print(struct strbuf *ret, const struct metadata *metadata, json_t *devices)
{
        static const char *const versions[] = {"v1beta1", "v1alpha1"};
        _free_ char *request = xasprintf("%s%s%s", metadata->request, metadata->subrequest ? "/" : "",
                metadata->subrequest ? metadata->subrequest : "");

        for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
                _free_ char *version = xasprintf("metadata.resource.k8s.io/%s", versions[i]);
                _free_ char *text = NULL;
                json_t *object = json_pack("{s:s, s:s, s:{s:s, s:s*, s:s, s:i}, s:s*, s:[{s:s, s:O}]}", "kind",
                        "DeviceMetadata", "apiVersion", version, "metadata", "name", metadata->name, "namespace",
                        metadata->namespace, "uid", metadata->uid, "generation", 1, "podClaimName",
                        metadata->pod_claim_name, "requests", "name", request, "devices", devices);

                text = json_dumps(object, JSON_COMPACT);
                json_decref(object);
                strbuf_printf(ret, "%s\n", text);
        }
}

const char *metadata_container_path(struct arena *arena, const struct metadata *metadata)
{
        const char *in_pod = metadata->pod_claim_name;

        return arena_printf(arena, CONTAINER_FOLDER "/%s/%s/%s/%s-metadata.json",
                in_pod ? "resourceclaimtemplates" : "resourceclaims", in_pod ? in_pod : metadata->name,
                metadata->request, metadata->driver);
}
