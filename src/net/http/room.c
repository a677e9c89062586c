// SPDX-License-Identifier: Apache-2.0
#include "net/http/room.h"

#include <netinet/in.h>
#include <string.h>

/* ---- peers ---- */

struct http_peer http_peer_of(const struct sockaddr *address)
{
        struct http_peer peer = {.bytes = {[10] = 0xff, [11] = 0xff}};

        if (address->sa_family == AF_INET)
                memcpy(peer.bytes + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        else if (address->sa_family == AF_INET6)
                memcpy(peer.bytes, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
        return peer;
}

bool http_peer_is_same(const struct http_peer *a, const struct http_peer *b)
{
        return memcmp(a, b, sizeof(*a)) == 0;
}

bool http_peer_is_loopback(const struct http_peer *peer)
{
        static const struct http_peer six = {.bytes = {[15] = 1}};
        static const uint8_t four[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};

        return http_peer_is_same(peer, &six) || memcmp(peer, four, sizeof(four)) == 0;
}

void http_peers_add(struct http_peers *peers, const struct http_peer *peer, uint64_t until_ms)
{
        size_t place = 0;

        for (size_t i = 0; i < HTTP_PEERS; i++) {
                if (http_peer_is_same(&peers->known[i].peer, peer)) {
                        place = i;
                        break;
                }
                if (peers->known[i].until < peers->known[place].until)
                        place = i;
        }
        peers->known[place].peer = *peer;
        peers->known[place].until = until_ms;
}

bool http_peers_has(const struct http_peers *peers, const struct http_peer *peer, uint64_t now_ms)
{
        for (size_t i = 0; i < HTTP_PEERS; i++)
                if (peers->known[i].until > now_ms && http_peer_is_same(&peers->known[i].peer, peer))
                        return true;
        return false;
}

/* ---- the room ---- */

static struct http_guest *guest_of(struct list *link)
{
        return container_of(link, struct http_guest, link);
}

static size_t room_count_of(const struct http_room *room, const struct http_peer *peer, size_t *ret_all)
{
        size_t count = 0;

        *ret_all = 0;
        LIST_FOR_EACH(link, &room->guests) {
                ++*ret_all;
                count += http_peer_is_same(&guest_of(link)->peer, peer);
        }
        return count;
}

/*
 * An address's own: the oldest that is not trusted. Who waits has no precedence here, or else the requests of a
 * neighbour with this address would keep the next probe out.
 */
static struct http_guest *choose_of_peer(struct http_room *room, const struct http_guest *newest)
{
        struct http_guest *chosen = NULL;

        LIST_FOR_EACH(link, &room->guests) {
                struct http_guest *guest = guest_of(link);

                if (guest == newest || !http_peer_is_same(&guest->peer, &newest->peer))
                        continue;
                if (guest->rank < HTTP_RANK_TRUSTED)
                        return guest;
                chosen = chosen ? chosen : guest;
        }
        return chosen;
}

static struct http_guest *choose_of_all(struct http_room *room, const struct http_guest *newest)
{
        struct http_guest *chosen = NULL;
        size_t most = 0;

        LIST_FOR_EACH(link, &room->guests) {
                struct http_guest *guest = guest_of(link);
                size_t all;
                const size_t count = room_count_of(room, &guest->peer, &all);

                if (guest == newest)
                        continue;
                if (!chosen || guest->rank < chosen->rank || (guest->rank == chosen->rank && count > most)) {
                        chosen = guest;
                        most = count;
                }
        }
        return chosen;
}

void http_room_init(struct http_room *room, size_t most, size_t per_peer)
{
        list_init(&room->guests);
        room->most = most;
        room->per_peer = per_peer;
}

struct http_guest *http_room_enter(struct http_room *room, struct http_guest *guest)
{
        size_t all;
        size_t own;

        list_append(&room->guests, &guest->link);
        own = room_count_of(room, &guest->peer, &all);
        if (own > room->per_peer)
                return choose_of_peer(room, guest);
        return all > room->most ? choose_of_all(room, guest) : NULL;
}
