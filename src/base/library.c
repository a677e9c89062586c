// SPDX-License-Identifier: Apache-2.0
#include "base/library.h"

#include <dlfcn.h>
#include <string.h>

const char *library_find(
        void *handle, const struct library_symbol *symbols, size_t n_symbols, void *ret, const char **ret_names)
{
        for (const struct library_symbol *symbol = symbols; symbol < symbols + n_symbols; symbol++) {
                void *address = NULL;

                for (size_t i = 0; i < ARRAY_SIZE(symbol->names) && symbol->names[i] && !address; i++) {
                        address = dlsym(handle, symbol->names[i]);
                        if (ret_names)
                                ret_names[symbol - symbols] = symbol->names[i];
                }
                if (!address && !symbol->is_optional)
                        return symbol->names[0];
                memcpy((char *)ret + symbol->offset, &address, sizeof(address));
        }
        return NULL;
}

static void *library_open(const struct library *library, struct error *err)
{
        for (size_t i = 0; i < ARRAY_SIZE(library->files) && library->files[i]; i++) {
                void *handle = dlopen(library->files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

                if (handle)
                        return handle;
                if (i == 0)
                        error_raise(err, ERROR_NOT_FOUND, "%s: %s", dlerror(), library->remedy);
        }
        return NULL;
}

int library_load(const struct library *library, void *ret, struct error *err)
{
        void *handle = library_open(library, err);
        const char *missing;

        if (!handle)
                return -1;
        missing = library_find(handle, library->symbols, library->n_symbols, ret, NULL);
        if (missing)
                return error_set(
                        err, ERROR_UNSUPPORTED, "%s has no %s: %s does", library->files[0], missing, library->needs);
        return 0;
}
