#include "net/http/openssl.h"

#include <dlfcn.h>
#include <string.h>

#include "base/macro.h"

static int find(void *library, const char *symbol, void *member, struct error *err)
{
        void *address = dlsym(library, symbol);

        if (!address)
                return error_set(err, ERROR_UNSUPPORTED, "OpenSSL has no %s: version 3.0 does", symbol);
        memcpy(member, &address, sizeof(address));
        return 0;
}

int openssl_load(struct openssl *ret, struct error *err)
{
        static const char *const names[] = {"libssl.so.3", "libcurl.so.4"};
        void *library = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(names) && !library; i++)
                library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (!library)
                return error_set(err, ERROR_NOT_FOUND,
                        "libssl.so.3 is not there: install OpenSSL (Debian: libssl3), or serve metrics without TLS");
#define OPENSSL_FIND(name)                                                                                             \
        if (find(library, #name, &ret->name, err) < 0)                                                                 \
                return -1;
        OPENSSL_FUNCTIONS(OPENSSL_FIND)
#undef OPENSSL_FIND
        return 0;
}
