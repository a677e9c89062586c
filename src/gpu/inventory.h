// SPDX-License-Identifier: Apache-2.0
/*
 * The GPUs of this node: an immutable snapshot in one arena, without NVML handles.
 *
 * gpu/nvml_read.h makes it (and tests do); plan, labels and CDI see only this. "Unknown" is a value: NVML answers
 * NOT_SUPPORTED for many fields on many boards. A GPU that could not be read is in the list with the reason, if at
 * least its UUID is known.
 *
 * Sizes are bytes. Indices and minors are as NVML reports them.
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
 * How GPUs are found. WSL has one unit for all GPUs, "all"; Tegra has one, "tegra". Both are listed as one GPU without
 * memory, node or health.
 */
enum platform { PLATFORM_NVML, PLATFORM_WSL, PLATFORM_TEGRA };

/* The existing device nodes that containers need, as a set of bits. */
enum {
        NODE_NVIDIACTL = 1U << 0,   /* /dev/nvidiactl */
        NODE_UVM = 1U << 1,         /* /dev/nvidia-uvm */
        NODE_UVM_TOOLS = 1U << 2,   /* /dev/nvidia-uvm-tools */
        NODE_MODESET = 1U << 3,     /* /dev/nvidia-modeset */
        NODE_IMEX_CHANNEL = 1U << 4 /* /dev/nvidia-caps-imex-channels/channel0 */
};

/* The attributes of a MIG device, from nvmlDeviceGetAttributes_v2. */
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
        const char *profile;         /* "1g.5gb", "1c.3g.20gb", "1g.10gb+me"; NULL: not known */
        const char *profile_failure; /* why |profile| is not known, with NVML's own words, or NULL */
        unsigned int index; /* NVML's MIG index in its GPU; it changes when instances are destroyed and created */
        unsigned int gpu_instance;
        unsigned int compute_instance;
        int gpu_instance_cap;     /* minor of /dev/nvidia-caps/nvidia-cap<n>; -1 unknown */
        int compute_instance_cap; /* the same */
        struct mig_attributes attributes;
        uint64_t memory;     /* of the instance, total, bytes */
        bool is_withdrawn;   /* not offered to pods, because its MIG geometry changes or may change; set by the
                              * agent, not read from NVML */
        const char *failure; /* why it could not be read now, or NULL; then the other fields are from before:
                              * inventory_keep() */
};

/* A GPU instance profile as NVML has it, and where on the GPU such instances may be. */
struct mig_instance_profile {
        const char *name;    /* "1g.10gb+me" */
        unsigned int id;     /* that makes it: nvmlGpuInstanceProfileInfo_t.id */
        unsigned int slices; /* compute slices */
        unsigned int size;   /* memory slices */
        unsigned int count;  /* most that fit on an empty GPU */
        uint32_t starts;     /* bit n: may begin at memory slice n */
        struct mig_attributes attributes;
};

/* A GPU instance that is there, with its MIG devices or without any. */
struct mig_placed {
        unsigned int gpu_instance;
        unsigned int profile_id;
        unsigned int start;
};

/* The link between two GPUs, from the point of view of the first. */
struct gpu_link {
        int level;            /* nvmlGpuTopologyLevel: 0 same board, 10, 20, 30, 40, 50 different sockets; -1 unknown */
        unsigned int nvlinks; /* active NVLinks to the peer; with NVSwitch: all active ones, if P2P over NVLink is OK */
        bool p2p;             /* peer reads work */
};

/*
 * The multi-node NVLink domain of a GPU: GPUs of the same cluster and clique can reach each other. A GPU registers some
 * time after the driver has started.
 */
struct gpu_fabric {
        enum { GPU_FABRIC_NONE, GPU_FABRIC_PENDING, GPU_FABRIC_ATTACHED } state;
        const char *cluster; /* UUID, "d2f0…-…", if the GPU is attached; otherwise NULL */
        unsigned int clique;
};

struct gpu {
        const char *uuid;
        const char *name;       /* product name, valid UTF-8 */
        const char *bus;        /* "0000:3b:00.0" as sysfs spells it, or NULL */
        const char *pcie_root;  /* "pci0000:3a", its PCI root complex, or NULL */
        unsigned int pci_class; /* as sysfs has it: 0x030000 VGA, 0x030200 3D controller; 0 unknown */
        unsigned int index;
        int minor;         /* /dev/nvidia<minor>, -1 unknown */
        int brand;         /* nvmlBrandType, -1 unknown */
        int numa_node;     /* -1: none or unknown */
        int compute_major; /* -1 unknown */
        int compute_minor;
        enum gpu_architecture architecture;
        uint64_t memory;              /* total; 0 unknown */
        uint64_t memory_reserved;     /* the driver's part of the total; 0 unknown */
        unsigned int multiprocessors; /* SMs; 0 unknown */
        int coherent;                 /* 1: GPU and CPU share one set of page tables (ATS); 0; -1 unknown */
        bool mig_capable;
        bool mig_enabled;
        bool is_claimed;   /* DRA claims have something of it: the agent knows, NVML does not */
        bool is_withdrawn; /* as of a MIG device: the whole GPU */
        unsigned int mig_max;
        const struct mig_device *mig_devices;
        size_t n_mig_devices;
        const char *const *mig_failures; /* "MIG device 3: …": MIG devices that NVML lists but that could not be read */
        size_t n_mig_failures;
        /*
         * The MIG profiles that this GPU can have, with all slices of their GPU instance, whether MIG is enabled or
         * not; unique, in NVML's order. Empty while MIG is off if the driver cannot list them then.
         */
        const char *const *mig_profiles;
        size_t n_mig_profiles;
        /* Where MIG is enabled: what instances can be made, and those that are there. */
        const struct mig_instance_profile *mig_instance_profiles;
        size_t n_mig_instance_profiles;
        const struct mig_placed *mig_placed;
        size_t n_mig_placed;
        const char *mig_geometry_failure; /* why neither is known, or NULL */
        struct gpu_fabric fabric;
        const struct gpu_link *links; /* one per GPU, by position in the inventory; its own is zero */
        const char *failure;          /* why it cannot be used, or NULL; fields read before the failure are filled */
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
        /* GPUs that NVML counts but that did not report even a UUID: they are only logged, not advertised. */
        const char **unnamed_failures;
        size_t n_unnamed_failures;
        bool links_unread; /* the links between GPUs were not read; inventory_keep() completes them */
};

/* A GPU of which only the UUID is known: the name is empty, numbers are GPU_UNKNOWN_INT. */
struct gpu inventory_unknown_gpu(const char *uuid);

struct inventory *inventory_new(void);
struct inventory *inventory_free(struct inventory *inventory); /* accepts NULL, returns NULL */

static inline void inventory_freep(struct inventory **inventory)
{
        inventory_free(*inventory);
}

const struct gpu *inventory_find(const struct inventory *inventory, const char *uuid);

/*
 * The GPU with this UUID, or the GPU of the MIG device with this UUID; NULL: neither exists. |ret_mig| is NULL for a
 * whole GPU.
 */
const struct gpu *inventory_find_unit(
        const struct inventory *inventory, const char *uuid, const struct mig_device **ret_mig);

/* |uuid| is that of the GPU, or of a MIG device on it. */
bool gpu_has_unit(const struct gpu *gpu, const char *uuid);

/* There is a GPU or a MIG device with this UUID. */
bool inventory_has(const struct inventory *inventory, const char *uuid);

/* All MIG devices have the same profile, which NVIDIA's strategy "single" requires. */
bool mig_attributes_are_same(const struct mig_attributes *a, const struct mig_attributes *b);

/*
 * True if a plan made from |a| is valid for |b|: the same GPUs and MIG devices with the same properties, and the same
 * ones failing. The reasons of failures may differ.
 */
bool inventory_is_same(const struct inventory *a, const struct inventory *b);

struct inventory *inventory_copy(const struct inventory *inventory);

/* Written, or read as a new inventory, which has to be freed even where the bytes end too early. */
struct pack;
void inventory_pack(struct pack *pack, struct inventory **inventory);
void gpu_pack(struct pack *pack, struct gpu *gpu); /* without the links; what is read lives in the pack's arena */

/* Marks of each GPU, and of each MIG device, whether it is withdrawn. |unit| is the UUID of either. */
void inventory_withdraw(
        struct inventory *inventory, bool (*takes)(const struct gpu *gpu, const char *unit, void *data), void *data);

/*
 * Completes |fresh|, which was just read, with what |previous| knew.
 *
 * A GPU that fails now keeps its properties, MIG devices and links; one that does not report even its UUID takes its
 * old place, as failed. So a lost GPU stays in the inventory while NVML counts it, and kubelet never sees an id vanish
 * that a container holds. If some of a GPU's MIG devices could not be read, as many of the missing ones come back with
 * that failure.
 *
 * A profile that NVML no longer reports is kept, since a UUID never changes its profile. The driver's reserved memory
 * is kept if the total is the same: no document calls it constant, but shares are computed from it, and shares of
 * running containers must not change.
 */
void inventory_keep(struct inventory *fresh, const struct inventory *previous);
