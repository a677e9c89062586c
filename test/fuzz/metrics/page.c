/*
 * Fuzz target: any bytes as a page of metrics.
 *
 *         tools/fuzz 60 fuzz-metrics-page
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/page.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct arena arena = ARENA_INIT;
        char *text = malloc(size + 1);
        struct page page;
        struct error err;

        if (size)
                memcpy(text, data, size);
        text[size] = '\0';
        if (page_read(&page, &arena, text, size, &err) == 0)
                for (size_t i = 0; i < page.n_samples; i++)
                        for (size_t j = 0; j < page.samples[i].n_labels; j++)
                                if (!page_label(&page.samples[i], page.samples[i].labels[j].name))
                                        abort();
        arena_done(&arena);
        free(text);
        return 0;
}
