"""Recurring runs: the schedules in pipelines.toml, the live ones on Vertex AI, their differences and how to close them.

cron.py          the times of a cron expression, across changes of the clocks; runs in a month
declared_schedule.py  the declared schedules, compiled, checked, and as messages for Vertex AI
schedule_list.py  every live schedule with its last run; marks those of this project
schedule_fields.py  the fields in which a declared schedule and the live one differ
schedule_plan.py  the actions that make the live schedules the declared ones
reconcile.py     `plan` and `apply` of all schedules
schedule_control.py  pause, resume, delete
schedule_view.py  the output of `plan` and `list`, with coming runs and costs
schedule_terraform.py  the declared schedules as Terraform resources
scheduled_nights.py  each run time of a live schedule, with its run or the reason why it has none
schedule_doctor.py  `doctor`: diagnoses every schedule
backfill.py      runs past nights, each once; backfill_page.py: its output"""
