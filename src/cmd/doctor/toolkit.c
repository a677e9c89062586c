// SPDX-License-Identifier: Apache-2.0
#include "cmd/doctor/toolkit.h"

#include <ctype.h>
#include <string.h>

#include "base/file.h"
#include "cmd/doctor/doctor.h"

/* ---- its configuration ---- */

/* A part of a line: from |at| to before |end|. */
struct part {
        const char *at;
        const char *end;
};

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct part *part)
{
        while (part->at < part->end && is_blank(*part->at))
                part->at++;
}

static bool is_at(const struct part *part, char c)
{
        return part->at < part->end && *part->at == c;
}

static bool is_text(const struct part *part, const char *text)
{
        const size_t length = strlen(text);

        return (size_t)(part->end - part->at) == length && memcmp(part->at, text, length) == 0;
}

/* A string in quotes, which |part| begins with. False: it does not end in this line. */
static bool skip_string(struct part *part)
{
        const char quote = *part->at++;

        while (part->at < part->end && *part->at != quote)
                part->at += *part->at == '\\' && quote == '"' && part->at + 1 < part->end ? 2 : 1;
        if (!is_at(part, quote))
                return false;
        part->at++;
        return true;
}

/*
 * The key that |line| begins with, without its quotes. A key of several parts, with dots, is none of ours: then |ret|
 * is empty. False: there is none, or no '=' after it.
 */
static bool take_key(struct part *line, struct part *ret)
{
        size_t n_parts = 0;

        do {
                const char *begin;
                size_t quotes = 0;

                line->at += n_parts > 0;
                skip_blanks(line);
                begin = line->at;
                if (is_at(line, '"') || is_at(line, '\'')) {
                        quotes = 1;
                        if (!skip_string(line))
                                return false;
                } else {
                        while (line->at < line->end && (isalnum((unsigned char)*line->at) || strchr("-_", *line->at)))
                                line->at++;
                        if (line->at == begin)
                                return false;
                }
                *ret = (struct part){begin + quotes, line->at - quotes};
                n_parts++;
                skip_blanks(line);
        } while (is_at(line, '.'));
        if (n_parts > 1)
                ret->at = ret->end;
        if (!is_at(line, '='))
                return false;
        line->at++;
        return true;
}

/*
 * The value that is the rest of |line|, without blanks and comment. False: there is none, or it is not over at the end
 * of the line.
 */
static bool toolkit_take_value(struct part *line, struct part *ret)
{
        unsigned int depth = 0;

        skip_blanks(line);
        ret->at = ret->end = line->at;
        while (line->at < line->end && *line->at != '#') {
                const char c = *line->at;

                if (c == '"' || c == '\'') {
                        if (line->end - line->at >= 3 && line->at[1] == c && line->at[2] == c)
                                return false;
                        if (!skip_string(line))
                                return false;
                        ret->end = line->at;
                        continue;
                }
                depth += c == '[' || c == '{';
                if (c == ']' || c == '}') {
                        if (depth == 0)
                                return false;
                        depth--;
                }
                line->at++;
                if (!is_blank(c))
                        ret->end = line->at;
        }
        return depth == 0 && ret->end > ret->at;
}

struct reading {
        struct toolkit_config config;
        bool says_mounts;
        unsigned int line;
};

static int set_key(struct reading *reading, const char *name, bool *is_said, bool *ret, const struct part *value,
        struct error *err)
{
        if (*is_said)
                return error_set(err, ERROR_INVALID, "line %u: %s is there a second time", reading->line, name);
        if (!is_text(value, "true") && !is_text(value, "false"))
                return error_set(err, ERROR_INVALID, "line %u: %s is neither true nor false", reading->line, name);
        *is_said = true;
        *ret = is_text(value, "true");
        return 0;
}

static int read_line(struct reading *reading, struct part line, struct error *err)
{
        struct toolkit_config *config = &reading->config;
        struct part key;
        struct part value;

        if (!take_key(&line, &key) || !toolkit_take_value(&line, &value))
                return error_set(
                        err, ERROR_INVALID, "line %u: no key with a value that is on this line", reading->line);
        if (is_text(&key, TOOLKIT_ENVVAR))
                return set_key(reading, TOOLKIT_ENVVAR, &config->says_envvar, &config->takes_envvar, &value, err);
        if (is_text(&key, TOOLKIT_MOUNTS))
                return set_key(reading, TOOLKIT_MOUNTS, &reading->says_mounts, &config->takes_mounts, &value, err);
        return 0;
}

int toolkit_config_read(struct toolkit_config *ret, const char *text, struct error *err)
{
        struct reading reading = {.config = {.takes_envvar = true}};

        while (*text) {
                struct part line = {text, text + strcspn(text, "\n")};

                text = line.end + (*line.end == '\n');
                reading.line++;
                skip_blanks(&line);
                if (is_at(&line, '['))
                        break;
                if (line.at < line.end && *line.at != '#' && read_line(&reading, line, err) < 0)
                        return -1;
        }
        *ret = reading.config;
        return 0;
}

#define BELOW "/nvidia-container-runtime/config.toml"
#define CONFIG_MAX ((size_t)64 * 1024)

/* ---- where it is ---- */

/* 1: read, with its path; 0: not there, -1: there, and it cannot be read. */
static int toolkit_read_one(struct strbuf *text, char **ret_path, char *path, struct error *err)
{
        _free_ char *taken = path;

        strbuf_clear(text);
        if (file_read(path, CONFIG_MAX, text, err) < 0)
                return err->kind == ERROR_NOT_FOUND ? 0 : -1;
        if (memchr(text->data ? text->data : "", '\0', text->size))
                return error_set(err, ERROR_INVALID, "'%s' is no text", path);
        *ret_path = TAKE_PTR(taken);
        return 1;
}

/*
 * A toolkit that the GPU Operator installs has its configuration below its own folder, and does not read that in /etc.
 * Its hook for CDI stands in that folder.
 */
static int read_below(struct strbuf *text, char **ret_path, const char *root, const char *hook, struct error *err)
{
        _free_ char *folder = file_folder(hook);
        int rc = toolkit_read_one(text, ret_path, xasprintf("%s%s/.config" BELOW, root, folder), err);

        if (rc == 0)
                rc = toolkit_read_one(
                        text, ret_path, xasprintf("%s/usr/local/nvidia/toolkit/.config" BELOW, root), err);
        return rc ? rc : toolkit_read_one(text, ret_path, xasprintf("%s/etc" BELOW, root), err);
}

/* Below the root of the host, wherever that is mounted here: with dra.enabled of the chart, or by the GPU Operator. */
static int read_toolkit_config(struct strbuf *text, char **ret_path, const struct config *config, struct error *err)
{
        _free_ char *of_operator = xasprintf("%s/host", config->system_root);
        const bool is_driver_on_host = strcmp(config->driver.root, "/") == 0;
        int rc = read_below(text, ret_path, config->system_root, config->cdi.hook_path, err);

        if (rc == 0 && is_driver_on_host)
                rc = read_below(text, ret_path, config->driver.mounted_root, config->cdi.hook_path, err);
        return rc ? rc : read_below(text, ret_path, of_operator, config->cdi.hook_path, err);
}

/* ---- what it means ---- */

static bool has_cdi(const struct config *config)
{
        return (config->devices.lists & DEVICE_LIST_CDI) || config_adds_cdi(config);
}

static bool has_mounts(const struct config *config)
{
        return config->devices.lists & DEVICE_LIST_VOLUME_MOUNTS;
}

#define SAFE "deviceListStrategy cdi-cri or cdi-annotations, or volume-mounts together with " TOOLKIT_MOUNTS " = true"
#define AGENT "; an agent that has its GPUs from NVIDIA's runtime needs the capability SYS_ADMIN then"

static const char *how_to_refuse(const struct config *config, const struct toolkit_config *toolkit)
{
        if (has_cdi(config) || (has_mounts(config) && toolkit->takes_mounts))
                return "set it to false" AGENT;
        if (has_mounts(config))
                return "set it to false, and " TOOLKIT_MOUNTS " to true" AGENT;
        return "choose another way to hand out GPUs first: " SAFE "; then set it to false" AGENT;
}

static void toolkit_report(struct doctor *doctor, const char *path, const struct toolkit_config *toolkit)
{
        const struct config *config = doctor->config;

        if (toolkit->takes_envvar)
                doctor_report(doctor, DOCTOR_NOTE,
                        "a container that NVIDIA's runtime starts gets the GPUs that NVIDIA_VISIBLE_DEVICES in its "
                        "pod's spec or its image names, past every share and limit",
                        how_to_refuse(config, toolkit), "'%s': " TOOLKIT_ENVVAR " is %s", path,
                        toolkit->says_envvar ? "true" : "not set, and so true");
        else if (has_cdi(config) || (has_mounts(config) && toolkit->takes_mounts) || !config->devices.lists)
                doctor_ok(doctor,
                        "'%s': only a container with SYS_ADMIN gets the GPUs that its NVIDIA_VISIBLE_DEVICES names",
                        path);
        else
                doctor_report(doctor, DOCTOR_WRONG,
                        "containers get no GPU: those without SYS_ADMIN may not name any, and nothing else tells "
                        "NVIDIA's runtime which are theirs",
                        SAFE, "'%s': " TOOLKIT_ENVVAR " is false, and " TOOLKIT_MOUNTS " is %s", path,
                        toolkit->takes_mounts ? "true" : "false");
}

void doctor_check_toolkit(struct doctor *doctor)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        _free_ char *path = NULL;
        struct toolkit_config toolkit;
        struct error err;
        int rc;

        if (doctor_is_at_supervisor(doctor)) {
                doctor_skip(doctor, "the agent hands out GPUs, and its doctor says how");
                return;
        }
        rc = read_toolkit_config(&text, &path, doctor->config, &err);
        if (rc > 0 && toolkit_config_read(&toolkit, text.data ? text.data : "", &err) < 0)
                rc = error_prefix(&err, "'%s'", path);
        if (rc > 0)
                toolkit_report(doctor, path, &toolkit);
        else
                doctor_report(doctor, DOCTOR_SKIPPED,
                        "it is not known whether NVIDIA_VISIBLE_DEVICES in a pod's spec or image goes around shares",
                        "look on the node: grep accept-nvidia /etc" BELOW,
                        "the configuration of NVIDIA's container toolkit: %s",
                        rc < 0 ? err.text : "none is to be seen from here");
}
