// SPDX-License-Identifier: Apache-2.0
/*
 * The steps of node/dra/prepare.h (node/dra/reading.h, node/dra/allocation.h), with which a test is linked instead of
 * the real ones: ledger, CDI files and record are files of one folder, so that they outlive a process that is killed.
 * What is asked for waits in |asked| until the test answers, or is answered at once.
 *
 * Each allocation has a new number, which is in the ledger's file, in the CDI file and in the record: so it shows when
 * they are not of the same allocation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "node/dra/prepare.h"

#define FAKE_DRIVER "gpu.warpshare.dev"
#define FAKE_KILLED 77 /* exit status of who was killed by |steps_left| */
#define FAKE_ASKED_MAX 16

enum fake_kind { FAKE_READ, FAKE_ALLOCATE, FAKE_RELEASE };

struct fake_asked {
        enum fake_kind kind;
        char uid[64];
        struct dra_claim *claim; /* of FAKE_READ and FAKE_ALLOCATE, with its arena; else NULL */
        struct arena *arena;
        dra_allocator_done_fn *done;
        void *data;
};

struct fake_node {
        char folder[64];
        char record_path[96];
        char cdi[96];
        char held[96];
        struct dra_node real; /* of which Prepare has the record and the driver's name */
        struct dra_record *record;
        struct dra_prepare *prepare;
        const char *devices; /* that each claim has, one a word: "gpu-0-shared gpu-0-shared" */
        bool answers_at_once;
        bool refuses_allocations;
        bool fails_writes; /* of CDI files */
        bool fails_removals;
        int steps_left; /* the process ends when it has made so many; < 0: it does not */
        struct fake_asked asked[FAKE_ASKED_MAX];
        size_t n_asked;
        size_t n_reads;
        size_t n_prepared; /* that users were shown */
        size_t n_unprepared;
};

void fake_init(struct fake_node *node);
void fake_done(struct fake_node *node);

/* The driver's process starts with what it finds, and ends: what was asked for is forgotten. */
void fake_start(struct fake_node *node, const char *boot_id);
void fake_stop(struct fake_node *node);

/* What a reboot clears of the ledger, and of a folder of CDI files that is not kept. */
void fake_clear_held(struct fake_node *node);
void fake_clear_cdi(struct fake_node *node);

/* UID of claim |i|, 0 to 7. */
const char *fake_uid(size_t i);
struct dra_claim fake_claim(size_t i);

/* What asked[i] changes in the ledger, and then the answer; it leaves the list. */
void fake_change(struct fake_node *node, size_t i);
void fake_answer(struct fake_node *node, size_t i);
void fake_refuse(struct fake_node *node, size_t i, const struct error *err);

/* Bit i: claim i. */
unsigned int fake_mask_held(const struct fake_node *node);
unsigned int fake_mask_cdi(const struct fake_node *node);
unsigned int fake_mask_record(const struct fake_node *node, enum dra_claim_state state);

/* Number of the allocation of claim |i|: in the ledger and in the CDI file; 0: none. */
unsigned int fake_held_number(const struct fake_node *node, size_t i);
unsigned int fake_cdi_number(const struct fake_node *node, size_t i);

void fake_path_of_cdi(const struct fake_node *node, size_t i, char path[256]);
