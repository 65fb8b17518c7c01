"""Programs beside the library: Google Cloud played on this machine, drills of hours, and facts of a real project.

emulator/     Google's services on loopback: python -m tools.emulator
drills/       many kills and random runs, each with its own command
acceptance/   what only a real project shows: scripts/acceptance.sh
"""
