// SPDX-License-Identifier: Apache-2.0
/*
 * Fuzz target: any bytes as the page of a node. What was read can be written and read again, and stays the same.
 *
 *         tools/fuzz 60 fuzz-report-node-page
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node/report/node_page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *rewrite(const char *text, size_t size)
{
        struct arena arena = ARENA_INIT;
        struct node_page page;
        struct error err;
        char *ret = node_page_read(&page, &arena, text, size, &err) == 0 ? node_page_write(&page, false) : NULL;

        arena_done(&arena);
        return ret;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *first = rewrite((const char *)data, size);

        if (first) {
                char *second = rewrite(first, strlen(first)); /* numbers have their 15 digits by now */
                char *third = second ? rewrite(second, strlen(second)) : NULL;

                if (!third || strcmp(second, third) != 0)
                        abort();
                free(second);
                free(third);
        }
        free(first);
        return 0;
}
