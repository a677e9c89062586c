// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/macro.h"
#include "net/http/room.h"

/*
 * Guests in the order in which they came, the newest last: an address each, 'a' to 'z', where 's' of |ranks| is a
 * stranger, 'w' one who waits, 'k' one whose address is known and 't' one who is trusted.
 */
static const struct {
        const char *peers;
        const char *ranks;
        int leaving; /* its position; -1: nobody */
        const char *why;
} table[] = {
        {"", "", -1, "an empty room"},
        {"abcd", "ssss", -1, "as many as there is room for"},
        {"abcde", "sssss", 0, "the oldest, where nobody has more than others"},
        {"abbcd", "sssss", 1, "the oldest of the address with the most"},
        {"abbaac", "ssssss", 0, "the oldest of the address with the most, however many came between"},
        {"aaa", "sss", -1, "as many as an address may have"},
        {"aaaa", "ssss", 0, "an address that has too many loses its own"},
        {"baaaa", "sssss", 1, "and no other's"},
        {"aaaa", "ttks", 2, "of its own the oldest that is not trusted"},
        {"aaaa", "ttts", 0, "or else the oldest"},
        {"aaaa", "wsws", 0, "a request that waits keeps no neighbour with its address out"},
        {"abcde", "kssss", 1, "strangers before those who are known"},
        {"abcde", "wswss", 1, "those who say nothing before those who wait"},
        {"abcde", "wkwks", 0, "those who wait before those who are known"},
        {"abcde", "tkttk", 1, "those whose address is known before those who are trusted"},
        {"abcde", "kkkks", 0, "never the newest, though it is the only stranger"},
        {"aabbc", "kkkks", 0, "of the known the oldest of the address with the most"},
        {"aaabc", "kkkss", 3, "how many the known have is no advantage for strangers"},
        {"abbbc", "skkks", 0, "nor a disadvantage for the known"},
};

static void test_who_gives_way(void **state UNUSED)
{
        static const char ranks[] = "swkt";
        struct http_guest guests[16];
        struct http_room room;

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const size_t count = strlen(table[i].peers);
                const struct http_guest *leaving = NULL;

                http_room_init(&room, 4, 3);
                for (size_t j = 0; j < count; j++) {
                        guests[j] =
                                (struct http_guest){.rank = (enum http_rank)(strchr(ranks, table[i].ranks[j]) - ranks)};
                        guests[j].peer.bytes[0] = (uint8_t)table[i].peers[j];
                        leaving = http_room_enter(&room, &guests[j]);
                }
                if (leaving != (table[i].leaving < 0 ? NULL : &guests[table[i].leaving]))
                        fail_msg("%s: %td", table[i].why, leaving ? leaving - guests : -1);
        }
}

static struct http_peer peer_of(const char *text)
{
        struct sockaddr_in four = {.sin_family = AF_INET};
        struct sockaddr_in6 six = {.sin6_family = AF_INET6};

        if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
                return http_peer_of((const struct sockaddr *)&four);
        assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
        return http_peer_of((const struct sockaddr *)&six);
}

static void test_an_address_is_the_same_in_both_families(void **state UNUSED)
{
        static const struct {
                const char *a;
                const char *b;
                bool is_same;
        } pairs[] = {
                {"10.0.0.1", "::ffff:10.0.0.1", true},
                {"10.0.0.1", "10.0.0.2", false},
                {"10.0.0.1", "::10.0.0.1", false},
                {"fd00::1", "fd00::1", true},
                {"fd00::1", "fd00::2", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
                const struct http_peer a = peer_of(pairs[i].a);
                const struct http_peer b = peer_of(pairs[i].b);

                assert_int_equal(http_peer_is_same(&a, &b), pairs[i].is_same);
        }
}

static void test_loopback_addresses_are_known_as_such(void **state UNUSED)
{
        static const char *const yes[] = {"127.0.0.1", "127.255.255.255", "::ffff:127.0.0.9", "::1"};
        static const char *const no[] = {"128.0.0.1", "10.0.0.1", "::2", "::", "::127.0.0.1", "7f00::1", "0.0.0.0"};

        for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
                const struct http_peer peer = peer_of(yes[i]);

                assert_true(http_peer_is_loopback(&peer));
        }
        for (size_t i = 0; i < ARRAY_SIZE(no); i++) {
                const struct http_peer peer = peer_of(no[i]);

                assert_false(http_peer_is_loopback(&peer));
        }
}

static void test_a_peer_is_remembered_for_a_while(void **state UNUSED)
{
        const struct http_peer peer = peer_of("10.0.0.1");
        const struct http_peer none = peer_of("0.0.0.0");
        struct http_peers peers = {0};

        assert_false(http_peers_has(&peers, &none, 0));
        assert_false(http_peers_has(&peers, &(struct http_peer){0}, 0));
        http_peers_add(&peers, &peer, 5);
        assert_true(http_peers_has(&peers, &peer, 4));
        assert_false(http_peers_has(&peers, &peer, 5));
        http_peers_add(&peers, &peer, 10);
        assert_true(http_peers_has(&peers, &peer, 9));
}

static void test_the_peer_whose_time_is_over_first_is_forgotten(void **state UNUSED)
{
        struct http_peers peers = {0};
        struct http_peer many[HTTP_PEERS + 1] = {0};

        for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
                many[i].bytes[0] = (uint8_t)i;
                many[i].bytes[1] = (uint8_t)(1 + (i >> 8));
                if (i == HTTP_PEERS)
                        http_peers_add(&peers, &many[0], 5000); /* it comes again */
                http_peers_add(&peers, &many[i], 1000 + i);
        }
        for (size_t i = 0; i < ARRAY_SIZE(many); i++)
                assert_int_equal(http_peers_has(&peers, &many[i], 60), i != 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_who_gives_way),
                cmocka_unit_test(test_an_address_is_the_same_in_both_families),
                cmocka_unit_test(test_loopback_addresses_are_known_as_such),
                cmocka_unit_test(test_a_peer_is_remembered_for_a_while),
                cmocka_unit_test(test_the_peer_whose_time_is_over_first_is_forgotten),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
