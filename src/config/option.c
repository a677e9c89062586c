#include "config/option.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

static const char *const mig_choices[] = {"none", NULL};
static const char *const mig_unsupported[] = {"single", "mixed", NULL};
static const char *const id_choices[] = {"uuid", "index", NULL};
static const char *const list_choices[] = {"envvar", NULL};
static const char *const list_unsupported[] = {"volume-mounts", "cdi-annotations", "cdi-cri", NULL};
static const char *const policy_choices[] = {"distributed", "packed", NULL};
static const char *const level_choices[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_choices[] = {"text", "json", NULL};

/* Names and defaults of the first thirteen are those of NVIDIA's k8s-device-plugin v0.20 (cmd/nvidia-device-plugin/main.go). */
const struct option option_table[] = {
        {.flag = "mig-strategy",
                .environment = {"MIG_STRATEGY"},
                .key = "flags.migStrategy",
                .type = OPTION_CHOICE,
                .choices = mig_choices,
                .unsupported = mig_unsupported,
                .fallback = "none",
                .argument = "WORD",
                .help = "how GPUs with MIG enabled are advertised: none, as whole GPUs"},
        {.flag = "fail-on-init-error",
                .environment = {"FAIL_ON_INIT_ERROR"},
                .key = "flags.failOnInitError",
                .type = OPTION_BOOL,
                .fallback = "true",
                .help = "exit when no GPU can be used at start, instead of waiting for one"},
        {.flag = "driver-root",
                .aliases = {"nvidia-driver-root"},
                .environment = {"NVIDIA_DRIVER_ROOT"},
                .key = "flags.nvidiaDriverRoot",
                .type = OPTION_STRING,
                .fallback = "/",
                .argument = "PATH",
                .help = "root of the driver installation, on the host"},
        {.flag = "driver-root-ctr-path",
                .aliases = {"container-driver-root"},
                .environment = {"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"},
                .key = "flags.plugin.containerDriverRoot",
                .type = OPTION_STRING,
                .fallback = "/driver-root",
                .argument = "PATH",
                .help = "where the driver root is mounted in this container"},
        {.flag = "mps-root",
                .environment = {"MPS_ROOT"},
                .key = "flags.mpsRoot",
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "PATH",
                .help = "directory of pipes, logs and shared memory of MPS, on the host"},
        {.flag = "device-list-strategy",
                .environment = {"DEVICE_LIST_STRATEGY"},
                .key = "flags.plugin.deviceListStrategy",
                .type = OPTION_LIST,
                .choices = list_choices,
                .unsupported = list_unsupported,
                .fallback = "envvar",
                .argument = "LIST",
                .help = "how a container's GPUs reach the container runtime: envvar"},
        {.flag = "device-id-strategy",
                .environment = {"DEVICE_ID_STRATEGY"},
                .key = "flags.plugin.deviceIDStrategy",
                .type = OPTION_CHOICE,
                .choices = id_choices,
                .fallback = "uuid",
                .argument = "WORD",
                .help = "what names a GPU to the container runtime: uuid or index"},
        {.flag = "shared-devices-allocation-policy",
                .environment = {"SHARED_DEVICES_ALLOCATION_POLICY"},
                .key = "flags.plugin.sharedDevicesAllocationPolicy",
                .type = OPTION_CHOICE,
                .choices = policy_choices,
                .fallback = "distributed",
                .argument = "WORD",
                .help = "which replicas are preferred: distributed (emptiest GPU) or packed (fullest GPU)"},
        {.flag = "kubelet-socket",
                .environment = {"KUBELET_SOCKET"},
                .type = OPTION_STRING,
                .fallback = "/var/lib/kubelet/device-plugins/kubelet.sock",
                .argument = "PATH",
                .help = "where to register; empty: never register"},
        {.flag = "config-file",
                .environment = {"CONFIG_FILE"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "PATH",
                .help = "configuration file, YAML or JSON; read again on every reload"},
        {.flag = "nvml-library",
                .environment = {"WARPSHARE_NVML_LIBRARY"},
                .type = OPTION_STRING,
                .fallback = "",
                .argument = "PATH",
                .help = "libnvidia-ml.so.1 to load; empty: found below the driver root"},
        {.flag = "log-level",
                .environment = {"WARPSHARE_LOG_LEVEL"},
                .type = OPTION_CHOICE,
                .choices = level_choices,
                .fallback = "info",
                .argument = "WORD",
                .help = "least level that is logged: debug, info, warn or error"},
        {.flag = "log-format",
                .environment = {"WARPSHARE_LOG_FORMAT"},
                .type = OPTION_CHOICE,
                .choices = format_choices,
                .fallback = "text",
                .argument = "WORD",
                .help = "form of log lines: text or json"},
};

const size_t option_count = ARRAY_SIZE(option_table);

size_t option_find(const char *flag)
{
        for (size_t i = 0; i < option_count; i++)
                if (strcmp(option_table[i].flag, flag) == 0)
                        return i;
        assert(false); /* an option that is not in the table */
        return 0;
}

const char *option_set_get(const struct option_set *set, const char *flag)
{
        return set->values[option_find(flag)];
}

/* ---- values ---- */

static const char *word_find(const char *const *words, const char *text, size_t length)
{
        for (; words && *words; words++)
                if (strlen(*words) == length && memcmp(*words, text, length) == 0)
                        return *words;
        return NULL;
}

/* "uuid or index" */
static void words_list(struct strbuf *text, const char *const *words)
{
        for (size_t i = 0; words[i]; i++)
                strbuf_printf(text, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

static int check_word(const struct option *option, const char *text, size_t length, const char **ret, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf choices = STRBUF_INIT;
        int shown = (int)MIN(length, (size_t)100);

        *ret = word_find(option->choices, text, length);
        if (*ret)
                return 0;
        words_list(&choices, option->choices);
        if (word_find(option->unsupported, text, length))
                return error_set(err, ERROR_UNSUPPORTED, "'%.*s' is not supported by this version, use %s", shown, text,
                        choices.data);
        return error_set(err, ERROR_INVALID, "'%.*s' is not a known value, use %s", shown, text, choices.data);
}

static int check_list(
        const struct option *option, const char *text, struct arena *arena, const char **ret, struct error *err)
{
        _cleanup_(strbuf_done) struct strbuf list = STRBUF_INIT;
        uint64_t seen = 0;

        for (;; text++) {
                size_t length;
                const char *end;
                const char *word;
                size_t position = 0;

                text += strspn(text, " \t");
                end = strchrnul(text, ',');
                length = (size_t)(end - text);
                while (length && (text[length - 1] == ' ' || text[length - 1] == '\t'))
                        length--;
                if (check_word(option, text, length, &word, err) < 0)
                        return -1;
                while (option->choices[position] != word)
                        position++;
                if (!(seen & (UINT64_C(1) << position)))
                        strbuf_printf(&list, "%s%s", list.size ? "," : "", word);
                seen |= UINT64_C(1) << position;
                text = end;
                if (!*text)
                        break;
        }
        *ret = arena_strdup(arena, list.data);
        return 0;
}

int option_check(
        const struct option *option, const char *value, struct arena *arena, const char **ret, struct error *err)
{
        bool is_true;

        switch (option->type) {
        case OPTION_STRING:
                *ret = arena_strdup(arena, value);
                return 0;
        case OPTION_BOOL:
                if (!text_to_bool(value, &is_true))
                        return error_set(err, ERROR_INVALID, "'%.100s' is not a boolean, use true or false", value);
                *ret = is_true ? "true" : "false";
                return 0;
        case OPTION_CHOICE:
                return check_word(option, value, strlen(value), ret, err);
        case OPTION_LIST:
                return check_list(option, value, arena, ret, err);
        }
        return error_set(err, ERROR_INTERNAL, "an option without a type");
}

/* ---- environment ---- */

static const char *environment_get(char *const *environment, const char *name)
{
        size_t length = strlen(name);

        for (; environment && *environment; environment++)
                if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
                        return *environment + length + 1;
        return NULL;
}

static int read_environment(struct option_set *set, struct arena *arena, char *const *environment, struct error *err)
{
        for (size_t i = 0; i < option_count; i++) {
                const struct option *option = &option_table[i];
                const char *value = NULL;
                const char *name = NULL;

                if (set->values[i])
                        continue; /* the command line wins */
                for (size_t j = 0; !value && j < ARRAY_SIZE(option->environment) && option->environment[j]; j++) {
                        name = option->environment[j];
                        value = environment_get(environment, name);
                }
                if (!value)
                        continue;
                if (!*value && (option->type == OPTION_CHOICE || option->type == OPTION_LIST))
                        continue;
                if (!*value && option->type == OPTION_BOOL)
                        value = "false";
                if (option_check(option, value, arena, &set->values[i], err) < 0)
                        return error_prefix(err, "%s (environment variable %s)", option->flag, name);
                set->sources[i] = OPTION_ENVIRONMENT;
        }
        return 0;
}

/* ---- command line ---- */

static bool is_flag(const struct option *option, const char *name, size_t length)
{
        if (strlen(option->flag) == length && memcmp(option->flag, name, length) == 0)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(option->aliases) && option->aliases[i]; i++)
                if (strlen(option->aliases[i]) == length && memcmp(option->aliases[i], name, length) == 0)
                        return true;
        return false;
}

static int unknown_flag(const char *name, size_t length, struct error *err)
{
        const char *candidates[ARRAY_SIZE(option_table) * 4 + 2] = {"help", "version"};
        char word[64];
        const char *nearest = NULL;
        size_t count = 2;

        for (size_t i = 0; i < option_count; i++) {
                candidates[count++] = option_table[i].flag;
                for (size_t j = 0; j < ARRAY_SIZE(option_table[i].aliases) && option_table[i].aliases[j]; j++)
                        candidates[count++] = option_table[i].aliases[j];
        }
        if (length < sizeof(word)) {
                memcpy(word, name, length);
                word[length] = '\0';
                nearest = text_nearest(word, candidates, count);
        }
        if (nearest)
                return error_set(
                        err, ERROR_INVALID, "unknown flag '--%.*s'; did you mean '--%s'?", (int)length, name, nearest);
        return error_set(
                err, ERROR_INVALID, "unknown flag '--%.*s'; --help lists all", (int)MIN(length, (size_t)100), name);
}

static int read_arguments(struct option_set *set, struct arena *arena, int argc, char *const *argv, struct error *err)
{
        for (int i = 1; i < argc; i++) {
                const char *name = argv[i];
                const char *value;
                size_t length;
                size_t position = 0;

                if (name[0] != '-' || strcmp(name, "-") == 0 || strcmp(name, "--") == 0)
                        return error_set(
                                err, ERROR_INVALID, "unexpected argument '%.100s'; --help lists the flags", name);
                name += name[1] == '-' ? 2 : 1;
                length = strcspn(name, "=");
                value = name[length] ? name + length + 1 : NULL;
                if (!value && (strcmp(name, "help") == 0 || strcmp(name, "h") == 0)) {
                        set->help = true;
                        continue;
                }
                if (!value && (strcmp(name, "version") == 0 || strcmp(name, "v") == 0)) {
                        set->version = true;
                        continue;
                }
                while (position < option_count && !is_flag(&option_table[position], name, length))
                        position++;
                if (position == option_count)
                        return unknown_flag(name, length, err);
                if (!value && option_table[position].type == OPTION_BOOL)
                        value = "true";
                if (!value && i + 1 == argc)
                        return error_set(err, ERROR_INVALID, "--%s: needs a value", name);
                if (!value)
                        value = argv[++i];
                if (option_check(&option_table[position], value, arena, &set->values[position], err) < 0)
                        return error_prefix(err, "%s", option_table[position].flag);
                set->sources[position] = OPTION_FLAG;
        }
        return 0;
}

int option_set_parse(struct option_set *set, struct arena *arena, int argc, char *const *argv, char *const *environment,
        struct error *err)
{
        *set = (struct option_set){
                .values = ARENA_ARRAY(arena, const char *, option_count),
                .sources = ARENA_ARRAY(arena, enum option_source, option_count),
        };
        if (read_arguments(set, arena, argc, argv, err) < 0)
                return -1;
        if (set->help || set->version)
                return 0; /* to be answered even where the environment is broken */
        return read_environment(set, arena, environment, err);
}
