/*
 * Prepare and Unprepare of claims: the order of the steps. If the agent is killed between any two of them, the next
 * agent finishes or undoes the claim.
 *
 *                      prepared in the record                             ┌──────────► CDI file ──► answer
 *   Prepare ──► refresh ──┬───────────────────────────────────────────────┤
 *                         └──► READING ──► check ──► CDI file removed ──► recorded as started ──► ALLOCATING ──► recorded as prepared
 *                                 │ error    │ error                                                 │ refused        │ no CDI file
 *                                 ▼          ▼                                                       ▼                ▼
 *                               answer     answer                                                 take back: the same as Unprepare
 *
 *   Unprepare ──► refresh ──► recorded as started ──► CDI file removed ──► RELEASING ──► removed from the record ──► answer
 *
 * A claim is in the record before anything is made for it, until everything has been removed. It is recorded as
 * prepared only while everything is allocated: its CDI file is made from the record, so it can be written again with
 * the same content. For a claim that is recorded as started, kubelet has had no answer yet, so no container uses its
 * CDI file. If a claim is not in the record, Unprepare still removes what may exist, as after a reboot or if the record
 * was lost.
 *
 * The GPU instance of a MIG candidate is recorded as being made before it is, so a Prepare that comes again goes on
 * with it, and Unprepare destroys it. If the claim was allocated anew in between, what was made is taken back, and
 * kubelet asks again.
 *
 * Claims are independent of each other. For one claim one call runs at a time: node/dra/service.h sees to that. It does
 * not know HTTP, the ledger, the supervisor, or how CDI files are written.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "node/dra/claim.h"
#include "node/dra/prepared_record.h"
#include "node/dra/service.h"
#include "node/dra/wanted.h"

struct dra_preparing; /* one call that is not answered */

/* How one wanted device was allocated. */
struct dra_allocated {
        uint64_t memory_bytes;          /* 0: no limit */
        unsigned int thread_percentage; /* 0: no limit */
        const char *tier;               /* how limits are enforced; NULL: not */
        const char *daemon;             /* NULL: none */
        const char *allocation;         /* of the ledger; NULL: none */
        const char *unit_cdi_id;        /* the CDI device of the unit; NULL: none */
        struct dra_edits edits;         /* at least one */
};

/*
 * Functions of the node. The node answers read_claim(), allocate() and release() exactly once, by the functions below,
 * at once or later. Their arguments are valid only until they return.
 */
struct dra_prepare_node {
        /*
         * Reads the claim from the API server, and waits until there is room for what it has, as where the Unprepare of
         * the claim before is under way; answered by dra_prepare_read(). Nothing was made for the claim so far.
         */
        void (*read_claim)(struct dra_preparing *preparing, const struct dra_service_claim *claim, void *data);
        /* Nobody waits for a claim that is being read: the node refuses it soon. */
        void (*abandon)(struct dra_preparing *preparing, void *data);
        /*
         * Allocates |wanted|, one for each of claim->n_results: dra_prepare_allocated(). For candidates it makes what
         * they stand for. What has admin access is not booked. What the claim had before is replaced. Once this was
         * called something may be held, whatever comes of it: release() follows a refusal.
         */
        void (*allocate)(struct dra_preparing *preparing, const struct dra_claim *claim,
                const struct dra_wanted *wanted, void *data);
        /*
         * Frees whatever is held for that claim, perhaps nothing, and destroys the instances in the record:
         * dra_prepare_released().
         */
        void (*release)(struct dra_preparing *preparing, const char *uid, void *data);
        int (*write_cdi)(const struct dra_prepared_claim *claim, void *data, struct error *err);
        int (*remove_cdi)(const char *uid, void *data, struct error *err);
        /*
         * For users to see: the first is called when this Prepare has prepared the claim, the second when nothing of it
         * is left.
         */
        void (*prepared)(const struct dra_prepared_claim *claim, void *data);
        void (*unprepared)(const struct dra_service_claim *claim, void *data);
        void *data;
};

void dra_prepare_read(struct dra_preparing *preparing, const json_t *object);
void dra_prepare_allocated(struct dra_preparing *preparing, const struct dra_allocated *allocated);
void dra_prepare_released(struct dra_preparing *preparing);

/*
 * While it allocates: what is made of the claim's candidates, one entry for each result (|gpu| NULL: it is none),
 * recorded before it is made, and when it is. What there may be from an earlier try is in the record. After an error
 * nothing may be made.
 */
int dra_prepare_instances(
        struct dra_preparing *preparing, const struct dra_instance *instances, struct error *err) MUST_USE;

/* Any of the three has failed. */
void dra_prepare_refuse(struct dra_preparing *preparing, const struct error *err);

struct dra_prepare_options {
        struct dra_record *record; /* borrowed */
        const char *driver;
        const char *pool;
        const char *old_pool; /* node/dra/claim.h */
        struct dra_prepare_node node;
};

struct dra_prepare;

/* There is no layout until dra_prepare_set_rules(). */
struct dra_prepare *dra_prepare_new(const struct dra_prepare_options *options);

/*
 * Drops calls without an answer: the node must not answer them any more, and their |done| is not called. Accepts NULL,
 * returns NULL.
 */
struct dra_prepare *dra_prepare_free(struct dra_prepare *prepare);

/* The rules for claims that are checked from now on; the layout must stay valid until the next call. */
void dra_prepare_set_rules(struct dra_prepare *prepare, const struct dra_wanted_rules *rules);

/* |err| NULL: it succeeded. An Unprepare has no devices. The arguments are valid only until the function returns. */
typedef void dra_prepare_done_fn(
        const struct dra_service_device *devices, size_t n_devices, const struct error *err, void *data);

/* |done| is called exactly once, perhaps before the function returns. */
void dra_prepare_claim(
        struct dra_prepare *prepare, const struct dra_service_claim *claim, dra_prepare_done_fn *done, void *data);
void dra_unprepare_claim(
        struct dra_prepare *prepare, const struct dra_service_claim *claim, dra_prepare_done_fn *done, void *data);

/* How many calls were answered, by kind and outcome. */
struct dra_prepare_counts {
        uint64_t prepared;
        uint64_t prepare_refused;
        uint64_t unprepared;
        uint64_t unprepare_refused;
};
struct dra_prepare_counts dra_prepare_counts(const struct dra_prepare *prepare);

/* How many calls are not answered yet. */
size_t dra_prepare_calls(const struct dra_prepare *prepare);

/* The backend for dra_service_new(). |prepare| must live as long as works of the service run. */
struct dra_service_backend dra_prepare_backend(struct dra_prepare *prepare);
