// SPDX-License-Identifier: Apache-2.0
/*
 * The programs that run on the GPU, as PTX text, which the driver compiles: ISA 6.0 for sm_70, which every driver since
 * 2017 takes and which runs on Volta and everything newer. Their arguments, and how they are to be launched, stand
 * here.
 *
 * kernel_place(records, counters, cycles): which SMs a grid gets at one time. Each block writes its struct
 * kernel_place; the first thread of it then waits until all blocks have arrived, or one has left, or |cycles| have
 * passed, the other threads at a barrier. So blocks that found |left| at 0 were on the GPU together: those are the SMs
 * that it has for us at one time, however the scheduler moves later blocks about. Blocks of 1,024 threads: at most two
 * find room on an SM, so that a grid cannot be stacked on a few of them. |counters| are two 32-bit numbers, arrived and
 * left, 0 at the start.
 *
 * kernel_copy(to, from, count): copies |count| times 16 bytes, any grid.
 *
 * kernel_work(out, rounds): nothing but multiply-adds in registers, KERNEL_WORK_FLOPS a thread and round; any grid.
 * |out| is a 32-bit number that is never written in fact; it keeps the compiler from dropping the work.
 *
 * kernel_fault(): writes to address 0. Under MPS every client of the GPU feels that.
 */
#pragma once

#include <stdint.h>

struct kernel_place {
        uint32_t sm;
        uint32_t left;  /* blocks that had left when this one came */
        uint64_t clock; /* of its SM */
};

#define KERNEL_PLACE "warpshare_place"
#define KERNEL_PLACE_THREADS 1024U
#define KERNEL_COPY "warpshare_copy"
#define KERNEL_WORK "warpshare_work"
#define KERNEL_WORK_FLOPS 32U
#define KERNEL_FAULT "warpshare_fault"

extern const char kernels_ptx[];
