{{/* Names of what a release makes. */}}
{{- define "qsm.name" -}}
{{ printf "%s-qsm" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* Labels of everything; pods that have part-of are members. */}}
{{- define "qsm.labels" -}}
app.kubernetes.io/part-of: {{ include "qsm.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "qsm.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What all pods have in common. */}}
{{- define "qsm.pod" -}}
# Kubernetes would set QSM_… for services of that name, which are no settings.
enableServiceLinks: false
automountServiceAccountToken: false
terminationGracePeriodSeconds: 10
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.key.secret }}
volumes:
  - name: key
    secret:
      secretName: {{ . }}
      # Root's, and to be read by the pod's group (fsGroup).
      defaultMode: 0440
{{- end }}
{{- end }}

{{/* What all containers of nodes and services have in common. */}}
{{- define "qsm.container" -}}
image: {{ include "qsm.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- if .Values.key.secret }}
volumeMounts:
  - name: key
    mountPath: /etc/qsm
    readOnly: true
{{- end }}
{{- end }}

{{- define "qsm.variables" -}}
- name: QSM_CLUSTER
  value: {{ .Values.cluster | quote }}
- name: QSM_MULTICAST
  value: {{ .Values.multicast | quote }}
{{- with .Values.key.secret }}
- name: QSM_KEY
  value: /etc/qsm/{{ $.Values.key.file }}
{{- end }}
{{- end }}
