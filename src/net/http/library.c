#include "net/http/library.h"

#include "base/library.h"

#define ROW(name) LIBRARY_SYMBOL(struct microhttpd, name, "MHD_" #name),
static const struct library_symbol symbols[] = {MICROHTTPD_FUNCTIONS(ROW)};
#undef ROW

static const struct library library = {
        .files = {"libmicrohttpd.so.12"},
        .needs = "version 0.9.75",
        .remedy = "install libmicrohttpd (Debian: libmicrohttpd12), or set no address of a server",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

int microhttpd_load(struct microhttpd *ret, struct error *err)
{
        return library_load(&library, ret, err);
}
