// SPDX-License-Identifier: Apache-2.0
/* Steps of the demonstration, one screen each: on a terminal the next one waits until Enter, or for some time. */
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "sim/demo/demo.h"

#define LOOK_MS UINT64_C(50)

struct reader {
        struct demo *demo;
        uv_timer_t timer;
        bool has_line;
        bool is_closed;
};

/* A terminal is read like this, since a loop that watches it would set it to not block, for the shell, too. */
static void on_time(uv_timer_t *timer)
{
        struct reader *reader = timer->data;
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        char line[256];
        ssize_t length;

        if (poll(&input, 1, 0) <= 0)
                return;
        length = read(STDIN_FILENO, line, sizeof(line));
        if (length <= 0)
                reader->demo->pause_ms = 0; /* nobody is there any more */
        else if (line[0] == 'q')
                reader->demo->interrupted = true;
        reader->has_line = true;
}

static bool is_read(void *data)
{
        const struct reader *reader = data;

        return reader->has_line || reader->demo->interrupted;
}

static void on_closed(uv_handle_t *handle)
{
        ((struct reader *)handle->data)->is_closed = true;
}

static bool is_closed(void *reader)
{
        return ((struct reader *)reader)->is_closed;
}

static void wait_for_reader(struct demo *demo)
{
        struct reader reader = {.demo = demo};

        printf("\n  %sEnter: next; q: end%s", demo_style(demo, DEMO_DIM), demo_style(demo, DEMO_PLAIN));
        fflush(stdout);
        uv_timer_init(&demo->loop, &reader.timer);
        reader.timer.data = &reader;
        uv_timer_start(&reader.timer, on_time, LOOK_MS, LOOK_MS);
        sim_node_wait(&demo->node, is_read, &reader, demo->pause_ms);
        uv_close((uv_handle_t *)&reader.timer, on_closed);
        sim_node_wait(&demo->node, is_closed, &reader, 0);
        /* The terminal went to the next line with Enter. */
        fputs(reader.has_line ? "\x1b[A\r\x1b[K" : "\r\x1b[K", stdout);
}

void demo_heading(const struct demo *demo, const char *text)
{
        printf("\n%s%s%s\n\n", demo_style(demo, DEMO_BOLD), text, demo_style(demo, DEMO_PLAIN));
        fflush(stdout);
}

bool demo_step(struct demo *demo, const char *text)
{
        if (demo->n_steps && demo->pause_ms)
                wait_for_reader(demo);
        if (demo->interrupted || demo->wrong)
                return false;
        printf("\n%s%u. %s%s\n\n", demo_style(demo, DEMO_BOLD), ++demo->n_steps, text, demo_style(demo, DEMO_PLAIN));
        fflush(stdout);
        return true;
}
