/*
 * What the monitor's thread has to tell the loop: at most one inventory, two reasons, one note a unit, and one flag. Newer news replace
 * older ones, so a loop that is slow finds little to do, and memory is bounded by the number of units. Only the Xid that made a
 * unit unhealthy stays when another reason follows: it is what its owner looks for. Knows no threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "gpu/inventory.h"

struct mail_note {
        char *uuid;
        char *reason;
        uint64_t xid; /* which is the reason; 0: none is */
        bool healthy;
};

struct mail {
        struct inventory *inventory;
        struct mail_note *notes; /* to be told after |inventory| */
        size_t n_notes;
        size_t capacity;
        char *unavailable; /* newer than the inventory */
        char *unheard;     /* why no events arrive, "" when they do again; NULL: nothing new */
        bool is_stale;     /* the old library stays in the process */
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

/* Moves all of |from|, the newer one, into |mail|; |from| is empty afterwards. */
void mail_merge(struct mail *mail, struct mail *from);
