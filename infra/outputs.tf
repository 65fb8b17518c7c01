locals {
  image_name = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.repository_id}/training"

  settings = {
    project               = var.project
    region                = var.region
    bucket                = "gs://${google_storage_bucket.this.name}"
    image                 = "${local.image_name}:not-built"
    service_account       = google_service_account.runner.email
    build_service_account = google_service_account.builder.email
    template_repository   = "https://${var.region}-kfp.pkg.dev/${var.project}/${google_artifact_registry_repository.templates.repository_id}"
    encryption_key        = local.key
    network               = var.network
  }
}

output "pipelines_toml" {
  description = "Append to pipelines.toml: terraform output -raw pipelines_toml >> ../pipelines.toml. `vgp image build` then writes the image's digest."
  value = join("\n", concat(
    ["", "[environments.${var.environment}]"],
    [for key, value in local.settings : "${key} = ${jsonencode(value)}" if value != null],
    [""],
  ))
}

output "builder" {
  description = "Service account of image builds."
  value       = google_service_account.builder.email
}

output "github_variables" {
  description = "Variables of the GitHub environments, read by .github/workflows/deploy.yml and refresh.yml. No secret among them."
  value = one([
    for key, provider in google_iam_workload_identity_pool_provider.github : {
      GOOGLE_SERVICE_ACCOUNT            = google_service_account.submitter.email
      GOOGLE_SERVICE_ACCOUNT_REFRESH    = google_service_account.refresher[key].email
      GOOGLE_WORKLOAD_IDENTITY_PROVIDER = provider.name
    }
  ])
}
