# Two repositories in Artifact Registry: the image of the steps, and the compiled pipelines that the console offers.

resource "google_artifact_registry_repository" "images" {
  project       = var.project
  location      = var.region
  repository_id = "${var.name}-images"
  description   = "The image of every step, one tag for each commit."
  format        = "DOCKER"
  kms_key_name  = local.key

  # A tag that moved would change what yesterday's run was made of.
  docker_config {
    immutable_tags = true
  }

  vulnerability_scanning_config {
    enablement_config = var.scan_images ? "INHERITED" : "DISABLED"
  }

  # Schedules and cached runs name images by digest, so what has a tag is never deleted here.
  cleanup_policies {
    id     = "keep-tagged"
    action = "KEEP"
    condition {
      tag_state = "TAGGED"
    }
  }
  cleanup_policies {
    id     = "delete-untagged"
    action = "DELETE"
    condition {
      tag_state  = "UNTAGGED"
      older_than = "30d"
    }
  }

  depends_on = [google_project_service.api, google_kms_crypto_key_iam_member.agent]
}

# Its tags move (`latest`, your own); its versions are digests and cannot change. A few kilobytes each: nothing to clean.
resource "google_artifact_registry_repository" "templates" {
  project       = var.project
  location      = var.region
  repository_id = "${var.name}-templates"
  description   = "Compiled pipelines: what the console offers under `select from existing pipelines`."
  format        = "KFP"
  kms_key_name  = local.key

  depends_on = [google_project_service.api, google_kms_crypto_key_iam_member.agent]
}
