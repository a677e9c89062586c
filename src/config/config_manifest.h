/*
 * A Kubernetes manifest in the place of a configuration: people have a ConfigMap of configurations, and give its file
 * to what looks at one.
 */
#pragma once

#include "base/alloc.h"
#include "base/data/yaml.h"

/*
 * 1: |yaml| is a ConfigMap, and |*ret| is the text of its configuration, |*ret_name| its key: the one that |chosen|
 * names, else the only one. 0: it is no manifest. -1: there is none, or not only one, or it is a manifest of something
 * else.
 */
int config_manifest_open(const struct yaml *yaml, const char *chosen, struct arena *arena, const char **ret,
        const char **ret_name, struct error *err) MUST_USE;
