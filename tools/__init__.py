"""Programs beside the library: an emulator of Google Cloud, long drills, and an acceptance test on a real project.

emulator/     Google's services on loopback: python -m tools.emulator
drills/       programs of many kills and random runs, each with its own command
acceptance/   checks that only a real project can answer: scripts/acceptance.sh
"""
