/* warpshare doctor: runs each check in a child process, and prints the findings. */
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static const char *verdict_colour(const char *verdict)
{
        static const char *const colours[][2] = {
                {"ok", "\033[32m"}, {"note", "\033[33m"}, {"wrong", "\033[1;31m"}, {"skipped", "\033[2m"}};

        for (size_t i = 0; i < ARRAY_SIZE(colours); i++)
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
        command_print_json(json, JSON_INDENT(2));
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

/* ---- output ---- */

/* Appends |more| to |all|; in text form it is printed at once. */
static void add_findings(json_t *all, json_t *more, bool is_table, bool has_colours)
{
        const json_t *finding;
        size_t i;

        json_array_foreach(more, i, finding) if (is_table) findings_print(finding, has_colours);
        json_array_extend(all, more);
        json_decref(more);
}

/* ---- command ---- */

static int examine(struct option_set *set, struct arena *arena, bool is_table, uint64_t deadline_ms)
{
        json_t *findings = json_array();
        json_t *of_config = json_array();
        const struct config *config = doctor_read_config(set, arena, of_config);
        bool has_colours = command_wants_colours();
        struct worker_alone alone;
        json_t *finding;
        size_t wrong;
        size_t i;

        json_array_foreach(of_config, i, finding) json_object_set_new(finding, "check", json_string("config"));
        add_findings(findings, of_config, is_table, has_colours);
        worker_alone_begin(&alone, "warpshare-check", serve_check, config);
        alone.patience = WORKER_IN_ALL;
        worker_keep_descriptors(alone.worker);
        for (size_t j = 0; config && j < ARRAY_SIZE(checks); j++)
                add_findings(findings, run_check(&alone, j, deadline_ms), is_table, has_colours);
        worker_alone_end(&alone);
        findings_print_end(findings, is_table);
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
