// SPDX-License-Identifier: Apache-2.0
/*
 * The hooks file of NVIDIA's mig-parted: programs that run before and after a change of the geometry.
 *
 *         version: v1
 *         hooks:
 *           apply-start: [{command: /bin/bash, args: ["-c", "systemctl stop dcgm"], envs: {KEY: value}, workdir: /etc/mig}]
 *           pre-apply-mode: …      before the MIG mode of a GPU changes
 *           pre-apply-config: …    before MIG devices are destroyed and created
 *           apply-exit: …          at the end, also after an error
 *
 * A hook that fails ends its list, and the change. The environment of a hook is its own |envs| and the caller's
 * variables, which count before; nothing else. Its program is looked up in our PATH. Unknown keys are warned about, as
 * NVIDIA's parser ignores them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/data/yaml.h"

#define MIG_HOOKS_FILE_LIMIT ((size_t)256 * 1024)
#define MIG_HOOKS_MAX ((size_t)64)        /* of one list */
#define MIG_HOOKS_MAX_WORDS ((size_t)256) /* arguments of one hook; its variables */

enum mig_hook_point { MIG_HOOK_START, MIG_HOOK_BEFORE_MODE, MIG_HOOK_BEFORE_CONFIG, MIG_HOOK_EXIT, MIG_HOOK_POINTS };

struct mig_hook {
        char **argv;        /* NULL-terminated; argv[0] is the command */
        char **environment; /* "KEY=value", NULL-terminated */
        const char *folder; /* "": ours */
};

struct mig_hooks {
        struct mig_hook *hooks[MIG_HOOK_POINTS];
        size_t n_hooks[MIG_HOOK_POINTS];
};

/* |name| is what messages call the text. |warn| may be NULL. What |ret| points to is in |arena|. */
int mig_hooks_parse(struct mig_hooks *ret, struct arena *arena, const char *name, const char *text, size_t size,
        yaml_warn_fn *warn, void *warn_data, struct error *err) MUST_USE;
int mig_hooks_read(struct mig_hooks *ret, struct arena *arena, const char *path, yaml_warn_fn *warn, void *warn_data,
        struct error *err) MUST_USE;

/*
 * Runs the hooks of |point|, one after the other, and waits for each as long as it takes. |environment| is "KEY=value",
 * NULL-terminated. What they print is lost unless |shows_output|.
 */
int mig_hooks_run(const struct mig_hooks *hooks, enum mig_hook_point point, char *const *environment, bool shows_output,
        struct error *err) MUST_USE;
