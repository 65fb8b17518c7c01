"""A need -> one machine: the catalog of what Google rents out, and the only search in it.

catalog/     machines, accelerators, zones and prices, with source and date
placement/   a request -> the placement that can work and costs least"""
