# The APIs that pipelines/ and the runs call, and no others.

locals {
  labels = merge({ app = var.name, environment = var.environment }, var.labels)

  apis = toset(concat(
    [
      "aiplatform.googleapis.com",
      "artifactregistry.googleapis.com",
      "cloudbilling.googleapis.com",
      "cloudbuild.googleapis.com",
      "cloudquotas.googleapis.com",
      "cloudresourcemanager.googleapis.com",
      "compute.googleapis.com",
      "iam.googleapis.com",
      "logging.googleapis.com",
      "serviceusage.googleapis.com",
      "storage.googleapis.com",
    ],
    var.bigquery ? ["bigquery.googleapis.com", "bigquerystorage.googleapis.com"] : [],
    var.dataflow ? ["dataflow.googleapis.com"] : [],
    var.customer_managed_key ? ["cloudkms.googleapis.com"] : [],
    var.scan_images ? ["containerscanning.googleapis.com"] : [],
    var.network != null ? ["servicenetworking.googleapis.com"] : [],
    var.github != null ? ["iamcredentials.googleapis.com", "sts.googleapis.com"] : [],
    var.billing_account != null ? ["billingbudgets.googleapis.com"] : [],
    var.alert_email != null ? ["monitoring.googleapis.com"] : [],
    var.webhook_secret != null || var.mlflow_secret != null ? ["secretmanager.googleapis.com"] : [],
  ))
}

resource "google_project_service" "api" {
  for_each = local.apis

  project = var.project
  service = each.value

  # Others in the project may use them too.
  disable_on_destroy = false
}

data "google_project" "this" {
  project_id = var.project

  depends_on = [google_project_service.api]
}
