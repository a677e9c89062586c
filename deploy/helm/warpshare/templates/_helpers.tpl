{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "warpshare.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* Room for "-agent" is left. */}}
{{- define "warpshare.fullname" -}}
{{- $name := include "warpshare.name" . -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{ .Values.fullnameOverride | default $full | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "warpshare.namespace" -}}
{{ .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- define "warpshare.account" -}}
{{ .Values.serviceAccount.name | default (include "warpshare.fullname" .) }}
{{- end }}

{{- define "warpshare.configMap" -}}
{{ .Values.config.name | default (.Values.config.map | empty | ternary "" (printf "%s-configs" (include "warpshare.fullname" .))) }}
{{- end }}

{{/* Each takes a list: the root, the component. */}}
{{- define "warpshare.selector" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.selectorLabelsOverride }}
{{- toYaml . }}
{{- else -}}
app.kubernetes.io/name: {{ include "warpshare.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The agents' pods, as --agent-selector has them. */}}
{{- define "warpshare.agentSelector" -}}
{{- $words := list }}
{{- range $key, $value := include "warpshare.selector" (list . "agent") | fromYaml }}{{ $words = append $words (printf "%s=%s" $key $value) }}{{ end -}}
{{- join "," $words -}}
{{- end }}

{{- define "warpshare.metadata" -}}
{{- $root := index . 0 -}}
name: {{ include "warpshare.fullname" $root }}{{ with index . 1 }}-{{ . }}{{ end }}
namespace: {{ include "warpshare.namespace" $root }}
labels: {{- include "warpshare.labels" . | nindent 2 }}
{{- end }}

{{- define "warpshare.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "warpshare.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "warpshare.image" -}}
{{- if .Values.image.digest -}}
image: {{ printf "%s@%s" .Values.image.repository .Values.image.digest | quote }}
{{- else -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* Takes a list: the root, the component. */}}
{{- define "warpshare.podMetadata" -}}
labels: {{- include "warpshare.selector" . | nindent 2 }}
  {{- with (index . 0).Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with (index . 0).Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The affinity of the values; with gpuOperator.client auto, each of its terms is there twice: for nodes where the GPU Operator says that clients of
the driver may run, and for nodes where it has no such label and no upgrade of the driver is about to unload it (docs/driver-upgrades.md).
*/}}
{{- define "warpshare.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- if eq (toString .Values.gpuOperator.client) "auto" -}}
{{- $node := $affinity.nodeAffinity | default dict -}}
{{- $required := $node.requiredDuringSchedulingIgnoredDuringExecution | default dict -}}
{{- $welcome := dict "key" "nvidia.com/gpu.deploy.client" "operator" "In" "values" (list "true") -}}
{{- $unlabelled := dict "key" "nvidia.com/gpu.deploy.client" "operator" "DoesNotExist" -}}
{{- $unloading := dict "key" "nvidia.com/gpu-driver-upgrade-state" "operator" "NotIn" "values" (list "pod-restart-required") -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms | default (list dict) -}}
{{- $wanted := .matchExpressions | default list -}}
{{- $terms = append $terms (merge (dict "matchExpressions" (append $wanted $welcome)) .) -}}
{{- $terms = append $terms (merge (dict "matchExpressions" (concat $wanted (list $unlabelled $unloading))) .) -}}
{{- end -}}
{{- $node = set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $affinity = set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end }}

{{/* Labels that nodes must have. Takes a list: the root, those of the component. */}}
{{- define "warpshare.nodeSelector" -}}
{{- $root := index . 0 -}}
{{- $client := eq (toString $root.Values.gpuOperator.client) "true" | ternary (dict "nvidia.com/gpu.deploy.client" "true") dict -}}
{{- toYaml (merge dict $client (index . 1) $root.Values.nodeSelector) -}}
{{- end }}

{{/* What both pods have in common. Takes a list: the root, the tolerations. */}}
{{- define "warpshare.pod" -}}
{{- $tolerations := index . 1 -}}
{{- with index . 0 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "warpshare.affinity" . | fromYaml }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $own := .Values.node.taint | empty | ternary list (list (dict "key" (regexFind "^[^=:]*" (toString .Values.node.taint)) "operator" "Exists")) }}
{{- with concat $tolerations $own }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "warpshare.simulatedDriver" -}}580.105.08{{- end }}

{{/* Of the containers that look at GPUs, with simulation.enabled. */}}
{{- define "warpshare.simulation" -}}
- {name: WARPSHARE_NVML_LIBRARY, value: /usr/lib/warpshare/libwarpshare-nvml-sim.so}
- {name: WARPSHARE_SIM_SCENARIO, value: /simulation/gpus.yaml}
{{- end }}

{{/* Why each is needed: docs/security.md. Takes a list: the root, a list of capabilities. */}}
{{- define "warpshare.confined" -}}
runAsUser: 0
readOnlyRootFilesystem: {{ (index . 0).Values.readOnlyRootFilesystem }}
{{- if not (has "SYS_ADMIN" (index . 1)) }}
allowPrivilegeEscalation: false
{{- end }}
capabilities:
  drop: [ALL]
  {{- with index . 1 }}
  add: {{ toJson . }}
  {{- end }}
seccompProfile: {type: RuntimeDefault}
{{- with (index . 0).Values.seLinuxOptions }}
seLinuxOptions: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "warpshare.privileged" -}}
runAsUser: 0
readOnlyRootFilesystem: {{ .Values.readOnlyRootFilesystem }}
privileged: true
{{- with .Values.seLinuxOptions }}
seLinuxOptions: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
"true" where something may be shared by MPS: by a configuration of ours, by one that cannot be seen from here, or by claims, which can be shares
unless each configuration says otherwise.
*/}}
{{- define "warpshare.sharesByMps" -}}
{{- if or .Values.config.name (and .Values.dra.enabled (not .Values.config.map)) -}}
true
{{- else -}}
{{- $shares := false -}}
{{- range .Values.config.map -}}
{{- $config := kindIs "string" . | ternary (fromYaml (toString .)) . -}}
{{- $byClaims := ne (toString ($config.dra | default dict).mps) "false" -}}
{{- if or ($config.sharing | default dict).mps (and $.Values.dra.enabled $byClaims) }}{{ $shares = true }}{{ end -}}
{{- end -}}
{{- if $shares }}true{{ end -}}
{{- end -}}
{{- end }}

{{/*
"true" where the supervisor of MPS is. With auto it stays where it is: programs of a configuration that shared by MPS may run, and they end
with it.
*/}}
{{- define "warpshare.mps" -}}
{{- if not .Values.devicePlugin.enabled -}}
{{- else if kindIs "bool" .Values.mps.enabled -}}
{{- if .Values.mps.enabled }}true{{ end -}}
{{- else if or (include "warpshare.sharesByMps" .) (lookup "apps/v1" "DaemonSet" (include "warpshare.namespace" .) (printf "%s-mps" (include "warpshare.fullname" .))) -}}
true
{{- end -}}
{{- end }}

{{/* "true" where the agent may have to do with MIG: by value, by a configuration of ours, or by one that cannot be seen from here. */}}
{{- define "warpshare.mayUseMig" -}}
{{- if .Values.migStrategy -}}
{{ ne .Values.migStrategy "none" }}
{{- else if .Values.config.name -}}
true
{{- else -}}
{{- range .Values.config.map -}}
{{- $config := kindIs "string" . | ternary (fromYaml (toString .)) . -}}
{{- $flags := $config.flags | default dict -}}
{{- if not (has ($flags.migStrategy | default "none") (list "none")) }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The same of the strategy volume-mounts, for which NVIDIA's runtime gives a container GPUs only if it has the right to ask. */}}
{{- define "warpshare.mayUseVolumes" -}}
{{- if .Values.deviceListStrategy -}}
{{- has "volume-mounts" (kindIs "string" .Values.deviceListStrategy | ternary (splitList "," (toString .Values.deviceListStrategy)) .Values.deviceListStrategy) -}}
{{- else if .Values.config.name -}}
true
{{- else -}}
{{- contains "volume-mounts" (toJson .Values.config.map) -}}
{{- end -}}
{{- end }}

{{/* "true" where containers may get their GPUs by a variable alone, by the same rules. */}}
{{- define "warpshare.mayUseVariable" -}}
{{- if .Values.deviceListStrategy -}}
{{- $words := kindIs "string" .Values.deviceListStrategy | ternary (splitList "," (toString .Values.deviceListStrategy)) .Values.deviceListStrategy -}}
{{- and (has "envvar" $words) (not (contains "cdi-" (toJson $words))) -}}
{{- else if or .Values.config.name (empty .Values.config.map) -}}
true
{{- else -}}
{{- range .Values.config.map -}}
{{- $config := kindIs "string" . | ternary (fromYaml (toString .)) . -}}
{{- $words := toJson (((($config.flags | default dict).plugin | default dict).deviceListStrategy) | default "envvar") -}}
{{- if and (contains "envvar" $words) (not (contains "cdi-" $words)) }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* "true" where the agent reads the pods whose containers declare their shares: by value, or by a configuration of ours. */}}
{{- define "warpshare.readsPods" -}}
{{- if ne (toString .Values.rbac.readPods) "auto" -}}
{{- if .Values.rbac.readPods }}true{{ end -}}
{{- else -}}
{{- range .Values.config.map -}}
{{- $config := kindIs "string" . | ternary (fromYaml (toString .)) . -}}
{{- $mps := ($config.sharing | default dict).mps | default dict -}}
{{- if eq ($mps.provisioning | default "" | toString) "declared" }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* "open", or nothing: who reads the page of the node without being known. */}}
{{- define "warpshare.nodePage" -}}
{{- $page := .Values.metrics.nodePage -}}
{{- $isRead := or .Values.dashboard.enabled .Values.rbac.viewer .Values.simulation.enabled -}}
{{- if and .Values.metrics.enabled (not .Values.metrics.authorization.enabled) (or (eq $page "open") (and (eq $page "auto") $isRead)) }}open{{ end -}}
{{- end }}

{{/* What is switched on, in the words of deploy/rbac.json. */}}
{{- define "warpshare.switches" -}}
{{- $on := list "always" (printf "events: %s" .Values.events) -}}
{{- if include "warpshare.configMap" . }}{{ $on = append $on "configuration" }}{{ end -}}
{{- if include "warpshare.readsPods" . }}{{ $on = append $on "declared" }}{{ end -}}
{{- if and .Values.metrics.enabled .Values.metrics.authorization.enabled }}{{ $on = append $on "authorization" }}{{ end -}}
{{- if and .Values.metrics.enabled .Values.metrics.podLabels }}{{ $on = append $on "podLabels" }}{{ end -}}
{{- if .Values.node.condition }}{{ $on = append $on "condition" }}{{ end -}}
{{- if .Values.node.taint }}{{ $on = append $on "taint" }}{{ end -}}
{{- if .Values.mig.manager }}{{ $on = append $on "mig" }}{{ if .Values.mig.evict }}{{ $on = append $on "mig: evict" }}{{ end }}{{ end -}}
{{- if .Values.dra.enabled }}{{ $on = append $on "dra" }}{{ end -}}
{{- if .Values.gfd.enabled }}{{ $on = append $on (printf "labels: %s" .Values.gfd.output) }}{{ end -}}
{{- range .Values.devicePlugin.containers.main.env -}}
{{- if eq .name "WARPSHARE_CONFIG_MAP" }}{{ $on = concat $on (list "configMap" "configuration") }}{{ end -}}
{{- end -}}
{{- toJson $on -}}
{{- end }}

{{/* "true", or nothing: ValidatingAdmissionPolicy is stable from Kubernetes 1.30 on, and tokens name their node from then on. */}}
{{- define "warpshare.hasAdmissionPolicy" -}}
{{- if and .Values.rbac.admissionPolicy (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}true{{ end -}}
{{- end }}
