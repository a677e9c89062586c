// SPDX-License-Identifier: Apache-2.0
/*
 * Machines as they are sold, by their links; for tests and for bench/. Units are numbered as nvidia-smi shows them.
 *
 * What is known of each is in its comment. Where only the NVLinks are documented, the PCI tree is a usual one: pairs
 * below one switch, one host bridge a socket.
 */
#pragma once

#include "gpu/inventory.h"

struct topology {
        const char *name;
        size_t n_gpus;
        struct gpu_link (*link)(size_t a, size_t b);
};

static inline int topology_level(size_t a, size_t b, size_t n_gpus)
{
        return a / 2 == b / 2 ? 10 : a / (n_gpus / 2) == b / (n_gpus / 2) ? 30 : 50;
}

/* Two sockets, two switches each, no NVLink. */
static inline struct gpu_link link_pcie_8(size_t a, size_t b)
{
        return (struct gpu_link){.level = topology_level(a, b, 8)};
}

static inline struct gpu_link link_pcie_16(size_t a, size_t b)
{
        int level = a / 4 == b / 4 && a / 2 != b / 2 ? 20 : topology_level(a, b, 16);

        return (struct gpu_link){.level = level};
}

/* PCIe boards in pairs with three NVLink bridges (A100 PCIe: 12 links), each board below a root port of its own. */
static inline struct gpu_link link_bridges_8(size_t a, size_t b)
{
        return (struct gpu_link){.level = a / 4 == b / 4 ? 40 : 50, .nvlinks = a / 2 == b / 2 ? 12 : 0};
}

/* DGX-1 with V100: the hybrid cube mesh, six NVLinks a GPU, as `nvidia-smi topo -m` prints it there. */
static inline struct gpu_link link_dgx1(size_t a, size_t b)
{
        static const unsigned char nvlinks[8][8] = {
                {0, 1, 1, 2, 2, 0, 0, 0},
                {1, 0, 2, 1, 0, 2, 0, 0},
                {1, 2, 0, 2, 0, 0, 1, 0},
                {2, 1, 2, 0, 0, 0, 0, 1},
                {2, 0, 0, 0, 0, 1, 1, 2},
                {0, 2, 0, 0, 1, 0, 2, 1},
                {0, 0, 1, 0, 1, 2, 0, 2},
                {0, 0, 0, 1, 2, 1, 2, 0},
        };

        return (struct gpu_link){.level = topology_level(a, b, 8), .nvlinks = nvlinks[a][b]};
}

/* DGX-2: 16 V100, six NVLinks each, all to NVSwitch. */
static inline struct gpu_link link_dgx2(size_t a, size_t b)
{
        struct gpu_link link = link_pcie_16(a, b);

        link.nvlinks = 6;
        return link;
}

/* HGX H100: 18 NVLinks each, all to NVSwitch; each GPU below a switch of its own, four a socket. */
static inline struct gpu_link link_hgx_8(size_t a, size_t b)
{
        return (struct gpu_link){.level = a / 4 == b / 4 ? 40 : 50, .nvlinks = 18};
}

/* The same in a virtual machine that shows all GPUs below one host bridge: all pairs are alike. */
static inline struct gpu_link link_flat(size_t a, size_t b)
{
        return (struct gpu_link){.level = a == b ? 0 : 30, .nvlinks = 18};
}

/* No machine at all: links without any order, which leave the search the least to skip. */
static inline struct gpu_link link_random(size_t a, size_t b)
{
        size_t low = a < b ? a : b;
        size_t high = a < b ? b : a;
        unsigned int hash = (unsigned int)(16 * high + low) * 2654435761U >> 8;

        return (struct gpu_link){.level = (int)(hash % 6 * 10), .nvlinks = hash / 6 % 3 ? 0 : hash / 18 % 4};
}

static const struct topology topologies[] = {
        {"nvswitch-vm-8", 8, link_flat},
        {"hgx-8", 8, link_hgx_8},
        {"dgx1-8", 8, link_dgx1},
        {"pcie-8", 8, link_pcie_8},
        {"bridges-8", 8, link_bridges_8},
        {"nvswitch-vm-16", 16, link_flat},
        {"dgx2-16", 16, link_dgx2},
        {"pcie-16", 16, link_pcie_16},
        {"random-16", 16, link_random},
};
