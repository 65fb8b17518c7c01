# Mails to the billing account's administrators and the project's owners. A budget stops nothing: what a run can cost at
# most is what `vgp compile` prints, and `--max-usd` refuses more.

resource "google_billing_budget" "this" {
  count    = var.billing_account == null ? 0 : 1
  provider = google.billing

  billing_account = var.billing_account
  display_name    = "${var.name} in ${var.project}"

  budget_filter {
    projects        = ["projects/${data.google_project.this.number}"]
    calendar_period = "MONTH"
  }

  amount {
    specified_amount {
      units = tostring(var.monthly_budget)
    }
  }

  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1.0]
    content {
      threshold_percent = threshold_rules.value
    }
  }

  # A GPU that was forgotten shows in the forecast days before it shows in the sum.
  threshold_rules {
    threshold_percent = 1.0
    spend_basis       = "FORECASTED_SPEND"
  }

  all_updates_rule {
    enable_project_level_recipients = true
  }

  depends_on = [google_project_service.api]
}
