#include "net/kube/certificate.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/macro.h"

#define BEGIN "-----BEGIN CERTIFICATE-----"
#define END "-----END CERTIFICATE-----"

/* DER (X.690): one byte of type, the length, then the content. See RFC 5280, 4.2.1.6. */
#define TYPE_BOOLEAN 0x01U
#define TYPE_OCTETS 0x04U
#define TYPE_SEQUENCE 0x30U
#define NAME_DNS 0x82U
#define NAME_ADDRESS 0x87U

static const unsigned char alternative_names[] = {0x06, 0x03, 0x55, 0x1d, 0x11}; /* the object identifier 2.5.29.17 */

struct bytes {
        const unsigned char *at;
        size_t size;
};

/* Takes the first value and returns its type; 0 if there is none, or if it is longer than the rest. */
static unsigned int certificate_take(struct bytes *rest, struct bytes *ret)
{
        unsigned int type = rest->size >= 2 ? rest->at[0] : 0;
        size_t length = rest->size >= 2 ? rest->at[1] : 0;
        size_t head = 2;

        if (length & 0x80) {
                size_t count = length & 0x7f;

                if (count == 0 || count > 3 || rest->size < 2 + count)
                        return 0;
                for (length = 0; head < 2 + count; head++)
                        length = length << 8 | rest->at[head];
        }
        if (type == 0 || length > rest->size - head)
                return 0;
        *ret = (struct bytes){rest->at + head, length};
        *rest = (struct bytes){ret->at + length, rest->size - head - length};
        return type;
}

/*
 * |rest| starts after the extension's identifier: an optional critical flag, then the value, a list in an octet string.
 */
static bool has_name(struct bytes rest)
{
        struct bytes value;
        struct bytes names;
        unsigned int type = certificate_take(&rest, &value);

        if (type == TYPE_BOOLEAN)
                type = certificate_take(&rest, &value);
        if (type != TYPE_OCTETS || certificate_take(&value, &names) != TYPE_SEQUENCE)
                return false;
        while ((type = certificate_take(&names, &value)))
                if ((type == NAME_DNS || type == NAME_ADDRESS) && value.size > 0)
                        return true;
        return false;
}

bool certificate_names_host(const char *pem)
{
        const char *begin = strstr(pem, BEGIN);
        const char *end = begin ? strstr(begin + strlen(BEGIN), END) : NULL; /* the dashes of the end line are not those
                                                                              * of the next start line */
        _free_ unsigned char *der = NULL;
        const unsigned char *found;
        size_t size;

        if (!end || (size_t)(end - begin) > CERTIFICATE_LIMIT)
                return false;
        begin += strlen(BEGIN);
        der = xmalloc((size_t)(end - begin) + 1);
        if (!base64_decode(begin, (size_t)(end - begin), der, &size))
                return false;
        found = memmem(der, size, alternative_names, sizeof(alternative_names));
        if (!found)
                return false;
        found += sizeof(alternative_names);
        return has_name((struct bytes){found, size - (size_t)(found - der)});
}
