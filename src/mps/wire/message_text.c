/* Which texts messages have. */
#include "mps/wire/message_parts.h"

#include <string.h>

#include "plan/allocations.h"

static bool is_letter_or_digit(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_any(const char *text)
{
        for (; *text; text++)
                if ((unsigned char)*text < ' ' || *text == 0x7f)
                        return false;
        return true;
}

static bool is_uuid(const char *text)
{
        if (!is_letter_or_digit(*text))
                return false;
        for (; *text; text++)
                if (!is_letter_or_digit(*text) && *text != '-' && *text != '/')
                        return false;
        return true;
}

static bool is_path(const char *text)
{
        for (;;) {
                size_t length = strcspn(text, "/");

                if (length == 0 || (length <= 2 && strspn(text, ".") == length))
                        return false;
                for (size_t i = 0; i < length; i++)
                        if (!is_letter_or_digit(text[i]) && !strchr(".-_", text[i]))
                                return false;
                if (!text[length])
                        return true;
                text += length + 1;
        }
}

const struct json_text message_any = {is_any, 1024, "text without control characters, of at most ", true};
const struct json_text message_path = {
        is_path, 255, "a relative path of letters, digits, '.', '-' and '_', of at most ", false};
const struct json_text message_uuid = {is_uuid, 127, "a UUID: letters, digits, '-' and '/', of at most ", false};
const struct json_text message_allocation = {allocations_is_id, 64, "1 to 64 of a-z, 0-9 and '_', of at most ", false};
