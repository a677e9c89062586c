{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{/* What cannot work is refused here, with the name of the value and the way out. */}}
{{- define "warpshare.check" -}}
{{- if and (eq (include "warpshare.namespace" .) "default") (not .Values.allowDefaultNamespace) }}
{{- fail "the namespace default is for other things: helm install --create-namespace --namespace warpshare …, or allowDefaultNamespace: true" }}
{{- end }}
{{- if .Values.namespace }}
{{- fail "namespace: is no value of this chart: helm install --namespace …" }}
{{- end }}
{{- if .Values.legacyDaemonsetAPI }}
{{- fail "legacyDaemonsetAPI: extensions/v1beta1 is gone since Kubernetes 1.16, leave it out" }}
{{- end }}
{{- if eq .Values.image.repository "nvcr.io/nvidia/k8s-device-plugin" }}
{{- fail "image.repository: nvcr.io/nvidia/k8s-device-plugin is NVIDIA's program; name the repository of your Warpshare image" }}
{{- end }}
{{- if not (or .Values.devicePlugin.enabled .Values.gfd.enabled) }}
{{- fail "devicePlugin.enabled and gfd.enabled are both false: nothing would be left to do" }}
{{- end }}
{{- if and .Values.dra.enabled (not .Values.devicePlugin.enabled) }}
{{- fail "dra.enabled needs devicePlugin.enabled, too: where DRA has all GPUs, the device plugin advertises none" }}
{{- end }}
{{- if and .Values.dra.enabled (semverCompare "<1.32.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "dra.enabled needs Kubernetes 1.32 or newer, and this is %s" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if and .Values.dra.enabled (gt (add (len .Values.kubeletRootDir) (len .Values.dra.driverName)) 71) }}
{{- fail (printf "dra.driverName: %s and kubeletRootDir: %s have %d characters together, and may have 71: the path of a socket with both has 107 at most" .Values.dra.driverName .Values.kubeletRootDir (add (len .Values.kubeletRootDir) (len .Values.dra.driverName))) }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) }}
{{- fail "metrics.serviceMonitor needs metrics.service.enabled: it selects that service" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
{{- fail "metrics.podMonitor and metrics.serviceMonitor are both enabled: every metric would be there twice" }}
{{- end }}
{{- $authorization := .Values.metrics.authorization }}
{{- if and $authorization.enabled .Values.metrics.podMonitor.enabled (not (and $authorization.credentials.name $authorization.credentials.key)) }}
{{- fail "metrics.authorization with metrics.podMonitor needs metrics.authorization.credentials: {name: SECRET, key: token}, the token that Prometheus shows; or use metrics.serviceMonitor, which shows Prometheus' own" }}
{{- end }}
{{- if and .Values.dashboard.enabled (not .Values.metrics.enabled) }}
{{- fail "dashboard.enabled needs metrics.enabled: the agents' pages are on that port" }}
{{- end }}
{{- if and .Values.dashboard.enabled $authorization.enabled }}
{{- fail "dashboard.enabled and metrics.authorization.enabled: the dashboard reads the agents' pages through the API server, which takes its token away; choose one" }}
{{- end }}
{{- $config := .Values.config }}
{{- if and $config.map $config.name }}
{{- fail "config.map and config.name are both set: one of them" }}
{{- end }}
{{- if and $config.default (not (or $config.map $config.name)) }}
{{- fail (printf "config.default: %s is the name of a configuration, and there is none: set config.map, or config.name to the ConfigMap that has it" $config.default) }}
{{- end }}
{{- if $config.map }}
{{- $schema := .Files.Get "files/config.schema.json" | fromJson }}
{{- range $name, $text := $config.map }}
{{- $table := kindIs "string" $text | ternary $text (toYaml $text) | fromYaml }}
{{- if $table.Error }}
{{- fail (printf "config.map.%s is no YAML: %s" $name $table.Error) }}
{{- end }}
{{- if $config.check }}
{{- with include "warpshare.config.wrong" (dict "schema" $schema "value" $table "path" (printf "config.map.%s" $name)) }}
{{- fail (printf "%s(docs/configuration.md; config.check: false leaves the judgement to the agents)" .) }}
{{- end }}
{{- with include "warpshare.config.names" (dict "value" $table "path" (printf "config.map.%s" $name)) }}
{{- fail (printf "%s(docs/configuration.md; config.check: false leaves the judgement to the agents)" .) }}
{{- end }}
{{- end }}
{{- if and $config.check ($table.sharing | default dict).mps (eq (toString $.Values.mps.enabled) "false") }}
{{- fail (printf "config.map.%s: sharing.mps, and mps.enabled: false leaves out the supervisor that runs the MPS daemons: set mps.enabled to auto; or, where NVIDIA's own MPS control daemon runs on the nodes, config.check to false" $name) }}
{{- end }}
{{- if and ($table.dra | default dict).enabled (not $.Values.dra.enabled) }}
{{- fail (printf "config.map.%s: dra.enabled: say so as the value dra.enabled, which gives the agent its folders and rights" $name) }}
{{- end }}
{{- end }}
{{- $strategies := $config.fallbackStrategies }}
{{- if $config.default }}
{{- if not (hasKey $config.map $config.default) }}
{{- fail (printf "config.default: %s is none of config.map (%s)" $config.default (keys $config.map | sortAlpha | join ", ")) }}
{{- end }}
{{- else if not (or (has "empty" $strategies) (and (has "named" $strategies) (hasKey $config.map "default")) (and (has "single" $strategies) (eq (len $config.map) 1))) }}
{{- fail (printf "config.default: nodes without the label would have no configuration; choose one of %s, or add empty to config.fallbackStrategies" (keys $config.map | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- end }}
