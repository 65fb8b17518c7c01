"""Recurring runs: what pipelines.toml declares, what is live on Vertex AI, the difference, and how it is closed.

cron.py          when an expression falls due, across changes of clocks; how often schedules run in a month
declared_schedule.py  the declared schedules: compiled, checked, as the messages that Vertex AI takes
schedule_list.py  every schedule that exists, ours marked, with its last run
schedule_fields.py  the fields in which a declared schedule and the live one differ
schedule_plan.py  the actions that make the live schedules the declared ones
reconcile.py     `plan` and `apply`: all of them planned and brought to Vertex AI
schedule_control.py  pause, resume, delete
schedule_view.py  the plan with coming runs and costs, and the list, as a person reads them
schedule_terraform.py  the declared schedules as Terraform resources
scheduled_nights.py  each run time of a live schedule, with its run or why there is none
schedule_doctor.py  `doctor`: the state of every schedule
backfill.py      past nights, each run once; backfill_page.py: as a person reads it"""
