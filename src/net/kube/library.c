#include "net/kube/library.h"

#include "base/library.h"

#define ROW(name) LIBRARY_SYMBOL(struct curl, name, "curl_" #name),
static const struct library_symbol symbols[] = {CURL_FUNCTIONS(ROW)};
#undef ROW

/* Debian's two builds have the same functions with different symbol versions; dlsym takes the default. */
static const struct library library = {
        .files = {"libcurl.so.4", "libcurl-gnutls.so.4"},
        .needs = "version 7.88",
        .remedy = "install libcurl (Debian: libcurl4), or give no name of the node",
        .symbols = symbols,
        .n_symbols = ARRAY_SIZE(symbols),
};

int curl_load(struct curl *ret, struct error *err)
{
        CURLcode rc;

        if (library_load(&library, ret, err) < 0)
                return -1;
        rc = ret->global_init(CURL_GLOBAL_DEFAULT); /* never released, since the library stays */
        if (rc != CURLE_OK)
                return error_set(err, ERROR_INTERNAL, "libcurl does not start: %s", ret->easy_strerror(rc));
        return 0;
}
