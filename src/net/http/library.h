// SPDX-License-Identifier: Apache-2.0
/*
 * The functions of libmicrohttpd that net/http/server.c uses. The library is loaded when it is first needed. Debian
 * builds it with GnuTLS, which is not used here: it would make each start of the program take three times as long, and
 * a third more memory, even where metrics are not read.
 */
#pragma once

#include <microhttpd.h>

#define MICROHTTPD_FUNCTIONS(CALL)                                                                                     \
        CALL(add_connection)                                                                                           \
        CALL(add_response_header)                                                                                      \
        CALL(create_response_from_buffer_with_free_callback_cls)                                                       \
        CALL(destroy_response)                                                                                         \
        CALL(get_connection_info)                                                                                      \
        CALL(get_daemon_info)                                                                                          \
        CALL(get_timeout)                                                                                              \
        CALL(lookup_connection_value)                                                                                  \
        CALL(queue_response)                                                                                           \
        CALL(resume_connection)                                                                                        \
        CALL(run)                                                                                                      \
        CALL(start_daemon)                                                                                             \
        CALL(stop_daemon)                                                                                              \
        CALL(suspend_connection)

#define MICROHTTPD_MEMBER(name) __typeof__(MHD_##name) *name;
struct microhttpd {
        MICROHTTPD_FUNCTIONS(MICROHTTPD_MEMBER)
};
#undef MICROHTTPD_MEMBER
