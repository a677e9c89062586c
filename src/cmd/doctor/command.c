// SPDX-License-Identifier: Apache-2.0
/* warpshare doctor: runs each check in a child process, then prints the findings. */
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io/worker.h"
#include "base/log.h"
#include "base/clock.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cmd/cli/command.h"
#include "cmd/commands.h"
#include "cmd/doctor/doctor.h"
#include "cmd/mps/command.h"
#include "gpu/hangs.h"
#include "node/config/version.h"

/* ---- findings for people ---- */

size_t findings_count(const json_t *findings, const char *verdict)
{
        const json_t *finding;
        size_t found = 0;
        size_t i;

        json_array_foreach(findings, i, finding) found +=
                strcmp(json_string_value(json_object_get(finding, "verdict")), verdict) == 0;
        return found;
}

/* The worst first. */
static const struct {
        const char *name;
        const char *colour;
} severities[] = {{"wrong", "\033[1;31m"}, {"note", "\033[33m"}, {"ok", "\033[32m"}, {"skipped", "\033[2m"}};

#define INDENT 26U /* of what was found: behind the first two columns */
#define NARROW 60U /* columns; below, it stands on a line of its own */

static const char *finding_text(const json_t *finding, const char *member)
{
        return json_string_value(json_object_get(finding, member));
}

static size_t count_columns(const char *text, size_t size)
{
        size_t columns = 0;

        for (size_t i = 0; i < size; i++)
                columns += ((unsigned char)text[i] & 0xc0) != 0x80;
        return columns;
}

/*
 * Prints |text| from the column |at| on, and the rest behind |indent| blanks where the next word would be beyond
 * |width|. A word that is longer than a line is not cut: it may be a path.
 */
static void print_wrapped(const char *text, size_t at, size_t indent, unsigned int width)
{
        bool is_first = true;

        while (*text) {
                const size_t size = strcspn(text, " ");
                const size_t columns = count_columns(text, size);

                if (!is_first && width && at + 1 + columns > width) {
                        printf("\n%*s", (int)indent, "");
                        at = indent;
                } else if (!is_first) {
                        putchar(' ');
                        at++;
                }
                printf("%.*s", (int)size, text);
                at += columns;
                is_first = false;
                text += size + (text[size] == ' ');
        }
        putchar('\n');
}

/* The check before |position|, in the order in which they are printed, that has the same text; NULL: none. */
static const char *said_by(const json_t *sorted, size_t position, const char *member, const char *text)
{
        for (size_t i = 0; i < position; i++)
                if (text_is_same(finding_text(json_array_get(sorted, i), member), text))
                        return finding_text(json_array_get(sorted, i), "check");
        return NULL;
}

static void print_more(const json_t *sorted, size_t position, const char *member, const char *word, unsigned int width)
{
        const char *text = finding_text(json_array_get(sorted, position), member);
        const size_t indent = width && width < NARROW ? 2 : INDENT;
        const char *before = text ? said_by(sorted, position, member, text) : NULL;
        _free_ char *line = NULL;

        if (!text)
                return;
        line = before ? xasprintf("%s: as for %s", word, before) : xasprintf("%s: %s", word, text);
        printf("%*s", (int)indent, "");
        print_wrapped(line, indent, indent + 2, width);
}

static void print_finding(const json_t *sorted, size_t position, const char *colour, unsigned int width)
{
        const json_t *finding = json_array_get(sorted, position);
        const size_t indent = width && width < NARROW ? 2 : INDENT;

        printf("%s%-7s%s  ", colour ? colour : "", finding_text(finding, "verdict"), colour ? "\033[0m" : "");
        printf(indent < INDENT ? "%s\n  " : "%-15s  ", finding_text(finding, "check"));
        print_wrapped(finding_text(finding, "found"), indent, indent + 2, width);
        print_more(sorted, position, "means", "means", width);
        print_more(sorted, position, "todo", "do", width);
}

static json_t *sort_findings(const json_t *findings)
{
        json_t *sorted = json_array();
        json_t *finding;
        size_t i;

        for (size_t j = 0; j < ARRAY_SIZE(severities); j++)
                json_array_foreach(
                        findings, i, finding) if (strcmp(finding_text(finding, "verdict"), severities[j].name) == 0)
                        json_array_append(sorted, finding);
        return sorted;
}

static void print_all(const json_t *findings)
{
        const bool has_colours = command_wants_colours();
        const unsigned int width = command_width();
        json_t *sorted = sort_findings(findings);
        const size_t wrong = findings_count(findings, "wrong");

        for (size_t i = 0, rank = 0; i < json_array_size(sorted); i++) {
                while (strcmp(severities[rank].name, finding_text(json_array_get(sorted, i), "verdict")) != 0)
                        rank++;
                print_finding(sorted, i, has_colours ? severities[rank].colour : NULL, width);
        }
        json_decref(sorted);
        printf("\n%s; wrong: %zu, notes: %zu\n", wrong ? "Something is wrong" : "Nothing is wrong", wrong,
                findings_count(findings, "note"));
}

void findings_print(json_t *findings, bool is_table)
{
        if (is_table)
                print_all(findings);
        else
                command_print_json(json_pack("{s:O, s:I}", "findings", findings, "wrong",
                                           (json_int_t)findings_count(findings, "wrong")),
                        JSON_INDENT(2));
}

#define DEADLINE_MAX_S 600U

enum { OUTPUT, DEADLINE };

static const struct option own[] = {
        [OUTPUT] = COMMAND_OUTPUT,
        [DEADLINE] = COMMAND_TEXT("deadline", "15", "SECONDS",
                "for each check; a check that takes longer is given up and counts as wrong"),
};

static const char help[] =
        "usage: warpshare doctor [OPTION...]\n"
        "\n"
        "Checks everything that sharing GPUs needs on this node, and known problems: driver, GPUs, compute modes,\n"
        "kubelet, other plugins, CDI, and all of MPS. It changes nothing. Run it where the agent or 'warpshare\n"
        "mps' runs, with the same options and environment, or on the host. The exit status is 0 when nothing is\n"
        "wrong, else 1.\n"
        "\n"
        "  warpshare doctor --config-file /etc/warpshare/config.yaml\n"
        "  warpshare doctor --output json | jq -r '.findings[] | select(.verdict == \"wrong\") | .check + \": \" + .found'\n"
        "\n"
        "  ok       as it should be\n"
        "  note     works, but is worth knowing, or matters in some containers only\n"
        "  wrong    something does not work; what it means and what to do follow\n"
        "  skipped  cannot be judged here\n"
        "\n";

static const char more_help[] = "\nEvery option of 'warpshare agent' and its environment count as well: --config-file, "
                                "--kubelet-socket, --mps-directory, …\n";

/* ---- the checks ---- */

static const struct {
        const char *name;
        void (*run)(struct doctor *doctor);
} checks[] = {
#define DOCTOR_ROW(name, run) {name, run},
        DOCTOR_CHECKS(DOCTOR_ROW)
#undef DOCTOR_ROW
};

static const char *verdict_name(enum verdict verdict)
{
        static const char *const names[] = {
                [DOCTOR_OK] = "ok",
                [DOCTOR_NOTE] = "note",
                [DOCTOR_WRONG] = "wrong",
                [DOCTOR_SKIPPED] = "skipped",
        };

        return names[verdict];
}

static void doctor_set_text(json_t *json, const char *name, const char *text)
{
        _free_ char *copy = NULL;

        if (!text)
                return;
        copy = xstrdup(text);
        text_clean(copy);
        json_object_set_new(json, name, json_string(copy));
}

void doctor_report(struct doctor *doctor UNUSED, enum verdict verdict, const char *means, const char *todo,
        const char *format, ...)
{
        struct strbuf found = STRBUF_INIT;
        json_t *json = json_object();
        va_list args;
        char *line;

        va_start(args, format);
        strbuf_vprintf(&found, format, args);
        va_end(args);
        doctor_set_text(json, "verdict", verdict_name(verdict));
        doctor_set_text(json, "found", found.data);
        doctor_set_text(json, "means", means);
        doctor_set_text(json, "todo", todo);
        line = json_dumps(json, JSON_COMPACT);
        strbuf_clear(&found);
        strbuf_printf(&found, "%s\n", line);
        worker_send_news(found.data, found.size);
        free(line);
        json_decref(json);
        strbuf_done(&found);
}

/* ---- a check in a process of its own ---- */

static void report_here(json_t *findings, enum verdict verdict, const char *means, const char *todo, const char *found)
{
        json_array_append_new(findings, json_pack("{s:s, s:s, s:s*, s:s*}", "verdict", verdict_name(verdict), "found",
                                                found, "means", means, "todo", todo));
}

static void serve_check(const void *message, size_t size UNUSED, struct strbuf *answer UNUSED, const void *data)
{
        const struct config *config = data;
        _free_ char *mps_root = mps_find_root(config->mps.directory, config->mps.root, config->system_root);
        struct doctor doctor = {.config = config, .mps_root = mps_root};
        size_t position;

        memcpy(&position, message, sizeof(position));
        log_setup(LOG_ERROR, LOG_TEXT);
        checks[position].run(&doctor);
}

static void add_lines(json_t *findings, char *text)
{
        char *rest = text;
        const char *one;

        while ((one = strsep(&rest, "\n"))) {
                json_t *finding = *one ? json_loads(one, 0, NULL) : NULL;

                if (finding)
                        json_array_append_new(findings, finding);
        }
}

static void report_loss(const struct worker_call *lost, const struct error *cause, json_t *findings)
{
        const bool hung = cause->kind == ERROR_TIMEOUT;
        _free_ char *found = NULL;
        struct error why;

        hang_explain(lost, cause, clock_now_ms(), &why);
        found = xasprintf("this check %s%s%s", hung ? "did not end in time" : "ended too soon", *lost->call ? ": " : "",
                *lost->call ? why.text : "");
        report_here(findings, DOCTOR_WRONG,
                hung ? "every other caller waits as well" : "the library or program that it asked may have broken it",
                hung ? "see the kernel's log" : "report it with the output of 'warpshare --version'", found);
}

static json_t *run_check(struct worker_alone *alone, size_t position, uint64_t deadline_ms)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        json_t *findings = json_array();
        json_t *finding;
        struct error err;
        size_t i;
        int rc = worker_alone_ask(alone, &position, sizeof(position), deadline_ms, &text, &err);

        add_lines(findings, text.data);
        if (rc < 0)
                report_loss(&alone->lost, &err, findings);
        json_array_foreach(findings, i, finding)
                json_object_set_new(finding, "check", json_string(checks[position].name));
        return findings;
}

/* ---- the configuration, which all other checks need ---- */

static void on_config_warning(const char *text, void *data)
{
        report_here(data, DOCTOR_NOTE, NULL, NULL, text);
}

/* A refused file is reported, and the checks continue without it. NULL: the options alone are invalid, too. */
static const struct config *doctor_read_config(struct option_set *set, struct arena *arena, json_t *findings)
{
        const struct config *config;
        struct config_text text;
        struct error err;
        int rc = config_record_of_node(&text, set, arena, &err);

        if (rc >= 0 && config_build_text(
                               set, rc == 0 ? &text : NULL, arena, &config, on_config_warning, findings, &err) == 0) {
                _free_ char *found = *config->path ? xasprintf("'%s' is valid", config->path)
                                                   : xstrdup("the options are valid; no file is named");

                report_here(findings, DOCTOR_OK, NULL, NULL, found);
                return config;
        }
        report_here(findings, DOCTOR_WRONG,
                "the agent does not start with it; the checks that follow go without the file",
                "correct it; 'warpshare agent --print-schema' describes it", err.text);
        set->values[option_find("config-file")] = "";
        return config_build(set, arena, &config, on_config_warning, findings, &err) == 0 ? config : NULL;
}

/* ---- command ---- */

/* A person at a terminal sees what takes so long. |name| NULL: nothing any more. */
static void show_progress(const char *name)
{
        if (!isatty(STDERR_FILENO))
                return;
        if (name)
                fprintf(stderr, "\r\033[Kchecks %s …", name);
        else
                fputs("\r\033[K", stderr);
        fflush(stderr);
}

static int examine(struct option_set *set, struct arena *arena, bool is_table, uint64_t deadline_ms)
{
        json_t *findings = json_array();
        const struct config *config = doctor_read_config(set, arena, findings);
        struct worker_alone alone;
        json_t *finding;
        size_t wrong;
        size_t i;

        json_array_foreach(findings, i, finding) json_object_set_new(finding, "check", json_string("config"));
        worker_alone_begin(&alone, "warpshare-check", serve_check, config);
        alone.patience = WORKER_IN_ALL;
        worker_keep_descriptors(alone.worker);
        for (size_t j = 0; config && j < ARRAY_SIZE(checks); j++) {
                json_t *more;

                show_progress(checks[j].name);
                more = run_check(&alone, j, deadline_ms);
                json_array_extend(findings, more);
                json_decref(more);
        }
        worker_alone_end(&alone);
        show_progress(NULL);
        findings_print(findings, is_table);
        wrong = findings_count(findings, "wrong");
        json_decref(findings);
        return wrong ? EXIT_FAILED : 0;
}

static int doctor_run(struct command_call *call, struct error *err)
{
        uint64_t seconds;

        signal(SIGPIPE, SIG_IGN);
        if (command_number(call, DEADLINE, " of seconds", 1, DEADLINE_MAX_S, &seconds, err) < 0)
                return COMMAND_REFUSED;
        return examine(&call->set, &call->arena, command_has(call, OUTPUT, "table"), seconds * 1000);
}

const struct command command_doctor = {
        .name = "doctor",
        .summary = "say what is wrong on this node, what that means and what to do about it",
        .run = doctor_run,
        COMMAND_OWN(own),
        .program = "warpshare doctor",
        .help = help,
        .more_help = more_help,
        .lists_own_only = true,
};
