// SPDX-License-Identifier: Apache-2.0
/*
 * A client of an HTTP server that is on the same thread: it never waits, it lets the loop turn until what it waits for
 * is there. So a server that blocks would stop the test, which its time limit ends.
 */
#pragma once

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/strbuf.h"

#define PATIENCE_S 60

static uv_loop_t loop;
static unsigned int server_port;

static inline bool is_late(const struct timespec *begin)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec - begin->tv_sec > PATIENCE_S;
}

/* One turn of the loop, without waiting for more than a moment. */
static inline void turn(const struct timespec *begin)
{
        const struct timespec moment = {.tv_nsec = 1000000};

        if (is_late(begin))
                fail_msg("nothing happens");
        uv_run(&loop, UV_RUN_NOWAIT);
        nanosleep(&moment, NULL);
}

/* From one of the many addresses that this machine has for itself. */
static inline int dial(const char *from)
{
        const struct sockaddr_in there = {.sin_family = AF_INET,
                .sin_port = htons((uint16_t)server_port),
                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct sockaddr_in here = {.sin_family = AF_INET};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        inet_pton(AF_INET, from, &here.sin_addr);
        assert_int_equal(bind(fd, (const struct sockaddr *)&here, sizeof(here)), 0);
        assert_int_equal(connect(fd, (const struct sockaddr *)&there, sizeof(there)), 0);
        return fd;
}

static inline void say(int fd, const char *text)
{
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* All that the server says until it ends the connection. */
static inline char *hear(int fd)
{
        struct strbuf heard = STRBUF_INIT;
        struct timespec begin;
        char bytes[65536];
        ssize_t size;

        clock_gettime(CLOCK_MONOTONIC, &begin);
        while ((size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) != 0) {
                if (size > 0)
                        strbuf_append(&heard, bytes, (size_t)size);
                else if (errno == EAGAIN)
                        turn(&begin);
                else
                        break;
        }
        close(fd);
        return strbuf_take(&heard);
}

static inline char *ask(const char *request)
{
        int fd = dial("127.0.0.1");

        say(fd, request);
        return hear(fd);
}

static inline void assert_begins(const char *text, const char *beginning)
{
        if (strncmp(text, beginning, strlen(beginning)) != 0)
                fail_msg("does not begin with '%s': %.200s", beginning, text);
}

static inline void assert_has(const char *text, const char *part)
{
        if (!strstr(text, part))
                fail_msg("'%s' is not in: %.500s", part, text);
}

static inline const char *body(const char *answer)
{
        const char *end = strstr(answer, "\r\n\r\n");

        if (!end)
                fail_msg("no end of the head: %.200s", answer);
        return end + 4;
}
