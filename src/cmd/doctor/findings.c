#include "cmd/doctor/findings.h"

#include <stdio.h>
#include <string.h>

size_t findings_count(const json_t *findings, const char *verdict)
{
        const json_t *finding;
        size_t found = 0;
        size_t i;

        json_array_foreach(findings, i, finding) found +=
                strcmp(json_string_value(json_object_get(finding, "verdict")), verdict) == 0;
        return found;
}

static const char *verdict_colour(const char *verdict)
{
        static const char *const colours[][2] = {
                {"ok", "\033[32m"}, {"note", "\033[33m"}, {"wrong", "\033[1;31m"}, {"skipped", "\033[2m"}};

        for (size_t i = 0; i < sizeof(colours) / sizeof(*colours); i++)
                if (strcmp(colours[i][0], verdict) == 0)
                        return colours[i][1];
        return "";
}

static void print_more(const json_t *finding, const char *member, const char *word)
{
        const char *text = json_string_value(json_object_get(finding, member));

        if (text)
                printf("%26s%s: %s\n", "", word, text);
}

void findings_print(const json_t *finding, bool has_colours)
{
        const char *verdict = json_string_value(json_object_get(finding, "verdict"));

        printf("%s%-7s%s  %-15s  %s\n", has_colours ? verdict_colour(verdict) : "", verdict,
                has_colours ? "\033[0m" : "", json_string_value(json_object_get(finding, "check")),
                json_string_value(json_object_get(finding, "found")));
        print_more(finding, "means", "means");
        print_more(finding, "todo", "do");
        fflush(stdout);
}

void findings_print_end(json_t *findings, bool is_table)
{
        size_t wrong = findings_count(findings, "wrong");
        json_t *json;

        if (is_table) {
                printf("\n%s; wrong: %zu, notes: %zu\n", wrong ? "Something is wrong" : "Nothing is wrong", wrong,
                        findings_count(findings, "note"));
                return;
        }
        json = json_pack("{s:O, s:I}", "findings", findings, "wrong", (json_int_t)wrong);
        json_dumpf(json, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(json);
}
