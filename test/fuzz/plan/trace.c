// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as a trace. What is read is within its bounds, whatever a line says.
 *
 *         tools/fuzz 60 fuzz-plan-trace
 */
#include <stdlib.h>
#include <string.h>

#include "plan/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_(trace_done) struct trace trace = {0};
        struct error err;

        if (trace_read(&trace, "fuzz", (const char *)data, size, &err) < 0 || trace_end(&trace, &err) < 0)
                return 0;
        for (size_t i = 0; i < trace.n_requests; i++) {
                const struct trace_request *one = &trace.requests[i];

                if (one->start < 0 || one->start > TRACE_MAX_SECONDS || one->duration < 0 ||
                        one->duration > TRACE_MAX_SECONDS * (int64_t)TRACE_MAX_COLUMNS || one->gpus > TRACE_MAX_GPUS ||
                        one->part_permille > 1000 || one->threads_permille > 1000 || one->sm_peak_permille > 1000 ||
                        (i > 0 && one->start < trace.requests[i - 1].start))
                        abort();
        }
        return 0;
}
