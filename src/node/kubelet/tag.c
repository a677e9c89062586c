#include "node/kubelet/tag.h"

#include <uv.h>

/* "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx", where the two highest bits of y say that it is a UUID of the RFC. */
static void format(const uint8_t *bytes, char text[static TAG_SIZE])
{
        static const char digits[] = "0123456789abcdef";
        char *at = text;

        for (size_t i = 0; i < 16; i++) {
                uint8_t byte = bytes[i];

                if (i == 6)
                        byte = (uint8_t)(0x40 | (byte & 0x0f));
                if (i == 8)
                        byte = (uint8_t)(0x80 | (byte & 0x3f));
                if (i == 4 || i == 6 || i == 8 || i == 10)
                        *at++ = '-';
                *at++ = digits[byte >> 4];
                *at++ = digits[byte & 0x0f];
        }
        *at = '\0';
}

int tag_draw(struct tag_pool *pool, char ret[static TAG_SIZE], struct error *err)
{
        if (pool->left == 0) {
                int rc = uv_random(NULL, NULL, pool->bytes, sizeof(pool->bytes), 0, NULL);

                if (rc < 0)
                        return error_set(err, ERROR_INTERNAL, "no random bytes for the key of an annotation: %s",
                                uv_strerror(rc));
                pool->left = sizeof(pool->bytes);
        }
        format(&pool->bytes[sizeof(pool->bytes) - pool->left], ret);
        pool->left -= 16;
        return 0;
}
