/* warpshare doctor: runs each check in a child process, and prints the findings. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/command_line.h"
#include "cmd/commands.h"
#include "cmd/doctor/doctor.h"
#include "cmd/doctor/findings.h"
#include "nodeconfig/record.h"

#define FINDINGS_MAX ((size_t)256 * 1024) /* bytes of output per check */
#define DEADLINE_MAX_S 600U

enum { OUTPUT, DEADLINE };

static const struct option own[] = {
        [OUTPUT] = COMMAND_LINE_OUTPUT,
        [DEADLINE] = {.flag = "deadline",
                .type = OPTION_STRING,
                .fallback = "15",
                .argument = "SECONDS",
                .help = "for each check; a check that takes longer is given up and counts as wrong"},
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

const struct command_line command_doctor_line = {
        .own = own,
        .n_own = ARRAY_SIZE(own),
        .program = "warpshare doctor",
        .help = help,
        .more_help = more_help,
        .lists_own_only = true,
};

/* ---- a check in a child ---- */

static void report_here(json_t *findings, enum verdict verdict, const char *means, const char *todo, const char *found)
{
        json_array_append_new(findings, json_pack("{s:s, s:s, s:s*, s:s*}", "verdict", doctor_verdict_name(verdict),
                                                "found", found, "means", means, "todo", todo));
}

static void run_child(const struct doctor_check *check, const struct config *config, int fd)
{
        _free_ char *mps_root = doctor_find_mps_root(config);
        struct doctor doctor = {.config = config, .mps_root = mps_root, .out = fdopen(fd, "w")};

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        log_setup(LOG_ERROR, LOG_TEXT);
        check->run(&doctor);
        fclose(doctor.out);
        _exit(0);
}

/* Reads all output of the child. False: the deadline passed, or the output is too long. */
static bool read_all(int fd, struct strbuf *text, uint64_t deadline_ms)
{
        uint64_t end = uv_hrtime() / 1000000 + deadline_ms;

        for (;;) {
                uint64_t now = uv_hrtime() / 1000000;
                struct pollfd ready = {.fd = fd, .events = POLLIN};
                char bytes[4096];
                ssize_t count;

                if (now >= end || text->size > FINDINGS_MAX)
                        return false;
                if (poll(&ready, 1, (int)(end - now)) <= 0)
                        continue;
                count = read(fd, bytes, sizeof(bytes));
                if (count <= 0)
                        return true;
                strbuf_append(text, bytes, (size_t)count);
        }
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

/* A child inside a system call may not die now, so do not wait for it. */
static void end_child(pid_t child, bool is_done, json_t *findings)
{
        int status = 0;

        if (!is_done) {
                kill(child, SIGKILL);
                waitpid(child, &status, WNOHANG);
                report_here(findings, DOCTOR_WRONG, "every other caller waits as well", "see the kernel's log",
                        "this check did not end in time");
                return;
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
                ;
        if (WIFSIGNALED(status) || WEXITSTATUS(status))
                report_here(findings, DOCTOR_WRONG, "the library or program that it asked may have broken it",
                        "report it with the output of 'warpshare --version'", "this check ended too soon");
}

static json_t *run_check(const struct doctor_check *check, const struct config *config, uint64_t deadline_ms)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        json_t *findings = json_array();
        json_t *finding;
        int ends[2];
        pid_t child;
        bool is_done;
        size_t i;

        if (pipe2(ends, O_CLOEXEC) < 0)
                abort();
        child = fork();
        if (child == 0) {
                close(ends[0]);
                run_child(check, config, ends[1]);
        }
        close(ends[1]);
        is_done = read_all(ends[0], &text, deadline_ms);
        close(ends[0]);
        add_lines(findings, text.data);
        if (child > 0)
                end_child(child, is_done, findings);
        json_array_foreach(findings, i, finding) json_object_set_new(finding, "check", json_string(check->name));
        return findings;
}

/* ---- the configuration, which all other checks need ---- */

static void on_config_warning(const char *text, void *data)
{
        report_here(data, DOCTOR_NOTE, NULL, NULL, text);
}

/* A refused file is reported, and the checks go on without it. NULL: the options alone are invalid, too. */
static const struct config *read_config(struct option_set *set, struct arena *arena, json_t *findings)
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
        const struct config *config = read_config(set, arena, of_config);
        bool has_colours = command_line_wants_colours();
        json_t *finding;
        size_t wrong;
        size_t i;

        json_array_foreach(of_config, i, finding) json_object_set_new(finding, "check", json_string("config"));
        add_findings(findings, of_config, is_table, has_colours);
        for (size_t j = 0; config && j < doctor_check_count; j++)
                add_findings(findings, run_check(&doctor_checks[j], config, deadline_ms), is_table, has_colours);
        findings_print_end(findings, is_table);
        wrong = findings_count(findings, "wrong");
        json_decref(findings);
        return wrong ? EXIT_FAILED : 0;
}

int command_doctor(int argc, char **argv)
{
        _cleanup_(arena_done) struct arena arena = ARENA_INIT;
        const char *values[ARRAY_SIZE(own)];
        struct option_set set;
        struct error err;
        uint64_t seconds;
        int status;

        signal(SIGPIPE, SIG_IGN);
        if (!command_line_read(&command_doctor_line, &set, values, &arena, argc, argv, &status))
                return status;
        if (!text_to_uint(values[DEADLINE], DEADLINE_MAX_S, &seconds) || seconds == 0) {
                error_raise(&err, ERROR_INVALID, "deadline: '%.40s' is not a number of seconds from 1 to %u",
                        values[DEADLINE], DEADLINE_MAX_S);
                return command_line_refuse(&command_doctor_line, &err);
        }
        return examine(&set, &arena, strcmp(values[OUTPUT], "table") == 0, seconds * 1000);
}
