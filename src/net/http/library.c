#include "net/http/library.h"

#include <dlfcn.h>
#include <string.h>

static int http_library_find(void *library, const char *symbol, void *member, struct error *err)
{
        void *address = dlsym(library, symbol);

        if (!address)
                return error_set(err, ERROR_UNSUPPORTED, MICROHTTPD_LIBRARY " has no %s: version 0.9.75 does", symbol);
        memcpy(member, &address, sizeof(address));
        return 0;
}

int microhttpd_load(struct microhttpd *ret, struct error *err)
{
        void *library = dlopen(MICROHTTPD_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

        if (!library)
                return error_set(err, ERROR_NOT_FOUND,
                        "%s: install libmicrohttpd (Debian: libmicrohttpd12), or set no address of a server",
                        dlerror());
#define MICROHTTPD_FIND(name)                                                                                          \
        if (http_library_find(library, "MHD_" #name, &ret->name, err) < 0)                                             \
                return -1;
        MICROHTTPD_FUNCTIONS(MICROHTTPD_FIND)
#undef MICROHTTPD_FIND
        return 0;
}
