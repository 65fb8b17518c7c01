"""Finds a machine for a request: the catalog of Google's machines, and the search in it.

catalog/     machines, accelerators, zones and prices, with source and date
placement/   a request -> the cheapest placement that works"""
