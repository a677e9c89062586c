#include "base/names.h"

void names_add(struct names *names, const char *format, ...)
{
        va_list args;

        if (names->count <= names->max && names->count > 0)
                strbuf_puts(&names->text, ", ");
        if (names->count < names->max) {
                va_start(args, format);
                strbuf_vprintf(&names->text, format, args);
                va_end(args);
        } else if (names->count == names->max) {
                strbuf_puts(&names->text, "…");
        }
        names->count++;
}
