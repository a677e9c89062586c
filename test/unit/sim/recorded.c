/*
 * The tables of the simulator against what real machines said (test/fixtures/recorded): MIG sizes, SMs, memory and PCI
 * ids, and the names that NVML has in each release.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "gpu/mig_profile.h"
#include "sim/hardware/models.h"

#define COLUMNS 20U
#define FILE_MAX ((size_t)1 << 20)

static void read_recorded(const char *name, struct strbuf *text)
{
        _free_ char *path = xasprintf(RECORDED "/%s", name);
        struct error err;

        assert_ok(file_read(path, FILE_MAX, text, &err), &err);
        strbuf_putc(text, '\0');
}

/* Splits a line at its commas; returns how many columns it has. */
static size_t split(char *line, char *columns[COLUMNS])
{
        size_t count = 0;

        while (line && count < COLUMNS)
                columns[count++] = strsep(&line, ",");
        return count;
}

/* The model whose product is |product|; NULL where the simulator has none. */
static const struct model *find_product(const char *product)
{
        const struct model *model;

        for (size_t i = 0; (model = model_at(i)); i++)
                if (strcmp(model->product, product) == 0 ||
                        (text_starts_with(model->product, "NVIDIA ") && strcmp(model->product + 7, product) == 0))
                        return model;
        return NULL;
}

static void test_whole_gpus_have_the_memory_and_ids_that_were_recorded(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t compared = 0;
        char *rest;
        char *line;

        read_recorded("gpu/gpus.csv", &text);
        rest = text.data;
        while ((line = strsep(&rest, "\n"))) {
                char *column[COLUMNS];
                const struct model *model;

                if (*line == '#' || split(line, column) < 17)
                        continue;
                model = find_product(column[0]);
                if (!model || strcmp(column[2], "NOT_SUPPORTED") == 0)
                        continue;
                compared++;
                assert_int_equal(model->memory_mib, strtoul(column[2], NULL, 10));
                assert_int_equal(model->reserved_mib, strtoul(column[3], NULL, 10));
                assert_int_equal(model->bar1_mib, strtoul(column[4], NULL, 10));
                assert_int_equal(model->pci_device, strtoul(column[5], NULL, 16));
                assert_int_equal(model->pci_subsystem, strtoul(column[6], NULL, 16));
                assert_int_equal(model->clock_mhz, strtoul(column[14], NULL, 10));
                assert_int_equal(model->memory_clock_mhz, strtoul(column[15], NULL, 10));
                assert_int_equal(model->power_w, strtoul(column[16], NULL, 10));
        }
        assert_int_equal(compared, 3);
}

/* A whole instance: "3g.71gb(1c)" is a compute instance of one. */
static void test_mig_devices_have_the_attributes_that_were_recorded(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t compared = 0;
        char *rest;
        char *line;

        read_recorded("mig/sizes.csv", &text);
        rest = text.data;
        while ((line = strsep(&rest, "\n"))) {
                char *column[COLUMNS];
                const struct mig_profile *profile;
                const struct model *model;

                if (*line == '#' || split(line, column) < 10)
                        continue;
                model = find_product(column[0]);
                profile = model ? model_profile(model, column[2]) : NULL;
                if (!profile)
                        continue;
                compared++;
                if (strcmp(column[0], "NVIDIA H100 NVL") == 0 && profile->index == 0)
                        continue; /* two releases said 10.62 and 10.75 GiB; the other is in lgip.csv */
                assert_int_equal(profile->memory_mib, strtoul(column[3], NULL, 10));
                if (strcmp(column[4], "-") == 0)
                        continue;
                assert_int_equal(profile->multiprocessors, strtoul(column[4], NULL, 10));
                assert_int_equal(profile->copy_engines, strtoul(column[5], NULL, 10));
                assert_int_equal(profile->decoders, strtoul(column[7], NULL, 10));
                assert_int_equal(profile->ofas, strtoul(column[8], NULL, 10));
        }
        assert_int_equal(compared, 10);
}

static void test_profiles_have_the_ids_and_sms_that_were_listed(void **state UNUSED)
{
        _cleanup_(strbuf_done) struct strbuf text = STRBUF_INIT;
        size_t compared = 0;
        char *rest;
        char *line;

        read_recorded("mig/lgip.csv", &text);
        rest = text.data;
        while ((line = strsep(&rest, "\n"))) {
                char *column[COLUMNS];
                const struct mig_profile *profile;
                const struct model *model;
                double gib;

                if (split(line, column) < 8 || strcmp(column[0], "gpu") == 0)
                        continue;
                model = find_product(column[0]);
                profile = model ? model_profile(model, column[1]) : NULL;
                if (!profile || !*column[2])
                        continue; /* an older release's name, or no listing of a machine */
                compared++;
                assert_int_equal(profile->id, strtoul(column[2], NULL, 10));
                assert_int_equal(profile->count, strtoul(column[3], NULL, 10));
                assert_int_equal(profile->multiprocessors, strtoul(column[5], NULL, 10));
                assert_int_equal(profile->copy_engines, strtoul(column[6], NULL, 10));
                /* releases differ by up to half a GiB */
                gib = strtod(column[4], NULL);
                assert_true(profile->memory_mib / 1024.0 >= gib - 0.51 && profile->memory_mib / 1024.0 <= gib + 0.51);
        }
        assert_true(compared >= 12);
}

/* NVIDIA gives out SMs by TPC, which has two. */
static void test_sms_are_even_and_profiles_are_called_what_their_sizes_say(void **state UNUSED)
{
        const struct model *model;

        for (size_t i = 0; (model = model_at(i)); i++) {
                assert_int_equal(model->multiprocessors % 2, 0);
                for (size_t j = 0; j < model->n_profiles; j++) {
                        const struct mig_profile *profile = &model->profiles[j];
                        char name[MIG_PROFILE_SIZE] = "";

                        assert_int_equal(profile->multiprocessors % 2, 0);
                        assert_true(profile->multiprocessors <= model->multiprocessors);
                        assert_true(mig_profile_name(name, profile->index, profile->slices, profile->memory_mib,
                                (uint64_t)model->memory_mib << 20));
                        assert_string_equal(name, profile->name);
                }
        }
}

static void test_a_model_is_found_in_any_case(void **state UNUSED)
{
        assert_non_null(model_find("a100-40gb"));
        assert_ptr_equal(model_find("rtx-PRO-6000"), model_find("RTX-PRO-6000"));
        assert_null(model_find("A100"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_gpus_have_the_memory_and_ids_that_were_recorded),
                cmocka_unit_test(test_mig_devices_have_the_attributes_that_were_recorded),
                cmocka_unit_test(test_profiles_have_the_ids_and_sms_that_were_listed),
                cmocka_unit_test(test_sms_are_even_and_profiles_are_called_what_their_sizes_say),
                cmocka_unit_test(test_a_model_is_found_in_any_case),
        };

        return cmocka_run_group_tests_name("sim/recorded", tests, NULL, NULL);
}
