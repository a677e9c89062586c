// SPDX-License-Identifier: Apache-2.0
/*
 * Manual pages and shell completion, made of the tables of commands and options when the program is built: what --help
 * says is what they say. Not part of the program: main.c is one of its own, which is linked with the commands for their
 * tables.
 */
#pragma once

#include "base/strbuf.h"
#include "cmd/commands.h"

/* The page, in man(7). |date|: of the version, "2026-11-22". */
void manual_page(struct strbuf *text, const struct command *command, const char *date);

/* A file for the shell that completes |program| and all that is below it. */
void manual_bash(struct strbuf *text, const struct command *program);
void manual_zsh(struct strbuf *text, const struct command *program);
void manual_fish(struct strbuf *text, const struct command *program);
