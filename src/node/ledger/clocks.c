#include "node/ledger/clocks.h"

#include <time.h>
#include <uv.h>

#include "base/macro.h"

struct ledger_time ledger_clocks_of_machine(void *data UNUSED)
{
        struct timespec date;

        clock_gettime(CLOCK_REALTIME, &date);
        return (struct ledger_time){
                .clock = (int64_t)(uv_hrtime() / 1000000),
                .date = (int64_t)date.tv_sec * 1000 + date.tv_nsec / 1000000,
        };
}

int64_t ledger_clocks_ms(const struct ledger_clocks *clocks)
{
        return clocks->now(clocks->data).clock;
}

int64_t ledger_clocks_date(const struct ledger_clocks *clocks)
{
        return clocks->now(clocks->data).date;
}
