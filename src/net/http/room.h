// SPDX-License-Identifier: Apache-2.0
/*
 * Decides which connection is closed when there are more connections than room. Pure: it knows no sockets.
 *
 * The newest connection is never the one to close, so each client is served for a moment, even from an address that
 * holds many connections: a probe is answered although a neighbour with its address (a pod on the host's network) fills
 * what one address may have. An address that has more than its part loses one of its own. When the room is full, those
 * give way first whose rank is the lowest; among them, those of the address with the most connections; and of these the
 * oldest.
 *
 * An address that has shown who it is, by a token that may read, is remembered for HTTP_PEER_KEEP_MS, and its next
 * connections rank above those of strangers from the start, however many addresses these have. The connection that has
 * shown it ranks above them: others may share its address. One that has shown a token that may not read is a suspect
 * for HTTP_SUSPECT_MS: its requests have no precedence while they wait, and the server that has tokens reviewed has
 * only few of a suspect's reviewed at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"

#define HTTP_PEER_KEEP_MS (UINT64_C(10) * 60 * 1000)
#define HTTP_SUSPECT_MS (UINT64_C(60) * 1000)
#define HTTP_PEERS 512U /* of a kind are remembered; the one whose time is over first is forgotten for another */

/* An address; IPv4 as ::ffff:a.b.c.d. */
struct http_peer {
        uint8_t bytes[16];
};

enum http_rank {
        HTTP_RANK_STRANGER,
        HTTP_RANK_WAITS, /* a request of which it is being found out who sends it: as many as that can take */
        HTTP_RANK_KNOWN, /* its address is */
        HTTP_RANK_TRUSTED,
};

struct http_guest {
        struct list link; /* from the oldest to the newest */
        struct http_peer peer;
        enum http_rank rank;
};

struct http_room {
        struct list guests;
        size_t most;
        size_t per_peer;
};

struct http_peers {
        struct {
                struct http_peer peer;
                uint64_t until; /* 0: free */
        } known[HTTP_PEERS];
};

struct http_peer http_peer_of(const struct sockaddr *address);
bool http_peer_is_same(const struct http_peer *a, const struct http_peer *b);
bool http_peer_is_loopback(const struct http_peer *peer);

void http_peers_add(struct http_peers *peers, const struct http_peer *peer, uint64_t until_ms);
bool http_peers_has(const struct http_peers *peers, const struct http_peer *peer, uint64_t now_ms);

void http_room_init(struct http_room *room, size_t most, size_t per_peer);

/* Adds the newest guest. Returns the guest that has to leave for it, which is still in the list, or NULL. */
struct http_guest *http_room_enter(struct http_room *room, struct http_guest *guest);
