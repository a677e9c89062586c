#include "node/dra/name.h"

#include <string.h>

#define LOWER_ALNUM "abcdefghijklmnopqrstuvwxyz0123456789"

bool dra_name_is_uid(const char *text)
{
        const size_t length = strspn(text, LOWER_ALNUM "ABCDEFGHIJKLMNOPQRSTUVWXYZ-");

        return length > 0 && length <= DRA_NAME_MAX && !text[length];
}

bool dra_name_is_label(const char *text, size_t length)
{
        return length > 0 && length <= DRA_NAME_MAX && strspn(text, LOWER_ALNUM "-") >= length && text[0] != '-' &&
               text[length - 1] != '-';
}

bool dra_name_is_uuid(const char *text)
{
        static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

        for (size_t i = 0; i < sizeof(form); i++)
                if (form[i] == 'x' ? !text[i] || !strchr("0123456789abcdef", text[i]) : text[i] != form[i])
                        return false;
        return true;
}
