// SPDX-License-Identifier: Apache-2.0
/*
 * The publisher of ResourceSlices as a program, for tests: commands on standard input, a line each, and what happened
 * on standard output.
 *
 *     publisher-driver KUBECONFIG SCENARIO
 *     put WORD…             offers that (words.h)
 *     taint POSITION…       these GPUs have a taint, no others
 *     < ok devices=16 safe=0
 *     < error TEXT
 *
 * Everything is closed at the end of input; then the loop must end by itself, and what it leaks the sanitizer tells.
 */
#include <signal.h>
#include <stdio.h>
#include <uv.h>

#include "base/strbuf.h"
#include "node/dra/publish.h"
#include "test/dra/words.h"

#define WORDS_MAX 16

struct driver {
        uv_loop_t loop;
        uv_pipe_t input;
        struct strbuf text;
        char piece[4096];
        struct arena arena;
        struct inventory *inventory;
        struct kube_client *client;
        struct dra_publisher *publisher;
};

static void on_done(const struct error *error, void *data)
{
        const struct driver *driver = data;
        const struct dra_layout *layout = dra_publisher_layout(driver->publisher);

        if (error)
                printf("error %s\n", error->text);
        else
                printf("ok devices=%zu safe=%d\n", layout->n_devices, layout->is_safe);
        fflush(stdout);
}

static void put(struct driver *driver, char **words)
{
        struct dra_options options = DRA_OPTIONS_DEFAULT;

        set_options(&options, &driver->arena, driver->inventory, words);
        dra_publisher_put(driver->publisher, driver->inventory, &options);
}

static void taint(struct driver *driver, char **words)
{
        struct dra_taint taints[WORDS_MAX];
        size_t count = 0;

        for (; *words; words++)
                taints[count++] = (struct dra_taint){.uuid = driver->inventory->gpus[atoi(*words)].uuid,
                        .key = DRA_DRIVER "/xid",
                        .value = "79",
                        .effect = DRA_EFFECT_NO_SCHEDULE};
        dra_publisher_set_taints(driver->publisher, taints, count);
}

static void carry_out(struct driver *driver, char *line)
{
        char *words[WORDS_MAX + 1] = {NULL};
        size_t count = 0;

        for (char *word = strtok(line, " "); word && count < WORDS_MAX; word = strtok(NULL, " "))
                words[count++] = word;
        if (count > 0 && strcmp(words[0], "put") == 0)
                put(driver, words + 1);
        else if (count > 0)
                taint(driver, words + 1);
}

static void on_alloc(uv_handle_t *handle, size_t size UNUSED, uv_buf_t *buf)
{
        struct driver *driver = handle->data;

        *buf = uv_buf_init(driver->piece, sizeof(driver->piece));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buf)
{
        struct driver *driver = stream->data;
        char *end;

        if (size < 0) {
                uv_close((uv_handle_t *)stream, NULL);
                driver->publisher = dra_publisher_close(driver->publisher);
                driver->client = kube_client_close(driver->client, NULL, NULL);
                return;
        }
        strbuf_append(&driver->text, buf->base, (size_t)size);
        while ((end = strchr(driver->text.data, '\n'))) {
                *end = '\0';
                carry_out(driver, driver->text.data);
                strbuf_consume(&driver->text, (size_t)(end - driver->text.data) + 1);
        }
}

int main(int argc, char **argv)
{
        static struct driver driver = {.text = STRBUF_INIT};
        struct error err;

        signal(SIGPIPE, SIG_IGN);
        uv_loop_init(&driver.loop);
        if (argc != 3 || kube_client_open(&driver.client, &driver.loop, argv[1], &err) != 0) {
                fprintf(stderr, "publisher-driver: %s\n", argc == 3 ? err.text : "KUBECONFIG SCENARIO");
                return 2;
        }
        driver.inventory = simulated_inventory(argv[2]);
        driver.publisher = dra_publisher_new(&(struct dra_publisher_options){.loop = &driver.loop,
                .client = driver.client,
                .node = "n1",
                .driver = DRA_DRIVER,
                .pool = "n1/" DRA_DRIVER,
                .retry_ms = 50,
                .done = on_done,
                .data = &driver});
        uv_pipe_init(&driver.loop, &driver.input, 0);
        driver.input.data = &driver;
        uv_pipe_open(&driver.input, 0);
        uv_read_start((uv_stream_t *)&driver.input, on_alloc, on_read);
        uv_run(&driver.loop, UV_RUN_DEFAULT);
        strbuf_done(&driver.text);
        inventory_free(driver.inventory);
        arena_done(&driver.arena);
        return uv_loop_close(&driver.loop) ? 1 : 0;
}
