/*
 * What GPUs this node has: a snapshot, immutable, in one arena, without any NVML handle in it.
 *
 * It is read by gpu/nvml_read.h (and made up by tests); plan, labels and CDI only ever see this. "Unknown" is a value: NVML
 * answers NOT_SUPPORTED for many fields on many boards. A GPU whose reading failed is in the list all the same, with its
 * reason, as long as its UUID could be found out.
 *
 * Sizes are bytes. Numbers that NVML reports as an index or minor are as NVML reports them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

#define GPU_UNKNOWN_INT (-1)

enum gpu_architecture {
        GPU_ARCHITECTURE_UNKNOWN = 0,
        GPU_ARCHITECTURE_KEPLER = 2,
        GPU_ARCHITECTURE_MAXWELL = 3,
        GPU_ARCHITECTURE_PASCAL = 4,
        GPU_ARCHITECTURE_VOLTA = 5,
        GPU_ARCHITECTURE_TURING = 6,
        GPU_ARCHITECTURE_AMPERE = 7,
        GPU_ARCHITECTURE_ADA = 8,
        GPU_ARCHITECTURE_HOPPER = 9,
        GPU_ARCHITECTURE_BLACKWELL = 10,
        GPU_ARCHITECTURE_RUBIN = 13,
};

/*
 * How GPUs are found. On WSL there is one unit for all of them, "all"; on Tegra one, "tegra": both are shown as one GPU without
 * memory, node or health.
 */
enum platform { PLATFORM_NVML, PLATFORM_WSL, PLATFORM_TEGRA };

/* Device nodes that exist, as far as containers need them: a set of bits. */
enum {
        NODE_NVIDIACTL = 1U << 0,   /* /dev/nvidiactl */
        NODE_UVM = 1U << 1,         /* /dev/nvidia-uvm */
        NODE_UVM_TOOLS = 1U << 2,   /* /dev/nvidia-uvm-tools */
        NODE_MODESET = 1U << 3,     /* /dev/nvidia-modeset */
        NODE_IMEX_CHANNEL = 1U << 4 /* /dev/nvidia-caps-imex-channels/channel0 */
};

/* What a MIG device has, as nvmlDeviceGetAttributes_v2 tells it. */
struct mig_attributes {
        unsigned int gpu_slices;
        unsigned int compute_slices;
        unsigned int multiprocessors;
        unsigned int copy_engines;
        unsigned int decoders;
        unsigned int encoders;
        unsigned int jpegs;
        unsigned int ofas;
        uint64_t memory_mib;
};

/* One compute instance in one GPU instance. */
struct mig_device {
        const char *uuid;
        const char *profile; /* "1g.5gb", "1c.3g.20gb", "1g.10gb+me"; NULL: NVML names none that we know */
        unsigned int index;  /* NVML's MIG index below its GPU: not stable over destroy and create */
        unsigned int gpu_instance;
        unsigned int compute_instance;
        int gpu_instance_cap;     /* minor of /dev/nvidia-caps/nvidia-cap<n>; -1 unknown */
        int compute_instance_cap; /* the same */
        struct mig_attributes attributes;
        uint64_t memory;     /* of the instance, total, bytes */
        const char *failure; /* why it could not be read now, or NULL; the rest is what was known: inventory_keep() */
};

/* The link between two GPUs, from the point of view of the first. */
struct gpu_link {
        int level; /* nvmlGpuTopologyLevel: 0 same board, 10, 20, 30, 40, 50 different sockets; -1 unknown */
        unsigned int
                nvlinks; /* active NVLinks that end at the peer; with NVSwitch: all active ones, if P2P over NVLink is OK */
        bool p2p;        /* peer reads work */
};

/*
 * The domain of NVLink over several nodes that a GPU belongs to: those of one cluster and clique reach each other. A GPU registers
 * itself some time after the driver has started.
 */
struct gpu_fabric {
        enum { GPU_FABRIC_NONE, GPU_FABRIC_PENDING, GPU_FABRIC_ATTACHED } state;
        const char *cluster; /* UUID, "d2f0…-…"; while attached, else NULL */
        unsigned int clique;
};

struct gpu {
        const char *uuid;
        const char *name;       /* product name, valid UTF-8 */
        const char *bus;        /* "0000:3b:00.0" as sysfs spells it, or NULL */
        const char *pcie_root;  /* "pci0000:3a", the root complex it is below, or NULL */
        unsigned int pci_class; /* as sysfs has it: 0x030000 VGA, 0x030200 3D controller; 0 unknown */
        unsigned int index;
        int minor;         /* /dev/nvidia<minor>, -1 unknown */
        int brand;         /* nvmlBrandType, -1 unknown */
        int numa_node;     /* -1: none or unknown */
        int compute_major; /* -1 unknown */
        int compute_minor;
        enum gpu_architecture architecture;
        uint64_t memory;              /* total; 0 unknown */
        uint64_t memory_reserved;     /* of the total, by the driver for itself; 0 unknown */
        unsigned int multiprocessors; /* SMs; 0 unknown */
        int coherent; /* 1: GPU and CPU see each other's memory by one set of page tables (ATS); 0; -1 unknown */
        bool mig_capable;
        bool mig_enabled;
        bool is_claimed; /* DRA claims have something of it: the agent knows, NVML does not */
        unsigned int mig_max;
        const struct mig_device *mig_devices;
        size_t n_mig_devices;
        const char *const *mig_failures; /* "MIG device 3: …": those that NVML lists but that could not be read */
        size_t n_mig_failures;
        /* What MIG devices of this GPU can be, with all slices of their GPU instance, MIG enabled or not; unique, in NVML's
         * order. Drivers that cannot tell while MIG is off leave it empty then. */
        const char *const *mig_profiles;
        size_t n_mig_profiles;
        struct gpu_fabric fabric;
        const struct gpu_link *links; /* one a GPU of the inventory, by position; the own one is zero */
        const char *failure; /* why it cannot be used, or NULL; the fields read before the failure are filled */
};

struct inventory {
        struct arena arena; /* holds everything, this struct's strings included */
        enum platform platform;
        unsigned int nodes;         /* NODE_* */
        const char *driver_version; /* "580.105.08" */
        const char *nvml_version;
        int cuda_major;
        int cuda_minor;
        struct gpu *gpus; /* in NVML's order; each UUID once */
        size_t n_gpus;
        /* GPUs that NVML counts but that would not tell even a UUID: they cannot be advertised, only reported. */
        const char **unnamed_failures;
        size_t n_unnamed_failures;
        bool links_unread; /* the links between GPUs were not asked for; inventory_keep() completes them */
};

/* A GPU of which nothing is known yet but the UUID: the name is empty, numbers are GPU_UNKNOWN_INT. */
struct gpu inventory_unknown_gpu(const char *uuid);

struct inventory *inventory_new(void);
struct inventory *inventory_free(struct inventory *inventory); /* accepts NULL, returns NULL */

static inline void inventory_freep(struct inventory **inventory)
{
        inventory_free(*inventory);
}

const struct gpu *inventory_find(const struct inventory *inventory, const char *uuid);

/* The GPU with this UUID, or the one that the MIG device with it is on; NULL: neither. |ret_mig| is NULL for a whole GPU. */
const struct gpu *inventory_find_unit(
        const struct inventory *inventory, const char *uuid, const struct mig_device **ret_mig);

/* |uuid| is that of the GPU, or of a MIG device on it. */
bool gpu_has_unit(const struct gpu *gpu, const char *uuid);

/* There is a GPU or a MIG device with this UUID. */
bool inventory_has(const struct inventory *inventory, const char *uuid);

/* All of them: what NVIDIA's strategy "single" asks of the MIG devices of a node. */
bool mig_attributes_are_same(const struct mig_attributes *a, const struct mig_attributes *b);

/* True when what was made from |a| holds for |b|: the same GPUs and MIG devices with the same properties, the same ones of
 * them failing; for which reason does not matter. */
bool inventory_is_same(const struct inventory *a, const struct inventory *b);

struct inventory *inventory_copy(const struct inventory *inventory);

/*
 * Completes |fresh|, just read, by what |previous| knew: a GPU that fails now keeps the properties it had, MIG devices and
 * links included, and one that would not even tell its UUID takes its old place, as failed. So a GPU that gets lost stays in
 * the inventory as long as NVML counts it, and kubelet never sees ids vanish that containers hold. The same for MIG devices:
 * where some of a GPU's could not be read, as many of those that are missing come back with that failure. Profiles that NVML
 * tells no more are kept as well, since a UUID has one profile for life. And so is what the driver reserves of the same memory,
 * which no document calls constant: shares are made from it, and those that were handed out must stay as they are.
 */
void inventory_keep(struct inventory *fresh, const struct inventory *previous);
