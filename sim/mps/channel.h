// SPDX-License-Identifier: Apache-2.0
/*
 * The messages of the simulated MPS programs: texts of at most CHANNEL_MAX bytes over AF_UNIX SOCK_SEQPACKET, one text
 * in each packet. The types of the sockets are those of NVIDIA's programs; the messages are ours, because NVIDIA's
 * protocol is private.
 *
 *   front end   → daemon   UI · CMD <line> · END             daemon → front end   TEXT <answer> · EXIT <status>
 *   client      → daemon   CLIENT <key>=<value> …            (the daemon then passes its socket on to the server)
 *   server      → daemon   SERVER · READY · LEFT <pid> · TEXT <answer>
 *   daemon      → server   SETUP … · CLIENT … (with the socket) · ASK <question> · STOP · SET …
 *   server      → client   OK … · ERROR <CUDA number> · TEXT <MiB got> · TERMINATED · FAULT
 *   client      → server   ALLOCATE <MiB> · FAULT · BYE
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/error.h"

#define CHANNEL_MAX ((size_t)64 * 1024)

struct packet {
        int fd; /* that was sent with the text, or -1; the receiver closes it */
        size_t length;
        char text[CHANNEL_MAX];
};

/* The socket file gets exactly |mode|, whatever the umask. */
int channel_listen(const char *path, mode_t mode, struct error *err) MUST_USE;
int channel_accept(int listener); /* or -1 */
int channel_connect(const char *path, struct error *err) MUST_USE;

/* The process that connected, as the kernel saw it at that moment. */
struct ucred channel_peer(int fd);

/* False if the other side is gone, or does not read. */
bool channel_send(int fd, const char *format, ...) PRINTF_LIKE(2, 3);
/* Waits as long as it takes for the other side to read. */
bool channel_send_patiently(int fd, const char *format, ...) PRINTF_LIKE(2, 3);
bool channel_send_with(int fd, int passed, const char *format, ...) PRINTF_LIKE(3, 4);

/* Receives one packet; false at the end of the connection. Waits for a packet if the socket is a blocking one. */
bool channel_receive(int fd, struct packet *packet);

/* If the first word of the text is |word|, the text behind it, else NULL. */
const char *packet_is(const struct packet *packet, const char *word);
/* The value of " <key>=<value>" in |text| up to the next blank, into |value|; false, and empty, if there is none. */
bool packet_value(const char *text, const char *key, char *value, size_t size);
