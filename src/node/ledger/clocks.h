/* The two clocks of the ledger. Tests have their own. */
#pragma once

#include <stdint.h>

/* Milliseconds. */
struct ledger_time {
        int64_t clock; /* since some moment; never goes back, whatever becomes of the time of day */
        int64_t date;  /* since the epoch */
};

struct ledger_clocks {
        struct ledger_time (*now)(void *data);
        void *data;
};

/* The clocks of this machine, as a value for ledger_clocks.now. */
struct ledger_time ledger_clocks_of_machine(void *data);

int64_t ledger_clocks_ms(const struct ledger_clocks *clocks);   /* ledger_time.clock */
int64_t ledger_clocks_date(const struct ledger_clocks *clocks); /* ledger_time.date */
