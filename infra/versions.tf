terraform {
  required_version = ">= 1.9, < 2.0"

  # Both ends of the range were checked, argument by argument: the published schemas of 7.31 and 8.7 (2026-11-21).
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 7.31, < 9.0"
    }
    # Only for google_project_service_identity, which the other provider does not have.
    google-beta = {
      source  = "hashicorp/google-beta"
      version = ">= 7.31, < 9.0"
    }
  }
}

provider "google" {
  project        = var.project
  region         = var.region
  default_labels = local.labels
}

provider "google-beta" {
  project = var.project
  region  = var.region
}

# The Budget API wants a project that pays for its quota, when a person and not a service account calls it.
provider "google" {
  alias                 = "billing"
  project               = var.project
  billing_project       = var.project
  user_project_override = true
}
