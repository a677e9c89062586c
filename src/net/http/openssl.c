#include "net/http/openssl.h"

#include "base/library.h"

#define ROW(name) LIBRARY_SYMBOL(struct openssl, name, #name),
static const struct library_symbol symbols[] = {OPENSSL_FUNCTIONS(ROW)};
#undef ROW

static const struct library library = {
        .files = {"libssl.so.3", "libcurl.so.4"},
        .needs = "OpenSSL 3.0",
        .remedy = "install OpenSSL (Debian: libssl3), or serve metrics without TLS",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

int openssl_load(struct openssl *ret, struct error *err)
{
        return library_load(&library, ret, err);
}
