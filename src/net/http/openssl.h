// SPDX-License-Identifier: Apache-2.0
/*
 * The functions of OpenSSL that net/http/tls.c uses. The library is loaded when it is first needed: libssl where there
 * is one, as in Debian, or the part of it that the image's libcurl has. So a program that uses no TLS does not load it,
 * and one that talks to the API server over TLS does not load it twice. deploy/container/libraries reads the names
 * below.
 */
#pragma once

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#define OPENSSL_FUNCTIONS(CALL)                                                                                        \
        CALL(ASN1_INTEGER_set_uint64)                                                                                  \
        CALL(ERR_clear_error)                                                                                          \
        CALL(ERR_error_string_n)                                                                                       \
        CALL(ERR_get_error)                                                                                            \
        CALL(EVP_PKEY_Q_keygen)                                                                                        \
        CALL(EVP_PKEY_free)                                                                                            \
        CALL(EVP_sha256)                                                                                               \
        CALL(RAND_bytes)                                                                                               \
        CALL(SSL_CTX_check_private_key)                                                                                \
        CALL(SSL_CTX_ctrl)                                                                                             \
        CALL(SSL_CTX_free)                                                                                             \
        CALL(SSL_CTX_new)                                                                                              \
        CALL(SSL_CTX_set_num_tickets)                                                                                  \
        CALL(SSL_CTX_set_options)                                                                                      \
        CALL(SSL_CTX_use_PrivateKey)                                                                                   \
        CALL(SSL_CTX_use_PrivateKey_file)                                                                              \
        CALL(SSL_CTX_use_certificate)                                                                                  \
        CALL(SSL_CTX_use_certificate_chain_file)                                                                       \
        CALL(SSL_accept)                                                                                               \
        CALL(SSL_free)                                                                                                 \
        CALL(SSL_get_error)                                                                                            \
        CALL(SSL_new)                                                                                                  \
        CALL(SSL_read)                                                                                                 \
        CALL(SSL_set_fd)                                                                                               \
        CALL(SSL_shutdown)                                                                                             \
        CALL(SSL_write)                                                                                                \
        CALL(TLS_server_method)                                                                                        \
        CALL(X509_NAME_add_entry_by_txt)                                                                               \
        CALL(X509_free)                                                                                                \
        CALL(X509_get_serialNumber)                                                                                    \
        CALL(X509_get_subject_name)                                                                                    \
        CALL(X509_getm_notAfter)                                                                                       \
        CALL(X509_getm_notBefore)                                                                                      \
        CALL(X509_gmtime_adj)                                                                                          \
        CALL(X509_new)                                                                                                 \
        CALL(X509_set_issuer_name)                                                                                     \
        CALL(X509_set_pubkey)                                                                                          \
        CALL(X509_set_version)                                                                                         \
        CALL(X509_sign)

#define OPENSSL_MEMBER(name) __typeof__(name) *name;
struct openssl {
        OPENSSL_FUNCTIONS(OPENSSL_MEMBER)
};
#undef OPENSSL_MEMBER
