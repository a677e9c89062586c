// SPDX-License-Identifier: Apache-2.0
/*
 * Makes a C file of files, so that a program has them in itself: embed OUTPUT HEADER TABLE NAME=FILE…
 *
 * The output includes HEADER, which declares TABLE, an array of struct embedded_file {name, data, size} that ends with
 * a name that is NULL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const char *path)
{
        fprintf(stderr, "embed: %s: %s\n", path, what);
        exit(1);
}

static void write_bytes(FILE *output, size_t number, const char *path)
{
        FILE *input = fopen(path, "rb");
        size_t size = 0;
        int byte;

        if (!input)
                fail("cannot be read", path);
        fprintf(output, "static const unsigned char file_%zu[] = {", number);
        while ((byte = fgetc(input)) != EOF)
                fprintf(output, "%s%d,", size++ % 32 ? "" : "\n", byte);
        fprintf(output, "0};\n");
        fclose(input);
}

int main(int argc, char **argv)
{
        FILE *output = argc > 4 ? fopen(argv[1], "wb") : NULL;

        if (!output)
                fail("usage: embed OUTPUT HEADER TABLE NAME=FILE...", argc > 1 ? argv[1] : "");
        fprintf(output, "#include \"%s\"\n\n", argv[2]);
        for (int i = 4; i < argc; i++) {
                const char *path = strchr(argv[i], '=');

                if (!path)
                        fail("has no name", argv[i]);
                write_bytes(output, (size_t)i, path + 1);
        }
        fprintf(output, "\nconst struct embedded_file %s[] = {\n", argv[3]);
        for (int i = 4; i < argc; i++)
                fprintf(output, "        {\"%.*s\", file_%d, sizeof(file_%d) - 1},\n", (int)strcspn(argv[i], "="),
                        argv[i], i, i);
        fprintf(output, "        {0},\n};\n");
        if (fclose(output) != 0)
                fail("cannot be written", argv[1]);
        return 0;
}
