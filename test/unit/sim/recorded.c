// SPDX-License-Identifier: Apache-2.0
/*
 * The tables of the simulator against what real machines said (test/fixtures/recorded): MIG sizes, SMs, memory, PCI ids
 * and power. Each row of a recording is compared, or is in a list here that says why it cannot be.
 */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "gpu/mig_profile.h"
#include "gpu/nvml_abi.h"
#include "sim/hardware/models.h"
#include "sim/nvml/mig.h"

#define COLUMNS 20U
#define FILE_MAX ((size_t)1 << 20)
/* By how much releases of the driver differ in what a profile has: half a GiB. */
#define RELEASES_MIB 512.0

struct rows {
        struct strbuf text;
        char *rest;
};

static void rows_open(struct rows *rows, const char *name)
{
        _free_ char *path = xasprintf(RECORDED "/%s", name);
        struct error err;

        *rows = (struct rows){.text = STRBUF_INIT};
        assert_ok(file_read(path, FILE_MAX, &rows->text, &err), &err);
        strbuf_putc(&rows->text, '\0');
        rows->rest = rows->text.data;
}

static void rows_done(struct rows *rows)
{
        strbuf_done(&rows->text);
}

/* The next line that is no comment, or NULL. */
static char *rows_next(struct rows *rows)
{
        char *line;

        while ((line = strsep(&rows->rest, "\n")))
                if (*line && *line != '#')
                        return line;
        return NULL;
}

/* At its commas; columns that it does not have are "". */
static void split(char *line, char *columns[COLUMNS])
{
        static char nothing[1];

        for (size_t i = 0; i < COLUMNS; i++) {
                columns[i] = line ? strsep(&line, ",") : nothing;
                columns[i] += strspn(columns[i], " ");
        }
}

/* A row that is not compared: how it begins, and why. */
struct passed {
        const char *row;
        const char *why;
};

static bool is_passed(const struct passed *list, size_t count, size_t *n_passed, const char *line)
{
        for (size_t i = 0; i < count; i++)
                if (text_starts_with(line, list[i].row)) {
                        ++*n_passed;
                        return true;
                }
        return false;
}

/* "NVIDIA " may be missing, and what stands behind a word; what is in parentheses is a remark. */
static const struct model *find_product(const char *text)
{
        const size_t length = strstr(text, " (") ? (size_t)(strstr(text, " (") - text) : strlen(text);
        const struct model *model;

        for (size_t i = 0; (model = model_at(i)); i++) {
                const char *product = model->product;

                if (!text_starts_with(text, "NVIDIA ") && text_starts_with(product, "NVIDIA "))
                        product += strlen("NVIDIA ");
                if (strncmp(product, text, length) == 0 && (!product[length] || product[length] == ' '))
                        return model;
        }
        fail_msg("'%s' is no model", text);
        return NULL;
}

/* "-" and nothing: the recording does not say. "N/A" and NOT_SUPPORTED: the driver reports none. */
static void assert_said(const char *what, const char *text, int base, unsigned long value)
{
        unsigned long said = 0;
        char *end;

        if (!*text || strcmp(text, "-") == 0)
                return;
        if (strcmp(text, "N/A") != 0 && strcmp(text, "NOT_SUPPORTED") != 0) {
                said = strtoul(text, &end, base);
                if (end == text)
                        fail_msg("%s: '%s' is no number", what, text);
        }
        if (said != value)
                fail_msg("%s: recorded %s, simulated %lu", what, text, value);
}

static void test_whole_gpus_have_the_memory_and_ids_that_were_recorded(void **state UNUSED)
{
        static const struct passed passed[] = {
                {"NVIDIA GeForce RTX 4080 SUPER,", "of desks: no model; plan takes --memory and --sms for it"},
                {"NVIDIA GeForce RTX 2080 SUPER,", "of desks: no model; plan takes --memory and --sms for it"},
        };
        size_t n_passed = 0;
        size_t compared = 0;
        struct rows rows;
        char *line;

        rows_open(&rows, "gpu/gpus.csv");
        while ((line = rows_next(&rows))) {
                char *column[COLUMNS];
                const struct model *model;

                if (is_passed(passed, ARRAY_SIZE(passed), &n_passed, line))
                        continue;
                split(line, column);
                model = find_product(column[0]);
                compared++;
                assert_said("memory", column[2], 10, model->memory_mib);
                assert_said("reserved", column[3], 10, model->reserved_mib);
                assert_said("BAR1", column[4], 10, model->bar1_mib);
                assert_said("device", column[5], 16, model->pci_device);
                assert_said("subsystem", column[6], 16, model->pci_subsystem);
                if (strcmp(column[7], "NVIDIA") == 0)
                        assert_int_equal(model->brand, NVML_BRAND_NVIDIA);
                assert_int_equal(model->memory_slices > 0, strcmp(column[9], "Disabled") == 0);
                assert_said("SM clock", column[14], 10, model->clock_mhz);
                assert_said("memory clock", column[15], 10, model->memory_clock_mhz);
                assert_said("power", column[16], 10, model->power_w);
        }
        rows_done(&rows);
        assert_int_equal(n_passed, ARRAY_SIZE(passed));
        assert_int_equal(compared, 4);
}

/* The whole GPU instance "3g.71gb" of "3g.71gb(1c)"; |slices| of its compute instance. */
static const struct mig_profile *find_profile(const struct model *model, char *name, unsigned int *slices)
{
        const struct mig_profile *profile;
        char *part = strchr(name, '(');

        if (part)
                *part++ = '\0';
        profile = model_profile(model, name);
        if (!profile) {
                fail_msg("%s has no '%s'", model->key, name);
                return NULL;
        }
        *slices = part ? (unsigned int)strtoul(part, NULL, 10) : profile->slices;
        return profile;
}

static void test_mig_devices_have_the_attributes_that_were_recorded(void **state UNUSED)
{
        size_t compared = 0;
        struct rows rows;
        char *line;

        rows_open(&rows, "mig/sizes.csv");
        while ((line = rows_next(&rows))) {
                char *column[COLUMNS];
                const struct mig_profile *profile;
                const struct model *model;
                unsigned int slices;

                split(line, column);
                model = find_product(column[0]);
                profile = find_profile(model, column[2], &slices);
                compared++;
                /* A vGPU host keeps up to 3 % more for itself. */
                if (strstr(column[0], "(vGPU host)"))
                        assert_true(strtod(column[3], NULL) < profile->memory_mib &&
                                    strtod(column[3], NULL) > 0.97 * profile->memory_mib);
                else if (text_starts_with(column[10], "-lgip "))
                        assert_true(abs((int)profile->memory_mib - atoi(column[3])) <= RELEASES_MIB);
                else
                        assert_said("memory", column[3], 10, profile->memory_mib);
                assert_said("SMs", column[4], 10, mig_multiprocessors(model, profile, slices));
                assert_said("copy engines", column[5], 10, profile->copy_engines);
                assert_said("encoders", column[6], 10, profile->encoders);
                assert_said("decoders", column[7], 10, profile->decoders);
                assert_said("OFAs", column[8], 10, profile->ofas);
                assert_said("JPEG engines", column[9], 10, profile->jpegs);
        }
        rows_done(&rows);
        assert_int_equal(compared, 15);
}

static void test_profiles_have_the_ids_and_sms_that_were_listed(void **state UNUSED)
{
        static const struct passed passed[] = {
                {"gpu,", "the head"},
                {"B200 (Jan 2025),1g.23gb,", "a release of the driver that gave 22.00 GiB; all later ones give 20.50"},
                {"GB200 (Mar 2025),1g.24gb,", "a release that called it 1g.24gb, with 20.00 GiB; later ones 1g.23gb"},
        };
        size_t n_passed = 0;
        size_t compared = 0;
        struct rows rows;
        char *line;

        rows_open(&rows, "mig/lgip.csv");
        while ((line = rows_next(&rows))) {
                char *column[COLUMNS];
                const struct mig_profile *profile;
                const struct model *model;
                unsigned int slices;
                const char *whole;

                if (is_passed(passed, ARRAY_SIZE(passed), &n_passed, line))
                        continue;
                split(line, column);
                model = find_product(column[0]);
                profile = find_profile(model, column[1], &slices);
                compared++;
                assert_said("id", column[2], 10, profile->id);
                assert_said("count", column[3], 10, profile->count);
                assert_said("SMs", column[5], 10, profile->multiprocessors);
                assert_said("copy engines", column[6], 10, profile->copy_engines);
                if (!strstr(column[4], " (vGPU host)"))
                        assert_true(strtod(column[4], NULL) * 1024 <= profile->memory_mib + RELEASES_MIB &&
                                    strtod(column[4], NULL) * 1024 >= profile->memory_mib - RELEASES_MIB);
                whole = strstr(column[4], "; of ");
                if (whole)
                        assert_int_equal(model->memory_mib, strtoul(whole + strlen("; of "), NULL, 10));
        }
        rows_done(&rows);
        assert_int_equal(n_passed, ARRAY_SIZE(passed));
        assert_int_equal(compared, 21);
}

/* ---- captures of nvidia-smi -q -x ---- */

/* The model that |name| begins the key of: "H100" is the first of them. */
static const struct model *find_key(const char *name)
{
        const struct model *model;

        for (size_t i = 0; (model = model_at(i)); i++)
                if (text_starts_with(model->key, name))
                        return model;
        fail_msg("'%s' is no model", name);
        return NULL;
}

/* "1999", "1000 W", "BAR1 262144", "2941/2046", "ATS": what stands behind the memory. */
static void compare_captured(const struct model *model, const char *text)
{
        unsigned int number;
        unsigned int other;

        if (sscanf(text, "device %x subsystem %x", &number, &other) == 2 ||
                (strchr(text, '/') && sscanf(text, "%x/%x", &number, &other) == 2)) {
                assert_int_equal(model->pci_device, number);
                assert_int_equal(model->pci_subsystem, other);
        } else if (sscanf(text, "BAR1 %u", &number) == 1) {
                assert_int_equal(model->bar1_mib, number);
        } else if (strcmp(text, "ATS") == 0) {
                assert_true(model->coherent);
        } else if (text_starts_with(text, "PCI domains ")) {
                /* of the machine; gpu/read reads them */
        } else if (sscanf(text, "%u W", &number) == 1) {
                assert_int_equal(model->power_w, number);
        } else {
                fail_msg("'%s' is compared with nothing", text);
        }
}

static void test_whole_gpus_have_what_captures_show(void **state UNUSED)
{
        struct rows rows;
        size_t compared = 0;
        char *line;
        char *one;

        rows_open(&rows, "gpu/labels-vgpu-and-fabric.txt");
        do
                line = rows_next(&rows);
        while (line && !text_starts_with(line, "captures of nvidia-smi -q -x "));
        assert_non_null(line);
        line = strstr(line, "): ") + strlen("): ");
        while ((one = strsep(&line, ";"))) {
                char *what = one + strspn(one, " ");
                const struct model *model = find_key(strsep(&what, " "));
                char *memory = strsep(&what, ",");
                unsigned int total;
                unsigned int reserved;

                assert_true(sscanf(memory, "%u MiB reserved %u", &total, &reserved) == 2 ||
                            sscanf(memory, "%u/%u", &total, &reserved) == 2);
                assert_int_equal(model->memory_mib, total);
                /* 479 and 480 of an H100, by the release: 479.4 rounded */
                assert_true(reserved - model->reserved_mib <= 1);
                for (char *text; (text = strsep(&what, ","));)
                        compare_captured(model, text + strspn(text, " "));
                compared++;
        }
        rows_done(&rows);
        assert_int_equal(compared, 7);
}

/* ---- Thor ---- */

/* "Thor has MIG: 1g.0gb, 1g.0gb+me (id 78, 8 SMs), …; memory 0 in every profile; 20 SMs (MIG user guide)" */
static void test_thor_has_the_profiles_that_were_recorded(void **state UNUSED)
{
        const struct model *thor = model_find("Thor");
        struct rows rows;
        size_t compared = 0;
        char *line;
        char *at;

        rows_open(&rows, "host/tegra-devices-csv.txt");
        do
                line = rows_next(&rows);
        while (line && !text_starts_with(line, "Thor has MIG: "));
        assert_non_null(line);
        at = line + strlen("Thor has MIG: ");
        assert_non_null(strstr(at, "; memory 0 in every profile; 20 SMs "));
        assert_int_equal(thor->multiprocessors, 20);
        *strchr(at, ';') = '\0';
        while (*at) {
                char name[MIG_PROFILE_SIZE] = "";
                const struct mig_profile *profile;
                unsigned int id;
                unsigned int sms;
                int length = 0;

                assert_int_equal(sscanf(at, "%31[0-9a-z.+]%n", name, &length), 1);
                at += length;
                profile = model_profile(thor, name);
                assert_non_null(profile);
                assert_int_equal(profile->memory_mib, 0);
                if (sscanf(at, " (id %u, %u SMs)%n", &id, &sms, &length) == 2) {
                        assert_int_equal(profile->id, id);
                        assert_int_equal(profile->multiprocessors, sms);
                        at += length;
                }
                at += strspn(at, ", ");
                compared++;
        }
        rows_done(&rows);
        assert_int_equal(compared, thor->n_profiles);
        assert_int_equal(compared, 7);
}

/* The guide: two instances at most, one of them for graphics, and a full one has no other beside it. */
static void test_thor_has_two_instances_one_of_them_for_graphics(void **state UNUSED)
{
        static const struct {
                const char *first;
                const char *second;
                bool fits;
        } table[] = {
                {"2g.0gb+gfx", "1g.0gb+me", true},
                {"2g.0gb+gfx", "1g.0gb", true},
                {"2g.0gb", "1g.0gb+gfx", true},
                {"2g.0gb", "1g.0gb", false},
                {"2g.0gb+gfx", "1g.0gb+gfx", false},
                {"1g.0gb", "1g.0gb+gfx", false},
                {"3g.0gb", "1g.0gb+gfx", false},
                {"3g.0gb+gfx", "1g.0gb", false},
        };
        const struct model *thor = model_find("Thor");

        for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
                const struct mig_profile *first = model_profile(thor, table[i].first);
                const struct mig_profile *second = model_profile(thor, table[i].second);
                struct mig_layout layout = {0};
                unsigned int start;

                assert_true(mig_choose(thor, &layout, first, &start));
                layout.instances[0] = (struct mig_instance){
                        .profile = first, .start = start, .id = mig_instance_id(thor, first, start)};
                assert_int_equal(mig_choose(thor, &layout, second, &start), table[i].fits);
                assert_int_equal(mig_room(thor, &layout, second), table[i].fits);
                if (table[i].fits)
                        assert_int_not_equal(mig_instance_id(thor, second, start), layout.instances[0].id);
        }
}

/* NVIDIA gives out SMs by TPC, which has two. Where there is no memory the name is the driver's alone. */
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
                        if (mig_profile_name(name, profile->index, profile->slices, profile->memory_mib,
                                    (uint64_t)model->memory_mib << 20))
                                assert_string_equal(name, profile->name);
                        else
                                assert_true(!model->memory_mib && strstr(profile->name, "g.0gb"));
                }
        }
}

static void test_a_model_is_found_in_any_case(void **state UNUSED)
{
        assert_non_null(model_find("a100-40gb"));
        assert_ptr_equal(model_find("rtx-PRO-6000"), model_find("RTX-PRO-6000"));
        assert_non_null(model_find("thor"));
        assert_null(model_find("A100"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole_gpus_have_the_memory_and_ids_that_were_recorded),
                cmocka_unit_test(test_mig_devices_have_the_attributes_that_were_recorded),
                cmocka_unit_test(test_profiles_have_the_ids_and_sms_that_were_listed),
                cmocka_unit_test(test_whole_gpus_have_what_captures_show),
                cmocka_unit_test(test_thor_has_the_profiles_that_were_recorded),
                cmocka_unit_test(test_thor_has_two_instances_one_of_them_for_graphics),
                cmocka_unit_test(test_sms_are_even_and_profiles_are_called_what_their_sizes_say),
                cmocka_unit_test(test_a_model_is_found_in_any_case),
        };

        return cmocka_run_group_tests_name("sim/recorded", tests, NULL, NULL);
}
