// SPDX-License-Identifier: Apache-2.0
#include "base/io/record_file.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"

#define RETRY_MIN_MS UINT64_C(1000)
#define RETRY_MAX_MS UINT64_C(60000)

static void on_record_retry(uv_timer_t *timer)
{
        const struct record_file *file = container_of(timer, struct record_file, retry);

        file->options.write_again(file->options.data);
}

void record_file_init(struct record_file *file, uv_loop_t *loop, const struct record_file_options *options)
{
        *file = (struct record_file){
                .options = *options,
                .backoff = {.least_ms = RETRY_MIN_MS, .most_ms = RETRY_MAX_MS},
        };
        uv_timer_init(loop, &file->retry);
}

int record_file_write(struct record_file *file, const char *text, struct error *err)
{
        const bool is_closed = uv_is_closing((const uv_handle_t *)&file->retry);

        if (file_write_private(file->options.path, text, strlen(text), err) < 0) {
                const uint64_t wait_ms = backoff_next(&file->backoff, 0, backoff_random());

                complain(&file->complaint, file->options.failure, err);
                if (!is_closed)
                        uv_timer_start(&file->retry, on_record_retry, wait_ms, 0);
                return -1;
        }
        if (record_file_has_failed(file))
                log_info("a record is written again", LOG_STR("file", file->options.path));
        file->backoff.failures = 0;
        complaint_settle(&file->complaint);
        if (!is_closed)
                uv_timer_stop(&file->retry);
        return 0;
}

bool record_file_has_failed(const struct record_file *file)
{
        return file->backoff.failures > 0;
}

void record_file_close(struct record_file *file, struct closing *closing)
{
        closing_close(closing, &file->retry);
}
