# Mails about runs that failed, and about nights without a run that succeeded; only with `alert_email`.
#
# Vertex AI writes an entry into this log whenever the state of a run changes. Its own metrics
# (aiplatform.googleapis.com/pipelinejob/duration and task_completed_count) do not have the result of a run.
# https://cloud.google.com/vertex-ai/docs/pipelines/logging, https://cloud.google.com/logging/docs/api/platform-logs

locals {
  alerts  = var.alert_email == null ? {} : { this = var.alert_email }
  missed  = var.alert_email == null ? {} : var.nightly_pipelines
  metric  = "${replace(var.name, "-", "_")}_succeeded"
  channel = [for channel in google_monitoring_notification_channel.email : channel.id]

  # Pipeline -> its runs that succeeded, in as many hours as it may take.
  succeeded = {
    for pipeline, hours in local.missed : pipeline =>
    "logging_googleapis_com:user_${local.metric}{monitored_resource=\"aiplatform.googleapis.com/PipelineJob\",pipeline=\"${pipeline}\"}[${hours}h]"
  }

  run_log = join(" AND ", [
    "log_id(\"aiplatform.googleapis.com/pipeline_job_events\")",
    "resource.type=\"aiplatform.googleapis.com/PipelineJob\"",
  ])
}

resource "google_monitoring_notification_channel" "email" {
  for_each = local.alerts

  project      = var.project
  display_name = "${var.name}: ${each.value}"
  type         = "email"
  labels       = { email_address = each.value }

  depends_on = [google_project_service.api]
}

# One mail for each run that failed, five minutes apart at least: Google wants a limit.
resource "google_monitoring_alert_policy" "failed" {
  for_each = local.alerts

  project               = var.project
  display_name          = "${var.name}: a run failed"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = local.channel

  conditions {
    display_name = "Vertex AI logs that a run failed"

    condition_matched_log {
      filter = "${local.run_log} AND jsonPayload.state=\"PIPELINE_STATE_FAILED\""
      label_extractors = {
        pipeline = "EXTRACT(labels.pipeline_name)"
        run      = "EXTRACT(resource.labels.pipeline_job_id)"
      }
    }
  }

  alert_strategy {
    auto_close = "86400s"

    notification_rate_limit {
      period = "300s"
    }
  }

  documentation {
    mime_type = "text/markdown"
    content   = "Run $${log.extracted_label.run} of $${log.extracted_label.pipeline} failed. What failed, and why: `vgp show $${log.extracted_label.run}`."
  }
}

# How many runs of each pipeline succeeded.
resource "google_logging_metric" "succeeded" {
  for_each = local.alerts

  project = var.project
  name    = local.metric
  filter  = "${local.run_log} AND jsonPayload.state=\"PIPELINE_STATE_SUCCEEDED\""

  label_extractors = {
    pipeline = "EXTRACT(labels.pipeline_name)"
  }

  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"

    labels {
      key        = "pipeline"
      value_type = "STRING"
    }
  }

  depends_on = [google_project_service.api]
}

# No condition of the kind metric absence: the longest that it can wait is 23.5 hours, less than from night to night, and it
# does not cover a pipeline that never succeeded. https://cloud.google.com/monitoring/alerts/metric-absence
resource "google_monitoring_alert_policy" "missed" {
  for_each = local.missed

  project               = var.project
  display_name          = "${var.name}: no run of ${each.key} succeeded in ${each.value} hours"
  combiner              = "OR"
  severity              = "ERROR"
  notification_channels = local.channel

  conditions {
    display_name = "No run of ${each.key} succeeded"

    condition_prometheus_query_language {
      query               = "absent_over_time(${local.succeeded[each.key]}) or sum(increase(${local.succeeded[each.key]})) == 0"
      duration            = "0s"
      evaluation_interval = "300s"
    }
  }

  alert_strategy {
    auto_close = "86400s"
  }

  documentation {
    mime_type = "text/markdown"
    content   = "No run of ${each.key} succeeded in ${each.value} hours. The last good run of every schedule, and what to do: `vgp doctor`."
  }

  depends_on = [google_logging_metric.succeeded]
}
