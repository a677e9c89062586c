/*
 * What the simulated MPS programs say to each other: texts of at most CHANNEL_MAX bytes over AF_UNIX SOCK_SEQPACKET, one text
 * a packet. The kinds of socket are the real ones; what is said is ours, as NVIDIA's protocol is private.
 *
 *   front end   → daemon   UI · CMD <line> · END             daemon → front end   TEXT <answer> · EXIT <status>
 *   client      → daemon   CLIENT <key>=<value> …            (its socket is then handed on to the server)
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
        int fd; /* that came with it, or -1; the receiver closes it */
        size_t length;
        char text[CHANNEL_MAX];
};

/* The socket file gets exactly |mode|. */
int channel_listen(const char *path, mode_t mode, struct error *err) MUST_USE;
int channel_accept(int listener); /* or -1 */
int channel_connect(const char *path, struct error *err) MUST_USE;

/* Who connected, as the kernel saw it then. */
struct ucred channel_peer(int fd);

/* False when the other side is gone, or does not read. */
bool channel_send(int fd, const char *format, ...) PRINTF_LIKE(2, 3);
/* Waits as long as it takes for the other side to read. */
bool channel_send_patiently(int fd, const char *format, ...) PRINTF_LIKE(2, 3);
bool channel_send_with(int fd, int passed, const char *format, ...) PRINTF_LIKE(3, 4);

/* One packet; false at the end. Blocks if the socket does and nothing is there. */
bool channel_receive(int fd, struct packet *packet);

/* The rest of the text if it begins with |word| and a blank or the end, else NULL. */
const char *packet_is(const struct packet *packet, const char *word);
/* The value of " <key>=<value>" in |text| up to the next blank, into |value|; false, and empty, if there is none. */
bool packet_value(const char *text, const char *key, char *value, size_t size);
