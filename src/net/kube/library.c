#include "net/kube/library.h"

#include <dlfcn.h>
#include <string.h>

/* Debian's two builds have the same functions with different symbol versions; dlsym takes the default. */
static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

static int library_find(void *library, const char *symbol, void *member, struct error *err)
{
        void *address = dlsym(library, symbol);

        if (!address)
                return error_set(err, ERROR_UNSUPPORTED, "libcurl has no %s: version 7.88 does", symbol);
        memcpy(member, &address, sizeof(address));
        return 0;
}

static void *open_library(struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

                if (library)
                        return library;
                if (i == 0)
                        error_raise(err, ERROR_NOT_FOUND,
                                "%s: install libcurl (Debian: libcurl4), or give no name of the node", dlerror());
        }
        return NULL;
}

int curl_load(struct curl *ret, struct error *err)
{
        void *library = open_library(err);
        CURLcode rc;

        if (!library)
                return -1;
#define CURL_FIND(name)                                                                                                \
        if (library_find(library, "curl_" #name, &ret->name, err) < 0)                                                 \
                return -1;
        CURL_FUNCTIONS(CURL_FIND)
#undef CURL_FIND
        rc = ret->global_init(CURL_GLOBAL_DEFAULT); /* libcurl counts the calls; it is never released, since the library
                                                     * stays */
        if (rc != CURLE_OK)
                return error_set(err, ERROR_INTERNAL, "libcurl does not start: %s", ret->easy_strerror(rc));
        return 0;
}
