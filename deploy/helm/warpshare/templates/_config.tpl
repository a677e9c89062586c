{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{/*
What is wrong with a configuration by the schema that the program prints: one line for each, nothing if all is well. Takes a table: schema,
value, path. It knows what files/config.schema.json uses of JSON Schema, and no more.
*/}}
{{- define "warpshare.config.wrong" -}}
{{- $value := .value }}
{{- $path := .path }}
{{- $schema := .schema }}
{{- range $schema.anyOf }}
{{- if include "warpshare.config.fits" (list . $value) }}
{{- $schema = . }}
{{- end }}
{{- end }}
{{- if or (hasKey $schema "anyOf") (not (include "warpshare.config.fits" (list $schema $value))) }}
{{- printf "%s: %s, must be %s\n" $path (toJson $value) (include "warpshare.config.wanted" .schema) }}
{{- else if kindIs "map" $value }}
{{- range $name := $schema.required }}
{{- if kindIs "invalid" (index $value $name) }}
{{- printf "%s: %s is missing\n" $path $name }}
{{- end }}
{{- end }}
{{- range $name, $member := $value }}
{{- $below := index ($schema.properties | default dict) $name }}
{{- range $pattern, $one := $schema.patternProperties }}
{{- if regexMatch $pattern $name }}
{{- $below = $one }}
{{- end }}
{{- end }}
{{- if $below }}
{{- include "warpshare.config.wrong" (dict "schema" $below "value" $member "path" (printf "%s.%s" $path $name)) }}
{{- else }}
{{- printf "%s: there is no key %s here%s\n" $path $name (empty $schema.properties | ternary "" (printf ", only %s" (keys ($schema.properties | default dict) | sortAlpha | join ", "))) }}
{{- end }}
{{- end }}
{{- else if kindIs "slice" $value }}
{{- range $i, $member := $value }}
{{- include "warpshare.config.wrong" (dict "schema" $schema.items "value" $member "path" (printf "%s[%d]" $path $i)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Shared names of a configuration that no node can have, as above. Takes a table that fits the schema: value, path. */}}
{{- define "warpshare.config.names" -}}
{{- $path := .path }}
{{- $resources := .value.resources | default dict }}
{{- $known := list "gpu" }}
{{- range concat ($resources.gpus | default list) ($resources.mig | default list) }}
{{- $known = append $known (trimPrefix "nvidia.com/" .name) }}
{{- end }}
{{- range $section, $sharing := .value.sharing }}
{{- range $i, $resource := ($sharing | default dict).resources }}
{{- $name := trimPrefix "nvidia.com/" (toString $resource.name) }}
{{- if not (or (has $name $known) (regexMatch "^mig-[0-9]{1,2}g[.][0-9]{1,4}gb([.-].*)?$" $name)) }}
{{- printf "%s.sharing.%s.resources[%d].name: no GPU and no MIG device has the name nvidia.com/%s: GPUs are nvidia.com/gpu, MIG devices nvidia.com/mig-1g.10gb and the like, unless patterns below resources name them\n" $path $section $i $name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether a value is of the type and within the bounds of a schema; what is in a list or a table is not looked at. Takes a list: schema, value. */}}
{{- define "warpshare.config.fits" -}}
{{- $schema := index . 0 }}
{{- $value := index . 1 }}
{{- $type := get (dict "string" "string" "float64" "number" "bool" "boolean" "map" "object" "slice" "array" "invalid" "null") (kindOf $value) }}
{{- $types := kindIs "string" $schema.type | ternary (list $schema.type) $schema.type }}
{{- $fits := not (hasKey $schema "anyOf") }}
{{- if $types }}
{{- $fits = or (has $type $types) (and (eq $type "number") (has "integer" $types) (eq (floor $value) $value)) }}
{{- end }}
{{- if hasKey $schema "enum" }}
{{- $fits = and $fits (has $value $schema.enum) }}
{{- end }}
{{- if and $fits (eq $type "string") }}
{{- $fits = and (regexMatch ($schema.pattern | default "") $value) (le (len $value | float64) ($schema.maxLength | default 1e9)) }}
{{- else if and $fits (eq $type "number") }}
{{- $fits = and (ge $value (hasKey $schema "minimum" | ternary $schema.minimum $value)) (le $value (hasKey $schema "maximum" | ternary $schema.maximum $value)) }}
{{- else if and $fits (has $type (list "array" "object")) }}
{{- $count := len $value | float64 }}
{{- $fits = and (ge $count ($schema.minItems | default 0.0)) (le $count ($schema.maxItems | default $schema.maxProperties | default 1e9)) }}
{{- end }}
{{- $fits | ternary "true" "" }}
{{- end }}

{{/* What a schema wants, in words. */}}
{{- define "warpshare.config.wanted" -}}
{{- if hasKey . "anyOf" }}
{{- $all := list }}
{{- range .anyOf }}
{{- $all = append $all (include "warpshare.config.wanted" .) }}
{{- end }}
{{- join ", or " $all }}
{{- else if hasKey . "enum" }}
{{- $words := list }}
{{- range .enum }}
{{- if not (or (kindIs "invalid" .) (kindIs "bool" .)) }}{{/* false is "off" without quotes */}}
{{- $words = append $words (eq (toString .) "" | ternary `""` (toString .)) }}
{{- end }}
{{- end }}
{{- gt (len $words) 1 | ternary "one of " "" }}{{ join ", " $words }}
{{- else }}
{{- $types := kindIs "string" .type | ternary (list .type) .type }}
{{- if has "integer" $types }}a whole number from {{ int64 .minimum }} to {{ int64 .maximum }}
{{- else if has "array" $types }}a list{{ with .maxItems }} of at most {{ int64 . }}{{ end }}
{{- else if has "object" $types }}a table
{{- else if hasKey . "pattern" }}a text that matches {{ .pattern }}{{ with .maxLength }} and has at most {{ int64 . }} characters{{ end }}
{{- else if has "string" $types }}a text
{{- else }}true or false
{{- end }}
{{- end }}
{{- end }}
