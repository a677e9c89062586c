// SPDX-License-Identifier: Apache-2.0
/*
 * The record of a change of MIG geometry that is under way: a file in the state directory, replaced as a whole and on
 * the disk before each step is taken. No record exists without a change. It has all that the next process needs to
 * finish or undo the change, after a kill or a reboot.
 *
 * An instance of a GPU that changes is an item, with what was last known of it:
 *
 *              MAKING ────────────► PRESENT
 *                ▲                     │
 *                │ is made             │ is destroyed
 *                │                     ▼
 *             ABSENT ◄───────────── REMOVING
 *
 * MAKING and REMOVING are recorded before the driver is called. A process that finds them checks whether the driver had
 * done it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "mig/plan.h"

#define MIG_RECORD_NAME "change.json" /* in the state directory */
#define MIG_RECORD_GPUS_MAX 256U
#define MIG_RECORD_ITEMS_MAX 128U  /* of one GPU, before and after */
#define MIG_RECORD_DEVICES_MAX 16U /* of one instance */

enum mig_record_state { MIG_RECORD_ABSENT, MIG_RECORD_MAKING, MIG_RECORD_PRESENT, MIG_RECORD_REMOVING };

/* A compute instance. */
struct mig_record_device {
        const char *uuid; /* "": it is not there now */
        unsigned int slices;
};

struct mig_record_item {
        const char *profile;
        unsigned int start; /* or MIG_START_UNKNOWN (mig/plan.h) */
        bool is_before;     /* part of the geometry before the change */
        bool is_after;      /* part of the one that is wanted */
        enum mig_record_state state;
        struct mig_record_device devices[MIG_RECORD_DEVICES_MAX]; /* as it was, or is to be */
        size_t n_devices;
};

struct mig_record_gpu {
        const char *uuid;
        bool changes; /* false: it has what is wanted, and is here in case of a reboot */
        bool is_enabled_before;
        bool is_enabled_after;
        struct mig_record_item *items;
        size_t n_items;
};

/* The geometry that is being made: the one after or the one before the change. */
enum mig_record_goal { MIG_RECORD_AFTER, MIG_RECORD_BEFORE };

struct mig_record {
        const char *boot_id;
        const char *config; /* name of the configuration */
        enum mig_record_goal goal;
        bool may_wait; /* for a reboot that makes a mode current */
        struct mig_record_gpu *gpus;
        size_t n_gpus;
};

enum { MIG_RECORD_NONE = 1 };

/* Whether the item is part of the geometry that is being made, and whether MIG is enabled in it. */
bool mig_record_is_wanted(const struct mig_record_item *item, enum mig_record_goal goal);
bool mig_record_wants_mig(const struct mig_record_gpu *gpu, enum mig_record_goal goal);

/* The item is ABSENT, and its MIG devices are not there. */
void mig_record_set_absent(struct mig_record_item *item);

/* Reads into |arena|. Returns MIG_RECORD_NONE if the file does not exist. */
int mig_record_read(struct mig_record *ret, const char *path, struct arena *arena, struct error *err) MUST_USE;
/* The record is on the disk when this returns. */
int mig_record_write(const struct mig_record *record, const char *path, struct error *err) MUST_USE;
/* The change is over. */
int mig_record_remove(const char *path, struct error *err) MUST_USE;

/* The text of a file, and back; the caller frees what is printed. */
char *mig_record_print(const struct mig_record *record);
int mig_record_parse(
        struct mig_record *ret, const char *text, size_t size, struct arena *arena, struct error *err) MUST_USE;

/*
 * The record of a change by |plan| of which nothing is done yet: all GPUs that it names and that have MIG. What is in
 * |ret| is in |arena|, or borrowed from the plan.
 */
void mig_record_plan(struct mig_record *ret, struct arena *arena, const struct mig_plan *plan, const char *config,
        const char *boot_id, bool may_wait);
