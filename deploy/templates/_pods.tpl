{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* The fields of .Values.pods that are set, as YAML. */ -}}
{{- define "tonnage.podFields" -}}
{{- $fields := dict -}}
{{- range $name, $value := .Values.pods -}}
{{- if $value -}}{{- $_ := set $fields $name $value -}}{{- end -}}
{{- end -}}
{{- toYaml $fields -}}
{{- end -}}

{{- /* The configuration that follows from values; empty if all have their defaults. Files are read by name. */ -}}
{{- define "tonnage.configuration" -}}
{{- $kubernetes := list -}}
{{- if not .Values.extender.reserves -}}{{- $kubernetes = append $kubernetes "extender_reserves = false" -}}{{- end -}}
{{- if not .Values.extender.readCapacityObjects -}}
{{- $kubernetes = append $kubernetes "read_capacity_objects = false" -}}
{{- end -}}
{{- if not .Values.extender.refreshCapacityObjects -}}
{{- $kubernetes = append $kubernetes "refresh_capacity_objects = false" -}}
{{- end -}}
{{- if .Values.admission.enabled -}}
{{- $kubernetes = concat $kubernetes (list "admission = true" "admission_listen = 0.0.0.0") -}}
{{- end -}}
{{- if .Values.publisher.subtractsClaims -}}
{{- $kubernetes = append $kubernetes "publisher_subtracts_claims = true" -}}
{{- end -}}
{{- range .Values.publisher.templateNodeCapacity -}}
{{- $kubernetes = append $kubernetes (printf "template_node_capacity = %s" .) -}}
{{- end -}}
{{- $lines := list -}}
{{- if $kubernetes -}}{{- $lines = concat $lines (list "[kubernetes]") $kubernetes -}}{{- end -}}
{{- if .Values.metrics.enabled -}}
{{- $lines = concat $lines (list "[metrics]" "enabled = true" "listen = 0.0.0.0"
      "web_config_file = /etc/tonnage/metrics-web.yml") -}}
{{- end -}}
{{- if $lines -}}{{- printf "%s\n" (join "\n" $lines) -}}{{- end -}}
{{- end -}}

{{- /* A checksum that changes with anything that processes read at their start. */ -}}
{{- define "tonnage.checksum" -}}
{{- print .Values.configuration .Values.secret.text (include "tonnage.configuration" .)
      .Values.secondScheduler.podMaxBackoffSeconds | sha256sum -}}
{{- end -}}

{{- /* The security of pods of Tonnage, and of their containers. */ -}}
{{- define "tonnage.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- define "tonnage.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
