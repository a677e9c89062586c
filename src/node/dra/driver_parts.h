/* What the files driver*.c share; private to them. */
#pragma once

#include "base/alloc.h"
#include "base/complaint.h"
#include "base/list.h"
#include "node/dra/driver.h"
#include "node/dra/publish.h"
#include "node/dra/registration.h"
#include "node/dra/status_sender.h"
#include "gpu/nvml_pool.h"

struct dra_driver {
        struct dra_driver_options options; /* its config is not kept */
        struct arena arena;                /* of the next five */
        const char *name;
        const char *node; /* and what its pool was called before it had a name of its own */
        const char *pool;
        const char *cdi_root;
        const char *record_path;
        struct dra_record *record;
        struct dra_publisher *publisher;
        struct dra_prepare *prepare;
        struct dra_status_sender *status; /* NULL: the driver is closing */
        struct dra_service *service;
        struct dra_registration *registration;
        const struct plan *plan;    /* NULL: not known yet */
        struct arena options_arena; /* of what the publisher borrows */
        struct list reads;          /* claims that the API server is asked for */
        struct list waits;          /* claims that the ledger is asked for */
        struct list changes;        /* claims whose MIG devices are made or destroyed */
        struct nvml_pool *nvml;
        unsigned int n_working;   /* changes that wait for it */
        unsigned int n_allocated; /* claims that the ledger was asked for so far */
        uint64_t pods_asked_at;   /* uv_now(), as the next */
        uint64_t pods_read_at;
        uint64_t pods_wait_ms; /* the pause from then to the next request */
        struct complaint bad_slices;
        uv_timer_t turn_timer; /* runs at the end of the turn of the loop */
        uv_timer_t room_timer; /* when the first claim has waited long enough for room */
        bool health_is_new;
        bool offer_is_old;   /* a claim has ended, and its unit may be offered in another form now */
        bool has_asked_pods; /* for the claims that were prepared before the agent began */
        bool is_registered;
        bool has_slices;
        bool has_own_pool; /* its name is |pool| */
        bool is_closing;   /* the ledger may be freed already: calls that still come are refused */
        bool is_registration_closed;
        unsigned int n_timers; /* not closed */
        void (*closed)(void *data);
        void *closed_data;
};

/* ---- driver_read.c: claims that are being read, with their pods, and wait for room ---- */

void dra_driver_read_claim(struct dra_preparing *preparing, const struct dra_service_claim *claim, void *data);
/* Nobody waits for it any more. */
void dra_driver_abandon_read(struct dra_preparing *preparing, void *data);
/*
 * To be called when the layout is known or has changed, or something has become free: claims that wait for it continue.
 */
void dra_driver_reads_go_on(struct dra_driver *driver);
void dra_driver_on_room_timer(uv_timer_t *timer);
/* Asks the API server which pods use the prepared claims; until it answers, requests for other claims wait. */
void dra_driver_ask_pods(struct dra_driver *driver);
/* Refuses those that are being read. */
void dra_driver_refuse_reads(struct dra_driver *driver);

/* ---- driver_claims.c: claims that are being prepared ---- */

/* The functions that node/dra/prepare.h calls. */
struct dra_prepare_node dra_driver_node(struct dra_driver *driver);
/* Refuses all claims that are being prepared; node/dra/prepare.h undoes what was done for them. */
void dra_driver_refuse_all(struct dra_driver *driver);
void dra_driver_refuse_for_closing(struct error *ret);
void dra_driver_refuse_preparing(struct dra_preparing *preparing);
/* The CDI devices of the units are there, and so are the nodes that CUDA needs in every container. */
int dra_driver_check_cdi(const struct dra_driver *driver, struct error *err) MUST_USE;

/* ---- driver_instances.c: the MIG devices of claims ---- */

/* |instances| is as it is now, borrowed. */
typedef void dra_driver_changed_fn(const struct error *err, const struct dra_instance *instances, void *data);

/* Makes the instances that |recorded| has, at least one, or destroys them; |done| is called once, from the loop. */
void dra_driver_change_instances(struct dra_driver *driver, struct dra_preparing *preparing,
        const struct dra_prepared_claim *recorded, bool destroys, dra_driver_changed_fn *done, void *data);
/* There is another plan. */
void dra_driver_instances_go_on(struct dra_driver *driver);
/* All that waits; what NVML is at is refused when it answers. */
void dra_driver_refuse_instances(struct dra_driver *driver);
bool dra_driver_has_candidates(const struct dra_prepared_claim *recorded);
/* That are there or may be. */
bool dra_driver_has_instances(const struct dra_prepared_claim *recorded);
/* All of the record that are there or may be; in |arena|. */
size_t dra_driver_instances(const struct dra_driver *driver, struct arena *arena, const struct dra_instance **ret);

/* ---- driver.c ---- */

/* To be called when a claim has gone from the record, or before devices are published. */
void dra_driver_name_pool(struct dra_driver *driver);
/* To be called when a claim has gone from the record, where each unit has one form. */
void dra_driver_offer_anew(struct dra_driver *driver);

void dra_driver_free_if_closed(struct dra_driver *driver);

/* ---- driver_record.c: claims that are prepared already ---- */

/* Reads the record, gives its claims to the ledger, and makes the CDI files match it. */
int dra_driver_open_record(struct dra_driver *driver, const char *folder, struct error *err) MUST_USE;
