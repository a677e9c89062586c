#include "plan/pattern.h"

#include <stddef.h>

bool pattern_matches(const char *pattern, const char *text)
{
        const char *star = NULL; /* the last '*': only its run can still grow */
        const char *run = NULL;

        while (*text) {
                if (*pattern == '*') {
                        star = pattern++;
                        run = text;
                } else if (*pattern == *text) {
                        pattern++;
                        text++;
                } else if (star) {
                        pattern = star + 1;
                        text = ++run;
                } else {
                        return false;
                }
        }
        while (*pattern == '*')
                pattern++;
        return *pattern == '\0';
}
