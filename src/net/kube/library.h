/*
 * Loads libcurl when it is first needed: in Debian it needs 23 MB of libraries, which an agent without a cluster does
 * not have to load.
 */
#pragma once

#include <curl/curl.h>

#include "base/error.h"

#define CURL_FUNCTIONS(CALL)                                                                                           \
        CALL(easy_cleanup)                                                                                             \
        CALL(easy_getinfo)                                                                                             \
        CALL(easy_init)                                                                                                \
        CALL(easy_setopt)                                                                                              \
        CALL(easy_strerror)                                                                                            \
        CALL(global_init)                                                                                              \
        CALL(multi_add_handle)                                                                                         \
        CALL(multi_assign)                                                                                             \
        CALL(multi_cleanup)                                                                                            \
        CALL(multi_info_read)                                                                                          \
        CALL(multi_init)                                                                                               \
        CALL(multi_remove_handle)                                                                                      \
        CALL(multi_setopt)                                                                                             \
        CALL(multi_socket_action)                                                                                      \
        CALL(multi_timeout)                                                                                            \
        CALL(slist_append)                                                                                             \
        CALL(slist_free_all)                                                                                           \
        CALL(version_info)

#define CURL_MEMBER(name) __typeof__(curl_##name) *name;
struct curl {
        CURL_FUNCTIONS(CURL_MEMBER)
};
#undef CURL_MEMBER

/* The library stays loaded. ERROR_NOT_FOUND if it is not installed. */
int curl_load(struct curl *ret, struct error *err) MUST_USE;
