#include "base/boot_id.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

#define BOOT_ID_MAX ((size_t)64)

int boot_id_read(char **ret, const char *path, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;

        if (file_read(path, BOOT_ID_MAX, &text, err) < 0)
                return error_prefix(err, "boot id");
        text.data[strcspn(text.data, "\n")] = '\0';
        if (!*text.data)
                return error_set(err, ERROR_INVALID, "boot id: '%s' is empty", path);
        *ret = xstrdup(text.data);
        return 0;
}
