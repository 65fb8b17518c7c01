# The one bucket: runs/ holds the artifacts of the runs (Vertex AI's pipeline root), templates/ the specs that
# `vgp upload` puts there, builds/ the sources and logs of image builds.

locals {
  bucket_name = coalesce(var.bucket, "${var.project}-${var.name}")

  # Conditions of the lifecycle rules that delete.
  deletions = merge(
    {
      # Versions are what can be undeleted; without this rule every checkpoint that training removes is paid for forever.
      undelete = { prefixes = [], age = null, noncurrent = var.undelete_days }
      builds   = { prefixes = ["builds/"], age = 30, noncurrent = null }
    },
    var.run_retention_days == null ? {} : { runs = { prefixes = ["runs/"], age = var.run_retention_days, noncurrent = null } },
  )
}

resource "google_storage_bucket" "this" {
  project  = var.project
  name     = local.bucket_name
  location = var.region

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  # Versioning undoes overwrites as well as deletions. Soft delete on top would keep, and bill, everything once more.
  versioning {
    enabled = true
  }
  soft_delete_policy {
    retention_duration_seconds = 0
  }

  dynamic "lifecycle_rule" {
    for_each = local.deletions
    content {
      action {
        type = "Delete"
      }
      condition {
        matches_prefix             = lifecycle_rule.value.prefixes
        age                        = lifecycle_rule.value.age
        days_since_noncurrent_time = lifecycle_rule.value.noncurrent
        with_state                 = lifecycle_rule.value.noncurrent == null ? "LIVE" : "ARCHIVED"
      }
    }
  }

  # Parts of uploads that a killed process left behind.
  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 7
    }
  }

  dynamic "encryption" {
    for_each = var.customer_managed_key ? [local.key] : []
    content {
      default_kms_key_name = encryption.value
    }
  }

  logging {
    log_bucket = google_storage_bucket.logs.name
  }

  depends_on = [google_kms_crypto_key_iam_member.agent]
}

# Who read and wrote what, as hourly CSV files: https://cloud.google.com/storage/docs/access-logs
# It logs no accesses to itself, for then it would never stop growing:
# kics-scan ignore-block
#trivy:ignore:GCP-0077
resource "google_storage_bucket" "logs" {
  #checkov:skip=CKV_GCP_62:A bucket of access logs that logged its own accesses would never stop growing.
  project  = var.project
  name     = "${local.bucket_name}-logs"
  location = var.region

  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  versioning {
    enabled = true
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = 90
    }
  }

  dynamic "encryption" {
    for_each = var.customer_managed_key ? [local.key] : []
    content {
      default_kms_key_name = encryption.value
    }
  }

  depends_on = [google_project_service.api, google_kms_crypto_key_iam_member.agent]
}

# Google's group that delivers access logs; it can add files and read none.
resource "google_storage_bucket_iam_member" "log_writer" {
  count = var.access_logs ? 1 : 0

  bucket = google_storage_bucket.logs.name
  role   = "roles/storage.objectCreator"
  member = "group:cloud-storage-analytics@google.com"
}
