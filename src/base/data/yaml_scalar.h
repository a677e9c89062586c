/*
 * One YAML scalar into a jansson value: the resolution rules of YAML 1.1 as go-yaml v2 applies them. Part of
 * base/data/yaml.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * |tag| is NULL for none; |plain| says that the scalar is unquoted. The text is |size| bytes, ends with a NUL and has
 * none inside. NULL if the tag is unknown or the text is not what the tag says, or a number is not finite.
 */
json_t *yaml_scalar(const char *tag, bool plain, const char *text, size_t size);
