"""Recurring runs: what pipelines.toml declares, what is live on Vertex AI, the difference, and how it is closed.

declared_schedule.py  a declared schedule as the message that Vertex AI takes, with what follows for its parameters
fields.py        what differs between the two
schedule_plan.py  what would have to be done
apply.py         one schedule brought to what is declared, whoever else is at it
reconcile.py     all of them: compiled, planned, applied
schedule_control.py  pause, resume, delete
nights.py        each run time of a live schedule, with its run or why there is none
schedule_doctor.py  how every schedule is; doctor_page.py: as a person reads it
backfill.py      past nights, each run once; backfill_page.py: as a person reads it
schedule_list.py  every schedule that exists, ours marked, with its last run
cron.py          when an expression falls due, across changes of clocks
forecast.py      the next runs of a declared schedule, their cost, and what is in doubt
monthly.py       how often the schedules of a pipelines.toml run in a month
outlook.py       what the next runs would do: the data now, against the last good run
hits.py          which steps would take earlier results
schedule_terraform.py  the declared schedules as Terraform resources
schedule_view.py  what a person sees of all this"""
