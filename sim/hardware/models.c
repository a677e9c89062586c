#include "sim/hardware/models.h"

#include <string.h>

#include "base/macro.h"
#include "gpu/nvml_abi.h"

#define P(slices) NVML_GPU_INSTANCE_PROFILE_##slices

/*
 * Names, ids and placements are from the MIG user guide, "Supported MIG profiles", and its listings of `nvidia-smi mig
 * -lgip` and -lgipp. Sizes of A100, A30 and H100 are from the same listings. There is no public listing for H200 and
 * GB200: their sizes are computed as H100's are (the same share of SMs, an eighth of the memory less the reserve). Only
 * RTX PRO has encoders, the last column.
 */
/* clang-format off */
static const struct mig_profile a30_profiles[] = {
        /* name          index              id slices count starts size SM   MiB CE DEC JPEG OFA */
        {"1g.6gb",       P(1_SLICE),        14, 1, 4, 0x0f, 1,  14,   5952, 1, 0, 0, 0},
        {"1g.6gb+me",    P(1_SLICE_REV1),   21, 1, 1, 0x0f, 1,  14,   5952, 1, 1, 1, 1},
        {"2g.12gb",      P(2_SLICE),         5, 2, 2, 0x05, 2,  28,  12032, 2, 2, 0, 0},
        {"2g.12gb+me",   P(2_SLICE_REV1),    6, 2, 1, 0x05, 2,  28,  12032, 2, 2, 1, 1},
        {"4g.24gb",      P(4_SLICE),         0, 4, 1, 0x01, 4,  56,  24000, 4, 4, 1, 1},
};

static const struct mig_profile a100_40_profiles[] = {
        {"1g.5gb",       P(1_SLICE),        19, 1, 7, 0x7f, 1,  14,   4864, 1, 0, 0, 0},
        {"1g.5gb+me",    P(1_SLICE_REV1),   20, 1, 1, 0x7f, 1,  14,   4864, 1, 1, 1, 1},
        {"1g.10gb",      P(1_SLICE_REV2),   15, 1, 4, 0x55, 2,  14,   9984, 1, 1, 0, 0},
        {"2g.10gb",      P(2_SLICE),        14, 2, 3, 0x15, 2,  28,   9984, 2, 1, 0, 0},
        {"3g.20gb",      P(3_SLICE),         9, 3, 2, 0x11, 4,  42,  20096, 3, 2, 0, 0},
        {"4g.20gb",      P(4_SLICE),         5, 4, 1, 0x01, 4,  56,  20096, 4, 2, 0, 0},
        {"7g.40gb",      P(7_SLICE),         0, 7, 1, 0x01, 8,  98,  40448, 7, 5, 1, 1},
};

static const struct mig_profile a100_80_profiles[] = {
        {"1g.10gb",      P(1_SLICE),        19, 1, 7, 0x7f, 1,  14,   9728, 1, 0, 0, 0},
        {"1g.10gb+me",   P(1_SLICE_REV1),   20, 1, 1, 0x7f, 1,  14,   9728, 1, 1, 1, 1},
        {"1g.20gb",      P(1_SLICE_REV2),   15, 1, 4, 0x55, 2,  14,  19968, 1, 1, 0, 0},
        {"2g.20gb",      P(2_SLICE),        14, 2, 3, 0x15, 2,  28,  19968, 2, 1, 0, 0},
        {"3g.40gb",      P(3_SLICE),         9, 3, 2, 0x11, 4,  42,  40192, 3, 2, 0, 0},
        {"4g.40gb",      P(4_SLICE),         5, 4, 1, 0x01, 4,  56,  40192, 4, 2, 0, 0},
        {"7g.80gb",      P(7_SLICE),         0, 7, 1, 0x01, 8,  98,  80640, 7, 5, 1, 1},
};

static const struct mig_profile h100_profiles[] = {
        {"1g.10gb",      P(1_SLICE),        19, 1, 7, 0x7f, 1,  16,   9984, 1, 1, 1, 0},
        {"1g.10gb+me",   P(1_SLICE_REV1),   20, 1, 1, 0x7f, 1,  16,   9984, 1, 1, 1, 1},
        {"1g.20gb",      P(1_SLICE_REV2),   15, 1, 4, 0x55, 2,  26,  20096, 1, 1, 1, 0},
        {"2g.20gb",      P(2_SLICE),        14, 2, 3, 0x15, 2,  32,  20096, 2, 2, 2, 0},
        {"3g.40gb",      P(3_SLICE),         9, 3, 2, 0x11, 4,  60,  40320, 3, 3, 3, 0},
        {"4g.40gb",      P(4_SLICE),         5, 4, 1, 0x01, 4,  64,  40320, 4, 4, 4, 0},
        {"7g.80gb",      P(7_SLICE),         0, 7, 1, 0x01, 8, 132,  81024, 8, 7, 7, 1},
};

static const struct mig_profile h200_profiles[] = {
        {"1g.18gb",      P(1_SLICE),        19, 1, 7, 0x7f, 1,  16,  17792, 1, 1, 1, 0},
        {"1g.18gb+me",   P(1_SLICE_REV1),   20, 1, 1, 0x7f, 1,  16,  17792, 1, 1, 1, 1},
        {"1g.35gb",      P(1_SLICE_REV2),   15, 1, 4, 0x55, 2,  26,  35584, 1, 1, 1, 0},
        {"2g.35gb",      P(2_SLICE),        14, 2, 3, 0x15, 2,  32,  35584, 2, 2, 2, 0},
        {"3g.71gb",      P(3_SLICE),         9, 3, 2, 0x11, 4,  60,  71424, 3, 3, 3, 0},
        {"4g.71gb",      P(4_SLICE),         5, 4, 1, 0x01, 4,  64,  71424, 4, 4, 4, 0},
        {"7g.141gb",     P(7_SLICE),         0, 7, 1, 0x01, 8, 132, 143104, 8, 7, 7, 1},
};

static const struct mig_profile gb200_profiles[] = {
        {"1g.23gb",      P(1_SLICE),        19, 1, 7, 0x7f, 1,  18,  23552, 2, 1, 1, 0},
        {"1g.23gb+me",   P(1_SLICE_REV1),   20, 1, 1, 0x7f, 1,  18,  23552, 2, 1, 1, 1},
        {"1g.47gb",      P(1_SLICE_REV2),   15, 1, 4, 0x55, 2,  30,  47104, 2, 1, 1, 0},
        {"2g.47gb",      P(2_SLICE),        14, 2, 3, 0x15, 2,  36,  47104, 3, 2, 2, 0},
        {"3g.93gb",      P(3_SLICE),         9, 3, 2, 0x11, 4,  70,  94336, 6, 3, 3, 0},
        {"4g.93gb",      P(4_SLICE),         5, 4, 1, 0x01, 4,  72,  94336, 8, 4, 4, 0},
        {"7g.186gb",     P(7_SLICE),         0, 7, 1, 0x01, 8, 152, 188928, 16, 7, 7, 1},
};

static const struct mig_profile rtx_pro_6000_profiles[] = {
        {"1g.24gb",        P(1_SLICE),        14, 1, 4, 0x0f, 1,  46,  24192, 1, 1, 1, 0, 1},
        {"1g.24gb+me",     P(1_SLICE_REV1),   21, 1, 1, 0x0f, 1,  46,  24192, 1, 1, 1, 1, 1},
        {"1g.24gb+gfx",    P(1_SLICE_GFX),    47, 1, 4, 0x0f, 1,  46,  24192, 1, 1, 1, 0, 1},
        {"1g.24gb+me.all", P(1_SLICE_ALL_ME), 65, 1, 1, 0x0f, 1,  46,  24192, 1, 4, 4, 1, 4},
        {"1g.24gb-me",     P(1_SLICE_NO_ME),  67, 1, 4, 0x0f, 1,  46,  24192, 1, 0, 0, 0, 0},
        {"2g.48gb",        P(2_SLICE),         5, 2, 2, 0x05, 2,  94,  48512, 2, 2, 2, 0, 2},
        {"2g.48gb+gfx",    P(2_SLICE_GFX),    35, 2, 2, 0x05, 2,  94,  48512, 2, 2, 2, 0, 2},
        {"2g.48gb+me.all", P(2_SLICE_ALL_ME), 64, 2, 1, 0x05, 2,  94,  48512, 2, 4, 4, 1, 4},
        {"2g.48gb-me",     P(2_SLICE_NO_ME),  66, 2, 2, 0x05, 2,  94,  48512, 2, 0, 0, 0, 0},
        {"4g.96gb",        P(4_SLICE),         0, 4, 1, 0x01, 4, 188,  97280, 4, 4, 4, 1, 4},
        {"4g.96gb+gfx",    P(4_SLICE_GFX),    32, 4, 1, 0x01, 4, 188,  97280, 4, 4, 4, 1, 4},
};
/* clang-format on */

#define PROFILES(table) .profiles = (table), .n_profiles = ARRAY_SIZE(table)

static const struct model models[] = {
        {.key = "V100-32GB",
                .product = "Tesla V100-SXM2-32GB",
                .brand = NVML_BRAND_TESLA,
                .architecture = NVML_DEVICE_ARCH_VOLTA,
                .compute_major = 7,
                .memory_mib = 32605, /* 31.84 GiB; one of 20 equal shares is 1,630 MiB */
                .reserved_mib = 256,
                .bar1_mib = 32768,
                .multiprocessors = 80,
                .cores = 64,
                .pci_device = 0x1db5,
                .pci_subsystem = 0x1249,
                .nvlinks = 6,
                .nvlink_version = 2,
                .power_w = 300,
                .clock_mhz = 1530,
                .memory_clock_mhz = 877,
                .pcie_generation = 3},
        {.key = "T4",
                .product = "Tesla T4",
                .brand = NVML_BRAND_TESLA,
                .architecture = NVML_DEVICE_ARCH_TURING,
                .compute_major = 7,
                .compute_minor = 5,
                .memory_mib = 15360,
                .reserved_mib = 448,
                .bar1_mib = 256,
                .multiprocessors = 40,
                .cores = 64,
                .pci_device = 0x1eb8,
                .pci_subsystem = 0x12a2,
                .power_w = 70,
                .clock_mhz = 1590,
                .memory_clock_mhz = 5001,
                .pcie_generation = 3},
        {.key = "A30",
                .product = "NVIDIA A30",
                .brand = NVML_BRAND_NVIDIA,
                .architecture = NVML_DEVICE_ARCH_AMPERE,
                .compute_major = 8,
                .memory_mib = 24576,
                .reserved_mib = 512,
                .bar1_mib = 32768,
                .multiprocessors = 56,
                .cores = 64,
                .pci_device = 0x20b7,
                .pci_subsystem = 0x1532,
                .nvlinks = 4,
                .nvlink_version = 3,
                .power_w = 165,
                .clock_mhz = 1440,
                .memory_clock_mhz = 1215,
                .pcie_generation = 4,
                .memory_slices = 4,
                .compute_slices = 4,
                PROFILES(a30_profiles)},
        {.key = "A100-40GB",
                .product = "NVIDIA A100-SXM4-40GB",
                .brand = NVML_BRAND_NVIDIA,
                .architecture = NVML_DEVICE_ARCH_AMPERE,
                .compute_major = 8,
                .memory_mib = 40960,
                .reserved_mib = 512,
                .bar1_mib = 65536,
                .multiprocessors = 108,
                .cores = 64,
                .pci_device = 0x20b0,
                .pci_subsystem = 0x134f,
                .nvlinks = 12,
                .nvlink_version = 3,
                .power_w = 400,
                .clock_mhz = 1410,
                .memory_clock_mhz = 1215,
                .pcie_generation = 4,
                .memory_slices = 8,
                .compute_slices = 7,
                PROFILES(a100_40_profiles)},
        {.key = "A100-80GB",
                .product = "NVIDIA A100-SXM4-80GB",
                .brand = NVML_BRAND_NVIDIA,
                .architecture = NVML_DEVICE_ARCH_AMPERE,
                .compute_major = 8,
                .memory_mib = 81920,
                .reserved_mib = 768,
                .bar1_mib = 131072,
                .multiprocessors = 108,
                .cores = 64,
                .pci_device = 0x20b2,
                .pci_subsystem = 0x1463,
                .nvlinks = 12,
                .nvlink_version = 3,
                .power_w = 400,
                .clock_mhz = 1410,
                .memory_clock_mhz = 1593,
                .pcie_generation = 4,
                .memory_slices = 8,
                .compute_slices = 7,
                PROFILES(a100_80_profiles)},
        {.key = "L40S",
                .product = "NVIDIA L40S",
                .brand = NVML_BRAND_NVIDIA,
                .architecture = NVML_DEVICE_ARCH_ADA,
                .compute_major = 8,
                .compute_minor = 9,
                .memory_mib = 46068,
                .reserved_mib = 512,
                .bar1_mib = 65536,
                .multiprocessors = 142,
                .cores = 128,
                .pci_device = 0x26b9,
                .pci_subsystem = 0x1851,
                .power_w = 350,
                .clock_mhz = 2520,
                .memory_clock_mhz = 9001,
                .pcie_generation = 4},
        {.key = "H100-80GB",
                .product = "NVIDIA H100 80GB HBM3",
                .brand = NVML_BRAND_NVIDIA,
                .architecture = NVML_DEVICE_ARCH_HOPPER,
                .compute_major = 9,
                .memory_mib = 81559,
                .reserved_mib = 512,
                .bar1_mib = 131072,
                .multiprocessors = 132,
                .cores = 128,
                .pci_device = 0x2330,
                .pci_subsystem = 0x16c1,
                .nvlinks = 18,
                .nvlink_version = 4,
                .power_w = 700,
                .clock_mhz = 1980,
                .memory_clock_mhz = 2619,
                .pcie_generation = 5,
                .memory_slices = 8,
                .compute_slices = 7,
                PROFILES(h100_profiles)},
        {.key = "H200",
                .product = "NVIDIA H200",
                .brand = NVML_BRAND_NVIDIA,
                .architecture = NVML_DEVICE_ARCH_HOPPER,
                .compute_major = 9,
                .memory_mib = 143771,
                .reserved_mib = 640,
                .bar1_mib = 262144,
                .multiprocessors = 132,
                .cores = 128,
                .pci_device = 0x2335,
                .pci_subsystem = 0x18be,
                .nvlinks = 18,
                .nvlink_version = 4,
                .power_w = 700,
                .clock_mhz = 1980,
                .memory_clock_mhz = 3201,
                .pcie_generation = 5,
                .memory_slices = 8,
                .compute_slices = 7,
                PROFILES(h200_profiles)},
        {.key = "GB200",
                .product = "NVIDIA GB200",
                .brand = NVML_BRAND_NVIDIA,
                .architecture = NVML_DEVICE_ARCH_BLACKWELL,
                .compute_major = 10,
                .memory_mib = 189471,
                .reserved_mib = 640,
                .bar1_mib = 262144,
                .multiprocessors = 152,
                .cores = 128,
                .pci_device = 0x2941,
                .pci_subsystem = 0x2046,
                .nvlinks = 18,
                .nvlink_version = 5,
                .power_w = 1200,
                .clock_mhz = 2062,
                .memory_clock_mhz = 3996,
                .pcie_generation = 5,
                .coherent = true,
                .memory_slices = 8,
                .compute_slices = 7,
                PROFILES(gb200_profiles)},
        {.key = "RTX-PRO-6000",
                .product = "NVIDIA RTX PRO 6000 Blackwell Server Edition",
                .brand = NVML_BRAND_NVIDIA_RTX,
                .architecture = NVML_DEVICE_ARCH_BLACKWELL,
                .compute_major = 12,
                .memory_mib = 97887,
                .reserved_mib = 640,
                .bar1_mib = 131072,
                .multiprocessors = 188,
                .cores = 128,
                .pci_device = 0x2bb5,
                .pci_subsystem = 0x204e,
                .power_w = 600,
                .clock_mhz = 2430,
                .memory_clock_mhz = 12481,
                .pcie_generation = 5,
                .memory_slices = 4,
                .compute_slices = 4,
                PROFILES(rtx_pro_6000_profiles)},
};

const struct model *model_at(size_t position)
{
        return position < ARRAY_SIZE(models) ? &models[position] : NULL;
}

const struct model *model_find(const char *key)
{
        for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
                if (strcmp(models[i].key, key) == 0)
                        return &models[i];
        }
        return NULL;
}

bool model_sets_mig_mode_without_reset(const struct model *model)
{
        return model->memory_slices && model->architecture >= NVML_DEVICE_ARCH_HOPPER;
}

const struct mig_profile *model_profile(const struct model *model, const char *name)
{
        for (size_t i = 0; i < model->n_profiles; i++) {
                if (strcmp(model->profiles[i].name, name) == 0)
                        return &model->profiles[i];
        }
        return NULL;
}

const struct mig_profile *model_profile_by_id(const struct model *model, unsigned int id)
{
        for (size_t i = 0; i < model->n_profiles; i++) {
                if (model->profiles[i].id == id)
                        return &model->profiles[i];
        }
        return NULL;
}

const struct mig_profile *model_profile_by_index(const struct model *model, unsigned int index)
{
        for (size_t i = 0; i < model->n_profiles; i++) {
                if (model->profiles[i].index == index)
                        return &model->profiles[i];
        }
        return NULL;
}
