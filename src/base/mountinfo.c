#include "base/mountinfo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

enum { DEVICE = 2, POINT = 4, OPTIONS = 5, FIELDS = 6 };

bool mountinfo_next(const char **at, struct mountinfo_line *ret)
{
        while (**at) {
                const char *fields[FIELDS] = {*at};
                const char *end = strchrnul(*at, '\n');
                const char *rest;
                size_t count = 1;

                for (const char *c = *at; c < end && count < FIELDS; c++)
                        if (*c == ' ')
                                fields[count++] = c + 1;
                *at = *end ? end + 1 : end;
                if (count < FIELDS)
                        continue;
                rest = memmem(fields[OPTIONS], (size_t)(end - fields[OPTIONS]), " - ", 3);
                rest = rest ? rest : end;
                ret->device = makedev((unsigned int)strtoul(fields[DEVICE], NULL, 10),
                        (unsigned int)strtoul(fields[DEVICE] + strcspn(fields[DEVICE], ": ") + 1, NULL, 10));
                ret->point = fields[POINT];
                ret->length = (size_t)(fields[OPTIONS] - 1 - fields[POINT]);
                ret->is_shared = memmem(fields[OPTIONS], (size_t)(rest - fields[OPTIONS]), " shared:", 8);
                return true;
        }
        return false;
}

bool mountinfo_is_at(const struct mountinfo_line *mount, const char *path)
{
        return strlen(path) == mount->length && memcmp(mount->point, path, mount->length) == 0;
}
