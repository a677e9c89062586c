/*
 * The mailbox from the monitor's thread to the loop: at most one inventory, two reasons, one note per unit, one reading
 * of what the units do, and one flag. Newer content replaces older, so a slow loop finds little to do, and the memory
 * is bounded by the number of units. Only the Xid that made a unit unhealthy is kept when another reason follows, since
 * its owner needs it. It knows no threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/inventory.h"
#include "gpu/sample.h"

struct mail_note {
        char *uuid;
        char *reason;
        uint64_t xid; /* the Xid that is the reason; 0: none */
        bool healthy;
};

struct mail {
        struct inventory *inventory;
        struct mail_note *notes; /* to be reported after |inventory| */
        size_t n_notes;
        size_t capacity;
        char *unavailable;           /* newer than the inventory */
        char *unheard;               /* why no events arrive; "": they arrive again; NULL: no change */
        struct gpu_samples *samples; /* or NULL */
        bool is_stale;               /* the old library stays in this process */
};

#define MAIL_INIT                                                                                                      \
        {                                                                                                              \
                0                                                                                                      \
        }

void mail_done(struct mail *mail);
bool mail_is_empty(const struct mail *mail);

/* Takes |inventory|. Drops the reason, and the notes on units that it does not have. */
void mail_put_inventory(struct mail *mail, struct inventory *inventory);
void mail_put_unheard(struct mail *mail, const char *reason);
void mail_put_unavailable(struct mail *mail, const char *reason);
void mail_put_note(struct mail *mail, const char *uuid, bool healthy, const char *reason, uint64_t xid);

void mail_put_samples(struct mail *mail, struct gpu_samples *samples); /* takes them */

/* Moves all of |from|, the newer one, into |mail|; |from| is empty afterwards. */
void mail_merge(struct mail *mail, struct mail *from);
