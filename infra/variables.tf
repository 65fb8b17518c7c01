variable "project" {
  description = "Id of the project, which exists and has billing."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "A project id has 6 to 30 lower-case letters, digits and hyphens, and starts with a letter."
  }
}

variable "region" {
  description = "Region of the bucket, the repositories, the key and the runs. `vgp machines` lists its GPUs."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "A region, such as us-central1: runs need their bucket and image near, so no multi-region (us, eu) and no zone."
  }
}

variable "environment" {
  description = "Name of the environment in pipelines.toml: [environments.NAME]."
  type        = string
  default     = "prod"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,19}$", var.environment))
    error_message = "At most 20 lower-case letters, digits and hyphens, starting with a letter."
  }
}

variable "name" {
  description = "First part of the names of everything made here. Change it to have two of them in one project."
  type        = string
  default     = "pipelines"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,17}$", var.name))
    error_message = "3 to 18 lower-case letters, digits and hyphens, starting with a letter: NAME-submitter has to fit into the 30 of a service account."
  }
}

variable "labels" {
  description = "Labels on everything that can have them, for example for the bill."
  type        = map(string)
  default     = {}

  validation {
    condition = alltrue([
      for key, value in var.labels : can(regex("^[a-z][a-z0-9_-]{0,62}$", key)) && can(regex("^[a-z0-9_-]{0,63}$", value))
    ])
    error_message = "Labels have lower-case letters, digits, - and _, at most 63; a key starts with a letter."
  }
}

variable "bucket" {
  description = "Name of the bucket, unique in the whole world. Default: PROJECT-NAME."
  type        = string
  default     = null

  validation {
    condition     = var.bucket == null || can(regex("^[a-z0-9][a-z0-9_-]{1,56}[a-z0-9]$", var.bucket))
    error_message = "3 to 58 lower-case letters, digits, - and _ (58: the bucket of access logs has -logs behind it)."
  }
}

variable "run_retention_days" {
  description = "Days after which everything under runs/ is deleted, models and checkpoints included. Default: never."
  type        = number
  default     = null

  # A step is taken from the cache for two epochs of 14 days at most (EPOCH_DAYS in vgp/steps/pins), and points at files here.
  validation {
    condition     = var.run_retention_days == null || try(var.run_retention_days > 28, false)
    error_message = "More than 28 days, or null for never: a step that is taken from the cache must find its files. A champion that a run is given by its gs:// path has to outlive it."
  }
}

variable "undelete_days" {
  description = "Days for which deleted and overwritten objects can be restored; they are paid for as long."
  type        = number
  default     = 3

  validation {
    condition     = var.undelete_days >= 1 && var.undelete_days <= 90
    error_message = "1 to 90 days."
  }
}

variable "access_logs" {
  description = "Have Google write a log of every access to the bucket. False where the organisation refuses members from outside (constraint iam.allowedPolicyMemberDomains): the writer is a group of google.com."
  type        = bool
  default     = true
}

variable "readable_buckets" {
  description = "Names of further buckets of raw data that the steps may read."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for bucket in var.readable_buckets : can(regex("^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$", bucket))])
    error_message = "Names of buckets, without gs:// and without a folder."
  }
}

variable "bigquery" {
  description = "Whether steps may query BigQuery: [steps.prepare.bigquery] of pipelines.toml."
  type        = bool
  default     = false
}

variable "readable_datasets" {
  description = "Datasets of BigQuery with raw data that the steps may read: PROJECT.DATASET."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for dataset in var.readable_datasets : can(regex("^[a-z][a-z0-9:.-]+[.][A-Za-z0-9_]+$", dataset))])
    error_message = "PROJECT.DATASET, such as my-project.flights."
  }
}

variable "writable_datasets" {
  description = "Datasets of BigQuery that predictions are written to: PROJECT.DATASET."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for dataset in var.writable_datasets : can(regex("^[a-z][a-z0-9:.-]+[.][A-Za-z0-9_]+$", dataset))])
    error_message = "PROJECT.DATASET, such as my-project.scores."
  }
}

variable "dataflow" {
  description = "Whether steps may have their shards worked on by Dataflow: [steps.prepare.dataflow] of pipelines.toml."
  type        = bool
  default     = false
}

variable "submitters" {
  description = "Who besides CI may build images, upload, submit and schedule: group:ml@example.com, user:a@example.com."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for member in var.submitters : can(regex("^(user|group|serviceAccount):[^@ ]+@[^@ ]+$", member))])
    error_message = "Each is user:, group: or serviceAccount: and an address; public access and whole domains are refused."
  }
}

variable "network" {
  description = "VPC network that runs are peered with, projects/NUMBER/global/networks/NAME. It has to exist with private services access."
  type        = string
  default     = null

  validation {
    condition     = var.network == null || can(regex("^projects/[0-9]+/global/networks/[a-z][a-z0-9-]{0,62}$", var.network))
    error_message = "projects/NUMBER/global/networks/NAME, with the project's number and not its id."
  }
}

variable "customer_managed_key" {
  description = "Encrypt bucket, repositories and runs with a key of your own (Cloud KMS, about $0.06 a month for each version)."
  type        = bool
  default     = true
}

variable "scan_images" {
  description = "Let Artifact Analysis scan every pushed image for known vulnerabilities (about $0.26 an image)."
  type        = bool
  default     = true
}

variable "billing_account" {
  description = "Billing account for the budget alert, XXXXXX-XXXXXX-XXXXXX. Default: no budget."
  type        = string
  default     = null

  validation {
    condition     = var.billing_account == null || can(regex("^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$", var.billing_account))
    error_message = "Three groups of six hexadecimal digits: gcloud billing accounts list."
  }
}

variable "monthly_budget" {
  description = "Budget of a calendar month in whole units of the billing account's currency. An alert, not a limit."
  type        = number
  default     = 500

  validation {
    condition     = var.monthly_budget >= 1 && floor(var.monthly_budget) == var.monthly_budget
    error_message = "A whole number of at least 1."
  }
}

variable "alert_email" {
  description = "Address that gets a mail when a run fails, and when a night is missed: nightly_pipelines. Default: no alerts."
  type        = string
  default     = null

  validation {
    condition     = var.alert_email == null || can(regex("^[^@ ]+@[^@ ]+[.][^@ ]+$", var.alert_email))
    error_message = "One e-mail address; for several people, that of a group."
  }
}

variable "nightly_pipelines" {
  description = "Hours within which a run of a pipeline has to succeed, by its name: { training = 26 } for every night, with two hours for the run."
  type        = map(number)
  default     = {}

  validation {
    condition = alltrue([
      for pipeline, hours in var.nightly_pipelines :
      can(regex("^[a-z][a-z0-9-]*$", pipeline)) && hours >= 1 && hours <= 840 && floor(hours) == hours
    ])
    error_message = "Names of pipelines, and whole hours from 1 to 840 (five weeks)."
  }

  validation {
    condition     = length(var.nightly_pipelines) == 0 || var.alert_email != null
    error_message = "nightly_pipelines needs alert_email, the address of the mails."
  }
}

variable "webhook_secret" {
  description = "Secret with the address that hears how a run ended, projects/PROJECT/secrets/NAME: [notify] of pipelines.toml. It has to exist. Default: none."
  type        = string
  default     = null

  validation {
    condition     = var.webhook_secret == null || can(regex("^projects/[^/]+/secrets/[A-Za-z0-9_-]{1,255}$", var.webhook_secret))
    error_message = "projects/PROJECT/secrets/NAME, without a version."
  }
}

variable "mlflow_secret" {
  description = "Secret with the token of the MLflow server, projects/PROJECT/secrets/NAME: [mlflow] of pipelines.toml. It has to exist. Default: none."
  type        = string
  default     = null

  validation {
    condition     = var.mlflow_secret == null || can(regex("^projects/[^/]+/secrets/[A-Za-z0-9_-]{1,255}$", var.mlflow_secret))
    error_message = "projects/PROJECT/secrets/NAME, without a version."
  }
}

variable "github" {
  description = "The repository whose GitHub Actions may deploy. Numbers, because names can be taken over: gh api repos/OWNER/NAME --jq '.id, .owner.id'. Default: none."
  type = object({
    repository_id       = string
    repository_owner_id = string
    environments        = optional(set(string), ["prod"])
  })
  default = null

  validation {
    condition = var.github == null || try(
      can(regex("^[0-9]+$", var.github.repository_id)) && can(regex("^[0-9]+$", var.github.repository_owner_id)), false
    )
    error_message = "repository_id and repository_owner_id are numbers, written as text."
  }

  validation {
    condition = var.github == null || try(
      length(var.github.environments) > 0 && alltrue([for each in var.github.environments : can(regex("^[A-Za-z0-9_-]+$", each)) && each != "refresh"]), false
    )
    error_message = "At least one environment of the repository; letters, digits, - and _. The environment refresh may not deploy."
  }
}
