# Three identities, each with the least that it needs. What can be granted on one bucket, repository, account or key is
# granted there; only what has no narrower place is granted on the project.
#
#   runner     what a run is: reads and writes the bucket, pulls the image, starts its training jobs; also the workers of
#              its Dataflow jobs
#   builder    what an image build is: reads its source, writes its log, pushes the image
#   submitter  what CI is: builds, uploads, submits, schedules; var.submitters may do the same

resource "google_service_account" "runner" {
  project      = var.project
  account_id   = "${var.name}-runner"
  display_name = "Pipelines: the identity of runs"

  depends_on = [google_project_service.api]
}

resource "google_service_account" "builder" {
  project      = var.project
  account_id   = "${var.name}-builder"
  display_name = "Pipelines: the identity of image builds"

  depends_on = [google_project_service.api]
}

resource "google_service_account" "submitter" {
  project      = var.project
  account_id   = "${var.name}-submitter"
  display_name = "Pipelines: CI, which builds, uploads, submits and schedules"

  depends_on = [google_project_service.api]
}

locals {
  submitters = merge(
    { ci = google_service_account.submitter.member },
    { for member in var.submitters : member => member },
  )

  runner_roles = [
    "roles/aiplatform.user", # starts the training job, writes metadata
    "roles/logging.logWriter",
    "roles/logging.viewer", # the last lines of a job that failed, in the log of a step with a ladder
  ]

  submitter_roles = {
    aiplatform = "roles/aiplatform.user"          # runs and schedules
    cloudbuild = "roles/cloudbuild.builds.editor" # vgp image build
    logging    = "roles/logging.viewer"           # vgp logs
    quotas     = "roles/cloudquotas.viewer"       # preflight compares quota and request
    preflight  = google_project_iam_custom_role.preflight.name
  }

  builds_only = {
    title       = "builds-only"
    description = "Sources and logs of builds, no run's data."
    expression  = "resource.name.startsWith('projects/_/buckets/${local.bucket_name}/objects/builds/')"
  }
}

# The runner.

resource "google_project_iam_member" "runner" {
  for_each = toset(local.runner_roles)

  project = var.project
  role    = each.value
  member  = google_service_account.runner.member
}

# [steps.prepare.bigquery]: queries, and the dataset for what they compute on the way, which the runner makes and then owns.
resource "google_project_iam_member" "runner_bigquery" {
  for_each = toset(var.bigquery ? ["roles/bigquery.user"] : [])

  project = var.project
  role    = "roles/bigquery.user"
  member  = google_service_account.runner.member
}

resource "google_bigquery_dataset_iam_member" "runner_tables" {
  for_each = var.readable_datasets

  project    = split(".", each.value)[0]
  dataset_id = split(".", each.value)[1]
  role       = "roles/bigquery.dataViewer"
  member     = google_service_account.runner.member
}

# destination = bq://... of batch_prediction: tables that predictions replace.
resource "google_bigquery_dataset_iam_member" "runner_predictions" {
  for_each = var.writable_datasets

  project    = split(".", each.value)[0]
  dataset_id = split(".", each.value)[1]
  role       = "roles/bigquery.dataEditor"
  member     = google_service_account.runner.member
}

# [steps.prepare.dataflow]: starts, follows and cancels jobs, and is what their workers run as.
resource "google_project_iam_member" "runner_dataflow" {
  for_each = toset(var.dataflow ? ["roles/dataflow.developer"] : [])

  project = var.project
  role    = "roles/dataflow.developer"
  member  = google_service_account.runner.member
}

resource "google_project_iam_member" "runner_dataflow_worker" {
  for_each = toset(var.dataflow ? ["roles/dataflow.worker"] : [])

  project = var.project
  role    = "roles/dataflow.worker"
  member  = google_service_account.runner.member
}

resource "google_storage_bucket_iam_member" "runner" {
  bucket = google_storage_bucket.this.name
  role   = "roles/storage.objectUser"
  member = google_service_account.runner.member
}

# Whether a bucket keeps versions: what a run of a past night (`as_of`) asks.
resource "google_storage_bucket_iam_member" "runner_bucket" {
  bucket = google_storage_bucket.this.name
  role   = "roles/storage.bucketViewer"
  member = google_service_account.runner.member
}

resource "google_storage_bucket_iam_member" "runner_data_bucket" {
  for_each = var.readable_buckets

  bucket = each.value
  role   = "roles/storage.bucketViewer"
  member = google_service_account.runner.member
}

resource "google_storage_bucket_iam_member" "runner_data" {
  for_each = var.readable_buckets

  bucket = each.value
  role   = "roles/storage.objectViewer"
  member = google_service_account.runner.member
}

resource "google_artifact_registry_repository_iam_member" "runner_image" {
  project    = var.project
  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.runner.member
}

# A run of an uploaded template reads it as itself:
# https://cloud.google.com/vertex-ai/docs/pipelines/create-pipeline-template
resource "google_artifact_registry_repository_iam_member" "runner_templates" {
  project    = var.project
  location   = google_artifact_registry_repository.templates.location
  repository = google_artifact_registry_repository.templates.name
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.runner.member
}

# The address that hears how a run ended: [notify] of pipelines.toml.
resource "google_secret_manager_secret_iam_member" "runner_webhook" {
  for_each = var.webhook_secret == null ? {} : { this = var.webhook_secret }

  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.runner.member
}

# The token of the MLflow server that logs trainings: [mlflow] of pipelines.toml.
resource "google_secret_manager_secret_iam_member" "runner_mlflow" {
  for_each = var.mlflow_secret == null ? {} : { this = var.mlflow_secret }

  secret_id = each.value
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.runner.member
}

# A run starts its training job as itself, and for that has to be allowed to act as itself:
# https://cloud.google.com/vertex-ai/docs/pipelines/configure-project#service-account
resource "google_service_account_iam_member" "runner_as_itself" {
  service_account_id = google_service_account.runner.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.runner.member
}

# The builder.

resource "google_project_iam_member" "builder" {
  project = var.project
  role    = "roles/logging.logWriter"
  member  = google_service_account.builder.member
}

resource "google_storage_bucket_iam_member" "builder" {
  bucket = google_storage_bucket.this.name
  role   = "roles/storage.objectUser"
  member = google_service_account.builder.member

  condition {
    title       = local.builds_only.title
    description = local.builds_only.description
    expression  = local.builds_only.expression
  }
}

resource "google_storage_bucket_iam_member" "builder_bucket" {
  bucket = google_storage_bucket.this.name
  role   = "roles/storage.bucketViewer"
  member = google_service_account.builder.member
}

resource "google_artifact_registry_repository_iam_member" "builder_image" {
  project    = var.project
  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.builder.member
}

# The submitters.

# What preflight looks at besides, none of it data. No predefined role holds so little: the next one that can read the
# policies of a bucket, a repository, an account and a key is roles/iam.securityReviewer, with hundreds of permissions more.
resource "google_project_iam_custom_role" "preflight" {
  project = var.project
  role_id = "${replace(var.name, "-", "_")}_preflight"
  title   = "${var.name}: preflight"

  permissions = [
    "artifactregistry.repositories.get",
    "artifactregistry.repositories.getIamPolicy",
    "bigquery.datasets.get",
    "bigquery.tables.get",
    "cloudkms.cryptoKeys.get",
    "cloudkms.cryptoKeys.getIamPolicy",
    "compute.acceleratorTypes.list",
    "compute.machineTypes.list",
    "compute.networkAttachments.get",
    "compute.networks.get",
    "iam.serviceAccounts.get",
    "iam.serviceAccounts.getIamPolicy",
    "resourcemanager.projects.get",
    "resourcemanager.projects.getIamPolicy",
    "secretmanager.secrets.getIamPolicy",
    "serviceusage.services.get",
    "serviceusage.services.list",
    "serviceusage.services.use",
    "storage.buckets.get",
    "storage.buckets.getIamPolicy",
  ]

  depends_on = [google_project_service.api]
}

# `vgp templates untag`. The predefined role with it is roles/artifactregistry.repoAdmin, which deletes templates too.
resource "google_project_iam_custom_role" "untag" {
  project     = var.project
  role_id     = "${replace(var.name, "-", "_")}_untag"
  title       = "${var.name}: untag"
  permissions = ["artifactregistry.tags.delete"]

  depends_on = [google_project_service.api]
}

resource "google_project_iam_member" "submitter" {
  for_each = {
    for pair in setproduct(keys(local.submitters), keys(local.submitter_roles)) :
    join(" ", pair) => { member = local.submitters[pair[0]], role = local.submitter_roles[pair[1]] }
  }

  project = var.project
  role    = each.value.role
  member  = each.value.member
}

# The log of cloudbuild.yaml, where CI is Cloud Build.
resource "google_project_iam_member" "ci_log" {
  project = var.project
  role    = "roles/logging.logWriter"
  member  = google_service_account.submitter.member
}

resource "google_storage_bucket_iam_member" "submitter" {
  for_each = local.submitters

  bucket = google_storage_bucket.this.name
  role   = "roles/storage.objectUser"
  member = each.value
}

resource "google_artifact_registry_repository_iam_member" "submitter_images" {
  for_each = local.submitters

  project    = var.project
  location   = google_artifact_registry_repository.images.location
  repository = google_artifact_registry_repository.images.name
  role       = "roles/artifactregistry.reader"
  member     = each.value
}

resource "google_artifact_registry_repository_iam_member" "submitter_templates" {
  for_each = local.submitters

  project    = var.project
  location   = google_artifact_registry_repository.templates.location
  repository = google_artifact_registry_repository.templates.name
  role       = "roles/artifactregistry.writer"
  member     = each.value
}

resource "google_artifact_registry_repository_iam_member" "submitter_untag" {
  for_each = local.submitters

  project    = var.project
  location   = google_artifact_registry_repository.templates.location
  repository = google_artifact_registry_repository.templates.name
  role       = google_project_iam_custom_role.untag.name
  member     = each.value
}

resource "google_service_account_iam_member" "submitter_as_runner" {
  for_each = local.submitters

  service_account_id = google_service_account.runner.name
  role               = "roles/iam.serviceAccountUser"
  member             = each.value
}

resource "google_service_account_iam_member" "submitter_as_builder" {
  for_each = local.submitters

  service_account_id = google_service_account.builder.name
  role               = "roles/iam.serviceAccountUser"
  member             = each.value
}
