// SPDX-License-Identifier: Apache-2.0
/*
 * The DRA service as a program, for tests: claims that kubelet asks for are lines on standard output, answers are lines
 * on standard input.
 *
 *     dra-driver REGISTRY PLUGINS DRIVER INSTANCE TIMEOUT_MS RETRY_MS     (INSTANCE may be "")
 *     > prepare NAMESPACE UID NAME      < done UID [CDI_ID] | fail UID TEXT
 *     > unprepare NAMESPACE UID NAME    < health STATUS MESSAGE  (of device gpu-0)
 *     > registered | refused TEXT
 *
 * Everything is closed at the end of input; then the loop must end by itself, and what it leaks the sanitizer tells.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/list.h"
#include "base/strbuf.h"
#include "node/dra/prepare.h"
#include "node/dra/registration.h"

struct driver {
        uv_loop_t loop;
        uv_pipe_t input;
        struct strbuf text;
        char piece[4096];
        struct dra_service *service;
        struct dra_registration *registration;
        struct list jobs;
};

struct job {
        struct list link;
        dra_prepare_done_fn *done;
        void *data;
        char *uid;
};

static void add_job(struct dra_prepare *prepare, const char *kind, const struct dra_claim *claim,
        dra_prepare_done_fn *done, void *data)
{
        struct driver *driver = (struct driver *)prepare;
        struct job *job = xcalloc(1, sizeof(*job));

        job->done = done;
        job->data = data;
        job->uid = xstrdup(claim->uid);
        list_append(&driver->jobs, &job->link);
        printf("%s %s %s %s\n", kind, claim->namespace, claim->uid, claim->name);
        fflush(stdout);
}

/* ---- in place of node/dra/prepare.c ---- */

void dra_prepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        add_job(prepare, "prepare", claim, done, data);
}

void dra_unprepare_claim(
        struct dra_prepare *prepare, const struct dra_claim *claim, dra_prepare_done_fn *done, void *data)
{
        add_job(prepare, "unprepare", claim, done, data);
}

void dra_prepare_abandon(struct dra_prepare *prepare UNUSED, const struct dra_claim *claim UNUSED)
{
}

void dra_prepare_settle(struct dra_prepare *prepare UNUSED)
{
}

/* ---- the program ---- */

static void on_status(const char *error, void *data UNUSED)
{
        printf(error ? "refused %s\n" : "registered\n", error);
        fflush(stdout);
}

static void answer(struct job *job, const char *failure, const char *cdi_id)
{
        _free_ char *id = cdi_id ? xstrdup(cdi_id) : xasprintf("warpshare.dev/claim=%s-gpu", job->uid);
        struct dra_result result = {
                .request = "gpu", .pool = "node", .device = "gpu-0-shared", .cdi_id = id, .share_id = "share-1"};
        const struct dra_claim claim = {.uid = job->uid, .results = &result, .n_results = 1};
        struct error err;

        list_remove(&job->link);
        if (failure) {
                error_raise(&err, ERROR_UNAVAILABLE, "%s", failure);
                job->done(NULL, &err, job->data);
        } else {
                job->done(&claim, NULL, job->data);
        }
        free(job->uid);
        free(job);
}

static void obey(struct driver *driver, char *line)
{
        const char *word = strsep(&line, " ");
        const char *what = strsep(&line, " ");

        if (strcmp(word, "health") == 0) {
                const struct dra_health_device device = {.pool_name = "node",
                        .device_name = "gpu-0",
                        .status = (enum dra_health_status)atoi(what),
                        .message = line};

                dra_health_stream_set(dra_service_health(driver->service), &device, 1);
                return;
        }
        LIST_FOR_EACH(link, &driver->jobs) {
                struct job *job = container_of(link, struct job, link);

                if (strcmp(job->uid, what) == 0) {
                        if (strcmp(word, "fail") == 0)
                                answer(job, line, NULL);
                        else
                                answer(job, NULL, line);
                        return;
                }
        }
}

static void on_registration_closed(void *data)
{
        struct driver *driver = data;

        driver->service = dra_service_close(driver->service);
        while (!list_is_empty(&driver->jobs))
                answer(container_of(driver->jobs.next, struct job, link), NULL, NULL);
}

static void on_alloc(uv_handle_t *handle, size_t size UNUSED, uv_buf_t *buffer)
{
        struct driver *driver = handle->data;

        *buffer = uv_buf_init(driver->piece, sizeof(driver->piece));
}

static void on_input(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
        struct driver *driver = stream->data;
        char *end;

        if (size < 0) {
                uv_close((uv_handle_t *)stream, NULL);
                dra_registration_close(driver->registration, 1000, on_registration_closed, driver);
                return;
        }
        strbuf_append(&driver->text, buffer->base, (size_t)size);
        while (driver->text.size > 0 && (end = memchr(driver->text.data, '\n', driver->text.size))) {
                size_t length = (size_t)(end - driver->text.data);

                *end = '\0';
                obey(driver, driver->text.data);
                memmove(driver->text.data, end + 1, driver->text.size - length - 1);
                driver->text.size -= length + 1;
        }
}

int main(int argc, char **argv)
{
        struct driver driver = {0};
        _free_ char *directory = NULL;
        struct error err;

        if (argc != 7)
                return 2;
        signal(SIGPIPE, SIG_IGN);
        list_init(&driver.jobs);
        uv_loop_init(&driver.loop);
        directory = dra_sockets_directory(argv[2], argv[3]);
        driver.service = dra_service_new(&(struct dra_service_options){
                .loop = &driver.loop,
                .prepare = (struct dra_prepare *)&driver,
                .lock_directory = directory,
                .timeout_ms = strtoul(argv[5], NULL, 10),
                .resend_ms = 200,
        });
        if (dra_registration_new(&driver.registration,
                    &(struct dra_registration_options){
                            .loop = &driver.loop,
                            .registry = argv[1],
                            .plugins = argv[2],
                            .driver = argv[3],
                            .instance = argv[4][0] ? argv[4] : NULL,
                            .service = driver.service,
                            .poll_ms = 200,
                            .retry_ms = strtoul(argv[6], NULL, 10),
                            .on_status = on_status,
                    },
                    &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return 1;
        }
        uv_pipe_init(&driver.loop, &driver.input, 0);
        driver.input.data = &driver;
        uv_pipe_open(&driver.input, 0);
        uv_read_start((uv_stream_t *)&driver.input, on_alloc, on_input);
        uv_run(&driver.loop, UV_RUN_DEFAULT);
        strbuf_done(&driver.text);
        return uv_loop_close(&driver.loop) == 0 ? 0 : 3;
}
