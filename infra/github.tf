# GitHub Actions without a key: GitHub signs the identity of a job, and only jobs of one repository in one of its
# environments get access. A job of an environment that deploys is the submitter; who may deploy there is set in GitHub (required
# reviewers, branches). A job of the environment `refresh`, which needs no approval, only reads machine types.
# https://docs.github.com/actions/reference/security/oidc

locals {
  github = var.github == null ? {} : { this = var.github }
}

resource "google_iam_workload_identity_pool" "github" {
  for_each = local.github

  project                   = var.project
  workload_identity_pool_id = "${var.name}-github"
  display_name              = "${var.name} GitHub"
  description               = "Jobs of GitHub Actions."

  depends_on = [google_project_service.api]
}

resource "google_iam_workload_identity_pool_provider" "github" {
  #checkov:skip=CKV_GCP_125:It knows only the claim `sub`, which holds names; the condition below compares the numbers, which cannot be taken over.
  for_each = local.github

  project                            = var.project
  workload_identity_pool_id          = google_iam_workload_identity_pool.github[each.key].workload_identity_pool_id
  workload_identity_pool_provider_id = "github"
  display_name                       = "GitHub Actions"

  # By number, for names can be given up and taken over; a job without environment has no such claim and is refused.
  attribute_condition = join(" && ", [
    "assertion.repository_owner_id == '${each.value.repository_owner_id}'",
    "assertion.repository_id == '${each.value.repository_id}'",
    "assertion.environment in [${join(", ", [for name in sort(setunion(each.value.environments, ["refresh"])) : "'${name}'"])}]",
  ])

  attribute_mapping = {
    "google.subject"        = "assertion.sub"
    "attribute.environment" = "assertion.environment"
  }

  oidc {
    issuer_uri = "https://token.actions.githubusercontent.com"
  }
}

resource "google_service_account_iam_member" "github" {
  for_each = var.github == null ? toset([]) : var.github.environments

  service_account_id = google_service_account.submitter.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.github["this"].name}/attribute.environment/${each.value}"
}

resource "google_service_account" "refresher" {
  for_each = local.github

  project      = var.project
  account_id   = "${var.name}-refresher"
  display_name = "Pipelines: the weekly refresh of prices and machine types"

  depends_on = [google_project_service.api]
}

resource "google_project_iam_member" "refresher" {
  for_each = local.github

  project = var.project
  role    = "roles/compute.viewer"
  member  = google_service_account.refresher[each.key].member
}

resource "google_service_account_iam_member" "refresher" {
  for_each = local.github

  service_account_id = google_service_account.refresher[each.key].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.github[each.key].name}/attribute.environment/refresh"
}
