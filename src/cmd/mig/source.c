#include "cmd/mig/source.h"

#include "mig/parted.h"

int mig_source_open_node(struct mig_source *ret, const struct option_set *set, struct error *err)
{
        *ret = (struct mig_source){.arena = ARENA_INIT};
        if (nvml_open(&ret->nvml, option_set_value(set, "nvml-library"), option_set_value(set, "driver-root-ctr-path"),
                    err) < 0)
                return -1;
        return mig_node_read(&ret->node, &ret->arena, ret->nvml, err);
}

int mig_source_open_file(struct mig_source *ret, const struct option_set *set, const char *file, struct error *err)
{
        if (mig_source_open_node(ret, set, err) < 0)
                return -1;
        if (*file)
                return mig_parted_read(&ret->parted, &ret->arena, file, command_warn, NULL, err);
        mig_generate(&ret->parted, &ret->arena, &ret->node);
        return 0;
}

int mig_source_open(struct mig_source *ret, const struct option_set *set, const char *file, const char *name,
        bool is_mode_only, struct error *err)
{
        if (mig_source_open_file(ret, set, file, err) < 0)
                return -1;
        if (mig_parted_choose(&ret->config, &ret->parted, name, err) < 0)
                return -1;
        mig_parted_warn(ret->config, &ret->node, command_warn, NULL);
        return mig_parted_resolve(&ret->wanted, &ret->arena, ret->config, &ret->node, is_mode_only, err);
}

void mig_source_close(struct mig_source *source)
{
        source->nvml = nvml_close(source->nvml);
        arena_done(&source->arena);
}
