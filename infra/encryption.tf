# One key of your own for everything at rest. Neither it nor its ring can ever be deleted, and what it encrypted is lost
# with it: Terraform refuses to destroy them (`terraform state rm` takes them out of its hands).

locals {
  key = one(google_kms_crypto_key.this[*].id)

  # The agents in whose name Google encrypts. Vertex AI's covers steps, jobs and schedules:
  # https://cloud.google.com/vertex-ai/docs/general/cmek
  key_users = var.customer_managed_key ? {
    aiplatform       = google_project_service_identity.agent["aiplatform"].member
    artifactregistry = google_project_service_identity.agent["artifactregistry"].member
    storage          = data.google_storage_project_service_account.this[0].member
  } : {}
}

resource "google_kms_key_ring" "this" {
  count = var.customer_managed_key ? 1 : 0

  project  = var.project
  name     = var.name
  location = var.region

  depends_on = [google_project_service.api]

  lifecycle {
    prevent_destroy = true
  }
}

resource "google_kms_crypto_key" "this" {
  count = var.customer_managed_key ? 1 : 0

  name     = var.name
  key_ring = google_kms_key_ring.this[0].id

  # 90 days. Rotation makes a new version and keeps the old ones: nothing is encrypted again, nothing becomes unreadable.
  rotation_period = "7776000s"

  lifecycle {
    prevent_destroy = true
  }
}

# A new project has no such agents until they are asked for.
resource "google_project_service_identity" "agent" {
  for_each = toset(var.customer_managed_key ? ["aiplatform", "artifactregistry"] : [])
  provider = google-beta

  project = var.project
  service = "${each.value}.googleapis.com"

  depends_on = [google_project_service.api]
}

data "google_storage_project_service_account" "this" {
  count = var.customer_managed_key ? 1 : 0

  project = var.project

  depends_on = [google_project_service.api]
}

resource "google_kms_crypto_key_iam_member" "agent" {
  for_each = local.key_users

  crypto_key_id = google_kms_crypto_key.this[0].id
  role          = "roles/cloudkms.cryptoKeyEncrypterDecrypter"
  member        = each.value
}
