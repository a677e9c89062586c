// SPDX-License-Identifier: Apache-2.0
#include "cmd/doctor/facts.h"

#include <ctype.h>
#include <string.h>

#include "base/proc.h"
#include "base/text.h"

/* Digits, a dot, digits, and optionally more groups. */
static size_t version_length(const char *text)
{
        size_t length = strspn(text, "0123456789.");
        size_t digits = strspn(text, "0123456789");

        if (digits == 0 || digits == length || !isdigit((unsigned char)text[length - 1]))
                return 0;
        return text[length] == '\0' || isspace((unsigned char)text[length]) ? length : 0;
}

bool facts_driver_version(const char *text, char ret[static FACTS_VERSION_MAX])
{
        const char *line = strstr(text, "NVRM version:");
        const char *end = line ? line + strcspn(line, "\n") : NULL;

        for (const char *word = line; word && word < end; word += strspn(word, " \t")) {
                size_t length = version_length(word);

                if (length > 0 && length < FACTS_VERSION_MAX) {
                        memcpy(ret, word, length);
                        ret[length] = '\0';
                        return true;
                }
                word += strcspn(word, " \t\n");
        }
        return false;
}

size_t facts_count_mounts(const char *mountinfo, const char *path)
{
        struct mountinfo_line mount;
        size_t count = 0;

        while (mountinfo_next(&mountinfo, &mount))
                count += mountinfo_is_at(&mount, path);
        return count;
}

bool facts_is_container_label(const char *label)
{
        return strstr(label, ":container_file_t:") || strstr(label, ":svirt_sandbox_file_t:");
}

bool facts_is_nvidia_socket(const char *name)
{
        size_t length = strlen(name);

        return text_starts_with(name, "nvidia-") && length > 5 && strcmp(name + length - 5, ".sock") == 0;
}
